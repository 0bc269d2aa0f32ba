"""Decoded `__consumer_offsets` as Arrow batches: rows of bronze `records`, and quarantined bytes.

The columns are those of `schema.DECODED`. Converts the numba output to Arrow, decodes the values that are no commits,
and checks that texts are UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy
import pyarrow as pa

from kohort.fleet.decode import record_scanner
from kohort.fleet.decode.batch_chunks import Chunk, Cutter, Outcomes, producers
from kohort.fleet.decode.batch_scanner import AT, ATTRIBUTES, BASE, BASE_MS, CONTROL, EPOCH, PRODUCER
from kohort.fleet.decode.quarantine import Fault, Quarantine
from kohort.fleet.decode.value_json import fields_of
from kohort.fleet.schema import DAY_MS, DECODED, FIRST_DAY, LAST_DAY, bucket_of
from kohort.wire.primitives import MalformedMessage

np: Any = numpy

ROWS_OF_A_BATCH: Final = 10_000

_OUTCOMES: Final = {1: "committed", 0: "aborted", -1: "open"}


@dataclass(frozen=True, slots=True)
class Place:
    """Origin of bytes: source, partition, file."""

    source: str
    partition: int
    file: str


class RowReader:
    """Reads the stretches of one file or range, one after another."""

    def __init__(self, place: Place, wanted: tuple[int, int], *, position: int | None = 0) -> None:
        self._place = place
        self._wanted = wanted
        self._quarantine = Quarantine()
        self._cutter = Cutter(wanted, self._quarantine, position=position)

    def read(self, content: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stretch of whole batches; broken bytes become rows of quarantine."""
        source = np.frombuffer(content, np.uint8)
        outcomes = Outcomes(source)
        for chunk in self._cutter.chunks(source):
            yield from _sliced(self._rows(chunk, outcomes))
            yield from self._faults(self._quarantine.take())

    @property
    def next_offset(self) -> int:
        """The offset after the last valid batch."""
        return self._cutter.next_offset

    def refuse(self, fault: Fault) -> None:
        """Put an error that concerns no batch into quarantine."""
        self._quarantine.add(fault)

    def finish(self, stop: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the remaining quarantine, and a row with the position reached, at least `stop`.

        A compacted log may have no records at its end.
        """
        yield from self._faults(self._quarantine.finish())
        yield self._batch(1, {"next_offset": [max(self.next_offset, stop)]})

    def _rows(self, chunk: Chunk, outcomes: Outcomes) -> pa.RecordBatch:
        room, count, faulty = record_scanner.decode(chunk.source, chunk.batches, self._wanted)
        self._note_faults(chunk, room, faulty)
        ended = producers(chunk.batches, outcomes)
        found = _columns(room, count, ended)
        readable, fields = self._values(chunk, room, count)
        readable &= self._are_readable(chunk, room, count)
        found["fields"] = fields
        found["commit_metadata"] = _hexed(room, count, found["commit_metadata"])
        rows = self._batch(count, found)
        if not readable.all():
            rows = rows.filter(pa.array(readable))
        marked = self._markers(chunk.batches, outcomes)
        return rows if marked is None else _joined(rows, marked)

    def _values(self, chunk: Chunk, room: record_scanner.Room, count: int) -> tuple[Any, pa.Array]:
        """Decode the values of records that are no commits; return which rows are readable, and the values."""
        readable = np.ones(count, np.bool_)
        numbers = room.numbers[:, :count]
        wanted = (numbers[record_scanner.IS_COMMIT] == 0) & (numbers[record_scanner.TOMBSTONE] == 0)
        shown: list[str | None] = [None] * count
        rows = np.flatnonzero(wanted)
        kinds, starts = numbers[record_scanner.TYPE][rows], numbers[record_scanner.VALUE_AT][rows]
        stops = starts + numbers[record_scanner.VALUE_LENGTH][rows]
        first = int(starts.min(initial=len(chunk.source)))
        content = chunk.source[first : stops.max(initial=first)].tobytes()
        places = zip(rows.tolist(), kinds.tolist(), (starts - first).tolist(), (stops - first).tolist(), strict=True)
        for row, kind, start, stop in places:
            value = content[start:stop]
            try:
                shown[row] = fields_of(kind, value)
            except MalformedMessage as error:
                readable[row] = False
                self._add_record(chunk, room, row, str(error), value)
        return readable, pa.array(shown, pa.string()) if wanted.any() else pa.nulls(count, pa.string())

    def _are_readable(self, chunk: Chunk, room: record_scanner.Room, count: int) -> Any:
        """Return which rows have names that are UTF-8; the others go into quarantine."""
        readable = np.ones(count, np.bool_)
        odd = room.numbers[record_scanner.ODD, :count]
        for which, name in enumerate(record_scanner.TEXTS[: record_scanner.METADATA]):
            ends, content = room.text(which, count)
            for row in np.flatnonzero(odd & 1 << which).tolist():
                text = content[ends[row] : ends[row + 1]].tobytes()
                if readable[row] and not _is_utf8(text):
                    readable[row] = False
                    self._add_record(chunk, room, row, f"the {name} in its key is not UTF-8", text)
        return readable

    def _note_faults(self, chunk: Chunk, room: record_scanner.Room, faulty: int) -> None:
        kind = 0
        for index, offset, kind, at, end in room.faults[: min(faulty, record_scanner.MOST_FAULTS)].tolist():
            sample = chunk.source[at : min(end, at + 64)].tobytes()
            self._add(chunk, index, None if offset < 0 else offset, record_scanner.FAULTS[kind], sample)
        if faulty > record_scanner.MOST_FAULTS:  # the kinds of the rest are unknown: count them as the last kind
            self._quarantine.count(record_scanner.FAULTS[kind], faulty - record_scanner.MOST_FAULTS)

    def _add_record(self, chunk: Chunk, room: record_scanner.Room, row: int, reason: str, sample: bytes) -> None:
        index, offset = room.numbers[[record_scanner.BATCH, record_scanner.OFFSET], row].tolist()
        self._add(chunk, index, offset, reason, sample)

    def _add(self, chunk: Chunk, index: int, offset: int | None, reason: str, sample: bytes) -> None:
        batch = chunk.batches[index]
        at = self._cutter.place(batch[AT])
        self._quarantine.add(Fault(reason, at, int(batch[BASE]) if offset is None else offset, sample))

    def _markers(self, batches: Any, outcomes: Outcomes) -> pa.RecordBatch | None:
        """Return the rows of the markers that end transactions."""
        rows = np.flatnonzero(batches[:, ATTRIBUTES] & CONTROL)
        rows = rows[(batches[rows, BASE] >= self._wanted[0]) & (batches[rows, BASE] < self._wanted[1])]
        found = batches[rows]
        kinds = [outcomes.of(int(each[PRODUCER]), int(each[BASE])) for each in found]
        if not (known := [row for row, kind in enumerate(kinds) if kind >= 0]):
            return None
        at_ms = found[known, BASE_MS]
        return self._batch(
            len(known),
            {
                "offset": found[known, BASE],
                "at_ms": at_ms,
                "tombstone": np.zeros(len(known), np.bool_),
                "producer_id": found[known, PRODUCER],
                "producer_epoch": found[known, EPOCH].astype(np.int32),
                "transaction": [_OUTCOMES[kinds[row]] for row in known],
                "day": pa.array(_days(at_ms), pa.date32()),
            },
        )

    def _faults(self, faults: list[Fault]) -> Iterator[pa.RecordBatch]:
        if faults:
            yield self._batch(
                len(faults),
                {
                    "offset": [each.offset for each in faults],
                    "position": [each.position for each in faults],
                    "reason": [each.reason for each in faults],
                    "sample": [each.sample.hex() for each in faults],
                },
            )

    def _batch(self, count: int, columns: dict[str, Any]) -> pa.RecordBatch:
        """Return rows of this reader's place; a column that is not given is null."""
        place = self._place
        of_place = {"source": place.source, "partition": place.partition, "file": place.file}
        of_place["bucket"] = bucket_of(place.partition)
        arrays = []
        for field in DECODED.arrow():
            values = columns.get(field.name)
            if field.name in of_place:
                values = pa.repeat(pa.scalar(of_place[field.name], field.type), count)
            elif values is None:
                values = pa.nulls(count, field.type)
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED.arrow())


