"""What a classic member writes into JoinGroup and SyncGroup and the broker does not read: the embedded protocol.

Its name, the protocol type, is the same in the whole group. That of consumers is `ConsumerProtocol`; a program's own
group brings another one (`client.own_groups`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from kohort.model.assignment import Assignment
from kohort.model.subscription import Subscription
from kohort.wire.codec import Buffer
from kohort.wire.consumer_protocol import (
    NEWEST,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)


class EmbeddedProtocol(Protocol):
    """How a member's subscription and its assignment become bytes, and are read. Reading raises `MalformedMessage`."""

    @property
    def protocol_type(self) -> str:
        """Return the protocol type of the group, such as `consumer`."""
        ...

    @property
    def has_topics(self) -> bool:
        """Return whether what is assigned are partitions of the cluster's topics."""
        ...

    def encode_subscription(self, name: str, subscription: Subscription) -> bytes:
        """Return what the member sends for the assignor `name`."""
        ...

    def decode_subscription(self, blob: Buffer) -> Subscription:
        """Read what another member has sent, as the leader."""
        ...

    def encode_assignment(self, assignment: Assignment) -> bytes:
        """Return what the leader sends for one member."""
        ...

    def decode_assignment(self, blob: Buffer) -> Assignment:
        """Read what this member is assigned."""
        ...


@dataclass(frozen=True, slots=True)
class ConsumerProtocol:
    """The embedded protocol of consumers. Below version 3 only members write that stand in for old clients."""

    version: int = NEWEST
    protocol_type = "consumer"
    has_topics = True

    def encode_subscription(self, name: str, subscription: Subscription) -> bytes:
        """Return ConsumerProtocolSubscription."""
        del name
        return encode_subscription(
            subscription if self.version == NEWEST else replace(subscription, version=self.version)
        )

    def decode_subscription(self, blob: Buffer) -> Subscription:
        """Read ConsumerProtocolSubscription of any version."""
        return decode_subscription(blob)

    def encode_assignment(self, assignment: Assignment) -> bytes:
        """Return ConsumerProtocolAssignment."""
        return encode_assignment(assignment, self.version)

    def decode_assignment(self, blob: Buffer) -> Assignment:
        """Read ConsumerProtocolAssignment of any version."""
        return decode_assignment(blob)


CONSUMER_PROTOCOL = ConsumerProtocol()
