"""The partitions that a member owns: the position and the end of each, and whether its topic was deleted or recreated.

The law: what was looked up in the cluster counts only if ownership did not change meanwhile; `changes` counts these
changes. It runs in one event loop, so nothing here needs a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.list_offsets import list_ends
from kohort.client.cluster.offset_specs import EARLIEST, LATEST, READ_UNCOMMITTED
from kohort.client.membership.membership import Membership
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import NO_TOPIC_ID, TopicPartition, topic_id_text
from kohort.spark.membership.starting_offsets import StartingOffsets

Available = Mapping[TopicPartition, tuple[int, int]]
"""Position and end of each partition that may be read."""


class OwnedPartitions:
    """Positions of owned partitions, which `starting` finds; `isolation` limits how far they may be read."""

    def __init__(self, cluster: Cluster, starting: StartingOffsets, isolation: int) -> None:
        self.partitions: Partitions = frozenset()
        self.changes = 0
        """Changes of ownership so far."""
        self.targets: Mapping[TopicPartition, int] | None = None
        """Offsets at which reading stops; a partition that is not in it is not read. None: no such limit."""
        self._cluster = cluster
        self._starting = starting
        self._isolation = isolation
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._deleted: Partitions = frozenset()
        self._removed: Partitions = frozenset()

    def add(self, partitions: Partitions) -> None:
        """Own these, too; their positions are looked up by the next `available`."""
        self.partitions |= partitions
        self.changes += 1

    def remove(self, partitions: Partitions) -> None:
        """Own these no longer."""
        self._removed |= partitions - self._deleted
        self.partitions -= partitions
        self._deleted -= partitions
        self.changes += 1
        self.forget(partitions)
        for partition in partitions:
            self._ends.pop(partition, None)

    def advance(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Move positions to where a round ended."""
        self._positions.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Drop the positions of partitions, or all of them: they are looked up again."""
        for partition in list(self._positions) if partitions is None else partitions:
            self._positions.pop(partition, None)

    # Snapshots, also for other threads

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the next round begins, per owned partition that was looked up."""
        return dict(self._positions)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The ends of owned partitions, as of the last look-up."""
        return dict(self._ends)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that the positions are of, as Kafka's tools show them, where there are ids."""
        return {topic: topic_id_text(each) for topic, each in self._topic_ids.items()}

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records from the position to the end of each owned partition of which both are known."""
        positions, ends = self.positions, self.ends
        return {each: max(0, ends[each] - at) for each, at in positions.items() if each in ends}

    @property
    def is_read_to_the_end(self) -> bool:
        """Whether every owned partition was read up to its target, or up to its end as of the last look-up."""
        there = self.partitions - self._deleted
        return all(each in self._positions and self._positions[each] >= self._goal(each) for each in there)

    @property
    def recreated(self) -> Partitions:
        """The partitions with a position in a topic that was deleted and created again under its name."""
        now = self._cluster.view.topic_id
        others = {name for name, known in self._topic_ids.items() if now(name) not in (known, NO_TOPIC_ID)}
        return frozenset(each for each in self._positions if each.topic in others)

    def found(self, ends: Mapping[TopicPartition, int]) -> Available:
        """Return what `available` would, without a look-up, where these are the ends of all partitions; else nothing.

        `ends` are from answers of leaders to requests by topics' ids: these topics are still there.
        """
        is_known = self.partitions <= self._positions.keys() & ends.keys()
        if not is_known or self._deleted or self.recreated:
            return {}
        if any(ends[each] < self._positions[each] for each in self.partitions):
            return {}
        self._ends = {each: ends[each] for each in self.partitions}
        return self._readable(self._ends)

    # Look-ups in the cluster

    async def available(self, member: Membership) -> Available:
        """Return position and end of every owned partition that exists; nothing if ownership changed meanwhile.

        Raises KafkaError, and CommitFailed where the member lost a partition whose starting offset is looked up.
        """
        changes = self.changes
        gone = {each for each in self._deleted if self._cluster.view.is_gone(each.topic)}
        ends = await list_ends(self._cluster, self.partitions - gone, LATEST, self._isolation, gone=gone)
        if changes != self.changes:
            return {}
        self._mark_deleted(frozenset(gone))
        short = await self._truncated(ends)
        if changes != self.changes:
            return {}
        if recreated := self.recreated:
            self._starting.policy.recreated(recreated)
        if missing := (ends.keys() - self._positions.keys()) | short.keys() | recreated:
            ids = {each.topic: self._cluster.view.topic_id(each.topic) for each in missing}
            found = await self._starting.find(member, frozenset(missing), short, recreated)
            if changes != self.changes:
                return {}
            self._positions |= found
            self._topic_ids |= {topic: found_id for topic, found_id in ids.items() if found_id != NO_TOPIC_ID}
        self._ends = ends
        return self._readable(ends)

    async def refresh_topic_ids(self) -> None:
        """Fetch the topics' ids: offsets alone do not show that a topic was recreated."""
        with suppress(KafkaError):  # the Fetch responses have the ids, too
            await self._cluster.refresh()

    async def report_deleted(self) -> None:
        """Report topics that were deleted after the group took their partitions away. Raises TopicDeleted.

        The group may do that before the end of such a partition is looked up.
        """
        if not self._removed:
            return
        try:
            await self._cluster.refresh()
        except KafkaError:
            return  # the next call tries again
        removed, self._removed = self._removed, frozenset()
        if gone := {each for each in removed if self._cluster.view.is_gone(each.topic)}:
            self._starting.policy.deleted(gone)

    async def set_targets(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading at the present ends of these partitions. Raises KafkaError."""
        self.targets = await list_ends(self._cluster, partitions, LATEST, self._isolation, gone=set())

    async def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that exists. Raises KafkaError."""
        return await list_ends(self._cluster, partitions, EARLIEST, gone=set())

    async def _truncated(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the positions in partitions that end before them: recreated, or truncated by a new leader."""
        short = {each: at for each, at in self._positions.items() if at > ends.get(each, at)}
        if short and self._isolation != READ_UNCOMMITTED:  # an open transaction is no loss
            ends = await list_ends(self._cluster, short, LATEST, gone=set())
        return {each: at for each, at in short.items() if at > ends.get(each, at)}

    def _readable(self, ends: Mapping[TopicPartition, int]) -> Available:
        """Return positions and ends up to the targets."""
        if self.targets is not None:
            ends = {partition: min(end, self.targets.get(partition, 0)) for partition, end in ends.items()}
        return {each: (self._positions[each], end) for each, end in ends.items() if each in self._positions}

    def _mark_deleted(self, partitions: Partitions) -> None:
        """Leave out partitions that do not exist until the group revokes them, or until the topic exists again."""
        new, self._deleted = partitions - self._deleted, partitions
        self.forget(partitions)
        if new:
            self._starting.policy.deleted(new)

    def _goal(self, partition: TopicPartition) -> int:
        """Return where reading stops: at the target, or at the end as of the last look-up if that is before it."""
        if self.targets is not None:
            target = self.targets.get(partition, 0)
            return min(target, self._ends.get(partition, target))
        return self._ends.get(partition, self._positions[partition] + 1)
