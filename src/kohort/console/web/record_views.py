"""Records as a page shows them: text, JSON, hex, and what a schema registry has the schemas of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from kohort.schemas.avro_schema import parse_avro
from kohort.schemas.avro_value import avro_value
from kohort.schemas.registry import Registry, RegistryUnavailable, SchemaUnknown

VALUE_BYTES = 4_000
"""Of a key or a value as shown."""
SCHEMA_BYTES = 1 << 20
"""A longer value is not read by its schema."""

_HEADER = 5


class RecordView(NamedTuple):
    """A record as the page shows it; `kind` is text, JSON, bytes, null, or the name of a schema.

    `remark` is why a value was not read by its schema, empty where it was.
    """

    offset: int
    timestamp_ms: int
    key: str
    kind: str
    value: str
    length: int
    headers: list[tuple[str, str]]
    remark: str = ""


def record_views(records: Iterable[Any], registry: Registry | None) -> list[RecordView]:
    """Return records as text; a registry that does not answer is asked once. It may be waited for."""
    schemas = None if registry is None else _Schemas(registry)
    return [record_view(each, schemas) for each in records]


class _Schemas:
    """Reads values by the schemas of a registry, for one page."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._outage = ""

    def read(self, content: bytes) -> tuple[str, str]:
        """Return what a value is, and its text. Raises ValueError, with the reason."""
        number = int.from_bytes(content[1:_HEADER], "big")
        if self._outage:
            raise ValueError(self._outage)
        try:
            schema = self._registry.schema(number)
        except SchemaUnknown as error:
            raise ValueError(error.args[0]) from None
        except RegistryUnavailable as error:
            self._outage = str(error).partition(". No record")[0]  # what follows is for queries
            raise ValueError(self._outage) from None
        kind = {"AVRO": "Avro", "JSON": "JSON", "PROTOBUF": "Protobuf"}.get(schema.kind, schema.kind)
        try:
            if schema.kind == "AVRO":
                value = avro_value(parse_avro(schema.text, schema.references, may_recur=True), content[_HEADER:])
            elif schema.kind == "JSON":
                value = json.loads(content[_HEADER:])
            else:
                raise ValueError(f"{kind} is shown as bytes")
            return f"{kind}, schema {number}", _indented(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not read by schema {number}, which is {kind}: {error}") from None


def record_view(record: Any, schemas: _Schemas | None = None) -> RecordView:
    """Return a record as text: JSON is indented, what is no UTF-8 is hex, and what is long is cut."""
    kind, value, remark = _shown(record.value, schemas)
    return RecordView(
        record.offset,
        record.timestamp_ms,
        "" if record.key is None else _shown(record.key, schemas)[1],
        kind,
        value,
        len(record.value or b""),
        [(str(name), "null" if content is None else _shown(content, None)[1]) for name, content in record.headers[:50]],
        remark,
    )


def _shown(content: bytes | None, schemas: _Schemas | None) -> tuple[str, str, str]:
    """Return what a key or value is, its text, and why it was not read by its schema."""
    if content is None:
        return "null", "", ""
    remark = ""
    if schemas is not None and _HEADER <= len(content) <= SCHEMA_BYTES and content[0] == 0:
        try:
            kind, text = schemas.read(bytes(content))
            return kind, _cut(text), ""
        except ValueError as error:
            remark = str(error)
    cut = bytes(content[:VALUE_BYTES])
    more = f"\n… {len(content):,} bytes in all" if len(content) > VALUE_BYTES else ""
    try:
        text = cut.decode() if not more else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        text = "\0"
    if any(ord(each) < 32 and each not in "\t\r\n" for each in text):
        return _bytes_kind(content), _hex(cut[:1024]) + more, remark
    if text[:1] in "{[" and text and not more:
        try:
            return "JSON", _indented(json.loads(text)), remark
        except (ValueError, RecursionError):
            pass
    return "text", text + more, remark


def _indented(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()  # JSON may have half of a character


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_BYTES else f"{text[:VALUE_BYTES]}\n… {len(text):,} characters in all"


def _bytes_kind(content: bytes) -> str:
    """Return what bytes are: a zero and four bytes of a schema's id are how serializers of a registry begin."""
    if len(content) > _HEADER and content[0] == 0:
        return f"bytes, perhaps of schema {int.from_bytes(content[1:_HEADER], 'big')} of a registry"
    return "bytes"


def _hex(content: bytes) -> str:
    lines = []
    for start in range(0, len(content), 16):
        part = content[start : start + 16]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{start:06x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)
