"""`decode` as a column of Spark: values, errors beside them, types of the reader's schema, and an outage."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import fastavro
from pyspark.sql import SparkSession

from kohort.spark import decode
from kohort.testing import SchemaRegistry

pytestmark = pytest.mark.spark

PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "place", "type": ["null", PLACE]},
    ],
}
OBJECT = {
    "properties": {"id": {"type": "integer"}, "tags": {"type": "object", "additionalProperties": {"type": "number"}}}
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def order(number: int, writer: int) -> bytes:
    from datetime import UTC, datetime
    from decimal import Decimal

    out = io.BytesIO()
    place = {"city": f"c{number}"} if number % 2 else None
    at = datetime(2026, 1, 1, tzinfo=UTC)
    value = {"id": number, "at": at, "price": Decimal(number) / 4, "tags": {"a": number}, "place": place}
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), value)
    return b"\0" + struct.pack(">i", writer) + out.getvalue()


def test_avro_is_decoded_by_the_executors_and_bad_records_have_a_reason(
    spark: SparkSession, registry: SchemaRegistry
) -> None:
    writer = registry.register("orders-value", ORDER)
    contents = [order(number, writer) for number in range(50)] + [None, b"text", order(1, 77), order(1, writer)[:-1]]
    frame = spark.createDataFrame([(each,) for each in contents], "value binary").repartition(3)
    found = frame.select(decode("value", registry.url, subject="orders-value").alias("order")).persist()
    kind = (
        "struct<value:struct<id:bigint,at:timestamp,price:decimal(9,2),tags:map<string,int>,place:struct<city:string>>,"
        "error:struct<reason:string,message:string,schema_id:int,bytes:binary>>"
    )
    assert found.schema["order"].dataType.simpleString() == kind
    rows = found.where("order.value IS NOT NULL").selectExpr(
        "order.value.id", "cast(order.value.at AS long)", "cast(order.value.price * 4 AS int)", "order.value.tags['a']",
        "order.value.place.city",
    )  # fmt: skip
    wanted = [(each, 1767225600, each, each, f"c{each}" if each % 2 else None) for each in range(50)]
    assert sorted(map(tuple, rows.collect())) == wanted
    bad = found.where("order.error IS NOT NULL").selectExpr("order.error.reason", "order.error.bytes").collect()
    assert sorted((row.reason, bytes(row.bytes)) for row in bad) == sorted(
        [("not_wire_format", b"text"), ("unknown_schema", order(1, 77)), ("broken_value", order(1, writer)[:-1])]
    )
    found.unpersist()


def test_json_is_decoded_by_spark_itself(spark: SparkSession, registry: SchemaRegistry) -> None:
    number = registry.register("j-value", OBJECT, "JSON")
    head = b"\0" + struct.pack(">i", number)
    contents = [head + b'{"id": 1, "tags": {"a": 2}}', head + b'{"id": "x"}', head + b"{", b"{}", None]
    frame = spark.createDataFrame([(each,) for each in contents], "value binary")
    rows = frame.select(decode("value", registry.url, subject="j-value").alias("d")).collect()
    assert [row.d.value and row.d.value.asDict() for row in rows] == [{"id": 1, "tags": {"a": 2.0}}, *[None] * 4]
    assert [row.d.error and (row.d.error.reason, row.d.error.schema_id) for row in rows] == [
        None, ("broken_value", number), ("broken_value", number), ("not_wire_format", None), None,
    ]  # fmt: skip


def test_plain_json_takes_columns_and_no_registry(spark: SparkSession) -> None:
    frame = spark.createDataFrame([('{"id": 1, "at": "2026-01-01"}',), ("no",)], "value string")
    columns = decode("value", schema="id bigint, at date", value_format="json")
    rows = frame.select(columns.alias("d")).selectExpr("d.value.id", "cast(d.value.at AS string)", "d.error.reason")
    assert list(map(tuple, rows.collect())) == [(1, "2026-01-01", None), (None, None, "broken_value")]


def test_an_outage_of_the_registry_fails_the_query_and_names_it(spark: SparkSession, registry: SchemaRegistry) -> None:
    old = registry.register("orders-value", ORDER)
    reader = {**ORDER, "fields": ORDER["fields"][:1]}
    registry.register("orders-value", reader)
    settings = {"schema.registry.url": registry.url, "schema.registry.retry.ms": "1"}
    column = decode("value", settings, subject="orders-value")
    registry.failing = 503
    frame = spark.createDataFrame([(order(3, old),)], "value binary").select(column.alias("d"))
    with pytest.raises(Exception, match=r"the schema registry cannot be read: .* answered 503"):
        frame.collect()
    registry.failing = None
    assert frame.select("d.value.id").collect()[0].id == 3
