"""Values of a topic: headers, several writers' schemas in one batch, JSON, and what is bad about a record."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")
pytest.importorskip("urllib3")

import numpy as np
import pyarrow as pa

from kohort.schemas.registry import RegistryUnavailable
from kohort.spark.schemas.bad_record import Reason, error_column
from kohort.spark.schemas.decoded_column import decoding
from kohort.spark.schemas.json_decoder import JsonDecoder, json_type
from kohort.spark.schemas.value_decoder import ValueDecoder
from kohort.testing import SchemaRegistry

OLD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "-"}],
}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}}}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def framed(number: int, content: bytes) -> bytes:
    return b"\0" + struct.pack(">i", number) + content


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def test_each_record_is_read_by_its_writers_schema(registry: SchemaRegistry) -> None:
    old = registry.register("t-value", OLD)
    new = registry.register("t-value", NEW)
    other = registry.register("u-value", {"type": "record", "name": "U", "fields": [{"name": "z", "type": "int"}]})
    json_id = registry.register("j-value", OBJECT, "JSON")
    decoder = ValueDecoder(decoding(registry.url, subject="t-value"))
    values = binary(
        framed(new, b"\x04\x02x"),
        framed(old, b"\x02"),
        None,
        framed(other, b"\x02"),
        framed(99, b"\x02"),
        b"{}",
        b"",
        b"\x01abcdef",
        framed(old, b"\x02\x02"),
        framed(json_id, b"{}"),
        framed(-1, b""),
    )
    found, bad = decoder.decode(values)
    assert found.to_pylist() == [{"a": 2, "b": "x"}, {"a": 1, "b": "-"}, *[None] * 9]
    assert [(each.place, each.reason) for each in bad] == [
        (3, Reason.INCOMPATIBLE_SCHEMA),
        (4, Reason.UNKNOWN_SCHEMA),
        (5, Reason.NOT_WIRE_FORMAT),
        (6, Reason.NOT_WIRE_FORMAT),
        (7, Reason.NOT_WIRE_FORMAT),
        (8, Reason.BROKEN_VALUE),
        (9, Reason.INCOMPATIBLE_SCHEMA),
        (10, Reason.NOT_WIRE_FORMAT),
    ]
    errors = error_column(values, bad).to_pylist()
    assert [each is None for each in errors] == [True, True, True, *[False] * 8]
    assert errors[8] == {
        "reason": "broken_value",
        "message": "bytes are left over behind the value",
        "schema_id": old,
        "bytes": framed(old, b"\x02\x02"),
    }
    assert registry.requests.count(f"/schemas/ids/{old}") == 1


def test_a_slice_of_an_array_is_decoded_as_itself(registry: SchemaRegistry) -> None:
    number = registry.register("t-value", OLD)
    decoder = ValueDecoder(decoding(registry.url, subject="t-value"))
    values = binary(b"x", *(framed(number, bytes([2 * each])) for each in range(5)), None)
    found, bad = decoder.decode(values.slice(2, 3))
    assert (found.to_pylist(), bad) == ([{"a": 1}, {"a": 2}, {"a": 3}], [])
    assert decoder.decode(values.slice(0, 0))[0].to_pylist() == []


def test_no_record_is_bad_because_the_registry_fails(registry: SchemaRegistry) -> None:
    old = registry.register("t-value", OLD)
    registry.register("t-value", NEW)
    settings = {"schema.registry.url": registry.url, "schema.registry.retry.ms": "1"}
    decoder = ValueDecoder(decoding(settings, subject="t-value"))
    registry.failing = 500
    with pytest.raises(RegistryUnavailable):
        decoder.decode(binary(framed(old, b"\x02")))
    registry.failing = None
    assert decoder.decode(binary(framed(old, b"\x02")))[0].to_pylist() == [{"a": 1, "b": "-"}]


def test_json_is_read_with_and_without_a_header(registry: SchemaRegistry) -> None:
    number = registry.register("j-value", OBJECT, "JSON")
    contents = [b'{"a": 1, "b": "x", "c": [{}]}', b"{}", b'\n{"b":\n null\t}\r', b'{"a": 9007199254740993}']
    wanted = [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": None, "b": None}, {"a": 9007199254740993, "b": None}]
    with_header = ValueDecoder(decoding(registry.url, subject="j-value"))
    found, bad = with_header.decode(binary(*(framed(number, each) for each in contents)))
    assert (found.to_pylist(), bad) == (wanted, [])
    without = ValueDecoder(decoding(None, schema=json.dumps(OBJECT), value_format="json"))
    assert without.decode(binary(*contents, None))[0].to_pylist() == [*wanted, None]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"[]",
        b"1",
        b"nul",
        b'{"a": 1',
        b'{"a": 1}}',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1} {"a": 2}',
        b'{"a": 1}\n{"a": 2}',
        b'{"a": "text"}',
        b'{"a": 1.5}',
        b'{"a": 1e99}',
        b'{"a": [1]}',
        b'{"b": "line\nbreak"}',
        b'{"b": "\\"}',
        b'{"b": "\xff"}',
        b'{"a": 1,}',
        b"{]",
        b'{"c": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_json_that_is_not_one_object_of_the_schema_is_bad_alone(content: bytes) -> None:
    decoder = ValueDecoder(decoding(None, schema=json.dumps(OBJECT), value_format="json"))
    found, bad = decoder.decode(binary(b'{"a": 1}', content, b'{"a": 2}', content, b'{"a": 3}'))
    assert [row and row["a"] for row in found.to_pylist()] == [1, None, 2, None, 3]
    assert [(each.place, each.reason) for each in bad] == [(1, Reason.BROKEN_VALUE), (3, Reason.BROKEN_VALUE)]


def test_dates_of_json_are_texts_wherever_they_are() -> None:
    day, place = pa.date32(), pa.struct([("day", pa.date32())])
    kind = pa.struct([("day", day), ("days", pa.list_(day)), ("place", place)])
    for kinds in (kind, pa.struct([*kind, ("by_name", pa.map_(pa.string(), day))])):
        decoder = JsonDecoder(kinds)
        values = binary(
            b'{"day": "2026-01-02", "days": ["0001-01-01", null], "place": {"day": "9999-12-31"}}',
            b'{"day": null, "place": null}',
            b'{"day": "2026-13-01"}',
            b'{"days": ["tomorrow"]}',
            b'{"day": 20000}',
            b'{"place": {}, "by_name": {"a": "2026-01-02", "b": null}}',
        )
        found, wrong = decoder.decode(values, np.arange(6), 0)
        first, second, *bad, last = found.to_pylist()
        assert (first["day"], first["days"]) == (date(2026, 1, 2), [date(1, 1, 1), None])
        assert first["place"] == {"day": date(9999, 12, 31)}
        assert (second["day"], second["days"], second["place"]) == (None, None, None)
        assert (bad, sorted(wrong)) == ([None] * 3, [2, 3, 4])
        assert last["place"] == {"day": None}
    assert last["by_name"] == [("a", date(2026, 1, 2)), ("b", None)]


def test_a_decimal_with_more_digits_than_its_type_is_bad() -> None:
    decoder = JsonDecoder(pa.struct([("price", pa.list_(pa.decimal128(5, 2)))]))
    found, wrong = decoder.decode(binary(b'{"price": [123.45]}', b'{"price": [1234.5]}'), np.arange(2), 0)
    assert found.to_pylist() == [{"price": [Decimal("123.45")]}, None]
    assert list(wrong) == [1]


def test_a_json_map_is_read_and_a_bad_one_found() -> None:
    schema = {"properties": {"m": {"type": "object", "additionalProperties": {"type": "number"}}}}
    decoder = ValueDecoder(decoding(None, schema=json.dumps(schema), value_format="json"))
    found, bad = decoder.decode(binary(b'{"m": {"x": 1, "y": 2.5}}', b'{"m": {"x": "one"}}', b"{}"))
    assert found.to_pylist() == [{"m": [("x", 1.0), ("y", 2.5)]}, None, {"m": None}]
    assert [each.place for each in bad] == [1]


def test_types_of_a_json_schema() -> None:
    schema = {
        "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "properties": {
            "at": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "ok": {"type": "boolean"},
            "other": {"$ref": "other.json"},
        },
    }
    found = json_type(json.dumps(schema), {"other.json": '{"type": "integer"}'})
    assert str(found) == "struct<at: struct<x: double>, tags: list<item: string>, ok: bool, other: int64>"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "describes string"),
        ({"properties": {"a": {}}}, r"value.a: a JSON Schema has \{\} there, which has no one type"),
        ({"properties": {"a": {"type": ["integer", "string"]}}}, "value.a"),
        (
            {"properties": {"a": {"$ref": "#/nowhere"}}},
            "value.a: a JSON Schema refers to #/nowhere, which is not there",
        ),
        ({"properties": {"a": {"$ref": "#"}}}, "contains itself"),
    ],
)
def test_a_json_schema_without_one_type_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_type(json.dumps(schema))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "the reader's schema is needed: either subject"),
        ({"subject": "a", "schema": "{}"}, "the reader's schema is needed: either subject"),
        ({"schema": '"int"'}, "schema needs value_format: avro or json"),
        ({"schema": '"int"', "value_format": "xml"}, "value_format='xml': expected avro or json"),
        ({"schema": "{", "value_format": "avro"}, "no Avro schema in JSON"),
        ({"subject": "p-value"}, "has a schema of Protobuf: decode takes avro or json"),
        ({"registry": None, "schema": '"int"', "value_format": "avro"}, "registry is missing"),
    ],
)
def test_a_wrong_argument_is_named(registry: SchemaRegistry, arguments: dict[str, Any], why: str) -> None:
    registry.register("p-value", "message", "PROTOBUF")
    with pytest.raises(ValueError, match=why):
        decoding(**({"registry": registry.url} | arguments))
