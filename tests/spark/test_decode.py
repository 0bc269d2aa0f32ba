"""`decode` as a column of Spark: values, errors beside them, types of the reader's schema, and an outage."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")

import fastavro
import pyarrow as pa
from pyspark.sql import SparkSession

from kohort.spark import decode
from kohort.spark.schemas.decoded_column import decoding
from kohort.spark.schemas.value_decoder import ValueDecoder
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


COLUMNS = (
    "i int, l bigint, d double, f float, s string, b boolean, da date, ts timestamp, nt timestamp_ntz, de decimal(5,2),"
    " a array<int>, o struct<x:int>, by binary"
)
BAD = "bad"
AT = datetime(2026, 1, 1, 10, 0, 0, 123456)
BOTH: dict[str, Any] = {
    '{"i": 2147483647}': {"i": 2147483647},
    '{"i": 2147483648}': BAD,
    '{"i": 1.0}': BAD,
    '{"i": "1"}': BAD,
    '{"l": 9223372036854775808}': BAD,
    '{"d": 1, "f": 1e39}': {"d": 1.0, "f": float("inf")},
    '{"d": Infinity}': {"d": float("inf")},
    '{"d": "1.5"}': BAD,
    '{"b": 1}': BAD,
    '{"da": "2026-01-01"}': {"da": date(2026, 1, 1)},
    '{"da": "2026-13-01"}': BAD,
    '{"da": 20000}': BAD,
    '{"ts": "2026-01-01T10:00:00.123456Z"}': {"ts": AT},
    '{"ts": "2026-01-01 12:00:00.123456+02:00"}': {"ts": AT},
    '{"nt": "2026-01-01T10:00:00.123456"}': {"nt": AT},
    '{"de": "1.25"}': {"de": Decimal("1.25")},
    '{"de": 1234.5}': BAD,
    '{"a": [1, null]}': {"a": [1, None]},
    '{"a": [1, "x"]}': BAD,
    '{"a": null, "o": null}': {},
    '{"o": {"x": 1, "y": 2}, "z": 3}': {"o": {"x": 1}},
    '{"o": 1}': BAD,
    '{"I": 1}': {},
    "{}": {},
    "null": BAD,
    '[{"i": 1}]': BAD,
    "": BAD,
    '{"i": 1,}': BAD,
}
"""Contents of which both readers make the same."""
APART: dict[str, tuple[Any, Any]] = {
    '{"s": 1.50}': ({"s": "1.5"}, BAD),
    '{"s": {"a": 1}}': ({"s": '{"a":1}'}, BAD),
    '{"s": "\\ud800"}': ({"s": "?"}, BAD),
    '{"d": 1e400}': ({"d": float("inf")}, BAD),
    '{"d": "Infinity"}': ({"d": float("inf")}, BAD),
    '{"da": "2026-1-1"}': ({"da": date(2026, 1, 1)}, BAD),
    '{"da": "2026-01-01T10:00:00"}': ({"da": date(2026, 1, 1)}, BAD),
    '{"ts": 1767261600}': ({"ts": AT.replace(microsecond=0)}, BAD),
    '{"ts": "2026-01-01T10:00:00.123456789Z"}': ({"ts": AT}, BAD),
    '{"nt": "2026-01-01T10:00:00.123456Z"}': (BAD, {"nt": AT}),
    '{"de": 1.255}': ({"de": Decimal("1.26")}, BAD),
    '{"by": "YWI="}': ({"by": b"ab"}, {"by": b"YWI="}),
    '{"i": 1, "i": 2}': ({"i": 2}, BAD),
    '{"i": 1} {"i": 2}': ({"i": 1}, BAD),
    "{'i': 1}": ({"i": 1}, BAD),
}
"""Contents of which Spark's reader, of `decode`, and Arrow's, of the source, make something else."""


def test_the_two_readers_of_json_differ_where_the_guide_says(spark: SparkSession) -> None:
    contents = [*BOTH, *APART]
    frame = spark.createDataFrame([(each,) for each in contents], "value string").coalesce(1)
    rows = frame.select("value", decode("value", schema=COLUMNS, value_format="json").alias("d")).collect()
    by_spark = {row.value: BAD if row.d.error else present(row.d.value.asDict(recursive=True)) for row in rows}
    decoder = ValueDecoder(decoding(None, schema=COLUMNS, value_format="json"))
    found, bad = decoder.decode(pa.array(contents, pa.binary()))
    by_arrow = dict(zip(contents, map(present, found.to_pylist()), strict=True))
    by_arrow |= {contents[each.place]: BAD for each in bad}
    assert by_spark == BOTH | {content: ours for content, (ours, _) in APART.items()}
    assert by_arrow == BOTH | {content: theirs for content, (_, theirs) in APART.items()}


def present(value: dict[str, Any] | None) -> dict[str, Any]:
    """Return the fields that are not null; moments in UTC without a zone, as Spark returns them."""
    return {
        name: each.replace(tzinfo=None) if isinstance(each, datetime) else each
        for name, each in (value or {}).items()
        if each is not None
    }
