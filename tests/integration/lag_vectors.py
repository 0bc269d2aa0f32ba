"""A broker that has the log of one of the vectors of docs/lag-vectors.json: its offsets, epochs and timestamps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.scripted_broker import ScriptedBroker

from kohort.model.errors import ErrorCode
from kohort.wire.apis import Api
from kohort.wire.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kohort.wire.record_batches import (
    ControlType,
    Record,
    control_record,
    encode_batch,
    read_header,
    retain_records,
    stamp_append_time,
)

VECTORS: list[dict[str, Any]] = json.loads(Path("docs/lag-vectors.json").read_text())["vectors"]
READ_COMMITTED, EARLIEST = 1, -2
MARKERS = {"commit": ControlType.COMMIT, "abort": ControlType.ABORT}


def batch_of(stated: dict[str, Any]) -> bytes:
    """Return the bytes of a batch."""
    base, last = stated["base_offset"], stated["last_offset"]
    records = [Record(offset, timestamp_ms, b"k", b"v") for offset, timestamp_ms in stated["records"]]
    kind, producer_id = stated.get("marker"), stated.get("producer_id", -1)
    if kind is not None:
        records = [control_record(MARKERS[kind], records[0].timestamp_ms)]
    every = records if kind else [Record(offset, 0, b"k", b"v") for offset in range(base, last + 1)]
    is_whole = len(records) == len(every)
    batch = encode_batch(
        records if is_whole else every,
        base_offset=base,
        leader_epoch=stated["leader_epoch"],
        producer_id=producer_id,
        transactional=producer_id >= 0,
        control=kind is not None,
    )
    batch = batch if is_whole else retain_records(read_header(batch), records)
    append_time_ms = stated.get("append_time_ms")
    return batch if append_time_ms is None else bytes(stamp_append_time(batch, append_time_ms))


class VectorBroker(ScriptedBroker):
    """The one partition of topic `t`, and a group that has committed in it. `log` and `committed` may be changed."""

    def __init__(self, vector: dict[str, Any], *, denied: frozenset[Api] = frozenset()) -> None:
        super().__init__(
            {
                Api.METADATA: self._metadata,
                Api.OFFSET_FETCH: self._offset_fetch,
                Api.FETCH: self._fetch,
                Api.LIST_OFFSETS: self._list_offsets,
            }
        )
        self.log: dict[str, Any] | None = vector["log"]
        self.committed: dict[str, Any] | None = vector["committed"]
        self._denied = denied

    def _metadata(self, request: object) -> MetadataResponse:
        response = super()._metadata(request)
        (topic,) = response.topics
        topic.partitions = topic.partitions[:1]
        if self.log is None:
            topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        else:
            topic.topic_id = self.log["topic_id"].encode() * 16
        return response

    def _offset_fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (group,), found = request.groups, OffsetFetchResponse.Group
        topics = []
        for asked in group.topics or [OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0])]:
            entry = found.Topic.Partition(partition_index=0, committed_offset=-1, metadata="")
            mine = self.committed
            if mine is not None and asked.topic_id in (bytes(16), mine["topic_id"].encode() * 16):
                entry.committed_offset, entry.committed_leader_epoch = mine["offset"], mine["leader_epoch"]
            topics.append(found.Topic(name=asked.name, topic_id=asked.topic_id, partitions=[entry]))
        return OffsetFetchResponse(groups=[found(group_id=group.group_id, topics=topics)])

    def _end(self, isolation: int) -> int:
        assert self.log is not None
        return int(self.log["last_stable_offset" if isolation == READ_COMMITTED else "high_watermark"])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        ((asked,),) = [topic.partitions for topic in request.topics]
        log = self.log
        assert log is not None
        answer = FetchResponse.Response.Partition(partition_index=0, high_watermark=-1, records=b"")
        start, offset = log["start"], asked.fetch_offset
        epoch, end = self._end_of_epoch(asked.last_fetched_epoch)
        if Api.FETCH in self._denied:
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif asked.last_fetched_epoch >= 0 and epoch >= 0 and (epoch, end) < (asked.last_fetched_epoch, offset):
            answer.diverging_epoch = FetchResponse.Response.Partition.DivergingEpoch(epoch=epoch, end_offset=end)
        elif not start <= offset <= log["high_watermark"] or (asked.last_fetched_epoch >= 0 and epoch < 0):
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            answer.log_start_offset, answer.high_watermark = start, log["high_watermark"]
            answer.last_stable_offset = log["last_stable_offset"]
            self._read(answer, offset, asked.partition_max_bytes, self._end(request.isolation_level))
            if request.isolation_level == READ_COMMITTED:
                answer.aborted_transactions = self._aborted()
        topics = [FetchResponse.Response(topic_id=request.topics[0].topic_id, partitions=[answer])]
        return FetchResponse(responses=topics)

    def _read(self, answer: FetchResponse.Response.Partition, offset: int, limit: int, end: int) -> None:
        """Answer the whole batches that fit, and one at least, as a broker does."""
        assert self.log is not None
        parts: list[bytes] = []
        for stated in self.log["batches"]:
            if stated["last_offset"] < offset or stated["base_offset"] >= end:
                continue
            if parts and sum(map(len, parts)) >= limit:
                break
            parts.append(batch_of(stated))
        answer.records = b"".join(parts)

    def _aborted(self) -> list[FetchResponse.Response.Partition.AbortedTransaction]:
        assert self.log is not None
        first: dict[int, int] = {}
        aborted = []
        for stated in self.log["batches"]:
            producer_id = stated.get("producer_id", -1)
            if "marker" in stated:
                began = first.pop(producer_id, stated["base_offset"])
                if stated["marker"] == "abort":
                    of = FetchResponse.Response.Partition.AbortedTransaction
                    aborted.append(of(producer_id=producer_id, first_offset=began))
            elif producer_id >= 0:
                first.setdefault(producer_id, stated["base_offset"])
        return aborted

    def _end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to this one and where it ends, as Kafka's leader epoch cache does."""
        assert self.log is not None
        epochs: list[list[int]] = self.log["leader_epochs"]
        later = next((each for each in epochs if each[0] > epoch), None)
        if later is None:
            return (epoch, self.log["high_watermark"]) if epoch == epochs[-1][0] else (-1, -1)
        return max((each[0] for each in epochs if each[0] <= epoch), default=epoch), later[1]

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        ((asked,),), topic = [each.partitions for each in request.topics], ListOffsetsResponse.Topic
        assert self.log is not None
        offset = self.log["start"] if asked.timestamp == EARLIEST else self._end(request.isolation_level)
        found = topic.Partition(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[topic(name="t", partitions=[found])])
