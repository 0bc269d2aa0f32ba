"""The embedded `consumer` protocol: what members put into JoinGroup and SyncGroup, opaque to the broker.

A blob is its version (int16) and fields that may only be appended to, so a newer version is read as the newest we
know and what follows its fields is ignored. Members of one group may write different versions: aiokafka writes v0,
kafka-python v0 or v1, Java and librdkafka v3. No bytes at all are no assignment.
"""

from __future__ import annotations

import struct
from struct import Struct

from kohort.model.assignment import Assignment, by_topic
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.codec import Buffer, decode, encode
from kohort.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.wire.primitives import MalformedMessage

NEWEST = 3
"""The newest version of both blobs."""

_VERSION = _SHORT = Struct(">h")
_INT = Struct(">i")


def encode_subscription(subscription: Subscription) -> bytes:
    """Return a subscription's blob in its version; topics and owned partitions sorted, as Java writes them."""
    version = subscription.version
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.OwnedPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(subscription.owned).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack or None,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_subscription(blob: Buffer) -> Subscription:
    """Read a subscription's blob of any version. Raises `MalformedMessage`."""
    version = version_of(blob)
    message, _ = decode(ConsumerProtocolSubscription, version, blob, _VERSION.size)
    return Subscription(
        topics=tuple(message.topics),
        user_data=message.user_data,
        owned=tuple(
            TopicPartition(owned.topic, partition)
            for owned in message.owned_partitions
            for partition in owned.partitions
        ),
        generation=message.generation_id,
        rack=message.rack_id or None,
        version=version,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """Return an assignment's blob, topics and partitions sorted."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.AssignedPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(assignment.partitions).items()
        ],
        user_data=assignment.user_data,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_assignment(blob: Buffer) -> Assignment:
    """Read an assignment's blob of any version; no bytes are an empty assignment. Raises `MalformedMessage`."""
    if not len(blob):
        return Assignment()
    message, _ = decode(ConsumerProtocolAssignment, version_of(blob), blob, _VERSION.size)
    return Assignment(
        frozenset(
            TopicPartition(assigned.topic, partition)
            for assigned in message.assigned_partitions
            for partition in assigned.partitions
        ),
        message.user_data,
    )


def subscribed_topics(blob: Buffer) -> frozenset[str]:
    """Return the topics of a subscription's blob by its v0 layout alone, as the broker reads it.

    Raises `MalformedMessage`.
    """
    version_of(blob)
    message, _ = decode(ConsumerProtocolSubscription, 0, blob, _VERSION.size)
    return frozenset(message.topics)


def owned_partitions(blob: Buffer) -> frozenset[TopicPartition]:
    """Return the owned partitions of a subscription. Where there are none, as in most, the rest is not decoded.

    Raises `MalformedMessage`.
    """
    if version_of(blob) < 1:
        return frozenset()
    try:
        (topics,) = _INT.unpack_from(blob, _VERSION.size)
        position = _VERSION.size + _INT.size
        for _ in range(topics):
            position += _SHORT.size + max(_SHORT.unpack_from(blob, position)[0], 0)
        position += _INT.size + max(_INT.unpack_from(blob, position)[0], 0)
        if _INT.unpack_from(blob, position)[0] <= 0:
            return frozenset()
    except struct.error as error:
        raise MalformedMessage("the subscription ends before the partitions that it owns") from error
    return frozenset(decode_subscription(blob).owned)


def claimed_by_topic(blob: Buffer) -> tuple[list[str], dict[str, list[int]]]:
    """Return a subscription's topics, and its owned partitions by topic, both as written.

    Cheaper than `decode_subscription`, where they are only shown. Raises `MalformedMessage`.
    """
    message, _ = decode(ConsumerProtocolSubscription, version_of(blob), blob, _VERSION.size)
    return message.topics, {owned.topic: owned.partitions for owned in message.owned_partitions}


def assigned_by_topic(blob: Buffer) -> dict[str, list[int]]:
    """Return an assignment's partitions by topic as written: the same for `decode_assignment`."""
    if not len(blob):
        return {}
    message, _ = decode(ConsumerProtocolAssignment, version_of(blob), blob, _VERSION.size)
    return {assigned.topic: assigned.partitions for assigned in message.assigned_partitions}


def version_of(blob: Buffer) -> int:
    """Return the version to read a blob as. Raises `MalformedMessage`."""
    if len(blob) < _VERSION.size:
        raise MalformedMessage("a blob of the consumer protocol begins with its version")
    (version,) = _VERSION.unpack_from(blob)
    if version < 0:
        raise MalformedMessage(f"{version} is no version of the consumer protocol")
    return min(int(version), NEWEST)
