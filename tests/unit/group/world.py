"""A coordinator in a test's hands: it carries out decisions with a clock, timers and a log of its own.

After every command it checks the invariants of `kohort.sim.checks.invariants`, that exactly the requests that must wait
are parked, and that whatever a group waits for has a timer. `given(...)` states one decision without carrying it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import (
    AppendFailed,
    Command,
    CommitOffsets,
    Heartbeat,
    Join,
    Leave,
    Leaving,
    Loaded,
    OffsetToCommit,
    Protocols,
    Sync,
    TimerFired,
)
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import ComparedMetadata, GroupSettings
from kohort.group.decisions import decide
from kohort.group.effects import Append, Arm, Disarm, Effect, Note, Park, Parked, Reply, Then, WakeMembers
from kohort.group.events import Event, HardEvent, OffsetCommitted, OffsetDeleted
from kohort.group.group_timers import Timer, join_timer
from kohort.group.results import JoinResult, Result, SyncResult
from kohort.group.shard import Group, Shard, apply
from kohort.group.streams.group import StreamsGroup
from kohort.model.cause import Cause
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID
from kohort.sim.checks import replay_checks
from kohort.sim.checks.invariants import needed_by, violations, waiting

NOW = 1_000_000
RANGE: Protocols = (("range", b"topics"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Answer:
    """What became of one request: waiting until `result` is there."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    @property
    def is_waiting(self) -> bool:
        return not self.results

    @property
    def result(self) -> Any:
        assert len(self.results) == 1, f"one request has one answer, not {len(self.results)}"
        return self.results[0]

    @property
    def error(self) -> ErrorCode:
        return self.result.error  # type: ignore[no-any-return]

    @property
    def error_or_waiting(self) -> ErrorCode:
        """NONE also for a request that still waits."""
        return ErrorCode.NONE if self.is_waiting else self.error


