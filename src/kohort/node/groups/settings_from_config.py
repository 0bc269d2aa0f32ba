"""Settings of the groups of a node, and the functions that read their members' opaque bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import ParamSpec, TypeVar

from kohort.assign.server.spec import ServerAssignor
from kohort.assign.user_data import MARK, encode_generation, wish
from kohort.group.coordinator_settings import (
    ComparedMetadata,
    GroupConfig,
    GroupSettings,
    NamedPartitions,
    NoTopics,
    StreamsConfig,
    TopicImage,
    unread,
)
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition
from kohort.model.setting import read_values
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.wire.consumer_protocol import (
    NEWEST,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    owned_partitions,
    subscribed_topics,
)
from kohort.wire.primitives import MalformedMessage

CACHED_BYTES = 4096
"""Metadata of a member up to this size is decoded once and remembered."""


ReadP = ParamSpec("ReadP")
ReadT = TypeVar("ReadT")


def _or_none(read: Callable[ReadP, ReadT]) -> Callable[ReadP, ReadT | None]:
    """Return a function that returns None where bytes cannot be read."""

    def read_or_none(*arguments: ReadP.args, **named: ReadP.kwargs) -> ReadT | None:
        try:
            return read(*arguments, **named)
        except MalformedMessage:
            return None

    return read_or_none


def group_settings(
    config: Config,
    image: TopicImage | None = None,
    assignors: Mapping[str, ServerAssignor] | None = None,
    group_config: Callable[[str], GroupConfig | None] = unread,
    streams_config: Callable[[str], StreamsConfig | None] = unread,
) -> GroupSettings:
    """Return the settings of all groups of a node. What cannot be read of a member is None to its group."""
    return GroupSettings(
        **read_values(GroupSettings, config),
        image=image or NoTopics(),
        assignors=assignors or {},
        group_config=group_config,
        streams_config=streams_config,
        subscription_of=_or_none(_subscription),
        assignment_of=_or_none(decode_assignment),
        encode_assignment_of=_encode_assignment_of,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        topics_of=_or_none(subscribed_topics),
        version_of=_version_of,
        owned_of=_or_none(owned_partitions),
        assigned_of=_or_none(_assigned_of),
        offer_of=_or_none(_offer_of),
        compared_metadata_of=_or_none(_compared_metadata_of),
    )


def _assigned_of(assignment: bytes) -> Partitions:
    return decode_assignment(assignment).partitions


def _version_of(metadata: bytes) -> int:
    """Return the version that metadata begins with; what cannot be read has none of use."""
    return int.from_bytes(metadata[:2], "big", signed=True) if len(metadata) >= 2 else -1


def _encode_assignment_of(topics: NamedPartitions, version: int) -> bytes:
    partitions = frozenset(TopicPartition(name, number) for name, numbers in topics for number in numbers)
    return encode_assignment(Assignment(partitions), min(max(version, 0), NEWEST))


def _subscription(metadata: bytes) -> Subscription:
    return _decoded(metadata) if len(metadata) <= CACHED_BYTES else decode_subscription(metadata)


_decoded = lru_cache(maxsize=1024)(decode_subscription)
"""In each round the metadata of the round before is compared with the new one."""


def _offer_of(metadata: bytes) -> object:
    subscription = _subscription(metadata)
    user_data = subscription.user_data
    if user_data is not None and user_data.removesuffix(MARK) == encode_generation(subscription.generation):
        # Cooperative-sticky repeats the generation as its user data.
        user_data = None
    owned = frozenset(subscription.owned)
    return (frozenset(subscription.topics), user_data, owned, subscription.rack, subscription.version)


def _compared_metadata_of(protocol: str, metadata: bytes) -> ComparedMetadata:
    subscription = _subscription(metadata)
    return ComparedMetadata(frozenset(subscription.topics), subscription.rack, wish(protocol, subscription.user_data))
