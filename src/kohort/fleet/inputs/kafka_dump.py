"""Input from `kafka-dump-log --offsets-decoder`: its JSON is encoded as keys and values again.

Names are Kafka's in camel case, ids are its 22 letters, bytes are base64. Embedded metadata of classic members is JSON
too where the tool could decode it, without its version, so that the oldest version is taken that has all fields. A dump
without the decoder cannot be used: it shows bytes as text, which loses what is not text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.decode.value_json import kinds, value_class
from kohort.fleet.inputs.input_splits import Split
from kohort.fleet.inputs.text_files import TextRecord, lines_of, rows_of_records
from kohort.wire import messages
from kohort.wire.codec import encode
from kohort.wire.message import is_present
from kohort.wire.message_schemas import Field, Struct
from kohort.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
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
_SHORTS = Packing(">hh")
_MARKER_VALUE = Packing(">hi")
_WITHOUT_DECODER: Final = "its key is shown as text, so that it cannot be read: dump with --offsets-decoder"
_reads = json.JSONDecoder().raw_decode


@dataclass(slots=True)
class _DumpedBatch:
    """Values of a batch line, valid for the record lines after it."""

    partition: int = 0
    producer: int = -1
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False

    @property
    def known_partition(self) -> int | None:
        """The partition, where its number is possible."""
        return self.partition if self.partition < 1 << 31 else None


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dump."""
    return rows_of_records(split, _text_records(Path(split.where)))


def _text_records(path: Path) -> Iterator[TextRecord | Fault]:
    batch = _DumpedBatch()
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
            batch = _DumpedBatch(partition=int(found[1] or 0))
        elif text and not text.startswith(("Log starting offset", "Snapshot end offset", "Found ", "Starting offset")):
            yield Fault("a line that the dump tool does not print", position, None, line, batch.known_partition)


def _offset(text: str) -> int | None:
    found = _RECORD.match(text)
    return int(found[1]) if found else None


def _record(text: str, batch: _DumpedBatch) -> TextRecord:
    """Return the record that a line shows. Raises ValueError, and whatever its JSON leads to."""
    found = _RECORD.match(text)
    if found is None:
        raise ValueError("a line that shows no record")
    offset, at_ms = int(found[1]), int(found[2])
    key, value = _marker(text, found.end()) if batch.control else _pair(text, found.end())
    producer = batch.producer, batch.producer_epoch, batch.transactional, batch.control
    return TextRecord(batch.partition, offset, at_ms, key, value, *producer)


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


_SHORT = Packing(">h")


def key_bytes(shown: Mapping[str, Any]) -> bytes:
    """Encode a key. Raises ValueError, KeyError, TypeError, UnencodableMessage where the JSON is not that of a key."""
    kind = int(shown["type"])
    if kind not in kinds():
        return _SHORT.pack(kind)
    cls = getattr(messages, f"{kinds()[kind]}Key")
    return _SHORT.pack(kind) + encode(_message(cls, cls.SCHEMA.struct, 0, shown["data"]), 0)


def value_bytes(kind: int, shown: Mapping[str, Any]) -> bytes:
    """Encode a value; raises as `key_bytes`."""
    version = int(shown["version"])
    cls = value_class(kind)
    if cls is None or version not in cls.VERSIONS:
        return _SHORT.pack(version)
    fields = dict(shown["data"])
    if kind == 2:
        fields["members"] = [_member(each) for each in fields["members"]]
    return _SHORT.pack(version) + encode(_message(cls, cls.SCHEMA.struct, version, fields), version)


def _member(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        **shown,
        "subscription": _blob(ConsumerProtocolSubscription, shown["subscription"]),
        "assignment": _blob(ConsumerProtocolAssignment, shown["assignment"]),
    }


def _blob(cls: type[Any], shown: Any) -> bytes:
    """Encode a member's metadata, which the tool shows by field when it is of the consumer protocol."""
    if not isinstance(shown, Mapping):
        return _base64(shown)
    newest = ((3, "rackId"), (2, "generationId"), (1, "ownedPartitions"))  # an assignment has none of them
    version = next((number for number, name in newest if name in shown), 0)
    return _SHORT.pack(version) + encode(_message(cls, cls.SCHEMA.struct, version, shown), version)


def _message(cls: type[Any], struct: Struct, version: int, shown: Mapping[str, Any]) -> Any:
    given = {}
    for field in struct.fields:
        name = field.json_name
        if is_present(field, version) and name in shown:
            given[field.name] = _value(cls, field, version, shown[name])
    return cls(**given)


def _value(cls: type[Any], field: Field, version: int, shown: Any) -> Any:
    if shown is None:
        return None
    if isinstance(shown, list):
        return [_value(cls, field, version, each) for each in shown]
    if isinstance(field.element, Struct):
        return _message(getattr(cls, field.element.name), field.element, version, shown)
    if field.element == "uuid":
        return base64.urlsafe_b64decode(f"{shown}==")
    if field.element == "bytes":
        return shown if isinstance(shown, bytes) else _base64(shown)
    return shown


def _base64(shown: Any) -> bytes:
    try:
        return base64.b64decode(shown, validate=True)
    except binascii.Error as error:
        raise ValueError(f"bytes that are no base64: {error}") from None
