"""State of one group after the records read so far; the folds of each group type change it.

A REBALANCE is, as in `group/explain`, the whole move from one stable assignment to the next. The log contains less than
a coordinator's events: of a classic group it has the time a generation formed and the time its assignment was stored,
but no JoinGroup; so a rebalance of a classic group is counted from the forming, and unowned time before is not seen.
Of the other types it has every step.

The clock never goes back, except by more than an hour: then the broker's clock was wrong and is followed. Such a
correction, and a jump of a month, does not count as time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from kohort.fleet.fold.hours import JUMP_MS, Hours, Snapshot
from kohort.fleet.load_check import LogCheck, Violation
from kohort.fleet.schema import HOUR_MS
from kohort.group.explain.partition_ownership import Ownership
from kohort.model.assignment import by_topic
from kohort.model.ids import TopicPartition

Partitions = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()
STREAMS = "streams"
_to_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
LOG_BEGINS = "log_begins"
"""Cause of an event that only reflects the beginning of the (compacted) log."""
MOST_VIOLATIONS = 50
"""How many records a group's state lists; the others are counted."""


class FoldedRecord(NamedTuple):
    """One record of a group that is no commit, or (type `COMMITS`) the counts of an hour of its commits."""

    partition: int
    offset: int
    at_ms: int
    record_type: int
    tombstone: bool
    member: str | None
    fields: str | None
    commits: int = 0
    deletions: int = 0


class SilverEvent(NamedTuple):
    """One silver event, without the columns that all events of a record share."""

    at_ms: int
    event: str
    epoch: int | None
    member: str | None
    instance: str | None
    client_id: str | None
    host: str | None
    partitions: list[str] | None
    protocol: str | None
    strategy: str | None
    cause: str | None
    detail: str | None


@dataclass(slots=True)
class FoldedMember:
    """One member, from its records."""

    member_id: str
    instance: str | None = None
    client_id: str = ""
    host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    protocols: tuple[str, ...] = ()
    version: int | None = None
    """Version of its embedded consumer protocol, if any."""
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    state: int = 0
    state_ms: int = 0
    """Time at which it entered that state."""
    target: Partitions = NOTHING
    pending: Partitions = NOTHING
    has_metadata: bool = True
    """Whether its metadata record was read: in a compacted log its assignment may come first."""


class Interval(NamedTuple):
    """A member's ownership of a partition; `until_ms` is None while it lasts."""

    partition: TopicPartition
    member_id: str
    from_ms: int
    until_ms: int | None


