"""A group is a function of its log: whoever folds it, from whatever a legal cleaning left, finds the state that lives.

The log is read from its bytes. Of each key in a drawn stretch from its start only the last record stays, and of old
tombstones none: so much a cleaner may have done at this moment. What is soft is not compared; of a classic group that
gathers, only its stored generation is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.invariants import REPLAY_EQUALS_LIVE
from kohort.group.settings import GroupSettings
from kohort.group.shard import Shard, apply
from kohort.log.offsets_topic import CorruptOffsetsRecord, Replay
from kohort.node.offsets_partition import OffsetsPartition, Status
from kohort.node.partition import Partition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.ledger import GroupLedger
from kohort.sim.checks.ledgers import READ_BYTES, Ledgers, hosted_by, undisturbed
from kohort.sim.observer import SeenNode
from kohort.wire.records import Record, decode_batch, iter_batches

SOFT = frozenset(
    {"awaiting_join", "epoch_cause", "failed_epoch", "followers", "is_dead", "members", "regexes", "target_cost_us",
     "target_failure", "target_failures", "target_retry_ms", "unsettled"}
)  # fmt: skip
"""Fields of a consumer group that no record holds, or that are compared apart."""

_GROUP_FIELDS = tuple(name for name in ConsumerGroup.__slots__ if name not in SOFT)
_STEPS = (40, 160)
"""After how many steps of the world that touched a group it is folded anew, at least and at most."""

Ledger = dict[str, GroupLedger]


class ReplayChecker(Checker):
    """ReplayEqualsLive."""

    invariants = (REPLAY_EQUALS_LIVE,)

    def __init__(self, ledgers: Ledgers, random: Random) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._random = random
        self._pause = random.randint(*_STEPS)
        self._left: dict[int, tuple[Shard, Ledger]] = {}
        """By offsets partition, how a node that stopped in good order or was killed left it."""

    def stepped(self) -> None:
        """Fold the logs now and then."""
        if not self._ledgers.touched:
            return
        self._pause -= 1
        if self._pause <= 0:
            self._pause = self._random.randint(*_STEPS)
            self._fold_all()

    def node_stopped(self, node: SeenNode, how: str) -> None:
        """Fold the logs, and remember what the next load must find: only a loss of power may take something away."""
        self._left.clear()
        if node.node is None:
            return
        for hosted in hosted_by(node.node):
            if hosted.status is not Status.ACTIVE:
                continue
            self._fold(node, hosted)
            if how != "power loss":
                self._left[hosted.partition.index] = (hosted.shard, dict(self._ledgers.groups))

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """Compare what was loaded with what was left."""
        left = self._left.pop(hosted.partition.index, None)
        if left is not None and hosted.status is Status.ACTIVE:
            self._compare(*left, hosted.shard, "a restart")

    def ended(self) -> None:
        """Fold the logs a last time."""
        self._fold_all()

    def _fold_all(self) -> None:
        for node in self._ledgers.nodes:
            if node.node is not None:
                for hosted in hosted_by(node.node):
                    if hosted.status is Status.ACTIVE:
                        self._fold(node, hosted)

    def _fold(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        with undisturbed(node):
            rows = list(records_of(hosted.partition))
        clean = self._random.randint(0, len(rows))
        horizon = self._random.randint(0, clean)
        how = f"a cleaning of {clean} of {len(rows)} records, and of tombstones before the {horizon}th"
        try:
            shard = folded(compacted(rows, clean, horizon), hosted.settings)
        except (AssertionError, CorruptOffsetsRecord) as error:
            self.broken(REPLAY_EQUALS_LIVE, f"after {how} the log cannot be folded: {error}")
        self._compare(hosted.shard, self._ledgers.groups, shard, how)

    def _compare(self, live: Shard, ledgers: Ledger, shard: Shard, how: str) -> None:
        self.count(REPLAY_EQUALS_LIVE)
        found = difference(live, ledgers, shard)
        if found is not None:
            self.broken(REPLAY_EQUALS_LIVE, f"after {how}: {found}")


# -- folding


def records_of(partition: Partition) -> Iterator[Record]:
    """Yield the records of a log, from its bytes."""
    source = partition.log
    offset = source.log_start_offset
    while offset < source.log_end_offset:
        start = offset
        for view in source.read(offset, READ_BYTES, up_to=source.log_end_offset):
            for header, batch in iter_batches(view):
                if not header.is_control:
                    yield from decode_batch(batch)
                offset = header.last_offset + 1
        if offset == start:
            return


def compacted(rows: Sequence[Record], clean: int, horizon: int) -> Iterator[Record]:
    """Yield a log whose first `clean` records were cleaned, with tombstones gone from the first `horizon`."""
    last = {record.key: position for position, record in enumerate(rows[:clean])}
    for position, record in enumerate(rows[:clean]):
        if last[record.key] == position and (record.value is not None or position >= horizon):
            yield record
    yield from rows[clean:]


def folded(rows: Iterator[Record], settings: GroupSettings) -> Shard:
    """Return the shard that records give."""
    shard, replay = Shard(settings), Replay()
    for record in rows:
        event = replay.event_of(record)
        if event is not None:
            apply(shard, event)
    return shard


# -- comparing


def difference(live: Shard, ledgers: Ledger, shard: Shard) -> str | None:
    """Return in what a folded shard differs from the live one, in what is hard; None if in nothing."""
    for group_id in sorted(live.groups.keys() | shard.groups.keys()):
        found = _group_difference(live.groups.get(group_id), ledgers.get(group_id), shard.groups.get(group_id))
        if found is not None:
            return f"{group_id}: {found}"
    for group_id in sorted(live.offsets.keys() | shard.offsets.keys()):
        before, after = live.offsets.get(group_id, {}), shard.offsets.get(group_id, {})
        for key in sorted(before.keys() | after.keys()):
            one, other = before.get(key), after.get(key)
            if one is None or other is None or one._replace(member_id="") != other._replace(member_id=""):
                return f"{group_id}: the commit of {key[0]}-{key[1]} is {one} live, and {other} in the log"
    for topic in sorted(live.followers.keys() | shard.followers.keys()):
        follow, follows = sorted(live.followers.get(topic, ())), sorted(shard.followers.get(topic, ()))
        if follow != follows:
            return f"{topic} is followed by {follow} live, and by {follows} in the log"
    return None


def _group_difference(live: Any, ledger: GroupLedger | None, other: Any) -> str | None:
    if isinstance(live, ConsumerGroup):
        if not isinstance(other, ConsumerGroup):
            return f"a consumer group of epoch {live.epoch} live, and {type(other).__name__} in the log"
        return _consumer_difference(live, other)
    if isinstance(other, ConsumerGroup):
        return f"a consumer group of epoch {other.epoch} in the log, and {type(live).__name__} live"
    return _classic_difference(live, ledger, other)


def _consumer_difference(live: ConsumerGroup, other: ConsumerGroup) -> str | None:
    for name in _GROUP_FIELDS:
        if getattr(live, name) != getattr(other, name):
            return f"{name} is {getattr(live, name)} live, and {getattr(other, name)} in the log"
    if live.members.keys() != other.members.keys():
        return f"members {sorted(live.members)} live, and {sorted(other.members)} in the log"
    for member_id, member in live.members.items():
        twin = other.members[member_id]
        for name in type(member).__slots__:
            if getattr(member, name) != getattr(twin, name):
                return f"{member_id}: {name} is {getattr(member, name)} live, and {getattr(twin, name)} in the log"
    regexes = [{regex: stored.topics for regex, stored in group.regexes.items()} for group in (live, other)]
    return None if regexes[0] == regexes[1] else f"expressions {regexes[0]} live, and {regexes[1]} in the log"


def _classic_difference(
    live: ClassicGroup | None, ledger: GroupLedger | None, other: ClassicGroup | None
) -> str | None:
    is_stored = ledger is not None and ledger.kind == "classic"
    if not is_stored or ledger is None:
        return None if other is None or not other.members else f"members {sorted(other.members)} in the log alone"
    if other is None or live is None:
        return f"generation {ledger.generation} was stored, and is {'not in the log' if other is None else 'not live'}"
    if other.generation != ledger.generation:
        return f"generation {ledger.generation} was stored, and the log says {other.generation}"
    expected = Phase.EMPTY if not ledger.members else Phase.STABLE if ledger.is_synced else Phase.COMPLETING_REBALANCE
    if other.phase is not expected:
        return f"{expected} was stored, and the log says {other.phase}"
    if live.phase is not Phase.PREPARING_REBALANCE and live.phase is not Phase.DEAD:
        now: tuple[object, ...] = (live.phase, live.generation, live.protocol_name, live.leader, sorted(live.members))
        then: tuple[object, ...] = (
            other.phase,
            other.generation,
            other.protocol_name,
            other.leader,
            sorted(other.members),
        )
        if now != then:
            return f"{now} live, and {then} in the log"
    if ledger.members.keys() != other.members.keys():
        return f"members {sorted(ledger.members)} were stored, and the log says {sorted(other.members)}"
    for member_id, stored in ledger.members.items():
        member = other.members[member_id]
        shown = (stored.instance_id, stored.session_timeout_ms, stored.subscription, stored.assignment)
        found = (
            member.instance_id, member.session_timeout_ms, member.metadata(other.protocol_name), member.assignment
        )  # fmt: skip
        if shown != found:
            return f"{member_id} was stored as {shown}, and the log says {found}"
    return None


__all__ = ["ReplayChecker"]
