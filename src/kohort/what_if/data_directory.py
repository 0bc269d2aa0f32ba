"""Groups of a broker's data directory, by the replay that a broker does at its start.

The caller passes a copy of the files, so that the originals stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.assign.server.spec import ServerAssignor
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup, DescribedMember
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import Identity
from kohort.group.migration.migration_plan import Limits, LiveGroup, LiveMember
from kohort.log.memory_disk import MemoryDisk
from kohort.model.id_partitions import each
from kohort.model.ids import TopicPartition, group_partition
from kohort.node.broker_state import BrokerState
from kohort.node.configuration.broker_settings import BROKER, value_text
from kohort.node.configuration.config import Config
from kohort.node.durability import Durability
from kohort.node.groups.coordinator import OFFSETS_TOPIC
from kohort.node.node import Node
from kohort.node.timers import NodeClock
from kohort.what_if.virtual_broker import numbered_ids
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.primitives import MalformedMessage

METADATA_DIRECTORY = "__kohort_metadata-0"


def offsets_directory(metadata: MemoryDisk, group_id: str, now_ms: int) -> str | None:
    """Return the directory that holds a group's records, None where no group has ever been; `metadata` is a copy."""
    state = BrokerState(Config(), metadata.clone(), numbered_ids(), NodeClock(now_ms), Durability())
    state.start(now_ms)
    topic = state.topics.get(OFFSETS_TOPIC)
    return None if topic is None else f"{OFFSETS_TOPIC}-{group_partition(group_id, len(topic.partitions))}"


class ReplayedGroups:
    """The groups in a copy of a data directory."""

    def __init__(self, disk: MemoryDisk, now_ms: int) -> None:
        self._node = Node(Config(), disk, numbered_ids(), now_ms)
        self._node.start(now_ms)

    @property
    def group_ids(self) -> list[str]:
        """The groups that were found."""
        return [group.group_id for group in self._node.coordinator.list_groups(frozenset(), frozenset())]

    def settings(self, group_id: str) -> dict[str, str]:
        """Return the broker's settings as far as they are known, and over them the group's own."""
        config = self._node.config
        found = {name: value_text(config.get(name)) or "" for name in BROKER if _is_about_groups(name)}
        own = self._node.state.group_configs.effective(group_id)
        found["group.consumer.session.timeout.ms"] = str(own.session_timeout_ms)
        found["group.consumer.heartbeat.interval.ms"] = str(own.heartbeat_interval_ms)
        found["group.consumer.assignment.interval.ms"] = str(own.assignment_interval_ms)
        return found

    def limits(self) -> Limits:
        """Return the limits of the broker."""
        config = self._node.config
        assignor: ServerAssignor = next(iter(self._node.assignors.values()))
        return Limits(
            "consumer" in config.group_coordinator_rebalance_protocols,
            assignor,
            config.group_consumer_migration_policy,
            config.kohort_group_migration_min_embedded_version,
            config.group_consumer_max_size,
            config.group_max_size,
        )

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        found = self._node.coordinator.offsets(group_id)
        return {TopicPartition(each.topic, each.partition): each.offset for each in found}

    def group(self, group_id: str, offers: Mapping[str, tuple[str, ...]]) -> LiveGroup | None:
        """Return a group as it would be after a start of its broker, None where there is no such group."""
        coordinator = self._node.coordinator
        topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in self._node.topics}
        classic = coordinator.describe(group_id)
        if classic is not None:
            return _classic(classic, topics, offers)
        native = coordinator.describe_consumer(group_id)
        return None if native is None else self._native(native, topics, offers)

    def _native(
        self, group: DescribedConsumerGroup, topics: dict[str, tuple[bytes, int]], offers: Mapping[str, tuple[str, ...]]
    ) -> LiveGroup:
        names = Names({each.member_id: Identity(each.client_id, each.instance_id) for each in group.members})

        def member_of(member: DescribedConsumerMember) -> LiveMember:
            owned = frozenset(
                TopicPartition(topic.name, number)
                for topic_id, number in each(member.assignment)
                if (topic := self._node.topics.by_id(topic_id)) is not None
            )
            return LiveMember(
                member.member_id,
                names(member.member_id),
                member.classic_phase is None,
                frozenset(member.subscribed_topic_names) | {partition.topic for partition in owned},
                owned,
                member.instance_id,
                member.rack_id,
                offers=None if member.classic_phase is None else offers.get(member.member_id),
                regex=member.subscribed_topic_regex,
                lags={
                    TopicPartition(topic.name, number): lag
                    for topic_id, lags in member.lags
                    if (topic := self._node.topics.by_id(topic_id)) is not None
                    for number, lag in lags
                },
                acceptable_recovery_lag=member.acceptable_recovery_lag,
            )

        members = tuple(map(member_of, group.members))
        return LiveGroup(group.group_id, "consumer", str(group.state), "consumer", group.assignor, members, topics)


def _classic(
    group: DescribedGroup, topics: dict[str, tuple[bytes, int]], offers: Mapping[str, tuple[str, ...]]
) -> LiveGroup:
    names = Names({each.member_id: Identity(each.client_id, each.instance_id) for each in group.members})
    members = tuple(_classic_member(each, names(each.member_id), offers.get(each.member_id)) for each in group.members)
    kind, state = group.protocol_type, str(group.state)
    return LiveGroup(group.group_id, "classic", state, kind, group.protocol_name, members, topics)


def _classic_member(member: DescribedMember, name: str, offers: tuple[str, ...] | None) -> LiveMember:
    try:
        subscription = decode_subscription(member.metadata)
        owned = decode_assignment(member.assignment).partitions
    except MalformedMessage:
        return LiveMember(member.member_id, name, False, instance_id=member.instance_id, is_readable=False)
    return LiveMember(
        member.member_id,
        name,
        False,
        frozenset(subscription.topics) | {partition.topic for partition in owned},
        owned,
        member.instance_id,
        subscription.rack,
        subscription.version,
        offers=offers,
    )


def _is_about_groups(name: str) -> bool:
    return name.startswith(("group.", "kohort.group."))
