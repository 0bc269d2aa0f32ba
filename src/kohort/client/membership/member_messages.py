"""A member's effects as Kafka's messages, and responses and metadata as its inputs, for both protocols. Pure.

What a classic member writes into JoinGroup and SyncGroup and the broker does not read is the embedded protocol, whose
name, the protocol type, is the same in the whole group. That of consumers is `ConsumerProtocol`; a program's own group
brings another one (`client.own_groups`). An answer whose blobs cannot be read raises `MalformedMessage`. Lags and
reasons in heartbeats (KIP-848) are this project's extension, in tagged fields that other brokers ignore: only a broker
that understands them is sent any (`supports_lags`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from kohort.assign.spec import MemberSpec, TopicSpec
from kohort.client.cluster.metadata import ClusterView
from kohort.member import effects, inputs
from kohort.member.effects import ConsumerHeartbeat, Lags
from kohort.member.inputs import ConsumerHeartbeatAnswered, MetadataChanged, TopicsSeen
from kohort.member.member_state import MemberConfig
from kohort.model.assignment import Assignment, by_topic, id_partitions
from kohort.model.cause import MAX_REASON_LENGTH
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import NO_TOPIC_ID
from kohort.model.subscription import Subscription
from kohort.wire.codec import Buffer
from kohort.wire.consumer_protocol import (
    NEWEST,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)


class EmbeddedProtocol(Protocol):
    """How a member's subscription and its assignment become bytes, and are read. Reading raises `MalformedMessage`."""

    @property
    def protocol_type(self) -> str:
        """Return the protocol type of the group, such as `consumer`."""

    @property
    def has_topics(self) -> bool:
        """Return whether what is assigned are partitions of the cluster's topics."""

    def encode_subscription(self, name: str, subscription: Subscription) -> bytes:
        """Return what the member sends for the assignor `name`."""

    def decode_subscription(self, blob: Buffer) -> Subscription:
        """Read what another member has sent, as the leader."""

    def encode_assignment(self, assignment: Assignment) -> bytes:
        """Return what the leader sends for one member."""

    def decode_assignment(self, blob: Buffer) -> Assignment:
        """Read what this member is assigned."""


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


LEAVE_TIMEOUT_MS = 5_000
_JOIN_MARGIN_MS = 5_000


def rebalance_answer_timeout_ms(request_timeout_ms: int, config: MemberConfig) -> int:
    """Return how long to wait for what the coordinator may answer only when other members have come."""
    return max(request_timeout_ms, config.rebalance_timeout_ms + _JOIN_MARGIN_MS)


def heartbeat_ms(request_timeout_ms: int, config: MemberConfig) -> int:
    """Return how long to wait for the answer to a heartbeat."""
    return min(request_timeout_ms, config.session_timeout_ms)


def join_request(
    group_id: str, config: MemberConfig, effect: effects.Join, embedded: EmbeddedProtocol = CONSUMER_PROTOCOL
) -> JoinGroupRequest:
    """Return JoinGroup."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
        protocol_type=embedded.protocol_type,
        protocols=[
            JoinGroupRequest.Protocol(name=name, metadata=embedded.encode_subscription(name, subscription))
            for name, subscription in effect.protocols
        ],
        reason=effect.reason[:MAX_REASON_LENGTH] or None,
    )


def join_answered(
    effect: effects.Join, answer: JoinGroupResponse, embedded: EmbeddedProtocol = CONSUMER_PROTOCOL
) -> inputs.JoinAnswered:
    """Return JoinGroup's answer as the member's input."""
    return inputs.JoinAnswered(
        effect.identity,
        error_for(answer.error_code),
        generation=answer.generation_id,
        member_id=answer.member_id,
        leader=answer.leader,
        protocol_name=answer.protocol_name or "",
        members={
            member.member_id: MemberSpec(embedded.decode_subscription(member.metadata), member.group_instance_id)
            for member in answer.members
        },
        is_skip=answer.skip_assignment,
    )


def sync_request(
    group_id: str, config: MemberConfig, effect: effects.Sync, embedded: EmbeddedProtocol = CONSUMER_PROTOCOL
) -> SyncGroupRequest:
    """Return SyncGroup."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=effect.identity.generation,
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
        protocol_type=embedded.protocol_type,
        protocol_name=effect.protocol_name,
        assignments=[
            SyncGroupRequest.Assignment(member_id=member, assignment=embedded.encode_assignment(assignment))
            for member, assignment in sorted(effect.assignments.items())
        ],
        assignment_error=effect.failure,
    )


def sync_answered(
    effect: effects.Sync, answer: SyncGroupResponse, embedded: EmbeddedProtocol = CONSUMER_PROTOCOL
) -> inputs.SyncAnswered:
    """Return SyncGroup's answer as the member's input."""
    return inputs.SyncAnswered(
        effect.identity,
        error_for(answer.error_code),
        embedded.decode_assignment(answer.assignment),
        answer.error_message,
    )


