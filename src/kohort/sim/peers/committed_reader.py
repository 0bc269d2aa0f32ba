"""A reader of committed records: it fetches the producers' topic, and reports what a program would get.

It reads with `read_committed` (KIP-98), by the rules of the client that ships (`visible_batches`).
"""

from __future__ import annotations

from typing import Any

from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import OUTPUT, OUTPUT_PARTITIONS
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.sim.peers.peer_fetcher import FETCH_BY_NAME
from kohort.wire.apis import Api
from kohort.wire.messages import FetchRequest
from kohort.wire.record_batches import checked_records
from kohort.wire.visible_batches import visible_batches

_READ_COMMITTED = 1
_WAIT_MS, _BACKOFF_US = 500, 200_000


class CommittedReader:
    """Reads from the beginning, for as long as the world lasts. `positions` are the next offsets."""

    def __init__(self, place: ClientPlace) -> None:
        self.positions = {TopicPartition(OUTPUT, index): 0 for index in range(OUTPUT_PARTITIONS)}
        self._host, self._observer = place.host, place.observer
        versions = {Api.FETCH: FETCH_BY_NAME}
        self._connections = PeerConnections(place.host.name, "", place, versions=versions, request_timeout_ms=3_000)

    def start(self) -> None:
        """Begin to read."""
        partitions = [
            FetchRequest.Topic.Partition(
                partition=partition.partition, fetch_offset=offset, partition_max_bytes=1 << 14, current_leader_epoch=-1
            )
            for partition, offset in self.positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=_READ_COMMITTED,
            topics=[FetchRequest.Topic(topic=OUTPUT, partitions=partitions)],
        )
        self._connections.send(self._connections.records, request, self._answered)

    def _answered(self, _: ErrorCode, answer: Any) -> None:
        is_whole = answer is not None and not answer.error_code
        for topic in answer.responses if is_whole else ():
            for found in topic.partitions:
                if found.error_code:
                    is_whole = False
                else:
                    self._take(TopicPartition(OUTPUT, found.partition_index), found)
        self._host.after_us(0 if is_whole else _BACKOFF_US, self.start)

    def _take(self, partition: TopicPartition, found: Any) -> None:
        offset = self.positions[partition]
        values: list[tuple[int, bytes]] = []
        next_offset = offset
        if found.records:
            aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
            visible = visible_batches(memoryview(found.records), offset, aborted)
            if visible.fault is not None:
                raise visible.fault
            next_offset = visible.next_offset
            values = [
                (record.offset, bytes(record.value or b""))
                for batch in visible.raw
                for record in checked_records(batch.header, batch.view)
                if record.offset >= offset
            ]
        self.positions[partition] = next_offset
        self._observer.committed_read(partition, values, next_offset, found.last_stable_offset)
