"""Descriptions of groups: DescribeGroups, and what KIP-848, KIP-932 and KIP-1071 have for the other types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import TopicView
from kohort.client.errors import raise_refusal
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.model.topology_description import TopologyDescription
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.embedded_protocols import (
    STREAMS_ASSIGNOR,
    ConnectAssignment,
    ConnectWorker,
    StreamsAssignment,
    StreamsSubscription,
    StreamsTask,
    decode_connect_assignment,
    decode_connect_worker,
    decode_streams_assignment,
    decode_streams_subscription,
)
from kohort.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kohort.wire.primitives import MalformedMessage


class _Topic(Protocol):
    topic_name: str
    partitions: list[int]


class _Tasks(Protocol):
    subtopology_id: str
    partitions: list[int]


Topics = Mapping[str, TopicView]

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""States of classic and of other groups in which a rebalance runs."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name. `group_type` is classic, consumer, … and empty where the broker is too old to return it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member and what it is assigned; empty where the group's protocol is not one of consumers.

    `is_native`: it speaks the consumer protocol; what follows `target` is known of classic groups only.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Partitions
    is_native: bool = False
    rack: str | None = None
    epoch: int = -1
    phase: str = ""
    """Where it is on the way to its target; of a classic member of a consumer group, the phase of its own round."""
    topics: tuple[str, ...] = ()
    regex: str = ""
    target: Partitions = frozenset()
    subscription: Subscription | None = None
    """The subscription in a classic member's metadata for the assignor in force."""
    is_readable: bool = True
    """Whether its metadata and assignment could be read."""
    assignor_data: bytes | None = None
    """What the assignor sent along with its assignment."""
    connect: tuple[ConnectWorker, ConnectAssignment] | None = None
    """Of a worker of Kafka Connect: what it sends about itself, and what it runs."""
    streams: tuple[StreamsSubscription | None, StreamsAssignment | None] | None = None
    """Of a thread of Kafka Streams: what it sent when it joined, and what it is assigned. Version 0: by its broker."""
    warmups: tuple[StreamsTask, ...] = ()
    """The tasks that a member of a streams group warms up, to take them over."""
    task_lags: Mapping[StreamsTask, int] = field(default_factory=dict)
    """How many records behind it has reported its copies of tasks to be, in a streams group."""


@dataclass(frozen=True, slots=True)
class SubtopologyDescription:
    """A part of a Kafka Streams program whose tasks run by themselves (KIP-1071): the topics that it has, by name."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group: its state, its assignor (`protocol`), its members. The epochs are -1 for classic groups.

    `assignment_epoch` is that of the targets: behind `epoch` while new ones are due.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    group_type: str = "classic"
    epoch: int = -1
    assignment_epoch: int = -1
    subtopologies: tuple[SubtopologyDescription, ...] = ()
    """The program of a streams group."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance runs."""
        return self.state in REBALANCING

    @property
    def owners(self) -> dict[TopicPartition, MemberDescription]:
        """The member that each partition is assigned to: none in a share group, whose members read together."""
        if self.group_type == "share":
            return {}
        return {partition: member for member in self.members for partition in member.assignment}


async def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Return the description of a group of any type. Raises GROUP_ID_NOT_FOUND, `KafkaError`."""
    response = await cluster.call_coordinator(
        group_id, DescribeGroupsRequest(groups=[group_id]), lambda found: found.groups[0].error_code
    )
    group = response.groups[0]
    if group.error_code == ErrorCode.NONE and group.group_state != "Dead":
        return read_classic(group)
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise_refusal(group.error_code, f"{group_id!r} cannot be described", group.error_message)
    # A group of another type does not exist for DescribeGroups.
    for kind in EPOCH_GROUPS:
        try:
            return await _describe(cluster, group_id, kind)
        except KafkaError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")


async def describe_consumer_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Return the description of a group of the consumer protocol. Raises GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION."""
    return await _describe(cluster, group_id, "consumer")


