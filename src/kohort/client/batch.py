"""What a consumer yields: a run of one partition's records, as the bytes that came, decoded when looked at.

Raw record batches are kept as views of the answer they came in. The law: iterating yields the records with
`first_offset` ≤ offset < `next_offset` that a reader of the isolation level may see, in order, each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kohort.model.ids import TopicPartition
from kohort.wire.records import BatchHeader, ControlType, Record, check_batch, control_type, decode_batch, iter_batches

if TYPE_CHECKING:
    import pyarrow as pa


class Raw(NamedTuple):
    """One record batch as it came."""

    header: BatchHeader
    view: memoryview


class Batch:
    """Records of one partition. `high_watermark` is the partition's when they were fetched, for the lag."""

    __slots__ = (
        "_check_crcs",
        "_raw",
        "_records",
        "_whole",
        "first_offset",
        "high_watermark",
        "leader_epoch",
        "next_offset",
        "partition",
    )

    def __init__(
        self,
        partition: TopicPartition,
        raw: Sequence[Raw],
        *,
        first_offset: int,
        next_offset: int,
        high_watermark: int,
        whole: memoryview | None = None,
        check_crcs: bool = True,
        records: list[Record] | None = None,
    ) -> None:
        self.partition = partition
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.high_watermark = high_watermark
        self.leader_epoch = raw[-1].header.partition_leader_epoch if raw else -1
        self._raw = raw
        self._whole = whole
        self._check_crcs = check_crcs
        self._records = records

    @property
    def records(self) -> list[Record]:
        """The records, decoded on first use. Raises `CorruptBatch`, CompressionUnavailable."""
        if self._records is None:
            first, stop = self.first_offset, self.next_offset
            records: list[Record] = []
            for header, view in self._raw:
                if self._check_crcs:
                    check_batch(view)
                decoded = decode_batch(view)
                if header.base_offset < first or header.last_offset >= stop:
                    decoded = [record for record in decoded if first <= record.offset < stop]
                records += decoded
            self._records = records
        return self._records

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"Batch({self.partition}, offsets {self.first_offset} to {self.next_offset})"

    @property
    def size(self) -> int:
        """Bytes of the raw record batches, compressed as they came."""
        return sum(len(raw.view) for raw in self._raw)

    @property
    def most_records(self) -> int:
        """How many records there may be at most; known without decoding any."""
        return len(self._records) if self._records is not None else sum(raw.header.record_count for raw in self._raw)

    @property
    def buffer(self) -> memoryview:
        """The raw record batches in one piece; the first and last may hold records outside of this batch's offsets."""
        if self._whole is None:
            self._whole = memoryview(b"".join([raw.view for raw in self._raw]))
        return self._whole

    def split(self, count: int) -> tuple[Batch, Batch]:
        """Return the first `count` records and the rest, as two batches."""
        records = self.records
        cut = records[count].offset if count < len(records) else self.next_offset
        return self._part(self.first_offset, cut, records[:count]), self._part(cut, self.next_offset, records[count:])

    def to_arrow(self) -> pa.RecordBatch:
        """Return the records as one Arrow record batch: offset, timestamp, key, value. Needs pyarrow."""
        from kohort.client.decode_arrow import to_arrow

        return to_arrow(
            self.buffer,
            self.partition.topic,
            self.partition.partition,
            first_offset=self.first_offset,
            stop_offset=self.next_offset,
            check_crcs=self._check_crcs,
        )

    def _part(self, first_offset: int, next_offset: int, records: list[Record]) -> Batch:
        raw = [
            one for one in self._raw if one.header.base_offset < next_offset and one.header.last_offset >= first_offset
        ]
        return Batch(
            self.partition,
            raw,
            first_offset=first_offset,
            next_offset=next_offset,
            high_watermark=self.high_watermark,
            check_crcs=self._check_crcs,
            records=records,
        )


class Visible(NamedTuple):
    """What a reader may see of a fetched buffer. `whole` spans `raw` where nothing between them is hidden."""

    raw: list[Raw]
    whole: memoryview | None
    next_offset: int


def visible_batches(records: memoryview, fetch_offset: int, aborted: Sequence[tuple[int, int]] | None) -> Visible:
    """Return the record batches of a fetched buffer that a reader may see.

    `aborted` are the (producer id, first offset) of aborted transactions, None for a reader that sees uncommitted
    records. Control batches are never seen (KIP-98). Raises `CorruptBatch`.
    """
    raw: list[Raw] = []
    next_offset = fetch_offset
    upcoming = sorted(aborted or (), key=lambda entry: entry[1])
    aborting: set[int] = set()
    at = position = start = end = 0
    for header, view in iter_batches(records):
        begin, position = position, position + len(view)
        last_offset = header.last_offset
        if last_offset < fetch_offset:
            continue
        next_offset = last_offset + 1
        while at < len(upcoming) and upcoming[at][1] <= last_offset:
            aborting.add(upcoming[at][0])
            at += 1
        if header.is_control:
            if header.producer_id in aborting and control_type(decode_batch(view)[0]) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            start = begin if not raw else start
            end = position
            raw.append(Raw(header, view))
    is_whole = raw and sum(len(view) for _, view in raw) == end - start
    return Visible(raw, records[start:end] if is_whole else None, next_offset)
