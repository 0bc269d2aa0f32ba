"""Confluent's own serializers read what ours write, and ours read what theirs write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.wrappers_pb2 import DoubleValue, StringValue

from kohort.schemas import Schemas
from kohort.testing import SchemaRegistry

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {"name": "notes", "type": {"type": "map", "values": ["null", "string"]}},
        ],
    }
)
VALUE = {
    "price": Decimal("-7.25"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "state": "PAID",
    "notes": {"a": None, "b": "é"},
}
OBJECT = json.dumps({"title": "Order", "type": "object", "properties": {"number": {"type": "integer"}}})
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def test_avro_goes_both_ways(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    schemas = Schemas(registry.url)
    theirs = AvroSerializer(client, ORDER)(VALUE, CONTEXT)
    assert schemas.deserializer()(theirs) == VALUE
    ours = schemas.serializer("orders", ORDER)(VALUE)
    assert AvroDeserializer(client)(ours, CONTEXT) == VALUE
    assert ours[5:] == theirs[5:]


def test_a_guid_in_a_header_goes_both_ways(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    schemas = Schemas(registry.url)
    context = SerializationContext("orders", MessageField.VALUE, headers=[])
    theirs = AvroSerializer(client, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})(VALUE, context)
    assert schemas.deserializer().of_record(theirs, context.headers, "value") == VALUE
    write = schemas.serializer("orders", ORDER, id_in_header=True)
    assert (write(VALUE), [write.header]) == (theirs, context.headers)
    assert (
        AvroDeserializer(client)(write(VALUE), SerializationContext("o", MessageField.VALUE, [write.header])) == VALUE
    )


def test_json_goes_both_ways(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    schemas, value = Schemas(registry.url), {"number": 7}
    assert schemas.deserializer()(JSONSerializer(OBJECT, client)(value, CONTEXT)) == value
    ours = schemas.serializer("orders", OBJECT, kind="JSON")(value)
    assert JSONDeserializer(OBJECT, schema_registry_client=client)(ours, CONTEXT) == value


@pytest.mark.parametrize(
    "message", [DoubleValue(value=0.5), StringValue(value="é")]
)  # the first one of its file, and the 8th
def test_protobuf_goes_both_ways(registry: SchemaRegistry, client: SchemaRegistryClient, message: Any) -> None:
    schemas, kind = Schemas(registry.url), type(message)
    theirs = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(message, CONTEXT)
    assert schemas.deserializer(message=kind)(theirs) == message
    write = schemas.serializer("orders", message=kind)
    assert write(message) == theirs
    assert ProtobufDeserializer(kind, {"use.deprecated.format": False})(write(message), CONTEXT) == message
    other = StringValue if kind is DoubleValue else DoubleValue
    with pytest.raises(ValueError, match="another message"):
        schemas.deserializer(message=other)(theirs)
