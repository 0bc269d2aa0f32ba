"""A group is a function of its log: folding it, from whatever a legal cleaning left, gives the live state.

The log is read from its bytes. Of each key in a drawn stretch from its start only the last record stays, and of old
tombstones none: so much a cleaner may have done at this moment. Soft state is not compared: who waits, which round
gathers, why an epoch began, who committed. While a classic group gathers, only the generation before that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.events import GroupConverted
from kohort.group.shard import Group, Shard
from kohort.log.group_records import GROUP_METADATA
from kohort.log.group_replay import compacted, folded, raced, records_of
from kohort.log.offsets_topic import CorruptOffsetsRecord
from kohort.node.groups.offsets_partition import OffsetsPartition, Status
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Ledgers, active_in, undisturbed
from kohort.sim.checks.invariants import REPLAY_EQUALS_LIVE
from kohort.sim.kernel.world_observer import SeenNode
from kohort.wire.record_batches import Record

SOFT = frozenset(
    {"awaiting_join", "epoch_cause", "failed_epoch", "followers", "is_dead", "target_cost_us", "target_failure",
     "target_failures", "target_retry_ms", "session", "configured", "delayed_until_ms", "endpoint_epoch", "shutdown_by",
     "offsets", "end_offsets", "copies", "lag_reason",
     "reports_lags", "description"}
)  # fmt: skip
"""Fields of a consumer or streams group and its members that no record stores."""


def hard_group(group: Group) -> dict[str, Any]:
    """Return what the log has of one group, by the names of its fields."""
    if not isinstance(group, ClassicGroup):
        fields = _fields(group)
        fields["members"] = {member_id: _fields(member) for member_id, member in group.members.items()}
        if isinstance(group, ConsumerGroup):
            fields["regexes"] = {regex: stored.topics for regex, stored in group.regexes.items()}
        return fields
    members = {
        member_id: (
            member.instance_id,
            member.client_id,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.metadata(group.protocol_name),
            member.assignment,
        )
        for member_id, member in group.members.items()
    }
    return {
        "phase": group.phase,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader,
        "members": members,
    }


def differences(live: Shard, loaded: Shard) -> list[str]:
    """Return a sentence for each thing in which a shard that was loaded is not what the live one's log must have."""
    found = []
    for group_id in sorted(live.groups.keys() | loaded.groups.keys()):
        found += [f"{group_id}: {text}" for text in _of_group(live.groups.get(group_id), loaded.groups.get(group_id))]
    for group_id in sorted(live.offsets.keys() | loaded.offsets.keys()):
        one, other = hard_offsets(live, group_id), hard_offsets(loaded, group_id)
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                found.append(
                    f"{group_id}: {key[0]}-{key[1]} is committed as {one.get(key)}, loaded as {other.get(key)}"
                )
    for topic in sorted(live.followers.keys() | loaded.followers.keys()):
        if live.followers.get(topic, set()) != loaded.followers.get(topic, set()):
            found.append(f"{topic} is followed by {live.followers.get(topic)}, loaded {loaded.followers.get(topic)}")
    if live.regex_followers != loaded.regex_followers:
        found.append(f"expressions are followed by {live.regex_followers}, loaded {loaded.regex_followers}")
    return found


def _of_group(live: Group | None, loaded: Group | None) -> Iterator[str]:
    if isinstance(live, ClassicGroup) and not (live.is_stored and live.phase is not Phase.DEAD):
        live = None  # it exists for its offsets, or for members that have no generation yet
    if isinstance(loaded, ClassicGroup) and not loaded.is_stored:
        loaded = None
    if type(live) is not type(loaded):
        yield f"it is {_kind(live)}, loaded {_kind(loaded)}"
    elif live is not None and loaded is not None:
        one, other = hard_group(live), hard_group(loaded)
        if isinstance(live, ClassicGroup) and live.phase is Phase.PREPARING_REBALANCE:
            one, other = {"generation": live.generation}, {"generation": other["generation"]}
        for name, value in one.items():
            if value != other[name]:
                yield f"{name} is {value}, loaded {other[name]}"


def _kind(group: Group | None) -> str:
    kinds = {ClassicGroup: "a classic group", ConsumerGroup: "a consumer group"}
    return "none" if group is None else kinds.get(type(group), "a streams group")


def hard_offsets(shard: Shard, group_id: str) -> dict[tuple[str, int], Any]:
    """Return the offsets of a group as its log has them."""
    offsets = shard.offsets.get(group_id, {})
    return {key: committed._replace(member_id="") for key, committed in offsets.items()}


def _fields(thing: Any) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in type(thing).__slots__ if name not in SOFT}


RACES = 0.3
"""How many of the foldings are those of a load that a cleaner overtakes."""

_RACES_AFTER_A_WAY_BACK = 4
"""How many more of those there are once a group has gone to the consumer protocol and back: loads failed there."""

_STEPS = (40, 160)
"""After how many steps of the world that touched a group it is folded anew, at least and at most."""

_CLASSIC = GROUP_METADATA.to_bytes(2, "big")
"""How the key of a classic group's record begins."""

Ledger = dict[str, GroupLedger]