class World:
    """One shard, carried through time."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **READERS, **settings})
        self.shard = Shard(self.settings)
        self.now_ms = NOW
        self.timers: dict[Timer, int] = {}
        self.parked: dict[Parked, Answer] = {}
        self.answers: list[Answer] = []
        self.log: list[list[HardEvent]] = []
        self.stored: list[dict[str, Any]] = []
        """The hard state after each entry of the log, as the live shard had it."""
        self.events: list[Event] = []
        self.woken: list[str] = []
        """Members whose parked heartbeats were to be answered at once, since the last command began."""
        self.append_error: ErrorCode | None = None
        self.ids = 0

    # -- carrying out

    def submit(self, command: Command) -> Answer:
        answer = Answer()
        self.woken.clear()
        self._run(command, answer)
        self._check()
        return answer

    def _run(self, command: Command, answer: Answer | None) -> None:
        followers = [command]
        while followers:
            command = followers.pop(0)
            effects = list(decide(self.shard, command, self.now_ms))
            records = [effect.event for effect in effects if isinstance(effect, Append)]
            if records and self.append_error is not None:
                followers.insert(0, AppendFailed(command, self.append_error))
                continue
            if records:
                self.log.append(records)
            hard = dict(self.stored[-1]) if self.stored else {}
            for effect in effects:
                if isinstance(effect, Append | Note):
                    apply(self.shard, effect.event)
                    self.events.append(effect.event)
                if isinstance(effect, Append):
                    # A record about offsets says nothing of the group, and the other way round.
                    part = "offsets" if isinstance(effect.event, OffsetCommitted | OffsetDeleted) else "group"
                    now = hard_state(self.shard, effect.event.group_id)
                    hard |= {name: state for name, state in now.items() if name.startswith(part)}
            if records:
                self.stored.append(hard)
            for effect in effects:
                self._answer(effect, answer)
            followers += [effect.command for effect in effects if isinstance(effect, Then)]

    def _answer(self, effect: Effect, answer: Answer | None) -> None:
        match effect:
            case Reply(result, to):
                waiting = answer if to is None else self.parked.pop(to)
                assert waiting is not None, "a timer has no request to answer"
                waiting.results.append(result)
            case Park(at):
                assert at not in self.parked, "one request waits in one place"
                assert answer is not None, "only a request can wait"
                self.parked[at] = answer
            case Arm(timer, deadline_ms):
                self.timers[timer] = deadline_ms
            case Disarm(timer):
                self.timers.pop(timer, None)
            case WakeMembers(member_ids=member_ids):
                self.woken += member_ids

    def _check(self) -> None:
        assert not violations(self.shard), violations(self.shard)
        assert waiting(self.shard) == set(self.parked), "exactly those who must wait are parked"
        needed = {timer for group in self.shard.groups.values() for timer in needed_by(group)}
        assert needed <= set(self.timers), "whatever is awaited has a deadline"

    def advance(self, by_ms: int) -> None:
        """Let time pass; timers fire in the order of their deadlines."""
        end_ms = self.now_ms + by_ms
        while due := sorted((at, timer) for timer, at in self.timers.items() if at <= end_ms):
            self.now_ms, timer = due[0]
            del self.timers[timer]
            self._run(TimerFired(timer), None)
            self._check()
        self.now_ms = end_ms

    def restart(self) -> None:
        """Lose everything but the log, and load it again."""
        self.shard, self.timers, self.parked = fold(self.log, self.settings), {}, {}
        for group_id in sorted(self.shard.groups):
            self._run(Loaded(group_id), None)
        self._check()

    # -- asking

    def group(self, group_id: str = "g") -> ClassicGroup:
        group = self.shard.groups[group_id]
        assert isinstance(group, ClassicGroup), "the group is a classic one"
        return group

    def join(self, member_id: str = "", **changes: Any) -> Answer:
        self.ids += 1
        join = Join("g", member_id, None, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer", RANGE, f"m{self.ids}")
        return self.submit(replace(join, **changes))

    def enter(self, **changes: Any) -> tuple[str, Answer]:
        """Join in two steps; return the member id and the waiting second join."""
        answer = self.join(**changes)
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        return answer.result.member_id, self.join(answer.result.member_id, **changes)

    def sync(self, member_id: str, generation: int | None = None, **changes: Any) -> Answer:
        sync = Sync("g", member_id, None, self.group().generation if generation is None else generation)
        return self.submit(replace(sync, **changes))

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        at = self.group().generation if generation is None else generation
        return self.submit(Heartbeat("g", member_id, instance_id, at)).error

    def leave(self, *members: Leaving) -> Answer:
        return self.submit(Leave("g", members))

    def commit(self, member_id: str = "", generation: int = -1, **changes: Any) -> Answer:
        offsets = [OffsetToCommit("t", 0, 7, -1, "", NO_TOPIC_ID)]
        return self.submit(replace(CommitOffsets("g", member_id, None, generation, offsets), **changes))

    def stable(self, count: int = 2, **changes: Any) -> list[str]:
        """Bring `count` members into a Stable group; return their ids, the leader's first."""
        entered = [self.enter(**changes) for _ in range(count)]
        self.gather()
        assert not any(join.is_waiting for _, join in entered)
        return self.settle(member_id for member_id, _ in entered)

    def gather(self) -> None:
        """Let the join timer run out, as often as it is extended."""
        while join_timer("g") in self.timers:
            self.gather_once()

    def gather_once(self) -> None:
        """Let time pass until the join timer fires."""
        self.advance(self.timers[join_timer("g")] - self.now_ms)

    def settle(self, member_ids: Iterable[str]) -> list[str]:
        """Sync all members; return their ids, the leader's first."""
        leader = self.group().leader
        assert leader is not None
        ids = sorted(member_ids, key=lambda member_id: (member_id != leader, member_id))
        for member_id in reversed(ids):
            assignments = tuple((each, f"for {each}".encode()) for each in ids) if member_id == leader else ()
            self.sync(member_id, assignments=assignments)
        return ids

    def completing(self, count: int = 2, **changes: Any) -> list[str]:
        """Bring `count` members to where the leader must assign; return their ids, the leader's first."""
        ids = [member_id for member_id, _ in [self.enter(**changes) for _ in range(count)]]
        self.gather()
        return sorted(ids, key=lambda member_id: (member_id != self.group().leader, member_id))

    def cause(self) -> Cause:
        """Why the last round began."""
        cause = self.group().round_cause
        assert cause is not None, "a round has begun"
        return cause


def says(topics: str, owned: str = "", generation: int = -1) -> Protocols:
    """Return a member's offer: the topics it wants, the partitions it owns, and the generation it owns them in."""
    return (("range", f"{topics};{owned};{generation}".encode()),)


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """Read comma-separated topics; metadata that begins with an exclamation mark cannot be read."""
    return None if metadata.startswith(b"!") else frozenset(metadata.decode().partition(";")[0].split(","))


