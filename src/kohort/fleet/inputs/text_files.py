"""Text inputs: their lines, rows made of lines, and record batches rebuilt of records, so that one decoder reads all.

A text record has a partition, offset, time, key and value, and the transaction fields of its batch.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.decode.decoded_rows import Place, RowReader
from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.inputs.input_splits import NO_END, Split
from kohort.fleet.schema import Table
from kohort.wire.record_batches import Record, encode_batch

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_LINE: Final = 64 << 20
_ROWS_OF_A_BATCH: Final = 10_000
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


def opened(path: Path) -> gzip.GzipFile:
    """Open a file of text, which may be packed by gzip."""
    with open(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if is_packed else open(path, "rb")  # type: ignore[return-value]


def lines_of(path: Path) -> Iterator[tuple[int, bytes | Fault]]:
    """Yield each line of a file with the position of its first byte; a line too long or cut off is a fault."""
    position = 0
    try:
        with opened(path) as file:
            while line := file.readline(LONGEST_LINE):
                is_whole = len(line) < LONGEST_LINE or line.endswith(b"\n")
                yield position, line if is_whole else Fault("a line without an end", position, sample=line)
                position += len(line)
    except (OSError, EOFError) as error:  # a broken gzip is both
        yield position, Fault(f"the file cannot be read any further: {error}", position)


def rows_of_lines(
    split: Split, found: Callable[[str], Iterator[dict[str, Any]]], table: Table
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are found in each line of a file, with their place; unreadable lines are skipped."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for position, line in lines_of(Path(split.where)):
        if isinstance(line, Fault):
            continue
        place = {"source": split.source, "file": split.where, "position": position}
        rows += [place | row for row in found(line.decode("utf-8", "replace"))]
        if len(rows) >= _ROWS_OF_A_BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=table.arrow())
            rows.clear()
    yield pa.RecordBatch.from_pylist(rows, schema=table.arrow())


def rows_of_records(split: Split, records: Iterable[TextRecord | Fault]) -> Iterator[pa.RecordBatch]:
    """Yield the decoded rows of the records in a file."""
    return _Partitions(split).rows(records)


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

    def continues_batch_of(self, other: TextRecord) -> bool:
        """Whether a record can be in the batch in which an earlier one is the last."""
        mine = self.producer, self.producer_epoch, self.transactional, self.control
        theirs = other.producer, other.producer_epoch, other.transactional, other.control
        return mine == theirs and not self.control and other.offset < self.offset


class _Partitions:
    """Readers of the partitions in a text input, each with its pending batches."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._readers: dict[int, RowReader] = {}
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

    def _reader(self, partition: int) -> RowReader:
        if partition not in self._readers:
            wanted = self._split.starts.get(partition, 0), NO_END
            place = Place(self._split.source, partition, self._split.where)
            self._readers[partition] = RowReader(place, wanted, position=None)
        return self._readers[partition]

    def _add(self, record: TextRecord) -> Iterator[pa.RecordBatch]:
        reader = self._reader(record.partition)
        waiting = self._waiting.setdefault(record.partition, [])
        if waiting and not (
            record.continues_batch_of(waiting[-1])
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
            own_offsets=True,
        )
        self._batches.setdefault(partition, bytearray()).extend(batch)
        self._waiting[partition] = []
