"""Avro to Arrow: types as Spark's, evolution by the reader's schema, and bytes that break a rule."""

from __future__ import annotations

import io
import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")
pytest.importorskip("fastavro")

import fastavro
import numpy as np
import pyarrow as pa

from kohort.schemas.avro_schema import parse_avro
from kohort.spark.schemas.avro_decoder import AvroReader
from kohort.spark.schemas.avro_program import Unreadable

SMALL = {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 9, "scale": 3}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
AT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)


def record(*fields: Any, name: str = "Row") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [dict(zip(("name", "type"), each, strict=True)) for each in fields],
    }


def encoded(schema: Any, *values: Any) -> list[bytes]:
    parsed = fastavro.parse_schema(schema)
    found = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        found.append(out.getvalue())
    return found


def read(writer: Any, reader: Any, contents: list[bytes]) -> tuple[list[Any], dict[int, str]]:
    """Decode contents, and check that Arrow finds nothing wrong with the array."""
    decoder = AvroReader(parse_avro(json.dumps(reader))).decoder(parse_avro(json.dumps(writer)))
    found, wrong = decoder.decode(pa.array(contents, pa.binary()), np.arange(len(contents)), 0)
    found.validate(full=True)
    assert len(found) == len(contents)
    return found.to_pylist(), wrong


def one(writer: Any, reader: Any, value: Any) -> Any:
    """Return what a field of the writer's type becomes in a field of the reader's."""
    rows, wrong = read(record(("x", writer)), record(("x", reader)), encoded(record(("x", writer)), {"x": value}))
    assert wrong == {}
    return rows[0]["x"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", True),
        ("int", -(1 << 31)),
        ("long", (1 << 63) - 1),
        ("float", 1.5),
        ("double", -0.1),
        ("bytes", b"\0\xff"),
        ("string", "Zoë 𝄞"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": {"type": "array", "items": "string"}}, [["a"], [], ["b", "c"]]),
        (["null", "string"], None),
        (["string", "null"], "x"),
        ({"type": "int", "logicalType": "date"}, date(1969, 12, 31)),
        ({"type": "long", "logicalType": "timestamp-millis"}, AT),
        ({"type": "long", "logicalType": "timestamp-micros"}, AT),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, AT.replace(tzinfo=None)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, Decimal("-123456789012345678.91")),
        (SMALL, Decimal("-1.5")),
        ("Row", None),
    ],
)  # fmt: skip
def test_a_type_keeps_its_value(kind: Any, value: Any) -> None:
    if kind == "Row":
        with pytest.raises(ValueError, match="the Avro type Row contains itself"):
            parse_avro(json.dumps(record(("x", ["null", "Row"]))))
        return
    assert one(kind, kind, value) == value


def test_a_uuid_is_text_and_a_map_its_entries() -> None:
    number = uuid.uuid4()
    assert one({"type": "string", "logicalType": "uuid"}, "string", number) == str(number)
    kind = {"type": "map", "values": ["null", "long"]}
    assert one(kind, kind, {"a": 1, "b": None}) == [("a", 1), ("b", None)]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "wanted"),
    [
        ("int", "long", -7, -7),
        ("int", "float", 3, 3.0),
        ("long", "double", 1 << 40, float(1 << 40)),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "ë", "ë".encode()),
        ("bytes", "string", b"abc", "abc"),
        ("int", ["null", "long"], 5, 5),
        (["null", "int"], ["null", "double"], 5, 5.0),
        (["null", "string"], "string", "x", "x"),
        (["int", "long"], ["int", "long"], 5, 5),
        (MILLIS, MICROS, AT, AT),
        (["null", "int", "string"], ["null", "int", "string"], "x", {"member0": None, "member1": "x"}),
        (["null", "int", "string"], ["null", "int", "string"], None, None),
        ({"type": "enum", "name": "E", "symbols": ["A", "NEW"]},
         {"type": "enum", "name": "E", "symbols": ["OTHER", "A"], "default": "OTHER"}, "NEW", "OTHER"),
    ],
)  # fmt: skip
def test_a_value_is_widened_to_the_readers_type(writer: Any, reader: Any, value: Any, wanted: Any) -> None:
    assert one(writer, reader, value) == wanted


def test_fields_are_added_by_default_removed_and_renamed_by_alias() -> None:
    inner = record(("city", "string"), ("zip", "int"), name="Place")
    writer = record(("gone", {"type": "map", "values": {"type": "array", "items": ["null", inner]}}), ("old", "int"))
    reader = record(("new", "long"), ("note", "string"), ("tags", {"type": "array", "items": "string"}), ("at", inner))
    reader["fields"][0]["aliases"] = ["old"]
    reader["fields"][1]["default"] = "nothing"
    reader["fields"][2]["default"] = ["a", "b"]
    reader["fields"][3]["default"] = {"city": "Ulm", "zip": 89073}
    contents = encoded(writer, {"gone": {"k": [None, {"city": "x", "zip": 1}]}, "old": 3}, {"gone": {}, "old": 4})
    rows, wrong = read(writer, reader, contents)
    added = {"note": "nothing", "tags": ["a", "b"], "at": {"city": "Ulm", "zip": 89073}}
    assert (rows, wrong) == ([{"new": 3, **added}, {"new": 4, **added}], {})


