"""What the brokers keep of a group: its settings, its type."""

from __future__ import annotations

import pytest


def set_session(bootstrap: str, group: str, session_ms: str) -> None:
    """Set after what silence a member of the consumer protocol is out, which is not for the member to say."""
    admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    entry = admin.ConfigEntry(
        "consumer.session.timeout.ms", session_ms, incremental_operation=admin.AlterConfigOpType.SET
    )
    resource = admin.ConfigResource(admin.ResourceType.GROUP, group, incremental_configs=[entry])
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.incremental_alter_configs([resource])[resource].result(20)


def group_type(bootstrap: str, group: str) -> str:
    """Return `CLASSIC` or `CONSUMER`."""
    admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    listed = client.list_consumer_groups().result(20)
    return next(str(each.type.name) for each in listed.valid if each.group_id == group)
