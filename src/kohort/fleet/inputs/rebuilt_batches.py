"""Record batches rebuilt from records in text inputs, so that one decoder reads all inputs.

A text record has a partition, offset, time, key and value, and the transaction fields of its batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kohort.fleet.decode.decoded_rows import Place, Reader
from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.inputs.input_splits import NO_END
from kohort.wire.record_batches import Record, encode_batch

if TYPE_CHECKING:
    import pyarrow as pa

_RECORDS_OF_A_BATCH: Final = 500
_STRETCH_BYTES: Final = 1 << 20
_FARTHEST: Final = (1 << 31) - 2
_BOUNDS: Final = (
    ("partition", 0, (1 << 31) - 1),
    ("offset", 0, (1 << 62) - 1),
    ("at_ms", -(1 << 62), (1 << 62) - 1),
    ("producer", -1, (1 << 62) - 1),
    ("producer_epoch", -1, (1 << 15) - 1),
)
"""The bounds of a batch's fields."""


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One record of a text input; `producer` is -1 without a producer id. Raises ValueError for impossible values."""

    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    producer: int = -1
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False

    def __post_init__(self) -> None:
        for name, least, most in _BOUNDS:
            number = getattr(self, name)
            if type(number) is not int or not least <= number <= most:
                raise ValueError(f"{name} {str(number)[:40]} is impossible in a log")

    def goes_with(self, other: TextRecord) -> bool:
        """Whether a record can be in the batch in which an earlier one is the last."""
        mine = self.producer, self.producer_epoch, self.transactional, self.control
        theirs = other.producer, other.producer_epoch, other.transactional, other.control
        return mine == theirs and not self.control and other.offset < self.offset


class Partitions:
    """Readers of the partitions in a text input, each with its pending batches."""

    def __init__(self, source: str, file: str, starts: dict[int, int]) -> None:
        self._source, self._file, self._starts = source, file, starts
        self._readers: dict[int, Reader] = {}
        self._waiting: dict[int, list[TextRecord]] = {}
        self._batches: dict[int, bytearray] = {}

    def rows(self, record: Iterable[TextRecord | Fault]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records, each partition's in input order."""
        for each in record:
            if isinstance(each, Fault):
                self._reader(each.partition or 0).refuse(each)
            else:
                yield from self._add(each)
        for partition, reader in sorted(self._readers.items()):
            self._seal(partition)
            yield from reader.read(bytes(self._batches.get(partition, b"")))
            yield from reader.finish()

    def _reader(self, partition: int) -> Reader:
        if partition not in self._readers:
            wanted = (self._starts.get(partition, 0), NO_END)
            self._readers[partition] = Reader(Place(self._source, partition, self._file), wanted, position=None)
        return self._readers[partition]

    def _add(self, record: TextRecord) -> Iterator[pa.RecordBatch]:
        reader = self._reader(record.partition)
        waiting = self._waiting.setdefault(record.partition, [])
        if waiting and not (
            record.goes_with(waiting[-1])
            and len(waiting) < _RECORDS_OF_A_BATCH
            and record.offset - waiting[0].offset < _FARTHEST
        ):
            self._seal(record.partition)
        self._waiting[record.partition].append(record)
        batches = self._batches.setdefault(record.partition, bytearray())
        if len(batches) >= _STRETCH_BYTES:
            yield from reader.read(bytes(batches))
            batches.clear()

    def _seal(self, partition: int) -> None:
        """Encode the pending records as a batch."""
        if not (waiting := self._waiting.get(partition)):
            return
        first = waiting[0]
        batch = encode_batch(
            [Record(each.offset, each.at_ms, each.key, each.value) for each in waiting],
            base_offset=first.offset,
            producer_id=first.producer,
            producer_epoch=first.producer_epoch,
            transactional=first.transactional,
            control=first.control,
            keep_offsets=True,
        )
        self._batches.setdefault(partition, bytearray()).extend(batch)
        self._waiting[partition] = []
