"""Records of Confluent's serializers, with their schemas in a real registry, decoded as tasks of Spark do it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from interop.schema_registry import ApicurioRegistry

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kohort.schemas.registry import SchemaUnknown
from kohort.spark.schemas.bad_record import Reason
from kohort.spark.schemas.decoded_column import decoding
from kohort.spark.schemas.value_decoder import ValueDecoder

pytestmark = pytest.mark.timeout(600)

VERSION_1 = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "number", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "article", "type": "string"}, {"name": "pieces", "type": "int"}]}}},
        {"name": "notes", "type": {"type": "map", "values": ["null", "string"]}},
    ],
}  # fmt: skip
VERSION_2 = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "aliases": ["number"], "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OTHER", "PAID"], "default": "OTHER"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "article", "type": "string"}, {"name": "pieces", "type": "double"}]}}},
        {"name": "currency", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
OBJECT = {
    "title": "Order",
    "type": "object",
    "properties": {"number": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def registry() -> Iterator[ApicurioRegistry]:
    with ApicurioRegistry() as running:
        yield running


def serialized(registry: ApicurioRegistry, topic: str, serializer: Any, schema: Any, values: list[Any]) -> list[bytes]:
    client = SchemaRegistryClient({"url": registry.url})
    makes = (
        serializer(json.dumps(schema), client)
        if serializer is JSONSerializer
        else serializer(client, json.dumps(schema))
    )
    return [makes(value, SerializationContext(topic, MessageField.VALUE)) for value in values]


def order(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "price": Decimal(number) / 4,
        "day": date(2026, 1, 1 + number),
        "at": datetime(2026, 1, 1, number, tzinfo=UTC),
        "state": "PAID" if number % 2 else "NEW",
        "lines": [{"article": f"a{each}", "pieces": each} for each in range(number)],
        "notes": {"x": None},
    }


def test_avro_of_confluents_serializer_is_read_by_a_newer_schema(registry: ApicurioRegistry) -> None:
    contents = serialized(registry, "orders", AvroSerializer, VERSION_1, [order(number) for number in range(4)])
    newer = {"id": 9, **{name: order(9)[name] for name in ("price", "day", "at", "state", "lines")}, "currency": "EUR"}
    newer["state"] = "OTHER"
    contents += serialized(registry, "orders", AvroSerializer, VERSION_2, [newer])
    found, bad = ValueDecoder(decoding(registry.url, subject="orders-value")).decode(pa.array(contents))
    assert bad == []
    rows = found.to_pylist()
    wanted = [order(number) for number in range(4)] + [newer]
    for row, value in zip(rows, wanted, strict=True):
        assert row == {
            "id": value.get("id", value.get("number")),
            "price": value["price"],
            "day": value["day"],
            "at": value["at"],
            "state": "PAID" if value["state"] == "PAID" else "OTHER",
            "lines": value["lines"],
            "currency": value.get("currency"),
        }


def test_json_of_confluents_serializer_is_read(registry: ApicurioRegistry) -> None:
    values = [{"number": 1, "tags": ["a", "b"]}, {"number": 2}]
    contents = serialized(registry, "notes", JSONSerializer, OBJECT, values)
    found, bad = ValueDecoder(decoding(registry.url, subject="notes-value")).decode(
        pa.array([*contents, contents[0][:-1]])
    )
    assert found.to_pylist() == [values[0], {"number": 2, "tags": None}, None]
    assert [each.reason for each in bad] == [Reason.BROKEN_VALUE]


def test_what_the_registry_does_not_have_is_unknown(registry: ApicurioRegistry) -> None:
    serialized(registry, "orders", AvroSerializer, VERSION_1, [order(1)])
    with pytest.raises(SchemaUnknown):
        decoding(registry.url, subject="nothing-value")
    with pytest.raises(SchemaUnknown):
        decoding(registry.url, subject="orders-value", version=99)
    decoder = ValueDecoder(decoding(registry.url, subject="orders-value"))
    _, bad = decoder.decode(pa.array([b"\0\0\x0f\xff\xff\x02"]))
    assert [each.reason for each in bad] == [Reason.UNKNOWN_SCHEMA]
