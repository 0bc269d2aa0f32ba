"""One Avro value, beside what fastavro writes and reads; hostile bytes end soon, and with a sentence."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kohort.schemas.avro_schema import parse_avro
from kohort.schemas.avro_value import avro_bytes, avro_value, native_value

LOGICAL = [
    ({"type": "int", "logicalType": "date"}, date(2026, 2, 28), "2026-02-28"),
    ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 1, 5000), "23:59:01.005000"),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime(1969, 1, 1, tzinfo=UTC),
        "1969-01-01T00:00:00+00:00",
    ),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime(2026, 1, 1), "2026-01-01T00:00:00"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 3}, Decimal("-7e-3"), "-0.007"),
    ({"type": "fixed", "name": "f", "size": 2}, b"\x01\xff", "01 ff"),
]
NESTED = {
    "type": "record",
    "name": "Outer",
    "fields": [
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string", "long"]}},
        {"name": "by", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "again", "type": "Kind"},
        {"name": "yes", "type": "boolean"},
    ],
}
VALUE = {"kind": "B", "tags": [None, "ü", -(2**62)], "by": {"x": [0.5], "": []}, "again": "A", "yes": True}


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


@pytest.mark.parametrize(("schema", "value", "text"), [*LOGICAL, (NESTED, VALUE, VALUE)])
def test_a_value_is_what_another_library_wrote(schema: Any, value: Any, text: Any) -> None:
    assert avro_value(parse_avro(json.dumps(schema)), written(schema, value)) == text


@pytest.mark.parametrize(
    ("own", "value"),
    [
        (["null", "Node"], {"value": 1, "more": {"value": 2, "more": None}}),
        (
            {"type": "array", "items": "Node"},
            {"value": 1, "more": [{"value": 2, "more": []}, {"value": 3, "more": []}]},
        ),
    ],
)
def test_a_record_may_contain_itself(own: Any, value: Any) -> None:
    fields = [{"name": "value", "type": "int"}, {"name": "more", "type": own}]
    schema = {"type": "record", "name": "Node", "fields": fields}
    node = parse_avro(json.dumps(schema), may_recur=True)
    assert avro_bytes(node, value) == written(schema, value)
    assert native_value(node, written(schema, value), node) == value
    with pytest.raises(ValueError, match="contains itself"):
        parse_avro(json.dumps(schema))


def test_blocks_with_their_size_are_read() -> None:
    """A negative count is followed by the bytes of the block."""
    schema = parse_avro('{"type": "array", "items": "long"}')
    assert avro_value(schema, bytes([3, 4, 2, 4, 0])) == [1, 2]


@pytest.mark.parametrize(
    ("schema", "content", "reason"),
    [
        ('{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 10,000 values"),
        ("bytes", b"\xfe\xff\xff\xff\x0f", "bytes are expected at byte 5 of 5"),
        ("bytes", b"\x01", "-1 bytes are expected"),
        ("long", b"\xff" * 11, "more than ten bytes"),
        ("string", b"\x02\xff", "can't decode"),
        ('["null", "long"]', b"\x04", "2 is none of 2"),
        ("long", b"\x02\x02", "1 bytes are left"),
        ('{"type": "record", "name": "r", "fields": []}', b"\0", "1 bytes are left"),
    ],
)
def test_bytes_that_are_no_value_are_a_sentence(schema: str, content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        avro_value(parse_avro(schema), content)


def test_a_time_beyond_all_years_is_its_number() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    assert avro_value(parse_avro(json.dumps(schema)), written("long", 2**62)) == 2**62