def owned_of(metadata: bytes) -> frozenset[tuple[str, int]] | None:
    """Read the partitions that `says` wrote."""
    _, _, rest = metadata.partition(b";")
    return assigned_of(rest.partition(b";")[0])


def assigned_of(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    """Read an assignment such as `t-0 t-1`."""
    try:
        pairs = [partition.split("-") for partition in assignment.decode().split()]
        return frozenset((topic, int(index)) for topic, index in pairs)
    except ValueError:
        return None


def offer_of(metadata: bytes) -> object | None:
    """Read all but the generation of what `says` wrote."""
    return None if metadata.startswith(b"!") else (topics_of(metadata), owned_of(metadata))


def compared_metadata_of(_protocol: str, metadata: bytes) -> ComparedMetadata | None:
    """Read the topics of what `says` wrote."""
    topics = topics_of(metadata)
    return None if topics is None else ComparedMetadata(topics)


READERS = {
    "topics_of": topics_of,
    "owned_of": owned_of,
    "assigned_of": assigned_of,
    "offer_of": offer_of,
    "compared_metadata_of": compared_metadata_of,
}


def fold(log: Iterable[Iterable[HardEvent]], settings: GroupSettings) -> Shard:
    """Return the shard that a log leads to."""
    shard = Shard(settings)
    for records in log:
        for event in records:
            apply(shard, event)
    return shard


def hard_state(shard: Shard, group_id: str) -> dict[str, Any]:
    """Return what a log can hold of one group: its record and its offsets, None for what there is not."""
    group = shard.groups.get(group_id)
    offsets = {key: committed._replace(member_id="") for key, committed in shard.offsets.get(group_id, {}).items()}
    return {
        f"group {group_id}": _hard(group),
        f"offsets {group_id}": offsets or None,
    }


def _hard(group: Group | None) -> object:
    if isinstance(group, StreamsGroup):
        return replay_checks.hard_group(group)
    return hard_consumer_group(group) if isinstance(group, ConsumerGroup) else hard_group(group)


def hard_group(group: ClassicGroup | None) -> tuple[Any, ...] | None:
    """Return what a stored group's record says."""
    if group is None or not group.is_stored:
        return None
    members = tuple(
        (
            member_id,
            member.instance_id,
            member.client_id,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.metadata(group.protocol_name),
            member.assignment,
        )
        for member_id, member in sorted(group.members.items())
    )
    return (group.phase, group.generation, group.protocol_type, group.protocol_name, group.leader, members)


def hard_consumer_group(group: ConsumerGroup) -> tuple[Any, ...]:
    """Return what the records of a consumer group say, but for why."""
    members = tuple(
        (
            member_id,
            *(getattr(member, name) for name in MEMBER_FIELDS),
        )
        for member_id, member in sorted(group.members.items())
    )
    regexes = {regex: stored.topics for regex, stored in group.regexes.items()}
    target = (group.assignment_epoch, group.assignment_timestamp_ms)
    return (group.epoch, group.metadata_hash, target, members, regexes)


MEMBER_FIELDS = (
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "subscribed_topic_names",
    "subscribed_topic_regex",
    "rebalance_timeout_ms",
    "server_assignor",
    "classic",
    "lags",
    "epoch",
    "previous_epoch",
    "state",
    "assigned",
    "pending",
    "target",
    "classic_phase",
)


def joined(answer: Answer) -> JoinResult:
    """Return a join's result, which must be there and good."""
    assert answer.error is ErrorCode.NONE, answer.result
    return answer.result  # type: ignore[no-any-return]


def synced(answer: Answer) -> SyncResult:
    """Return a sync's result, which must be there and good."""
    assert answer.error is ErrorCode.NONE, answer.result
    return answer.result  # type: ignore[no-any-return]


class given:  # noqa: N801
    """`given(events).when(command).then(effects)`: one decision, word by word."""

    def __init__(self, *events: Event, **settings: Any) -> None:
        self.shard = fold([events], GroupSettings(**settings))  # type: ignore[list-item]
        self.effects: list[Effect] = []

    def when(self, command: Command, at_ms: int = NOW) -> given:
        self.effects = list(decide(self.shard, command, at_ms))
        return self

    def then(self, *effects: Effect) -> None:
        assert self.effects == list(effects)