def _columns(room: record_scanner.Room, count: int, ended: Any) -> dict[str, Any]:
    """Return the columns that the scanner filled."""
    numbers = room.numbers[:, :count]
    is_commit = numbers[record_scanner.IS_COMMIT] == 1
    has_value = is_commit & (numbers[record_scanner.TOMBSTONE] == 0)
    found: dict[str, Any] = {
        "offset": _numbers(numbers[record_scanner.OFFSET]),
        "at_ms": _numbers(numbers[record_scanner.AT_MS]),
        "record_type": _numbers(numbers[record_scanner.TYPE].astype(np.int32)),
        "tombstone": pa.array(numbers[record_scanner.TOMBSTONE] != 0),
        "topic_partition": _numbers(numbers[record_scanner.PARTITION].astype(np.int32), is_commit),
        "committed_offset": _numbers(numbers[record_scanner.COMMITTED], has_value),
        "commit_at_ms": _numbers(numbers[record_scanner.COMMIT_MS], has_value),
        "day": pa.array(_days(numbers[record_scanner.AT_MS]), pa.date32()),
    }
    for name, column in (("value_version", record_scanner.VERSION), ("leader_epoch", record_scanner.LEADER_EPOCH)):
        found[name] = _numbers(numbers[column].astype(np.int32), numbers[column] >= 0)
    found["expire_at_ms"] = _numbers(numbers[record_scanner.EXPIRE_MS], numbers[record_scanner.EXPIRE_MS] >= 0)
    is_transactional = numbers[record_scanner.TRANSACTIONAL] != 0
    if is_transactional.any():
        found["producer_id"] = _numbers(numbers[record_scanner.PRODUCER], is_transactional)
        found["producer_epoch"] = _numbers(numbers[record_scanner.PRODUCER_EPOCH].astype(np.int32), is_transactional)
        of_rows = ended[numbers[record_scanner.BATCH]].tolist()
        found["transaction"] = pa.array([_OUTCOMES.get(each) for each in of_rows], pa.string())
    present = numbers[record_scanner.PRESENT]
    for which, name in enumerate(record_scanner.TEXTS):
        found[name] = _texts(*room.text(which, count), present & 1 << which != 0)
    return found