def test_a_branch_that_the_reader_cannot_read_is_bad_only_where_a_record_has_it() -> None:
    contents = encoded(record(("x", ["int", "string"])), {"x": 1}, {"x": "a"}, {"x": 2})
    rows, wrong = read(record(("x", ["int", "string"])), record(("x", "long")), contents)
    assert rows == [{"x": 1}, None, {"x": 2}]
    assert wrong == {1: "value.x: the writer's string cannot be read as long"}


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        (record(("a", "int")), record(("b", "int")), "value.b: the writer has no such field, and it has no default"),
        (record(("a", "long")), record(("a", "int")), "value.a: the writer's long cannot be read as int"),
        (record(("a", "null")), record(("a", "int")), "value.a: the writer's null has no place in the reader's type"),
        (record(("a", "string")), record(("a", record(("b", "int"), name="B"))), "string cannot be read as record B"),
    ],
)
def test_schemas_that_do_not_fit_are_named_before_a_record_is_read(writer: Any, reader: Any, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        AvroReader(parse_avro(json.dumps(reader))).decoder(parse_avro(json.dumps(writer)))


def test_a_bad_record_leaves_its_neighbours_as_they_are() -> None:
    schema = record(("a", "string"), ("b", {"type": "array", "items": "string"}), ("c", ["null", "long"]))
    values = [{"a": f"n{number}", "b": ["x" * number] * number, "c": number} for number in range(200)]
    contents = encoded(schema, *values)
    for place in range(0, 200, 3):
        contents[place] = contents[place][:-1]
    rows, wrong = read(schema, schema, contents)
    assert sorted(wrong) == list(range(0, 200, 3))
    assert rows == [None if place % 3 == 0 else value for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("kind", "content", "why"),
    [
        ("string", b"\x08abc", "value.x: a length is negative, or more than the bytes that are left"),
        ("string", b"\x04\xc3\x28", "value.x: a string is not UTF-8"),
        ("string", b"\x06\xed\xa0\x80", "value.x: a string is not UTF-8"),
        ("string", b"\x01", "value.x: a length is negative, or more than the bytes that are left"),
        ("int", b"\xff\xff\xff\xff\xff\x01", "value.x: an int is outside of 32 bits"),
        ("long", b"\xff" * 11, "value.x: a varint is cut off or too long"),
        ("boolean", b"\x02", "value.x: a boolean is neither 0 nor 1"),
        ("double", b"\0" * 7, "value.x: the bytes end in the middle of a value"),
        ("int", b"\x02\x02", "bytes are left over behind the value"),
        (["null", "int"], b"\x04", "value.x: a union has no such branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no such symbol, and no default"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "more digits than its precision"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
         "value.x: a time is outside of the range of microseconds"),
        # A list of a million items, in ten bytes; of items without bytes, too; and by the size of a block.
        ({"type": "array", "items": "long"}, b"\x80\x89\x7a\x02\x02\x02\x02\x02\x02\0", "value.x: a list claims more"),
        ({"type": "array", "items": ["null", "int"]}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", "more items"),
        ({"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}}, b"\x80\x89\x7a\0", "claims more items"),
        ({"type": "map", "values": "int"}, b"\x01\x80\x89\x7a\0", "more than the bytes that are left"),
    ],
)  # fmt: skip
def test_bytes_that_break_a_rule_are_a_bad_record(kind: Any, content: bytes, why: str) -> None:
    rows, wrong = read(record(("x", kind)), record(("x", kind)), [content, *encoded(record(), {})])
    assert rows[0] is None
    assert why in wrong[0]


def test_lists_of_many_items_get_the_room_that_they_need() -> None:
    schema = record(("x", {"type": "array", "items": {"type": "map", "values": "string"}}))
    value = {"x": [{f"k{number}": "v" * 50} for number in range(5_000)]}
    rows, wrong = read(schema, schema, encoded(schema, value, {"x": []}, value))
    assert wrong == {}
    assert [len(row["x"]) for row in rows] == [5_000, 0, 5_000]
    assert rows[2]["x"][4_999] == [("k4999", "v" * 50)]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("[1]", "has 1 where a type is expected"),
        ("{", "it is not JSON"),
        ('"Unknown"', "names the type Unknown, which is not defined before"),
        ('{"type": "record", "name": "R"}', "has no fields"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "a default that is none of them"),
        ("[[]]", "a union in an Avro schema"),
        ('{"type": "array", "items": ' * 100 + '"int"' + "}" * 100, "nested more than 64 levels deep"),
        ('{"type": "record", "name": "R", "fields": []}', "has no fields: a table has no such column"),
        ('{"type": "fixed", "name": "D", "size": 40, "logicalType": "decimal", "precision": 50}', "has 50 digits"),
        ('"null"', "it is always null"),
    ],
)  # fmt: skip
def test_a_schema_that_no_column_can_have_is_refused_in_a_sentence(schema: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AvroReader(parse_avro(schema))


def test_types_of_referenced_schemas_are_known() -> None:
    place = json.dumps(
        {"type": "record", "name": "Place", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    )
    kind = AvroReader(parse_avro(json.dumps(record(("at", "geo.Place"))), [place])).type
    assert str(kind) == "struct<at: struct<x: int32 not null> not null>"


def test_a_default_that_is_none_of_its_type_is_named() -> None:
    reader = record(("a", "int"), ("b", "int"))
    reader["fields"][1]["default"] = "many"
    with pytest.raises(Unreadable, match=r"value.b: its default 'many' is no int"):
        AvroReader(parse_avro(json.dumps(reader))).decoder(parse_avro(json.dumps(record(("a", "int")))))
