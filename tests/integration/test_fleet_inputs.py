"""The inputs of `kohort fleet` on a real socket: a cluster without groups, one with some, one that is not there."""

from __future__ import annotations

import pytest

from kohort.broker.embedded import EmbeddedBroker
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.sync import Admin

pytest.importorskip("numba")
pytest.importorskip("pyspark")

from kohort.fleet import bronze
from kohort.fleet.inputs.input_kinds import parse_inputs


def test_a_cluster_in_which_no_group_ever_was_has_nothing_to_be_read() -> None:
    with EmbeddedBroker() as broker:
        inputs = parse_inputs([broker.bootstrap_servers])
        assert bronze.plan(inputs, {}) == []


def test_a_cluster_is_read_in_ranges_from_where_the_last_run_ended() -> None:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1)
            for offset in (1, 2):
                admin.reset_offsets("g", {TopicPartition("t", 0): offset})
        inputs = parse_inputs([f"here={broker.bootstrap_servers}"])
        (split,) = bronze.plan(inputs, {})
        rows = [row for batch in bronze.rows_of(split) for row in batch.to_pylist()]
        assert [row["offset"] for row in rows if row["next_offset"] is None] == list(range(split.stop))
        assert {row["group"] for row in rows if row["next_offset"] is None} == {"g"}
        assert rows[-1]["next_offset"] == split.stop
        (tail,) = bronze.plan(inputs, {"here": {split.partition: 1}})
        assert (tail.start, tail.stop) == (1, split.stop)
        assert bronze.plan(inputs, {"here": {split.partition: split.stop}}) == []


def test_an_unreachable_cluster_is_reported_before_anything_is_read() -> None:
    with EmbeddedBroker() as broker:
        gone = broker.bootstrap_servers
    with pytest.raises(KafkaError):
        parse_inputs([gone])
