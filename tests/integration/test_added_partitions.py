"""What a group of any client reads of partitions that are added to its topic, on our broker."""

from __future__ import annotations

import pytest

from kohort.broker.embedded import EmbeddedBroker
from kohort.model.ids import TopicPartition
from kohort.sync import Admin, Consumer, ConsumerSettings, Producer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("compatible", [False, True])
def test_a_member_that_starts_later_reads_them_from_their_first_record(protocol: str, compatible: bool) -> None:
    """It cannot know that the partition is younger than its group: the broker does (KIP-1327)."""
    options = {"kohort_compatible": "kafka-4.3"} if compatible else {}
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, **options) as broker:
        address = broker.bootstrap_servers
        settings: ConsumerSettings = {"bootstrap_servers": address, "group_id": "g", "auto_offset_reset": "latest"}
        settings["group_protocol"] = protocol  # type: ignore[typeddict-item]
        with Admin(address) as admin, Producer(address) as producer:
            admin.create_topic("orders", partitions=1)
            producer.send("orders", b"old", partition=0).result()
            with Consumer("orders", **settings) as consumer:
                while not consumer.assignment():
                    consumer.poll(timeout_ms=50)
                assert consumer.position(TopicPartition("orders", 0)) == 1
            admin.create_partitions("orders", 2)
            begun = admin.group_offsets("g").get(TopicPartition("orders", 1))
            if compatible:
                assert begun is None
                return
            assert begun is not None
            assert begun.offset == 0
            with Producer(address) as later:
                later.send("orders", b"new", partition=1).result()
            with Consumer("orders", **settings) as consumer:
                assert next(consumer).value == b"new"