def heartbeat_request(group_id: str, config: MemberConfig, effect: effects.Heartbeat) -> HeartbeatRequest:
    """Return Heartbeat."""
    return HeartbeatRequest(
        group_id=group_id,
        generation_id=effect.identity.generation,
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
    )


def leave_request(group_id: str, config: MemberConfig, effect: effects.Leave) -> LeaveGroupRequest:
    """Return LeaveGroup."""
    member = LeaveGroupRequest.Member(
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
        reason=effect.reason[:MAX_REASON_LENGTH],
    )
    return LeaveGroupRequest(group_id=group_id, member_id=effect.identity.member_id, members=[member])


REGEX_VERSION = 1
"""The first version that takes an expression."""
SHORTEST_TIMEOUT_MS = 20_000
"""More than any interval of a group's (15 s at most), for which a broker may park a heartbeat."""


def consumer_heartbeat_request(
    group_id: str, config: MemberConfig, effect: ConsumerHeartbeat, view: ClusterView, *, supports_lags: bool
) -> ConsumerGroupHeartbeatRequest:
    """Return ConsumerGroupHeartbeat."""
    message = ConsumerGroupHeartbeatRequest
    return message(
        group_id=group_id,
        member_id=effect.member_id,
        member_epoch=effect.member_epoch,
        instance_id=config.instance_id,
        rack_id=effect.rack,
        rebalance_timeout_ms=effect.rebalance_timeout_ms,
        subscribed_topic_names=None if effect.topics is None else list(effect.topics),
        subscribed_topic_regex=effect.regex,
        server_assignor=effect.server_assignor,
        topic_partitions=None
        if effect.owned is None
        else [message.TopicPartition(topic_id=each, partitions=list(partitions)) for each, partitions in effect.owned],
        standby_lags=_lags(effect.lags, view) if effect.lags is not None and supports_lags else None,
        reason=effect.reason if effect.reason and supports_lags else None,
        acceptable_recovery_lag=config.acceptable_recovery_lag if effect.lags is not None and supports_lags else -1,
    )


def consumer_heartbeat_answered(
    effect: ConsumerHeartbeat, answer: ConsumerGroupHeartbeatResponse
) -> ConsumerHeartbeatAnswered:
    """Return ConsumerGroupHeartbeat's answer as the member's input."""
    assignment = answer.assignment
    return ConsumerHeartbeatAnswered(
        effect.number,
        error_for(answer.error_code),
        answer.error_message,
        answer.member_epoch,
        answer.heartbeat_interval_ms,
        None
        if assignment is None
        else id_partitions((topic.topic_id, topic.partitions) for topic in assignment.topic_partitions),
    )


def _lags(lags: Lags, view: ClusterView) -> list[ConsumerGroupHeartbeatRequest.StandbyLag]:
    """Return the lags by topic id; those of topics that the cluster has not shown are left out."""
    topic, by_partition = ConsumerGroupHeartbeatRequest.StandbyLag, dict(lags)
    found = []
    for name, partitions in by_topic(by_partition).items():
        if (topic_id := view.topic_id(name)) == NO_TOPIC_ID:
            continue
        entries = [
            topic.Partition(partition_index=partition, lag=by_partition[name, partition])  # type: ignore[index]
            for partition in partitions
        ]
        found.append(topic(topic_id=topic_id, partitions=entries))
    return found


def specs(view: ClusterView, topics: Iterable[str]) -> dict[str, TopicSpec]:
    """Return those of the topics that have partitions, as assignors see them."""
    return {topic: spec for topic in topics if (spec := view.spec(topic)) is not None}


def metadata_seen(view: ClusterView, followed: Iterable[str]) -> MetadataChanged:
    """Return the input of a classic member that follows these topics."""
    topics = sorted(followed)
    return MetadataChanged(specs(view, topics), frozenset(topic for topic in topics if view.is_gone(topic)))


def topics_seen(view: ClusterView, known: dict[bytes, str]) -> TopicsSeen:
    """Return the input of a member of the consumer protocol. `known` has all names it ever received, and is added to.

    A topic is gone if the metadata reports that its name does not exist, or shows another id for that name.
    """
    names = {
        topic.topic_id: topic.name
        for topic in view.topics.values()
        if topic.topic_id != NO_TOPIC_ID and topic.error is ErrorCode.NONE
    }
    known |= names
    live = set(names.values())
    gone = frozenset(
        topic_id for topic_id, name in known.items() if topic_id not in names and (view.is_gone(name) or name in live)
    )
    return TopicsSeen(names, gone)