async def describe_topology(cluster: Cluster, group_id: str) -> TopologyDescription | None:
    """Return the graph of a streams group's program (KIP-1331), None where its broker has none.

    Raises GROUP_ID_NOT_FOUND, for groups of another type too, `KafkaError`.
    """
    request = StreamsGroupDescribeRequest(group_ids=[group_id], include_topology_description=True)
    response = await cluster.call_coordinator(group_id, request, lambda found: found.groups[0].error_code)
    group = response.groups[0]
    raise_refusal(group.error_code, f"{group_id!r} cannot be described as a streams group", group.error_message)
    return None if group.topology_description is None else TopologyDescription.read(group.topology_description)


async def _describe(cluster: Cluster, group_id: str, kind: str) -> GroupDescription:
    described = EPOCH_GROUPS[kind]
    response = await cluster.call_coordinator(
        group_id, described.request(group_ids=[group_id]), lambda found: found.groups[0].error_code
    )
    group = response.groups[0]
    raise_refusal(group.error_code, f"{group_id!r} cannot be described as a {kind} group", group.error_message)
    return described.read(group, cluster.view.topics)


def read_classic(group: DescribeGroupsResponse.Group) -> GroupDescription:
    """Return a classic group's description."""
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(_classic_member(member, group) for member in group.members),
    )


def _classic_member(
    member: DescribeGroupsResponse.Group.Member, group: DescribeGroupsResponse.Group
) -> MemberDescription:
    found = MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        frozenset(),
        is_readable=False,
    )
    try:
        if group.protocol_type == "consumer":
            found = _subscribed(found, member)
            return replace(found, streams=_streams(found)) if group.protocol_data == STREAMS_ASSIGNOR else found
        if group.protocol_type == "connect" and len(member.member_metadata):
            worker = decode_connect_worker(member.member_metadata)
            return replace(found, connect=(worker, decode_connect_assignment(member.member_assignment)))
    except MalformedMessage:
        pass  # Bytes that cannot be read of one member must not hide the rest of the group.
    return found


def _streams(found: MemberDescription) -> tuple[StreamsSubscription | None, StreamsAssignment | None]:
    """Return what a thread of Kafka Streams has in its user data. Raises `MalformedMessage`."""
    sent = found.subscription.user_data if found.subscription is not None else None
    given = found.assignor_data
    return (
        decode_streams_subscription(sent) if sent else None,
        decode_streams_assignment(given) if given else None,
    )


def _subscribed(found: MemberDescription, member: DescribeGroupsResponse.Group.Member) -> MemberDescription:
    """Return a consumer's description. Raises `MalformedMessage`."""
    assignment = decode_assignment(member.member_assignment)
    # There is no metadata while a round gathers.
    subscription = decode_subscription(member.member_metadata) if len(member.member_metadata) else None
    return replace(
        found,
        assignment=assignment.partitions,
        rack=subscription.rack if subscription else None,
        topics=tuple(sorted(subscription.topics)) if subscription else (),
        subscription=subscription,
        is_readable=True,
        assignor_data=assignment.user_data,
    )


def _read_consumer(group: ConsumerGroupDescribeResponse.Group, _topics: Topics) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        "consumer",
        group.assignor_name,
        tuple(_consumer_member(member, group.assignment_epoch) for member in group.members),
        group_type="consumer",
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _read_share(group: ShareGroupDescribeResponse.Group, _topics: Topics) -> GroupDescription:
    members = tuple(
        MemberDescription(
            member.member_id,
            None,
            member.client_id,
            member.client_host,
            assigned := _partitions(member.assignment.topic_partitions),
            is_native=True,
            rack=member.rack_id,
            epoch=member.member_epoch,
            topics=tuple(sorted(member.subscribed_topic_names)),
            target=assigned,
        )
        for member in group.members
    )
    clocks = group.group_epoch, group.assignment_epoch
    return GroupDescription(group.group_id, group.group_state, "share", group.assignor_name, members, "share", *clocks)


