"""What Kafka's `kafka-dump-log --offsets-decoder` printed, read back: its JSON is made into keys and values again.

Of a dump without the decoder nothing can be had: it shows bytes as text, and what was no text is gone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.inputs.dump_values import key_bytes, value_bytes
from kohort.fleet.inputs.export_lines import lines_of
from kohort.fleet.inputs.input_splits import Piece
from kohort.fleet.inputs.rebuilt_batches import Partitions, Told
from kohort.wire.primitives import UnencodableMessage

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = re.compile(r"Dumping (?:.*?-(\d+)[/\\][^/\\]*$)?")
_BATCH = re.compile(
    r"baseOffset: (-?\d+) .*?producerId: (-?\d{1,18}) producerEpoch: (-?\d{1,18}) .*?"
    r"isTransactional: (\w+) isControl: (\w+) "
)
_RECORD = re.compile(r"\| offset: (\d{1,18}) \w+: (-?\d{1,18}) ")
_KEY = " key: "
_PAYLOAD = " payload: "
_MARKER = re.compile(r" endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: (-?\d{1,9})")
_UNKNOWN = re.compile(r"Unknown record type (-?\d+) at offset")
_SHORTS = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_WITHOUT_DECODER: Final = "its key is shown as text, so that it cannot be read: dump with --offsets-decoder"
_reads = json.JSONDecoder().raw_decode


@dataclass(slots=True)
class _Batch:
    """What the line of a batch said of the records behind it."""

    partition: int = 0
    producer: int = -1
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False

    @property
    def known_partition(self) -> int | None:
        """The partition, where there can be such a one."""
        return self.partition if self.partition < 1 << 31 else None


def read(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dump."""
    starts = {int(partition): start for partition, start in piece.starts.items()}
    yield from Partitions(piece.source, piece.where, starts).rows(_told(Path(piece.where)))


def _told(path: Path) -> Iterator[Told | Fault]:
    batch = _Batch()
    for position, line in lines_of(path):
        if isinstance(line, Fault):
            yield line
            continue
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("| offset:"):
            try:
                yield _record(text, batch)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UnencodableMessage) as error:
                yield Fault(f"{error}"[:300], position, _offset(text), line, batch.known_partition)
        elif found := _BATCH.match(text):
            batch.producer, batch.producer_epoch = int(found[2]), int(found[3])
            batch.transactional, batch.control = found[4] == "true", found[5] == "true"
        elif found := _FILE.match(text):
            batch = _Batch(partition=int(found[1] or 0))
        elif text and not text.startswith(("Log starting offset", "Snapshot end offset", "Found ", "Starting offset")):
            yield Fault("a line that the dump tool does not print", position, None, line, batch.known_partition)


def _offset(text: str) -> int | None:
    found = _RECORD.match(text)
    return int(found[1]) if found else None


def _record(text: str, batch: _Batch) -> Told:
    """Return the record that a line shows. Raises ValueError, and whatever its JSON leads to."""
    found = _RECORD.match(text)
    if found is None:
        raise ValueError("a line that shows no record")
    offset, at_ms = int(found[1]), int(found[2])
    key, value = _marker(text, found.end()) if batch.control else _pair(text, found.end())
    producer = batch.producer, batch.producer_epoch, batch.transactional, batch.control
    return Told(batch.partition, offset, at_ms, key, value, *producer)


def _marker(text: str, at: int) -> tuple[bytes, bytes | None]:
    marker = _MARKER.search(text, at)
    if marker is None:
        raise ValueError("a control record that ends no transaction")
    return _SHORTS.pack(0, marker[1] == "COMMIT"), _MARKER_VALUE.pack(0, int(marker[2]))


def _pair(text: str, at: int) -> tuple[bytes, bytes | None]:
    begin = text.find(_KEY, at)
    if begin < 0:
        raise ValueError("a record without a key")
    begin += len(_KEY)
    if unknown := _UNKNOWN.match(text, begin):
        return _SHORTS.pack(int(unknown[1]), 0)[:2], b""
    if text.startswith("Error at offset", begin):
        raise ValueError(f"the dump tool could not read it: {text[begin : begin + 200]}")
    if not text.startswith("{", begin):
        raise ValueError(_WITHOUT_DECODER)
    key, end = _reads(text, begin)
    payload = text[end + len(_PAYLOAD) :] if text.startswith(_PAYLOAD, end) else "<DELETE>"
    if payload == "<DELETE>":
        return key_bytes(key), None
    return key_bytes(key), value_bytes(int(key["type"]), _reads(payload)[0])
