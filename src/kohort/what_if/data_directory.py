"""Groups of a broker's data directory, by the replay that a broker does at its start.

The caller passes a copy of the files, so that the originals stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.group.describe import DescribedConsumerMember, DescribedGroup, DescribedMember
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import Identity
from kohort.group.migration.migration_plan import Limits, LiveGroup, LiveMember
from kohort.log.memory_disk import MemoryDisk
from kohort.model.assignment import each
from kohort.model.ids import TopicPartition, group_partition
from kohort.model.setting import value_text
from kohort.node.broker_state import BrokerState
from kohort.node.configuration.broker_settings import BROKER
from kohort.node.configuration.config import Config
from kohort.node.durability import Durability
from kohort.node.groups.coordinator import OFFSETS_TOPIC
from kohort.node.node import Node
from kohort.node.timers import NodeClock
from kohort.what_if.virtual_broker import numbered_ids
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.primitives import MalformedMessage


def offsets_directory(metadata: MemoryDisk, group_id: str, now_ms: int) -> str | None:
    """Return the directory that has a group's records, None where no group has ever been; `metadata` is a copy."""
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
        about_groups = [name for name in BROKER if name.startswith(("group.", "kohort.group."))]
        found = {name: value_text(config.get(name)) or "" for name in about_groups}
        own = self._node.state.group_configs.effective(group_id)
        found["group.consumer.session.timeout.ms"] = str(own.session_timeout_ms)
        found["group.consumer.heartbeat.interval.ms"] = str(own.heartbeat_interval_ms)
        found["group.consumer.assignment.interval.ms"] = str(own.assignment_interval_ms)
        return found

    def limits(self) -> Limits:
        """Return the limits of the broker."""
        config = self._node.config
        return Limits(
            "consumer" in config.group_coordinator_rebalance_protocols,
            next(iter(self._node.assignors.values())),
            config.group_consumer_migration_policy,
            config.kohort_group_migration_min_embedded_version,
            config.group_consumer_max_size,
            config.group_max_size,
        )

    def group(self, group_id: str, offers: Mapping[str, tuple[str, ...]]) -> LiveGroup | None:
        """Return a group as it would be after a start of its broker, None where there is no such group."""
        coordinator = self._node.coordinator
        topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in self._node.topics}
        group = coordinator.describe(group_id) or coordinator.describe_consumer(group_id)
        if group is None:
            return None
        names = Names({each.member_id: Identity(each.client_id, each.instance_id) for each in group.members})
        if isinstance(group, DescribedGroup):
            members = [_classic_member(one, names(one.member_id), offers.get(one.member_id)) for one in group.members]
            of = ("classic", str(group.state), group.protocol_type, group.protocol_name)
        else:
            by_id = {topic_id: name for name, (topic_id, _) in topics.items()}
            members = [
                _native_member(one, names(one.member_id), offers.get(one.member_id), by_id) for one in group.members
            ]
            of = ("consumer", str(group.state), "consumer", group.assignor)
        return LiveGroup(group_id, *of, tuple(members), topics)


def _native_member(
    member: DescribedConsumerMember, name: str, offers: tuple[str, ...] | None, names: Mapping[bytes, str]
) -> LiveMember:
    owned = frozenset(TopicPartition(names[id_], number) for id_, number in each(member.assignment) if id_ in names)
    return LiveMember(
        member.member_id,
        name,
        member.classic_phase is None,
        frozenset(member.subscribed_topic_names) | {partition.topic for partition in owned},
        owned,
        member.instance_id,
        member.rack_id,
        offers=None if member.classic_phase is None else offers,
        regex=member.subscribed_topic_regex,
        lags={
            TopicPartition(names[id_], number): lag for id_, lags in member.lags if id_ in names for number, lag in lags
        },
        acceptable_recovery_lag=member.acceptable_recovery_lag,
    )


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