def _read_streams(group: StreamsGroupDescribeResponse.Group, topics: Topics) -> GroupDescription:
    """A task reads one partition of each source topic of its subtopology that has so many."""
    subtopologies = tuple(
        SubtopologyDescription(
            each.subtopology_id,
            tuple(each.source_topics),
            tuple(topic.name for topic in each.repartition_source_topics),
            tuple(each.repartition_sink_topics),
            tuple(topic.name for topic in each.state_changelog_topics),
        )
        for each in (() if group.topology is None else group.topology.subtopologies or ())
    )
    sources = {each.subtopology_id: (*each.source_topics, *each.repartition_sources) for each in subtopologies}

    def partitions(tasks: Iterable[_Tasks]) -> Partitions:
        return frozenset(
            TopicPartition(name, number)
            for task in tasks
            for name in sources.get(task.subtopology_id, ())
            for number in task.partitions
            if name not in topics or number in topics[name].partitions
        )

    members = []
    for member in group.members:
        assigned = partitions(member.assignment.active_tasks)
        target = partitions(member.target_assignment.active_tasks)
        is_reconciled = member.member_epoch == group.assignment_epoch and assigned == target
        found = MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            assigned,
            is_native=not member.is_classic,
            rack=member.rack_id,
            epoch=member.member_epoch,
            phase="Stable" if is_reconciled else "Reconciling",
            topics=tuple(sorted(name for names in sources.values() for name in names)),
            target=target,
            streams=_tasks_of(member),
            warmups=_named(member.assignment.warmup_tasks),
            task_lags=_lags(member),
        )
        members.append(found)
    clocks = group.group_epoch, group.assignment_epoch
    shown = "streams", group.assignor_name or "", tuple(members), "streams", *clocks, subtopologies
    return GroupDescription(group.group_id, group.group_state, *shown)


def _tasks_of(
    member: StreamsGroupDescribeResponse.Group.Member,
) -> tuple[StreamsSubscription, StreamsAssignment] | None:
    """Return a member's tasks as those of a classic one, None where subtopologies have other names than Kafka's."""
    assigned = member.assignment
    copies: list[_Tasks] = [*assigned.standby_tasks, *assigned.warmup_tasks]
    if not all(each.subtopology_id.isdecimal() for each in (*assigned.active_tasks, *copies)):
        return None
    endpoint = member.user_endpoint
    sent = StreamsSubscription(
        0,
        process_id=member.process_id,
        endpoint="" if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        tags=tuple((tag.key, tag.value) for tag in member.client_tags),
    )
    return sent, StreamsAssignment(0, active=_named(assigned.active_tasks), standby=_named(assigned.standby_tasks))


def _named(several: Iterable[_Tasks]) -> tuple[StreamsTask, ...]:
    tasks = [(each.subtopology_id, number) for each in several for number in each.partitions]
    return tuple(StreamsTask(int(name), number) for name, number in tasks if name.isdecimal())


def _lags(member: StreamsGroupDescribeResponse.Group.Member) -> dict[StreamsTask, int]:
    ends = {(each.subtopology_id, each.partition): each.offset for each in member.task_end_offsets}
    offsets = [(each.subtopology_id, each.partition, each.offset) for each in member.task_offsets]
    return {
        StreamsTask(int(name), number): max(0, ends[name, number] - offset)
        for name, number, offset in offsets
        if name.isdecimal() and min(ends.get((name, number), -1), offset) >= 0
    }


class EpochGroups(NamedTuple):
    """How groups of a type that has epochs are described: the request, and what reads a group of its response."""

    request: Callable[..., Any]
    read: Callable[[Any, Topics], GroupDescription]


EPOCH_GROUPS = {
    "consumer": EpochGroups(ConsumerGroupDescribeRequest, _read_consumer),
    "share": EpochGroups(ShareGroupDescribeRequest, _read_share),
    "streams": EpochGroups(StreamsGroupDescribeRequest, _read_streams),
}
"""By the type of the group, as ListGroups names it in lower case."""

_CLASSIC_TYPE = 0


def _consumer_member(member: ConsumerGroupDescribeResponse.Group.Member, target_epoch: int) -> MemberDescription:
    assigned = _partitions(member.assignment.topic_partitions)
    target = _partitions(member.target_assignment.topic_partitions)
    is_reconciled = member.member_epoch == target_epoch and assigned == target
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        assigned,
        # Before version 1 there is no type: every member listed is of the consumer protocol.
        is_native=member.member_type != _CLASSIC_TYPE,
        rack=member.rack_id,
        epoch=member.member_epoch,
        phase=member.phase or ("Stable" if is_reconciled else "Reconciling"),
        topics=tuple(sorted(member.subscribed_topic_names)),
        regex=member.subscribed_topic_regex or "",
        target=target,
    )


def _partitions(topics: Iterable[_Topic]) -> Partitions:
    return frozenset(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions)
