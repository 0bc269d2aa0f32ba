"""Groups as an admin sees them, read from the answers of both describe APIs (classic, and KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.messages import ConsumerGroupDescribeResponse, DescribeGroupsResponse


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name. `group_type` is classic, consumer, … and empty where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member and what it is assigned; empty where the group's protocol is not one of consumers."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Partitions


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group: its state, its assignor (`protocol`), its members. `epoch` is -1 for classic groups."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    group_type: str = "classic"
    epoch: int = -1


def read_classic(group: DescribeGroupsResponse.Group) -> GroupDescription:
    """Return a classic group's description."""
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(
            MemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _assignment(member.member_assignment) if group.protocol_type == "consumer" else frozenset(),
            )
            for member in group.members
        ),
    )


def read_consumer(group: ConsumerGroupDescribeResponse.Group) -> GroupDescription:
    """Return the description of a group of the consumer protocol."""
    return GroupDescription(
        group.group_id,
        group.group_state,
        "consumer",
        group.assignor_name,
        tuple(
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                frozenset(
                    TopicPartition(topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                ),
            )
            for member in group.members
        ),
        group_type="consumer",
        epoch=group.group_epoch,
    )


def _assignment(blob: bytes) -> Partitions:
    try:
        return decode_assignment(blob).partitions
    except MalformedMessage:
        # Another client's bytes are no reason to show nothing of the group.
        return frozenset()
