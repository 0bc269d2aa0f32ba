"""A task that writes a part of a round: what stops it is what it reports."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kohort.client.producer.accumulator import NO_PRODUCER_ID
from kohort.spark.topics.task_writer import write
from kohort.spark.topics.write_plan import WritePlan

PLAN = WritePlan(
    "alerts",
    4,
    "job",
    NO_PRODUCER_ID,
    2,
    {},
    {"bootstrap_servers": "127.0.0.1:1"},
    {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/ca.pem", "ssl.truststore.type": "PEM"},
)


def test_a_certificate_that_is_missing_on_its_machine_is_named() -> None:
    with pytest.raises(ValueError, match=r"/nowhere/ca\.pem does not exist"):
        write(PLAN, iter([pa.RecordBatch.from_pydict({"target": [0]})]))


def test_a_task_without_rows_connects_to_nothing() -> None:
    empty = pa.RecordBatch.from_pydict({"target": pa.array([], pa.int32())})
    assert not write(PLAN, iter([empty, empty]))
