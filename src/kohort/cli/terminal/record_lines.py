"""Records as lines of text, for `produce` and `consume`.

A JSON line is an object with `key`, `value`, `headers`, `partition` and `timestamp`. Bytes that are not UTF-8 are
`{"base64": "…"}`, so that `produce --json` accepts what `consume --json` prints.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from datetime import UTC, datetime
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kohort.client import Record

Header = tuple[str, bytes | None]


class Outgoing(NamedTuple):
    """One record to send. `partition` and `timestamp_ms` are None where the producer is to choose."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class NotARecord(ValueError):
    """A line cannot be read as a record; the text is the reason."""


# Reading


def raw_line(line: bytes) -> Outgoing:
    """Read a line as a value without a key."""
    return Outgoing(None, line)


def keyed_line(separator: bytes) -> Callable[[bytes], Outgoing]:
    """Return the reader of KEY SEPARATOR VALUE. It raises NotARecord where the separator is missing."""

    def read(line: bytes) -> Outgoing:
        key, found, value = line.partition(separator)
        if not found:
            raise NotARecord(f"there is no {separator.decode(errors='replace')!r} between key and value")
        return Outgoing(key, value)

    return read


def with_defaults(
    read: Callable[[bytes], Outgoing], key: str | None, headers: tuple[Header, ...], partition: int | None
) -> Callable[[bytes], Outgoing]:
    """Return a reader that fills in the key, headers and partition that a line does not give."""
    default_key = None if key is None else key.encode("utf-8", "surrogateescape")

    def read_line(line: bytes) -> Outgoing:
        record = read(line)
        return record._replace(
            key=default_key if record.key is None else record.key,
            headers=record.headers or headers,
            partition=partition if record.partition is None else record.partition,
        )

    return read_line


def header(text: str) -> Header:
    """Return the header of NAME=VALUE; its value is null without an equals sign."""
    name, equals, value = text.partition("=")
    return name, value.encode("utf-8", "surrogateescape") if equals else None


KNOWN_FIELDS = {"key", "value", "headers", "partition", "timestamp"}
IGNORED_FIELDS = {"topic", "offset"}
"""What `consume --json` prints and a producer cannot choose."""


def json_line(line: bytes) -> Outgoing:
    """Read a JSON object as a record. Raises NotARecord naming the field that is wrong."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotARecord(f"it is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise NotARecord('a record is a JSON object such as {"key": "a", "value": "b"}')
    if unknown := sorted(fields.keys() - KNOWN_FIELDS - IGNORED_FIELDS):
        raise NotARecord(f"the field {unknown[0]!r} is none of {', '.join(sorted(KNOWN_FIELDS))}")
    return Outgoing(
        to_bytes(fields.get("key"), "key"),
        to_bytes(fields.get("value"), "value"),
        to_headers(fields.get("headers")),
        whole(fields.get("partition"), "partition"),
        None if fields.get("timestamp") == -1 else whole(fields.get("timestamp"), "timestamp"),  # -1: it had none
    )


def to_bytes(value: Any, field: str) -> bytes | None:
    """Return a JSON value as bytes: text in UTF-8, {"base64": …} decoded, null as None, anything else as JSON."""
    match value:
        case None:
            return None
        case str():
            return value.encode("utf-8", "surrogatepass")
        case {"base64": str(text), **rest} if not rest:
            try:
                return b64decode(text, validate=True)
            except NotBase64:
                raise NotARecord(f"{field!r} is no valid base64") from None
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def to_headers(value: Any) -> tuple[Header, ...]:
    """Return headers from an object, or from a list of [name, value] where names repeat."""
    pairs = list(value.items()) if isinstance(value, dict) else ([] if value is None else value)
    if not isinstance(pairs, list) or any(
        not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str) for pair in pairs
    ):
        raise NotARecord("'headers' is an object, or a list of [name, value]")
    return tuple((name, to_bytes(content, f"headers.{name}")) for name, content in pairs)


def whole(value: Any, field: str) -> int | None:
    """Return a whole number from 0 on, or None."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise NotARecord(f"{field!r} is a whole number from 0 on, not {value!r}")
    return value


# Writing


class JsonValue(NamedTuple):
    """A key or value that was read by its schema: what JSON can have."""

    value: Any


def as_bytes(content: bytes | JsonValue | None) -> bytes:
    """Return a key or value as a line has it; nothing for None."""
    return to_bytes(content.value, "value") or b"null" if isinstance(content, JsonValue) else content or b""


def text_of(content: bytes | JsonValue | None) -> Any:
    """Return bytes for JSON: text where they are UTF-8, else {"base64": …}; None stays null."""
    if content is None:
        return None
    if isinstance(content, JsonValue):
        return content.value
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode("ascii")}


def as_value(record: Record) -> bytes:
    """Return the value and a line end; a record without a value is an empty line."""
    return as_bytes(record.value) + b"\n"


def as_json(record: Record) -> bytes:
    """Return a record as one line of JSON."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": [[name, text_of(content)] for name, content in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


BLANK = {"topic": "", "partition": 0, "offset": 0, "timestamp": 0, "time": "", "key": "", "value": "", "headers": ""}
"""The fields of a format, with values to try it with."""


def as_format(template: str) -> Callable[[Record], bytes]:
    r"""Return the writer of a template such as `{partition} {offset} {key}={value}`; \t and \n are understood.

    Raises ValueError, in a sentence, for a template that names an unknown field.
    """
    template = template.replace("\\t", "\t").replace("\\n", "\n")
    try:
        named = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
        if not (unknown := [name for name in named if name not in BLANK]):
            template.format(**BLANK)
    except ValueError as error:
        raise ValueError(f"{template!r} is no format: {error}") from None
    if unknown:
        raise ValueError(f"a format has no field {unknown[0]!r}: its fields are {', '.join(BLANK)}")

    def write(record: Record) -> bytes:
        line = template.format(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp_ms,
            time=iso_time(record.timestamp_ms),
            key=lossless_text(record.key),
            value=lossless_text(record.value),
            headers=",".join(f"{name}={lossless_text(content)}" for name, content in record.headers),
        )
        return line.encode("utf-8", "surrogateescape") + b"\n"

    return write


def lossless_text(content: bytes | JsonValue | None) -> str:
    """Return bytes as text that encodes back to the same bytes; nothing for None."""
    return as_bytes(content).decode("utf-8", "surrogateescape")


def iso_time(timestamp_ms: int) -> str:
    """Return milliseconds since the epoch as ISO 8601 in UTC, or "-" for a record without a time."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
