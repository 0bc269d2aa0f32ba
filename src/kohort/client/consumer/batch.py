"""Batch of consecutive records of one partition, as `poll` returns it, with the fetched bytes.

Raw record batches are views of the response they came in. The law: iterating yields the records with
`first_offset` ≤ offset < `next_offset` that a reader of the isolation level may see, in order, each once. A consumer
decodes a batch before it hands it out (`readable`), so iterating what it returned raises nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from kohort.client.errors import DeserializationFailed, NotReady
from kohort.client.record import K, Record, V
from kohort.model.ids import TopicPartition
from kohort.model.lag import LagReason, OldestRecord, UnreadRecords
from kohort.wire.compression import CompressionUnavailable
from kohort.wire.record_batches import BatchHeader, CorruptBatch, Row, check_batch, decode_batch_rows
from kohort.wire.unread_records import count_batches
from kohort.wire.visible_batches import VisibleBatches

if TYPE_CHECKING:
    import pyarrow as pa

Unreadable = CorruptBatch | CompressionUnavailable | DeserializationFailed
"""Why a record batch, or a record of it, cannot be read."""

CORRUPT_RESPONSES = 5
"""How many responses of a broker without a readable batch a reader takes before it raises."""

_OFFSET = itemgetter(0)
_new_tuple: Callable[[type[Any], Iterable[Any]], Any] = tuple.__new__
"""Makes a record of its fields in a quarter of the time."""

Deserializer = Callable[[bytes], Any]


class Deserializers(NamedTuple):
    """A program's functions that make keys and values of bytes; None leaves bytes as they are.

    The law: a function that raises costs no record. What comes before its record is returned, and the position stays at
    the record, so that a program may mend the function, or seek past it. A null key or value stays None: Kafka's null
    is the absence of bytes, and a tombstone must not become a text. A function that is an object with a method
    `of_record(content, headers, which)` is called by that; `which` is key or value.
    """

    key: Deserializer | None
    value: Deserializer | None

    def apply(
        self, partition: TopicPartition, rows: Iterable[Row]
    ) -> tuple[list[Record[Any, Any]], DeserializationFailed | None]:
        """Return the records with keys and values made of their bytes, up to the first one that cannot be, and why."""
        key_of_record = getattr(self.key, "of_record", None)  # it takes headers, too
        value_of_record = getattr(self.value, "of_record", None)
        made: list[Record[Any, Any]] = []
        for offset, timestamp_ms, key, value, headers in rows:
            which = "key"
            try:
                own_key, own_value = key, value
                if key is not None and self.key is not None:
                    own_key = self.key(key) if key_of_record is None else key_of_record(key, headers, which)
                which = "value"
                if value is not None and self.value is not None:
                    own_value = self.value(value) if value_of_record is None else value_of_record(value, headers, which)
            except Exception as cause:
                failed = DeserializationFailed(partition, offset, which, cause)
                failed.__cause__ = cause
                return made, failed
            made.append(Record(*partition, offset, timestamp_ms, own_key, own_value, headers))
        return made, None

    async def apply_ready(
        self, partition: TopicPartition, rows: Sequence[Row]
    ) -> tuple[list[Record[Any, Any]], DeserializationFailed | None]:
        """Do as `apply`, and wait for what a deserializer lacks."""
        while True:
            made, failed = self.apply(partition, rows)
            if failed is None or not isinstance(failed.__cause__, NotReady):
                return made, failed
            if (failed := await failed_load(failed)) is not None:
                return made, failed


async def failed_load(failed: DeserializationFailed) -> DeserializationFailed | None:
    """Load what a deserializer was not ready without, in a thread; return what to raise where that failed."""
    assert isinstance(failed.__cause__, NotReady), "the caller has looked"
    try:
        await asyncio.to_thread(failed.__cause__.load)
    except Exception as cause:
        error = DeserializationFailed(failed.partition, failed.offset, failed.which, cause)
        error.__cause__ = cause
        return error
    return None


class Batch(Generic[K, V]):
    """Records of one partition. `high_watermark` is the partition's when they were fetched.

    `returned` is how many of a batch that still waits for a poll have been returned one by one.
    """

    __slots__ = (
        "_check_crcs",
        "_deserializers",
        "_raw",
        "_records",
        "_whole",
        "first_offset",
        "high_watermark",
        "leader_epoch",
        "next_offset",
        "partition",
        "returned",
    )

    def __init__(
        self,
        partition: TopicPartition,
        visible: VisibleBatches,
        *,
        first_offset: int,
        high_watermark: int,
        check_crcs: bool = True,
        records: list[Record[K, V]] | None = None,
        deserializers: Deserializers | None = None,
    ) -> None:
        self.partition = partition
        self.first_offset = first_offset
        self._raw, self._whole, self.next_offset, _ = visible
        self.high_watermark = high_watermark
        self.leader_epoch = self._raw[-1].header.partition_leader_epoch if self._raw else -1
        self._check_crcs = check_crcs
        self._records = records
        self._deserializers = deserializers
        self.returned = 0

    @property
    def records(self) -> list[Record[K, V]]:
        """The records, decoded on first use. Raises `CorruptBatch`, CompressionUnavailable, `DeserializationFailed`."""
        if self._records is None:
            _, error = self.readable()
            if error is not None:
                raise error
        assert self._records is not None, "a batch that can be read has its records"
        return self._records

    def readable(self) -> tuple[Batch[K, V], Unreadable | None]:
        """Decode the records; return the part before the first that cannot be read, and why it cannot."""
        if self._records is not None:
            return self, None
        first, stop = self.first_offset, self.next_offset
        rows: list[Row] = []
        error: Unreadable | None = None
        for header, view in self._raw:
            try:
                decoded = self._decoded(header, view)
            except (CorruptBatch, CompressionUnavailable) as raised:
                stop = max(first, header.base_offset)
                error = _placed(raised, self.partition, stop, header.last_offset + 1)
                if isinstance(error, CorruptBatch):
                    error.batch = bytes(view)
                break
            if header.base_offset < first or header.last_offset >= stop:
                decoded = [row for row in decoded if first <= row[0] < stop]
            rows += decoded
        if self._deserializers is None:
            place = tuple(self.partition)
            records = [_new_tuple(Record, place + row) for row in rows]
        else:
            records, failed = self._deserializers.apply(self.partition, rows)
            if failed is not None:
                stop, error = failed.offset, failed
        if error is not None:
            return self._part(first, stop, records), error
        self._records = records
        return self, None

    def __iter__(self) -> Iterator[Record[K, V]]:
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
    def buffer(self) -> memoryview:
        """The raw record batches in one piece; the first and last may have records outside of this batch's offsets."""
        if self._whole is None:
            self._whole = memoryview(b"".join([raw.view for raw in self._raw]))
        return self._whole

    def count_in(self, unread: UnreadRecords) -> None:
        """Add the records to a lag. Decoded ones are counted, of others the headers of record batches are read."""
        if self._records is None:
            count_batches(unread, self._raw)
        else:
            left = self._records[self.returned :]
            if left and unread.oldest is None:
                is_append_time = self._raw[0].header.timestamp_type == 1
                unread.oldest = OldestRecord(left[0].offset, left[0].timestamp_ms, is_append_time)
            unread.count += len(left)
        if unread.fault is not LagReason.UNREADABLE:
            unread.next_offset = self.next_offset

    def split(self, count: int) -> tuple[Batch[K, V], Batch[K, V]]:
        """Return the first `count` records and the rest, as two batches."""
        records = self.records
        cut = records[count].offset if count < len(records) else self.next_offset
        return self._part(self.first_offset, cut, records[:count]), self._part(cut, self.next_offset, records[count:])

    def to_arrow(self) -> pa.RecordBatch:
        """Return the records as one Arrow record batch: offset, timestamp, key, value as bytes. Needs pyarrow."""
        from kohort.client.decode.arrow_decoder import to_arrow

        return to_arrow(
            self.buffer,
            self.partition.topic,
            self.partition.partition,
            first_offset=self.first_offset,
            stop_offset=self.next_offset,
            check_crcs=self._check_crcs,
        )

    def _decoded(self, header: BatchHeader, view: memoryview) -> list[Row]:
        if self._check_crcs:
            check_batch(view)
        decoded = decode_batch_rows(view)
        offsets = list(map(_OFFSET, decoded))
        is_ascending = all(map(lt, offsets, islice(offsets, 1, None)))
        if offsets and not (is_ascending and header.base_offset <= offsets[0] and offsets[-1] <= header.last_offset):
            raise CorruptBatch(f"the offsets of the records in the batch at offset {header.base_offset} are impossible")
        return decoded

    def _part(self, first_offset: int, next_offset: int, records: list[Record[K, V]]) -> Batch[K, V]:
        raw = [
            one for one in self._raw if one.header.base_offset < next_offset and one.header.last_offset >= first_offset
        ]
        return Batch(
            self.partition,
            VisibleBatches(raw, None, next_offset),
            first_offset=first_offset,
            high_watermark=self.high_watermark,
            check_crcs=self._check_crcs,
            records=records,
        )


def unreadable(partition: TopicPartition, offset: int, next_offset: int | None, why: str) -> CorruptBatch:
    """Return what `poll` raises at a record batch that cannot be read."""
    further = "a later offset" if next_offset is None else str(next_offset)
    text = f"{partition} cannot be read at offset {offset}: {why}; seek to {further} to leave it out"
    return CorruptBatch(text, partition, offset, next_offset)


def _placed(
    error: CorruptBatch | CompressionUnavailable, partition: TopicPartition, offset: int, next_offset: int
) -> Unreadable:
    if isinstance(error, CorruptBatch):
        return unreadable(partition, offset, next_offset, error.text)
    error.text = f"{partition} at offset {offset}: {error.text}"
    error.args = (f"{error.code.name}: {error.text}",)
    return error
