"""Topics for the interop tests."""

from __future__ import annotations

import pytest
from interop.waiting import eventually


def create_topic(bootstrap: str, name: str, partitions: int, copies: int = 1) -> None:
    """Create a topic with the one client library that is always there to do it, and wait until it is known."""
    confluent = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    # A request to an address of the bootstrap list fails where it becomes a node's address meanwhile (librdkafka 2.15).
    admin.list_topics(timeout=20)
    admin.create_topics([confluent.NewTopic(name, partitions, copies)])[name].result(20)

    def led() -> int:
        return sum(each.leader >= 0 for each in admin.list_topics(name, timeout=10).topics[name].partitions.values())

    # Apache Kafka answers before its brokers know the topic, and a member that joins in between owns nothing.
    eventually(led, partitions, 30)


def coordinate_on(bootstrap: str, node_id: int) -> None:
    """Let one node coordinate all groups, and hold nothing else (KIP-1066), as `kohort gateway plan` has it."""
    confluent = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    compacted = {"cleanup.policy": "compact", "compression.type": "producer"}
    offsets = confluent.NewTopic("__consumer_offsets", 8, replica_assignment=[[node_id]] * 8, config=compacted)
    admin.create_topics([offsets])["__consumer_offsets"].result(20)
    cordon = confluent.ConfigEntry("cordoned.log.dirs", "*", incremental_operation=confluent.AlterConfigOpType.SET)
    resource = confluent.ConfigResource(confluent.ResourceType.BROKER, str(node_id), incremental_configs=[cordon])
    admin.incremental_alter_configs([resource])[resource].result(20)
