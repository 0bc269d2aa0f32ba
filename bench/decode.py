"""Records a second from Avro and JSON of a schema registry to columns, beside Spark's own functions and fastavro.

Spark's functions know no header of a registry, so theirs get the bytes behind it, and one schema that is the writer's
and the reader's.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from interop.brokers import Broker
from interop.kohort_broker import KohortBroker

from bench.result import Outcome, Result, interleave
from bench.spark_read import PARTITIONS, rate, session
from kohort.sync import Admin
from kohort.testing import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DIFFERENT = 20_000
"""How many records differ from each other."""

AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "origin", "type": "string"},
        {"name": "destination", "type": "string"},
        {"name": "carrier", "type": ["null", "string"]},
        {"name": "delay", "type": "int"},
        {"name": "distance", "type": "double"},
        {"name": "cancelled", "type": "boolean"},
    ],
}
"""Eight fields."""
OBJECT = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in ("id", "at", "delay")},
        **{name: {"type": "string"} for name in ("origin", "destination", "carrier")},
        "distance": {"type": "number"},
        "cancelled": {"type": "boolean"},
    },
}
COLUMNS = (
    "id bigint, at bigint, delay bigint, origin string, destination string, carrier string, distance double,"
    " cancelled boolean"
)
"""The columns that `decode` makes of the JSON Schema."""
FROM = {"avro": "from_avro", "json": "from_json"}


def flights() -> Iterator[dict[str, object]]:
    """Yield the records."""
    rng = random.Random(1)
    airports = ["".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=3)) for _ in range(300)]
    for number in range(DIFFERENT):
        yield {
            "id": number,
            "at": 1_790_000_000_000 + number,
            "origin": rng.choice(airports),
            "destination": rng.choice(airports),
            "carrier": rng.choice(["UA", "DL", "AA", None]),
            "delay": rng.randint(-30, 300),
            "distance": float(rng.randint(80, 5000)),
            "cancelled": rng.random() < 0.02,
        }


def values_of(kind: str) -> list[bytes]:
    """Return the records, encoded, without a header."""
    import fastavro

    schema = fastavro.parse_schema(AVRO)

    def avro(flight: dict[str, object]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, flight)
        return out.getvalue()

    def text(flight: dict[str, object]) -> bytes:
        return json.dumps(flight, separators=(",", ":")).encode()

    return list(map({"avro": avro, "json": text}[kind], flights()))


def theirs(kind: str) -> Column:
    """Return what Spark's own function makes of the bytes behind the header."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    body = f.expr("substring(value, 6)")
    if kind == "avro":
        return from_avro(body, json.dumps(AVRO))
    return f.from_json(body.cast("string"), COLUMNS)


def to_arrow(values: Sequence[bytes], header: bytes, registry: SchemaRegistry, rounds: int) -> Result:
    """Compare decoding to Arrow in one process with fastavro, which makes a dictionary of each record."""
    import fastavro

    from kohort.spark.schemas.decoded_column import decoding
    from kohort.spark.schemas.value_decoder import ValueDecoder

    decoder = ValueDecoder(decoding(registry.url, subject="avro-value"))
    batch = pa.array([header + each for each in values], pa.binary())
    schema = fastavro.parse_schema(AVRO)

    def by_kohort() -> object:
        return decoder.decode(batch)

    def by_fastavro() -> object:
        found = [fastavro.schemaless_reader(io.BytesIO(each[5:]), schema) for each in batch.to_pylist()]
        return pa.array(found)

    def measured(work: Callable[[], object], times: int) -> float:
        began = time.process_time()
        for _ in range(times):
            work()
        return times * len(batch) / (time.process_time() - began)

    ours, other = partial(measured, by_kohort, 20), partial(measured, by_fastavro, 1)
    interleave(ours, other, 1)
    size = sum(map(len, values)) / len(values)
    note = f"per second of CPU; records of {size:.0f} B with eight fields, in batches of {len(batch):,}"
    return Result("Avro to Arrow", "records/s", *interleave(ours, other, rounds), "fastavro", None, note)


def frames_of(
    kind: str, spark: SparkSession, broker: Broker, registry: SchemaRegistry, held: DataFrame
) -> Iterator[tuple[str, DataFrame, DataFrame, str]]:
    """Yield what is measured, our frame, the peer's, and its name: of rows in memory, and of rows of a topic."""
    from kohort.spark import decode

    subject = f"{kind}-value"
    yield (
        f"{kind} by decode()",
        held.select(decode("value", registry.url, subject=subject).alias("d")).select("d.value.*"),
        held.select(theirs(kind).alias("d")).select("d.*"),
        FROM[kind],
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": kind}
    decoding = {"schema.registry.url": registry.url, "valueSubject": subject}
    yield (
        f"{kind} by the source",
        spark.read.format("kohort").options(**options, **decoding).load().select("value.*"),
        # Its own default is 1 MiB; this is what it is fastest with.
        spark.read.format("kafka").options(**options, **{"kafka.max.partition.fetch.bytes": str(4 << 20)}).load()
        .select(theirs(kind).alias("d")).select("d.*"),
        f"its source and {FROM[kind]}",
    )  # fmt: skip


def decode(quick: bool) -> Iterator[Outcome]:
    """Decode the same records by both, in turn, to Spark's noop sink."""
    copies, rounds = (10, 2) if quick else (100, 5)
    spark = session()
    try:
        with KohortBroker() as broker, Admin(broker.bootstrap) as admin, SchemaRegistry() as registry:
            for kind, schema in (("avro", AVRO), ("json", OBJECT)):
                values = values_of(kind)
                header = b"\0" + registry.register(f"{kind}-value", schema, kind.upper()).to_bytes(4, "big")
                if kind == "avro":
                    yield to_arrow(values, header, registry, rounds)
                rows = spark.createDataFrame([(header + each,) for each in values], "value binary")
                held = rows.crossJoin(spark.range(copies)).select("value").repartition(2).persist()
                count = held.count()
                admin.create_topic(kind, PARTITIONS)
                sink = held.write.format("kohort").option("kafka.bootstrap.servers", broker.bootstrap)
                sink.option("topic", kind).mode("append").save()
                for name, ours, other, peer in frames_of(kind, spark, broker, registry, held):
                    assert ours.where("id IS NOT NULL").count() == other.where("id IS NOT NULL").count() == count
                    ways = partial(rate, ours, count), partial(rate, other, count)
                    interleave(*ways, 1)
                    yield Result(name, "records/s", *interleave(*ways, rounds), f"Spark's {peer}")
                held.unpersist()
    finally:
        spark.stop()
