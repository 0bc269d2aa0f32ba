"""What the groups of a node are configured with, and how their members' opaque bytes are read for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from kohort.assign.server.spec import ServerAssignor
from kohort.assign.user_data import MARK, encode_generation, wish
from kohort.group.coordinator_settings import GroupConfig, GroupSettings, NamedPartitions, Want, no_config
from kohort.group.image import NoTopics, TopicImage
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import (
    NEWEST,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    owned_partitions,
    subscribed_topics,
)

CACHED_BYTES = 4096
"""Metadata of a member up to this size is decoded once and remembered."""


def group_settings(
    config: Config,
    image: TopicImage | None = None,
    assignors: Mapping[str, ServerAssignor] | None = None,
    group_config: Callable[[str], GroupConfig | None] = no_config,
) -> GroupSettings:
    """Return the settings of all groups of a node. What cannot be read of a member is None to its group."""
    return GroupSettings(
        image=image or NoTopics(),
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        assignors=assignors or {},
        migration_policy=config.group_consumer_migration_policy,
        min_embedded_version=config.kohort_group_migration_min_embedded_version,
        ignores_echoed_data=config.kohort_group_migration_ignore_echoed_data,
        assigns_early=config.kohort_group_consumer_assignment_early,
        has_join_reasons=config.kohort_group_join_reasons,
        elects_by_version=config.kohort_group_leader_by_version,
        group_config=group_config,
        subscription_of=_subscription_of,
        assignment_of=_assignment_of,
        encode_assignment_of=_encode_assignment_of,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        sync_hold_ms=config.kohort_group_sync_hold_ms,
        initial_quiet_ms=config.kohort_group_initial_quiet_ms,
        topics_of=_topics_of,
        version_of=_version_of,
        owned_of=_owned_of,
        assigned_of=_assigned_of,
        offer_of=_offer_of,
        want_of=_want_of,
    )


def _topics_of(metadata: bytes) -> frozenset[str] | None:
    try:
        return subscribed_topics(metadata)
    except MalformedMessage:
        return None


def _version_of(metadata: bytes) -> int:
    """Return the version that metadata begins with; what cannot be read has none of use."""
    return int.from_bytes(metadata[:2], "big", signed=True) if len(metadata) >= 2 else -1


def _owned_of(metadata: bytes) -> frozenset[tuple[str, int]] | None:
    try:
        return owned_partitions(metadata)
    except MalformedMessage:
        return None


def _assigned_of(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    try:
        return decode_assignment(assignment).partitions
    except MalformedMessage:
        return None


def _subscription_of(metadata: bytes) -> Subscription | None:
    try:
        return decode_subscription(metadata)
    except MalformedMessage:
        return None


def _assignment_of(assignment: bytes) -> Assignment | None:
    try:
        return decode_assignment(assignment)
    except MalformedMessage:
        return None


def _encode_assignment_of(topics: NamedPartitions, version: int) -> bytes:
    partitions = frozenset(TopicPartition(name, number) for name, numbers in topics for number in numbers)
    return encode_assignment(Assignment(partitions), min(max(version, 0), NEWEST))


def _offer_of(metadata: bytes) -> object | None:
    try:
        said = decode_subscription(metadata)
    except MalformedMessage:
        return None
    user_data = said.user_data
    if user_data is not None and user_data.removesuffix(MARK) == encode_generation(said.generation):
        # Cooperative-sticky says the generation once more, as its user data.
        user_data = None
    return (frozenset(said.topics), user_data, frozenset(said.owned), said.rack, said.version)


def _want_of(protocol: str, metadata: bytes) -> Want | None:
    return _cached_want(protocol, metadata) if len(metadata) <= CACHED_BYTES else _read_want(protocol, metadata)


def _read_want(protocol: str, metadata: bytes) -> Want | None:
    try:
        said = decode_subscription(metadata)
    except MalformedMessage:
        return None
    return Want(frozenset(said.topics), said.rack, wish(protocol, said.user_data))


_cached_want = lru_cache(maxsize=1024)(_read_want)
"""In each round the metadata of the round before is compared with the new one."""
