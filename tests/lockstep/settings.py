"""What both sides are configured with."""

from __future__ import annotations

from tests.lockstep.ours import RackedTopics, Scripted

from kohort.group.coordinator_settings import GroupSettings
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings

START_MS = 1_000_000_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "7000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.min.session.timeout.ms": "100",
    "offset.metadata.max.bytes": "20",
    "offsets.retention.minutes": "2",
}


def settings_of(changes: dict[str, str], topics: RackedTopics) -> GroupSettings:
    """Return our settings: Kafka's of the same names, and what improves on Kafka switched off."""
    own = {"kohort.compatible": "kafka-4.3"}
    config = Config({**SETTINGS, **changes, **own})
    assignors = {"scripted": Scripted("scripted", 0), "other": Scripted("other", 1)}
    return group_settings(config, topics, assignors)
