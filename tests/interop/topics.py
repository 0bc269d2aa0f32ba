"""Topics for the interop tests."""

from __future__ import annotations

import pytest
from interop.waiting import eventually


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Create a topic with the one client library that is always there to do it, and wait until it is known."""
    confluent = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([confluent.NewTopic(name, partitions, 1)])[name].result(20)

    def led() -> int:
        return sum(each.leader >= 0 for each in admin.list_topics(name, timeout=10).topics[name].partitions.values())

    # Apache Kafka answers before its brokers know the topic, and a member that joins in between owns nothing.
    eventually(led, partitions, 30)