class Intervals(Ownership):
    """Current owners of one group's partitions, and the intervals that ended since the last collection.

    The rule of ownership is that of `kohort.group.explain`. Gaps are not stored, their time is added to the hours as it
    passes (`hours.py`).
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[Interval] = []

    def assign(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int, born_ms: int | None) -> None:
        """Assign partitions to a member, ending the intervals of their previous owners."""
        taken = list(partitions)
        for partition in taken:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] != member_id:
                self._end(partition, *owner, at_ms)
        super().assign(member_id, taken, at_ms, born_ms)
        self.gaps.clear()

    def release(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> list[TopicPartition]:
        """Take partitions from a member; return those that it owned."""
        revoking = list(partitions)
        for partition in revoking:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] == member_id:
                self._end(partition, *owner, at_ms)
        return super().release(member_id, revoking, at_ms)

    def replace_member(self, old_id: str, new_id: str, at_ms: int) -> None:
        """Move all partitions of a member to another id; the old intervals end where the new ones begin."""
        owned = self.owned_by(old_id)
        for partition in owned:
            self._end(partition, *self.owners[partition], at_ms)
        self.hand_over(old_id, new_id)
        for partition in owned:
            self.owners[partition] = new_id, at_ms

    def share_of(self, member_id: str) -> int:
        """Return how many partitions a member owns."""
        return len(self._owned.get(member_id, ()))

    def collect_ended(self) -> list[Interval]:
        """Return the intervals that ended since the last time."""
        ended, self.ended = self.ended, []
        return ended

    def open_intervals(self) -> list[Interval]:
        """Return the open intervals in order."""
        return [Interval(partition, owner, since, None) for partition, (owner, since) in sorted(self.owners.items())]

    def _end(self, partition: TopicPartition, member_id: str, from_ms: int, at_ms: int) -> None:
        if at_ms > from_ms:
            self.ended.append(Interval(partition, member_id, from_ms, at_ms))


@dataclass(slots=True)
class Rebalancing:
    """The running rebalance."""

    since_ms: int
    before: dict[TopicPartition, str] = field(default_factory=dict)
    """Previous owners of the partitions that moved since; "" for new partitions."""
    failed: int = 0
    target_ms: int = 0
    slowest: str | None = None


class Unloadable(NamedTuple):
    """A record at which some version of Kafka fails to load a log."""

    offset: int
    at_ms: int
    ticket: str
    sentence: str


@dataclass(slots=True)
class Violations:
    """Records of a group at which some version of Kafka fails to load its log."""

    count: int = 0
    last_ms: int = 0
    tickets: list[str] = field(default_factory=list)
    versions: str = ""
    """The versions of the first one."""
    first: list[Unloadable] = field(default_factory=list)
    """The first ones."""

    def add(self, violation: Violation) -> None:
        demand, step = violation.demand, violation.step
        self.versions = self.versions or demand.versions
        self.count, self.last_ms = self.count + 1, step.at_ms
        self.tickets = sorted({*self.tickets, demand.ticket})
        if len(self.first) < MOST_VIOLATIONS:
            self.first.append(Unloadable(step.offset, step.at_ms, demand.ticket, violation.sentence))

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Violations:
        """Return what `dataclasses.asdict` gave, after JSON."""
        return cls(**state | {"first": [Unloadable(*each) for each in state["first"]]})


class Group:
    """One group of one source, carried forward record by record.

    More than 20 attributes: they are one row of state, which is stored as JSON.
    """

    def __init__(self, source: str, group: str) -> None:
        self.source, self.group = source, group
        self.kind = ""
        self.epoch = self.target_epoch = 0
        self.strategy: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.awaits_sync = False
        self.has_user_data = False
        self.is_deleted = False
        self.has_commits = False
        self.members: dict[str, FoldedMember] = {}
        self.departed: dict[str, FoldedMember] = {}
        """Members whose tombstone was read; the next record shows why they were removed."""
        self.departed_ms = 0
        self.unreconciled: set[str] = set()
        self.ownership = Intervals()
        self.running: Rebalancing | None = None
        self.rebalances = 0
        self.clock_ms = 0
        self.first_seen_ms = self.last_seen_ms = 0
        self.emptied_ms: int | None = None
        self.records = 0
        self.partition = -1
        self.last_offset = -1
        self.newcomers: list[str] = []
        """Members that either joined or were members before the log begins: not decided yet."""
        self.strangers: list[str] = []
        """Members from before the log begins whose assignment was not read yet."""
        self.static_members = 0
        self.protocols: Counter[str] = Counter()
        self.versions: Counter[int] = Counter()
        self.last_record: str | None = None
        """The last record of a classic group, as JSON."""
        self.check = LogCheck()
        self.is_committed = False
        """Whether a commit was read, of a transaction without an end too."""
        self.violations = Violations()
        self.hours = Hours()
        self.events: list[SilverEvent] = []
        self.name_of: Callable[[str], str] = str
        """Names a topic id."""

    # -- time

    def advance_clock(self, at_ms: int) -> None:
        """Advance the clock to a record's time, and add unowned time up to it."""
        if not self.clock_ms:
            self.clock_ms = self.first_seen_ms = at_ms
        elif at_ms > self.clock_ms:
            if self.members and self.ownership.unowned:
                self.hours.add_unowned(self.clock_ms, at_ms, len(self.ownership.unowned), self.snapshot())
            if at_ms // HOUR_MS != self.clock_ms // HOUR_MS:
                self.hours.note(at_ms, self.snapshot())  # what an hour begins with belongs to it
            if at_ms - self.clock_ms > JUMP_MS:
                self._begin_later_by(at_ms - self.clock_ms)
            self.clock_ms = at_ms
        elif self.clock_ms - at_ms > HOUR_MS:
            self._begin_later_by(at_ms - self.clock_ms)
            self.clock_ms = at_ms
        self.last_seen_ms = max(self.last_seen_ms, at_ms)

    def _begin_later_by(self, span_ms: int) -> None:
        """Exclude a clock correction from the running rebalance."""
        if self.running is not None:
            self.running.since_ms += span_ms
            self.running.target_ms += span_ms if self.running.target_ms else 0

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the group for its hours."""
        return Snapshot(
            self.kind or "classic",
            self.strategy,
            len(self.members),
            self.static_members,
            len(self.ownership.owners) + len(self.ownership.unowned),
            frozenset(self.protocols),
            frozenset(self.versions),
        )

    # -- members

    def add_member(self, member: FoldedMember) -> None:
        """Add a member, or replace its earlier state."""
        self.drop_member(member.member_id)
        self.members[member.member_id] = member
        self.static_members += member.instance is not None
        self.protocols.update(member.protocols)
        if member.version is not None:
            self.versions[member.version] += 1
        self.emptied_ms = None

    def record_joins(self, members: Iterable[FoldedMember], at_ms: int, *, is_new: bool) -> None:
        """Record `joined` events: of members that joined, or with which the log begins."""
        for member in members:
            cause = None if is_new else LOG_BEGINS
            patience_ms = member.rebalance_timeout_ms if member.rebalance_timeout_ms > 0 else None
            self.add_event(
                "joined", at_ms=at_ms, epoch=self.epoch, member=member, cause=cause, rebalance_timeout_ms=patience_ms
            )
            self.hours.at(at_ms).joined += is_new
            if not is_new and not member.state_ms:
                self.strangers.append(member.member_id)

    def is_first_assignment(self, member_id: str) -> bool:
        """Whether this is the first assignment read of a member from before the log begins."""
        if member_id in self.strangers:
            self.strangers.remove(member_id)
            return True
        return False

    def drop_member(self, member_id: str) -> FoldedMember | None:
        """Remove a member and return it, or None."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.static_members -= member.instance is not None
        for name in member.protocols:
            _take_one(self.protocols, name)
        if member.version is not None:
            _take_one(self.versions, member.version)
        self.unreconciled.discard(member_id)
        return member

    # -- events

    def add_event(
        self,
        event: str,
        *,
        at_ms: int | None = None,
        epoch: int | None = None,
        member: FoldedMember | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        cause: str | None = None,
        **detail: Any,
    ) -> None:
        """Record one silver event."""
        fields = {name: value for name, value in detail.items() if value is not None} if detail else None
        texts = None if partitions is None else [self.text_of(each) for each in sorted(partitions)]
        who = (None, None, None, None)
        if member is not None:
            who = (member.member_id, member.instance, member.client_id, member.host)  # type: ignore[assignment]
        self.events.append(
            SilverEvent(
                self.clock_ms if at_ms is None else at_ms,
                event,
                epoch,
                *who,
                texts,
                self.protocol,
                self.strategy,
                cause,
                _to_json(fields) if fields else None,
            )
        )

    def text_of(self, partition: TopicPartition) -> str:
        """Return how a partition, or a task of a streams group, is written."""
        return f"{partition[0]}{'_' if self.kind == STREAMS else '-'}{partition[1]}"

    # -- the rebalance

    def begin_rebalance(self, at_ms: int) -> Rebalancing:
        """Return the running rebalance; begin one if none runs."""
        if self.running is None:
            self.running = Rebalancing(at_ms)
        return self.running

    def assign(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Assign partitions to a member; new partitions count as unowned since the running rebalance began."""
        taken = list(partitions)
        if self.running is not None:
            born = 0
            for partition in taken:
                owner = self.ownership.owners.get(partition)
                if owner is not None:
                    self.running.before.setdefault(partition, owner[0])
                elif partition not in self.ownership.unowned:
                    born += self.running.before.setdefault(partition, "") == ""
            self.hours.add_unowned(self.running.since_ms, at_ms, born, None)
        self.ownership.assign(member_id, taken, at_ms, None)

    def revoke(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Take partitions from a member."""
        released = self.ownership.release(member_id, partitions, at_ms)
        if self.running is not None:
            for partition in released:
                self.running.before.setdefault(partition, member_id)

    def replace(self, old_id: str, new_id: str, at_ms: int) -> None:
        """Move ownership from a static member's old id to its new one; no partition moves."""
        self.ownership.replace_member(old_id, new_id, at_ms)
        if self.running is not None:
            for partition, owner in self.running.before.items():
                if owner == old_id:
                    self.running.before[partition] = new_id

    def end_rebalance(self) -> None:
        """End the running rebalance: count it in this hour and record a `settled` event."""
        running, self.running = self.running, None
        if running is None:
            return
        self.rebalances += 1
        owners = self.ownership.owners
        self.ownership.unowned.clear()  # the rest has no owner in the new assignment
        changed = {partition: owners[partition][0] for partition in running.before if partition in owners}
        moved = sum(running.before[each] not in ("", owner) for each, owner in changed.items())
        stayed = len(owners) - sum(running.before[each] != owner for each, owner in changed.items())
        took_ms = max(0, self.clock_ms - running.since_ms)
        hour = self.hours.at(self.clock_ms)
        hour.rebalances += 1
        hour.rebalances_failed += running.failed
        hour.rebalance_ms_total += took_ms
        hour.rebalance_ms_max = max(hour.rebalance_ms_max, took_ms)
        hour.partitions_moved += moved
        hour.partitions_kept += stayed
        if running.slowest is not None and took_ms > hour.slowest_ms:
            hour.slowest_member, hour.slowest_ms = running.slowest, took_ms
        self.add_event("settled", epoch=self.epoch, ms=took_ms, moved=moved, kept=stayed, failed=running.failed or None)

    # -- departures

    def record_departure(self, member: FoldedMember, event: str, cause: str | None, *, at_ms: int) -> None:
        """Record that a member left or was evicted, and release its partitions."""
        owned = self.ownership.owned_by(member.member_id)
        self.revoke(member.member_id, sorted(owned), at_ms)
        self.add_event(event, at_ms=at_ms, epoch=self.epoch, member=member, cause=cause)
        if owned:
            self.add_event("lost", at_ms=at_ms, epoch=self.epoch, member=member, partitions=owned, cause=event)
        hour = self.hours.at(self.clock_ms)
        if event == "evicted":
            hour.evicted += 1
        else:
            hour.left += 1

    def clear_state(self, at_ms: int) -> None:
        """Drop all state: the name is reused by another group."""
        for member_id in self.ownership.members():
            self.ownership.release(member_id, sorted(self.ownership.owned_by(member_id)), at_ms)
        for member_id in list(self.members):
            self.drop_member(member_id)
        self.departed.clear()
        self.unreconciled.clear()
        self.newcomers.clear()
        self.strangers.clear()
        self.ownership.unowned.clear()
        self.running = None
        self.epoch = self.target_epoch = 0
        self.awaits_sync, self.leader, self.strategy = False, None, None

    def record_emptied(self, at_ms: int) -> None:
        """Record that the last member left, and end the running rebalance."""
        if self.emptied_ms is None:
            self.emptied_ms = at_ms
            self.add_event("emptied", at_ms=at_ms, epoch=self.epoch)
        self.end_rebalance()
        self.ownership.unowned.clear()


def _take_one(counts: Counter[Any], key: Any) -> None:
    if counts[key] > 1:
        counts[key] -= 1
    else:
        counts.pop(key, None)


_PLAIN = (
    "kind", "epoch", "target_epoch", "strategy", "protocol", "leader", "awaits_sync", "has_user_data", "is_deleted",
    "has_commits", "departed_ms", "rebalances", "clock_ms", "first_seen_ms", "last_seen_ms", "emptied_ms", "records",
    "partition", "last_offset", "newcomers", "strangers", "last_record", "is_committed",
)  # fmt: skip
_OF_MEMBER = tuple(field.name for field in fields(FoldedMember) if field.name not in ("target", "pending"))


def group_to_json(group: Group) -> str:
    """Return a group as JSON. Its hours and events must have been collected."""
    running: list[Any] | None = None
    if (rebalance := group.running) is not None:
        before = [[member_id, topics] for member_id, topics in _gather(rebalance.before)]
        running = [rebalance.since_ms, rebalance.failed, rebalance.target_ms, rebalance.slowest, before]
    state = {
        **{name: getattr(group, name) for name in _PLAIN},
        "members": [_member_to_json(member) for member in group.members.values()],
        "departed": [_member_to_json(member) for member in group.departed.values()],
        "unsettled": sorted(group.unreconciled),
        "owners": [[*owned, topics] for owned, topics in _gather(group.ownership.owners)],
        "unowned": [[*owned, topics] for owned, topics in _gather(group.ownership.unowned)],
        "strategies": sorted(group.protocols),
        "running": running,
        "subscriptions": sorted({f"{list(each.topics)} {each.regex or ''}" for each in group.members.values()}),
        "check": group.check.to_json(),
        "violations": asdict(group.violations),
    }
    return json.dumps(state, separators=(",", ":"))


def group_from_json(source: str, group_id: str, text: str, name_of: Callable[[str], str] = str) -> Group:
    """Return the group that an earlier run left; `name_of` names topics whose names were not known then."""
    state: dict[str, Any] = json.loads(text)
    group = Group(source, group_id)
    group.name_of = name_of
    for name in _PLAIN:
        setattr(group, name, state[name])
    for each in state["members"]:
        group.add_member(_member_from_json(each, name_of))
    for each in state["departed"]:
        member = _member_from_json(each, name_of)
        group.departed[member.member_id] = member
    group.check = LogCheck.from_json(state["check"])
    group.violations = Violations.from_json(state["violations"])
    group.emptied_ms = state["emptied_ms"]
    group.unreconciled = set(state["unsettled"])
    group.protocols = group.protocols or Counter(state["strategies"])
    for member_id, since_ms, topics in state["owners"]:
        group.ownership.assign(member_id, _partitions(topics, name_of), since_ms, None)
    for member_id, since_ms, topics in state["unowned"]:
        for partition in _partitions(topics, name_of):
            group.ownership.unowned[partition] = member_id, since_ms
    if state["running"] is not None:
        since_ms, failed, target_ms, slowest, before = state["running"]
        group.running = Rebalancing(since_ms, {}, failed, target_ms, slowest)
        for member_id, topics in before:
            for partition in _partitions(topics, name_of):
                group.running.before[partition] = member_id
    return group


def _member_to_json(member: FoldedMember) -> list[Any]:
    return [*(getattr(member, name) for name in _OF_MEMBER), by_topic(member.target), by_topic(member.pending)]


def _member_from_json(state: list[Any], name_of: Callable[[str], str]) -> FoldedMember:
    *plain, target, pending = state
    member = FoldedMember(**dict(zip(_OF_MEMBER, plain, strict=True)))
    member.topics, member.protocols = tuple(member.topics), tuple(member.protocols)
    member.target, member.pending = _partitions(target, name_of), _partitions(pending, name_of)
    return member


def _gather(partitions: dict[TopicPartition, Any]) -> Iterable[tuple[Any, dict[str, list[int]]]]:
    """Return partitions grouped by their value."""
    found: dict[Any, list[TopicPartition]] = {}
    for partition, state in partitions.items():
        found.setdefault(state, []).append(partition)
    return [(state, by_topic(found[state])) for state in sorted(found, key=str)]


def _partitions(topics: dict[str, list[int]], name_of: Callable[[str], str]) -> Partitions:
    return frozenset(TopicPartition(name_of(topic), number) for topic, numbers in topics.items() for number in numbers)
