"""What the groups of a node are configured with, and how their members' opaque bytes are read for them."""

from __future__ import annotations

from kohort.assign.user_data import MARK, encode_generation
from kohort.group.settings import GroupSettings
from kohort.node.config import Config
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription, owned_partitions, subscribed_topics


def group_settings(config: Config) -> GroupSettings:
    """Return the settings of all groups of a node. What cannot be read of a member is None to its group."""
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        sync_hold_ms=config.kohort_group_sync_hold_ms,
        initial_quiet_ms=config.kohort_group_initial_quiet_ms,
        topics_of=_topics_of,
        owned_of=_owned_of,
        assigned_of=_assigned_of,
        offer_of=_offer_of,
    )


def _topics_of(metadata: bytes) -> frozenset[str] | None:
    try:
        return subscribed_topics(metadata)
    except MalformedMessage:
        return None


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