def _numbers(values: Any, valid: Any = None) -> pa.Array:
    kind = pa.int32() if values.dtype == np.int32 else pa.int64()
    bits, nulls = _validity(valid)
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))], nulls)


def _texts(ends: Any, content: Any, valid: Any) -> pa.Array:
    bits, nulls = _validity(valid)
    buffers = [bits, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(valid), buffers, nulls)


def _validity(valid: Any) -> tuple[pa.Buffer | None, int]:
    if valid is None or valid.all():
        return None, 0
    return pa.py_buffer(np.packbits(valid, bitorder="little")), int(len(valid) - np.count_nonzero(valid))


def _days(at_ms: Any) -> Any:
    return np.clip(at_ms // DAY_MS, FIRST_DAY, LAST_DAY).astype(np.int32)


def _hexed(room: record_scanner.Room, count: int, metadata: pa.Array) -> pa.Array:
    """Return the metadata of commits, what is not UTF-8 as hex."""
    rows = np.flatnonzero(room.numbers[record_scanner.ODD, :count] & 1 << record_scanner.METADATA).tolist()
    ends, content = room.text(record_scanner.METADATA, count)
    texts = {row: content[ends[row] : ends[row + 1]].tobytes() for row in rows}
    wrong = {row: f"0x{text.hex()}" for row, text in texts.items() if not _is_utf8(text)}
    if not wrong:
        return metadata
    raw = metadata.cast(pa.binary()).to_pylist()
    return pa.array(
        [wrong.get(row, None if text is None else text.decode("utf-8", "replace")) for row, text in enumerate(raw)]
    )


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [pa.concat_arrays(pair) for pair in zip(first.columns, second.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=first.schema)


def _sliced(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows.num_rows, ROWS_OF_A_BATCH):
        yield rows.slice(start, ROWS_OF_A_BATCH)
