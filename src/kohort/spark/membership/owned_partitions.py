"""The partitions that a member owns: the position and the end of each, and whether its topic was deleted or recreated.

The law: what was looked up in the cluster counts only if ownership did not change meanwhile; `changes` counts these
changes. Ends are watched by long polls: a broker answers a Fetch when records are appended, or after half a second; of
an answer only the ends are used, as rows are read by round. It runs in one event loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from operator import attrgetter

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.list_offsets import list_ends
from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.offset_specs import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kohort.client.membership.membership import Membership
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import NO_TOPIC_ID, TopicPartition, topic_id_text
from kohort.spark.membership.starting_offsets import StartingOffsets
from kohort.wire.messages import FetchRequest, FetchResponse

LONGEST_S = 0.5
"""How long a broker may delay the answer to a Fetch."""

_BACKOFF_S = 0.1
_NEWEST_BY_NAME = 12


class EndWatch:
    """Calls `changed` when the ends of partitions may have changed; at most one Fetch is open to each broker."""

    def __init__(self, cluster: Cluster, isolation: int, changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._changed = changed
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._found: dict[TopicPartition, int] | None = {}

    @property
    def found(self) -> Mapping[TopicPartition, int]:
        """The ends of watched partitions, as of the last answers; none where one was an error, or not by topics' ids.

        Until an answer has come, nothing counts as appended.
        """
        return self._found or {}

    def forget(self) -> None:
        """Drop what was found: ends were looked up since."""
        self._found = {}

    def watch(self, ends: Mapping[TopicPartition, int]) -> None:
        """Fetch at these ends. Where a Fetch is open, its partitions are watched until it is answered."""
        by_leader: dict[Broker, dict[TopicPartition, int]] = {}
        for partition, end in sorted(ends.items()):
            if (leader := self._cluster.view.leader(partition)) is not None:
                by_leader.setdefault(leader, {})[partition] = end
        for leader, places in by_leader.items():
            if leader.node_id not in self._tasks:
                task = asyncio.create_task(self._wait(leader, places), name=f"kohort ends at {leader.node_id}")
                self._tasks[leader.node_id] = task
                if self._found is not None:
                    self._found |= places

    async def stop(self) -> None:
        """Await no more answers."""
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, leader: Broker, ends: Mapping[TopicPartition, int]) -> None:
        view, topics = self._cluster.view, dict[str, FetchRequest.Topic]()
        for (name, number), end in ends.items():
            topic = topics.setdefault(name, FetchRequest.Topic(topic=name, topic_id=view.topic_id(name)))
            # A broker sends one batch at least, however few bytes are asked for.
            place = FetchRequest.Topic.Partition(partition=number, fetch_offset=end, partition_max_bytes=1)
            topic.partitions.append(place)
        has_ids = all(each.topic_id != NO_TOPIC_ID for each in topics.values())
        request = FetchRequest(
            max_wait_ms=int(1000 * LONGEST_S),
            min_bytes=1,
            max_bytes=1,
            isolation_level=self._isolation,
            topics=list(topics.values()),
        )
        try:
            highest = None if has_ids else _NEWEST_BY_NAME
            response = await self._cluster.call(leader, request, highest=highest, lane="fetch")
            answers = [each for topic in response.responses for each in topic.partitions]
            is_wrong = any([response.error_code, *(each.error_code for each in answers)])
        except KafkaError:
            is_wrong = True
        if is_wrong:  # the next look-up raises what it is; a broker may answer the same at once
            self._found = None
            await asyncio.sleep(_BACKOFF_S)
        elif self._found is not None:
            found = self._ends_in(response, topics.values())
            self._found = self._found | found if len(found) == len(ends) else None
        del self._tasks[leader.node_id]
        self._changed()

    def _ends_in(self, response: FetchResponse, asked: Iterable[FetchRequest.Topic]) -> dict[TopicPartition, int]:
        """Return the ends in an answer; none of topics without ids, which another topic may have the name of."""
        names = {each.topic_id: each.topic for each in asked if each.topic_id != NO_TOPIC_ID}
        end_of = attrgetter("last_stable_offset" if self._isolation == READ_COMMITTED else "high_watermark")
        return {
            TopicPartition(names[topic.topic_id], each.partition_index): end_of(each)
            for topic in response.responses
            if topic.topic_id in names
            for each in topic.partitions
        }


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
