"""Serializers and deserializers by a registry's schemas, alone and in clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("urllib3")

from kohort.client.errors import NotReady
from kohort.schemas import Schemas, SchemaUnknown
from kohort.schemas.avro_schema import parse_avro
from kohort.schemas.avro_value import avro_bytes, native_value
from kohort.schemas.registry import Reference, RegistryUnavailable
from kohort.schemas.schemas import subject_name
from kohort.testing import SchemaRegistry

ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "number", "type": "int"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
AT = datetime(2026, 1, 31, 12, 30, 0, 250_000, tzinfo=UTC)
VALUE = {"number": 7, "price": Decimal("-12.50"), "at": AT, "note": "gift"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def schemas_of(registry: SchemaRegistry) -> Schemas:
    return Schemas({"url": registry.url, "retry.ms": "1"})


def test_a_value_goes_to_bytes_and_back_with_its_types(registry: SchemaRegistry) -> None:
    schemas = schemas_of(registry)
    write, read = schemas.serializer("orders", ORDER), schemas.deserializer()
    content = write(VALUE)
    assert content[:5] == b"\0" + write.id.to_bytes(4, "big")
    assert (write.subject, read(content)) == ("orders-value", VALUE)
    assert read(write(VALUE | {"note": None}))["note"] is None
    assert schemas.deserializer(as_json=True)(content) == {
        "number": 7, "price": "-12.50", "at": "2026-01-31T12:30:00.250000+00:00", "note": "gift"
    }  # fmt: skip


def test_a_readers_schema_resolves_what_its_writer_wrote(registry: SchemaRegistry) -> None:
    reader = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "aliases": ["number"], "type": "double"},
            {"name": "currency", "type": "string", "default": "EUR"},
            {"name": "note", "type": "string"},
        ],
    }
    schemas = schemas_of(registry)
    read = schemas.deserializer(json.dumps(reader))
    write = schemas.serializer("orders", ORDER)
    assert read(write(VALUE)) == {"id": 7.0, "currency": "EUR", "note": "gift"}
    with pytest.raises(ValueError, match="the reader's schema has string where null was written"):
        read(write(VALUE | {"note": None}))


def test_the_guid_may_be_in_a_header(registry: SchemaRegistry) -> None:
    schemas = schemas_of(registry)
    write = schemas.serializer("orders", ORDER, id_in_header=True)
    name, guid = write.header
    assert (name, guid[:1], UUID(bytes=guid[1:])) == ("__value_schema_id", b"\1", UUID(write.guid))
    assert schemas.deserializer().of_record(write(VALUE), [("trace", b""), write.header], "value") == VALUE
    with pytest.raises(ValueError, match="names no schema"):
        schemas.deserializer().of_record(write(VALUE), [write.header], "key")


def test_references_are_registered_and_followed(registry: SchemaRegistry) -> None:
    line = '{"type": "record", "name": "Line", "fields": [{"name": "pieces", "type": "int"}]}'
    basket = '{"type": "record", "name": "Basket", "fields": [{"name": "line", "type": "Line"}]}'
    registry.register("lines", line)
    schemas = schemas_of(registry)
    write = schemas.serializer(schema=basket, strategy="record", references=[Reference("Line", "lines", 1)])
    value = {"line": {"pieces": 3}}
    assert (write.subject, schemas_of(registry).deserializer()(write(value))) == ("Basket", value)


def test_json_is_read_without_a_class_and_what_is_no_schema_is_refused(registry: SchemaRegistry) -> None:
    schemas = schemas_of(registry)
    write = schemas.serializer("orders", '{"title": "Order", "type": "object"}', kind="JSON", strategy="topic_record")
    assert (write.subject, schemas.deserializer()(write({"a": [1]}))) == ("orders-Order", {"a": [1]})
    number = registry.register("p", 'syntax = "proto3";', "PROTOBUF")
    for content, text in (
        (b"", "names no schema"),
        (b"\0\0\0\0" + bytes([number]), "it is PROTOBUF: pass message="),
        (write({})[:5] + b"{", "Expecting"),
    ):
        with pytest.raises(ValueError, match=text):
            schemas.deserializer()(content)
    with pytest.raises(SchemaUnknown, match="id 99"):
        schemas.deserializer()(b"\0\0\0\0\x63")
    with pytest.raises(SchemaUnknown):
        schemas.serializer("other", ORDER, is_registering=False)


def test_a_subject_is_named_as_confluents_strategies_name_it() -> None:
    assert subject_name("orders", "", which="key") == "orders-key"
    assert subject_name(None, "shop.Order", "record") == "shop.Order"
    assert subject_name("orders", "shop.Order", "topic_record") == "orders-shop.Order"
    for topic, record, strategy in ((None, "a", "topic"), ("a", "", "record"), (None, "a", "topic_record")):
        with pytest.raises(ValueError, match="needs a"):
            subject_name(topic, record, strategy)  # type: ignore[arg-type]


def test_on_an_event_loop_nothing_waits_for_the_registry(registry: SchemaRegistry) -> None:
    schemas = schemas_of(registry)
    content, read = schemas.serializer("orders", ORDER)(VALUE), schemas.deserializer()
    asked = len(registry.requests)

    async def on_loop() -> Any:
        with pytest.raises(NotReady) as raised:
            read(content)
        assert len(registry.requests) == asked
        await asyncio.to_thread(raised.value.load)
        return read(content)

    assert asyncio.run(on_loop()) == VALUE
    registry.failing = 503
    with pytest.raises(RegistryUnavailable):
        schemas.deserializer()(b"\0\0\0\0\x63")


def everything() -> dict[str, Any]:
    kinds = {
        "a": ({"type": "array", "items": "long"}, [1, -(2**63), 2**63 - 1]),
        "b": ({"type": "map", "values": ["null", "double"]}, {"x": 1.5, "y": None}),
        "c": ({"type": "enum", "name": "C", "symbols": ["NEW", "PAID"]}, "PAID"),
        "d": ({"type": "int", "logicalType": "date"}, date(1969, 7, 20)),
        "e": ({"type": "long", "logicalType": "time-micros"}, time(23, 59, 59, 999_999)),
        "f": ({"type": "string", "logicalType": "uuid"}, UUID(int=5)),
        "g": ({"type": "fixed", "name": "G", "size": 4, "logicalType": "decimal", "precision": 9}, Decimal(-77)),
        "h": ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2026, 1, 31, 1, 2, 3, 4)),
        "i": (["null", "boolean", "bytes", "string", "int"], b"\0\xff"),
        "j": ("float", 0.5),
        "k": (["int", "boolean"], True),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _) in kinds.items()]
    return {
        "schema": json.dumps({"type": "record", "name": "All", "fields": fields}),
        "value": {name: value for name, (_, value) in kinds.items()},
    }


def test_every_type_is_written_as_fastavro_writes_it() -> None:
    fastavro = pytest.importorskip("fastavro")
    from io import BytesIO

    schema, value = everything()["schema"], everything()["value"]
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    content = avro_bytes(parse_avro(schema), value)
    assert content == out.getvalue()
    assert native_value(parse_avro(schema), content) == value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int", 2**31, "value is 2147483648, which is no int"),
        ("int", True, "value is True, and int is expected"),
        (["null", "string"], 5, "value is 5, and union is expected"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, Decimal("1.25"), "does not fit"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {}, "value has no a"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {"a": ""}, "value.a is ''"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused_with_its_place(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        avro_bytes(parse_avro(json.dumps(kind)), value)
