"""Long polls at the ends of partitions: a broker answers a Fetch when records are appended, or after half a second.

Of an answer only the ends are used: rows are read by round. It runs in one event loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.offset_specs import READ_COMMITTED
from kohort.model.errors import KafkaError
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
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

        An answer that has not come yet says that nothing was appended.
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
