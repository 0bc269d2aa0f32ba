"""The things that have settings, as the config APIs name them: a topic or this broker."""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.node import Node
from kohort.node.topics import Topic

TOPIC, BROKER = 2, 4
_OTHERS = {8: "broker logger", 16: "client metrics", 32: "group"}


def find_resource(node: Node, resource_type: int, name: str) -> Topic | None:
    """Return the topic a config request names, or None where it names this broker. Raises KafkaError."""
    if resource_type == TOPIC:
        topic = node.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic
    if resource_type == BROKER:
        # The empty name is the default of all brokers, and there is only one.
        if name not in ("", str(node.config.node_id)):
            text = f"Unexpected broker id, expected {node.config.node_id} or empty string, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return None
    kind = _OTHERS.get(resource_type)
    text = f"Resources of type {kind} have no settings here." if kind else f"Unknown resource type {resource_type}."
    raise KafkaError(ErrorCode.INVALID_REQUEST, text)
