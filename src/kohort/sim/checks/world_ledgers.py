"""The ledgers of all groups of a world, kept up by what is seen; checkers are told of events before and after each.

A ledger begins anew from the bytes of the log whenever a shard is loaded, so that it never believes what a crash took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kohort.group.events import Event, OffsetCommitted
from kohort.group.shard import Shard
from kohort.log.group_replay import records_of
from kohort.log.offsets_topic import Replay
from kohort.model.ids import group_partition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger
from kohort.sim.checks.ledger_fold import fold
from kohort.sim.kernel.world_observer import SeenNode

if TYPE_CHECKING:
    from kohort.node.groups.offsets_partition import OffsetsPartition
    from kohort.node.node import Node
    from kohort.node.topics.topic import Partition

Hook = Callable[[GroupLedger, Any, Shard], None]
"""Called with what the log says of the group, the event, and the shard, to which the event has been applied."""


class Ledgers(Checker):
    """What the logs say. It must see an event before any checker that asks it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, GroupLedger] = {}
        self.shards: dict[str, Shard] = {}
        """The shard that each group was last seen in."""
        self.touched: dict[str, Shard] = {}
        """The groups to which something happened, but for commits, since somebody looked."""
        self.nodes: list[SeenNode] = []
        """Those that run."""
        self.loads = 0
        """How often a shard was loaded."""
        self._before: dict[type[Any], list[Hook]] = {}
        self._after: dict[type[Any], list[Hook]] = {}

    def before(self, event_type: type[Any], hook: Hook) -> None:
        """Call `hook` with each event of a type, before the ledger takes it."""
        self._before.setdefault(event_type, []).append(hook)

    def after(self, event_type: type[Any], hook: Hook) -> None:
        """Call `hook` with each event of a type, once the ledger has taken it."""
        self._after.setdefault(event_type, []).append(hook)

    def group(self, group_id: str) -> GroupLedger:
        """Return what is known of a group; nothing, for one that the log does not know."""
        ledger = self.groups.get(group_id)
        if ledger is None:
            ledger = self.groups[group_id] = GroupLedger()
        return ledger

    # -- what is seen

    def node_started(self, node: SeenNode) -> None:
        """Note that a node runs."""
        self.nodes.append(node)

    def node_stopped(self, node: SeenNode, how: str) -> None:
        """Note that it does not any more."""
        self.nodes.remove(node)

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """Begin anew with what the log holds."""
        self.loads += 1
        index, count = hosted.partition.index, len(hosted.partition.topic.partitions)
        left = {each: ledger for each, ledger in self.groups.items() if group_partition(each, count) == index}
        for group_id in left:
            del self.groups[group_id]
            self.shards.pop(group_id, None)
        with undisturbed(node):
            events = events_of(hosted.partition)
        for event in events:
            fold(self.group(event.group_id), event)
        for group_id, before in left.items():
            if group_id in self.groups:
                self.groups[group_id].resume(before)

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """Tell those who asked for it, and take it."""
        kind = type(event)
        group_id = event.group_id
        ledger = self.groups.get(group_id)
        if ledger is None:
            ledger = self.groups[group_id] = GroupLedger()
        self.shards[group_id] = shard
        for hook in self._before.get(kind, ()):
            hook(ledger, event, shard)
        if kind is OffsetCommitted:
            ledger.commits[event.topic, event.partition] = event  # type: ignore[union-attr, assignment]
        else:
            self.touched[group_id] = shard
            fold(ledger, event)
        for hook in self._after.get(kind, ()):
            hook(ledger, event, shard)


def hosted_by(node: Node) -> Sequence[OffsetsPartition]:
    """Return the offsets partitions of a node; none where nobody has asked it for a group yet."""
    return node.coordinator.partitions if node.context.has_coordinator else ()


@contextmanager
def undisturbed(node: SeenNode) -> Iterator[None]:
    """Look at a node's disk without meeting, or using up, the faults that it has for its node."""
    disk = getattr(node, "disk", None)
    fault = getattr(disk, "fault", None)
    if disk is None or fault is None:
        yield
        return
    disk.fault = None
    try:
        yield
    finally:
        disk.fault = fault


def events_of(partition: Partition) -> list[Event]:
    """Return what the log of an offsets partition says happened, from its bytes."""
    replay = Replay()
    events = (replay.event_of(record) for record in records_of(partition.log))
    return [event for event in events if event is not None]