class ReplayChecker(Checker):
    """ReplayEqualsLive."""

    invariants = (REPLAY_EQUALS_LIVE,)

    def __init__(self, ledgers: Ledgers, random: Random) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._random = random
        self._pause = random.randint(*_STEPS)
        self._races = 0
        ledgers.after(GroupConverted, self._converted)
        self._left: dict[int, tuple[OffsetsPartition, Ledger]] = {}
        """By offsets partition, how a node that stopped in good order or was killed left it."""

    def stepped(self) -> None:
        """Fold the logs now and then."""
        if not self._ledgers.touched:
            return
        self._pause -= 1
        if self._pause <= 0:
            self._pause = self._random.randint(*_STEPS)
            self._fold_all()

    def _converted(self, _: GroupLedger, event: GroupConverted, __: Shard) -> None:
        """A group that has changed its type has two kinds of records in the log: fold it soon."""
        self._pause = min(self._pause, 2)
        if not event.is_consumer:
            self._races = _RACES_AFTER_A_WAY_BACK

    def node_stopped(self, node: SeenNode, how: str) -> None:
        """Fold the logs, and remember what the next load must find: only a loss of power may take something away."""
        self._left.clear()
        for hosted in active_in(node.node):
            self._fold(node, hosted)
            if how != "power loss":
                self._left[hosted.partition.index] = (hosted, dict(self._ledgers.groups))

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """Compare what was loaded with what was left, unless a flush failed as the node stopped."""
        before, ledgers = self._left.pop(hosted.partition.index, (None, {}))
        if before is not None and before.status is hosted.status is Status.ACTIVE:
            self._compare(before.shard, ledgers, hosted.shard, "a restart")

    def ended(self) -> None:
        self._fold_all()

    def _fold_all(self) -> None:
        for node in self._ledgers.nodes:
            for hosted in active_in(node.node):
                self._fold(node, hosted)
                for _ in range(self._races):
                    self._fold(node, hosted, races=1.0)
        self._races = 0

    def _fold(self, node: SeenNode, hosted: OffsetsPartition, races: float = RACES) -> None:
        with undisturbed(node):
            # A log that a failing disk has closed stays as it is: to open it again is for the node to do.
            rows = list(records_of(hosted.partition.opened or hosted.partition.log))
        clean = self._random.randint(0, len(rows))
        if self._random.random() < races:
            met = self._meeting(rows, clean)
            how = f"a cleaning that a load meets at the {met}th of {len(rows)} records"
            left = raced(rows, met)
        else:
            horizon = self._random.randint(0, clean)
            how = f"a cleaning of {clean} of {len(rows)} records, and of tombstones before the {horizon}th"
            left = compacted(rows, clean, horizon)
        try:
            shard = folded(left, hosted.settings)
        except (AssertionError, CorruptOffsetsRecord) as error:
            self.broken(REPLAY_EQUALS_LIVE, f"after {how} the log cannot be folded: {error}")
        self._compare(hosted.shard, self._ledgers.groups, shard, how)

    def _meeting(self, rows: Sequence[Record], anywhere: int) -> int:
        """Return how far a load has come: anywhere, or just past one of the few records of a classic group."""
        past = [position for position, row in enumerate(rows, 1) if row.key is not None and row.key[:2] == _CLASSIC]
        return self._random.choice(past) if past and self._random.random() < 0.5 else anywhere

    def _compare(self, live: Shard, ledgers: Ledger, shard: Shard, how: str) -> None:
        self.count(REPLAY_EQUALS_LIVE)
        found = difference(live, ledgers, shard)
        if found is not None:
            self.broken(REPLAY_EQUALS_LIVE, f"after {how}: {found}")


# -- comparing


def difference(live: Shard, ledgers: Ledger, shard: Shard) -> str | None:
    """Return in what a folded shard differs from the live one, in what is hard; None if in nothing."""
    if found := differences(live, shard):
        return found[0]
    for group_id in sorted(live.groups):
        group, other = live.groups[group_id], shard.groups.get(group_id)
        if isinstance(group, ClassicGroup) and (other is None or isinstance(other, ClassicGroup)):
            text = _classic_difference(ledgers.get(group_id), other)
            if text is not None:
                return f"{group_id}: {text}"
    return None


def _classic_difference(ledger: GroupLedger | None, other: ClassicGroup | None) -> str | None:
    """Compare with what was stored last: of a group that gathers, the live state does not show it."""
    if ledger is None or ledger.kind != "classic":
        return None if other is None or not other.members else f"members {sorted(other.members)} in the log alone"
    if other is None:
        return f"generation {ledger.generation} was stored, and is not in the log"
    if other.generation != ledger.generation:
        return f"generation {ledger.generation} was stored, and the log has {other.generation}"
    expected = Phase.EMPTY if not ledger.members else Phase.STABLE if ledger.is_synced else Phase.COMPLETING_REBALANCE
    if other.phase is not expected:
        return f"{expected} was stored, and the log has {other.phase}"
    if ledger.members.keys() != other.members.keys():
        return f"members {sorted(ledger.members)} were stored, and the log has {sorted(other.members)}"
    for member_id, stored in ledger.members.items():
        member = other.members[member_id]
        shown = (stored.instance_id, stored.session_timeout_ms, stored.subscription, stored.assignment)
        found = (
            member.instance_id, member.session_timeout_ms, member.metadata(other.protocol_name), member.assignment
        )  # fmt: skip
        if shown != found:
            return f"{member_id} was stored as {shown}, and the log has {found}"
    return None
