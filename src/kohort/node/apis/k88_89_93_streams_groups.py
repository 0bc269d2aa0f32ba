"""StreamsGroupHeartbeat, StreamsGroupDescribe and StreamsGroupTopologyDescriptionUpdate: streams groups (KIP-1071).

v1 of the first two, and the third, are Kafka 4.4's. Of the heartbeat v1 widens the acceptable recovery lag, and may ask
for a description of the topology (KIP-1331), which the third uploads and StreamsGroupDescribe returns, with the
assignor. Internal topics that are missing are made before the answer leaves, with the sender's rights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from kohort.assign.server.streams_sticky import STICKY
from kohort.group.results import Result
from kohort.group.streams.describe_topology import DescribeTopology, DescribeTopologyResult
from kohort.group.streams.events import UserEndpoint
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import EndpointPartitions, StreamsHeartbeat, StreamsHeartbeatResult
from kohort.group.streams.topology import InternalTopic, StatusCode, StreamsTopology, Subtopology
from kohort.log.disk import StorageError
from kohort.log.streams_records import topology_of
from kohort.model.acl import ResourceType
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.streams_tasks import Task, TaskRole, TasksByRole, by_subtopology, tasks_of
from kohort.model.topology_description import PROCESSOR, SINK, SOURCE, DescribedNode, TopologyDescription
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import INTERNAL
from kohort.parking.limits import EPOCH_MARGIN_MS, OTHERS_MARGIN_MS
from kohort.parking.parked_heartbeat import Follower
from kohort.wire.messages import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_Response = StreamsGroupHeartbeatResponse
MOST_SUBTOPOLOGIES, MOST_TOPICS = 1_000, 2_000
"""Larger topologies are refused: a topology is checked in one turn of the event loop."""
MOST_CREATED = 200
"""Internal topics that one heartbeat makes: they are made in one turn of the event loop."""
NODE_BYTES, NAME_BYTES = 200, 60
"""What a node of a description takes in memory besides its texts, and each of its texts."""
LAGS_VERSION = 1
"""The version of the heartbeat from which on clients report how far their copies are: Kafka Streams 4.4 sends it."""

_NOT_ENABLED = "The streams protocol is not enabled here: `streams` is not in group.coordinator.rebalance.protocols."


def streams_group_heartbeat(context: ApiContext, request: Request, message: StreamsGroupHeartbeatRequest) -> None:
    """Pass the heartbeat to the member's group, where it may be parked."""
    if "streams" not in context.config.group_coordinator_rebalance_protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_ENABLED)
    if message.topology is not None:
        _check_size(message.topology)
    if not (message.active_tasks is None) == (message.standby_tasks is None) == (message.warmup_tasks is None):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "If one task-type is non-null, all must be non-null.")
    software = request.connection.client_software.name
    command = heartbeat_command(message, request.api_version, request.client_id or "", request.peer_host, software)
    for name in () if command.topology is None else sorted(command.topology.topics):
        if name in INTERNAL:
            text = f"Use of Kafka internal topics {name} in a Kafka Streams topology is prohibited."
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
        context.access.require(request.connection, api_checks.TOPOLOGY_TOPIC, name)

    def ticket(result: Result) -> None:
        assert isinstance(result, StreamsHeartbeatResult), "a heartbeat is answered by a heartbeat's result"
        failures = _create_missing(context, request, result.missing_topics) if result.missing_topics else ()
        request.reply(_response(result, failures))

    parked = context.coordinator.epoch_heartbeat(command, ticket)
    if parked is not None:
        request.park(lambda _, now_ms: parked.followed(Follower.OTHER, now_ms), parked.drop)


def _check_size(topology: StreamsGroupHeartbeatRequest.Topology) -> None:
    """Refuse a topology that would take too long. Raises KafkaError."""
    count = len(topology.subtopologies)
    topics = 0 if count > MOST_SUBTOPOLOGIES else sum(map(_topics_and_groups, topology.subtopologies))
    if count > MOST_SUBTOPOLOGIES or topics > MOST_TOPICS:
        found = f"{count} subtopologies" if count > MOST_SUBTOPOLOGIES else f"{topics} topics and copartition groups"
        most = f"{MOST_SUBTOPOLOGIES} subtopologies, and {MOST_TOPICS} topics and copartition groups"
        text = f"The topology has {found}; this broker takes at most {most}."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _topics_and_groups(each: StreamsGroupHeartbeatRequest.Topology.Subtopology) -> int:
    made = len(each.state_changelog_topics) + len(each.repartition_source_topics)
    return len(each.source_topics) + made + len(each.copartition_groups)


def heartbeat_command(
    message: StreamsGroupHeartbeatRequest, version: int, client_id: str, peer_host: str, software: str
) -> StreamsHeartbeat:
    """Return what a heartbeat asks of its group."""
    owned = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    endpoint, tags = message.user_endpoint, message.client_tags
    return StreamsHeartbeat(
        message.group_id,
        message.member_id,
        message.member_epoch,
        message.instance_id,
        message.rack_id,
        message.rebalance_timeout_ms,
        None if message.topology is None else topology_of(message.topology),
        None if owned == (None, None, None) else TasksByRole(*map(owned_tasks, owned)),
        message.process_id,
        None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        None if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
        _offsets(message.task_offsets),
        _offsets(message.task_end_offsets),
        message.shutdown_application,
        message.endpoint_information_epoch,
        version >= LAGS_VERSION,
        client_id,
        f"/{peer_host}",
        margin_ms=EPOCH_MARGIN_MS.get(software, OTHERS_MARGIN_MS),
    )


def owned_tasks(tasks: Iterable[Any] | None) -> frozenset[Task]:
    """Return the tasks of one role in a message."""
    return tasks_of((each.subtopology_id, each.partitions) for each in tasks or ())


def _offsets(tasks: Iterable[Any] | None) -> tuple[tuple[Task, int], ...] | None:
    if tasks is None:
        return None
    return tuple(sorted(((each.subtopology_id, each.partition), each.offset) for each in tasks))


def _create_missing(context: ApiContext, request: Request, missing: Iterable[InternalTopic]) -> list[str]:
    """Make internal topics that the sender may create; return a sentence for each that could not be made.

    One heartbeat makes no more than some; the next ones make the rest.
    """
    access, sender = context.access, request.connection
    refused, failures = [], []
    for topic in islice(missing, MOST_CREATED):
        may_create = access.allows(sender, api_checks.INTERNAL_TOPICS_CLUSTER) or access.allows(
            sender, api_checks.INTERNAL_TOPIC, topic.name
        )
        if not may_create:
            refused.append(topic.name)
            continue
        try:
            if topic.replication_factor not in (-1, 0, 1):
                text = f"Unable to replicate the partition {topic.replication_factor} time(s): only 1 broker is there."
                raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
            context.topics.create(topic.name, topic.partitions, dict(topic.configs), request.now_ms)
        except (KafkaError, StorageError) as error:
            failures.append(f"Creation of {topic.name} failed: {error}")
    if refused:
        failures.append(f"Unauthorized to CREATE on topics {', '.join(refused)}.")
    return failures


def _response(result: StreamsHeartbeatResult, failures: Collection[str]) -> StreamsGroupHeartbeatResponse:
    response = _Response(
        error_code=result.error,
        error_message=result.error_message,
        member_id=result.member_id or "",
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        acceptable_recovery_lag_legacy=max(result.acceptable_recovery_lag, 0),
        acceptable_recovery_lag=result.acceptable_recovery_lag,
        task_offset_interval_ms=result.task_offset_interval_ms,
        endpoint_information_epoch=result.endpoint_epoch,
        topology_description_required=result.is_to_describe,
    )
    statuses = []
    for code, detail in result.statuses:
        is_lacking = code is StatusCode.MISSING_INTERNAL_TOPICS
        text = "; ".join((detail, *failures)) if is_lacking else detail
        statuses.append(_Response.Status(status_code=code, status_detail=text))
    response.status = statuses
    if result.tasks is not None:
        active, standby, warmup = map(by_subtopology, result.tasks)
        response.active_tasks = [_Response.ActiveTask(subtopology_id=k, partitions=v) for k, v in active.items()]
        response.standby_tasks = [_Response.StandbyTask(subtopology_id=k, partitions=v) for k, v in standby.items()]
        response.warmup_tasks = [_Response.WarmupTask(subtopology_id=k, partitions=v) for k, v in warmup.items()]
    if result.endpoints is not None:
        response.partitions_by_user_endpoint = list(map(_endpoint_partitions, result.endpoints))
    return response


def _endpoint_partitions(each: EndpointPartitions) -> StreamsGroupHeartbeatResponse.EndpointPartitions:
    cls = _Response.EndpointPartitions
    return cls(
        user_endpoint=cls.UserEndpoint(host=each.endpoint.host, port=each.endpoint.port),
        active_partitions=[cls.ActivePartition(topic=name, partitions=list(numbers)) for name, numbers in each.active],
        standby_partitions=[
            cls.StandbyPartition(topic=name, partitions=list(numbers)) for name, numbers in each.standby
        ],
    )


_NOT_DESCRIBED = "The broker has no streams group topology description plugin configured."


def streams_group_topology_description_update(
    context: ApiContext, request: Request, message: StreamsGroupTopologyDescriptionUpdateRequest
) -> None:
    """Pass the description of a topology to its group."""
    if "streams" not in context.config.group_coordinator_rebalance_protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_ENABLED)
    if not context.config.kohort_group_streams_topology_descriptions:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_DESCRIBED)
    for name, value in (("MemberId", message.member_id), ("GroupId", message.group_id)):
        if not value.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    graph = _graph(message.topology_description)
    size, most = _size_of(graph), context.config.kohort_group_member_max_bytes
    refusal = f"The description has {size} bytes; this broker takes at most {most}." if size > most else ""

    def ticket(result: Result) -> None:
        assert isinstance(result, DescribeTopologyResult), "an upload is answered by its own result"
        response = StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=result.error, error_message=result.error_message
        )
        request.reply(response)

    command = DescribeTopology(message.group_id, message.member_id, message.topology_epoch, graph, refusal)
    context.coordinator.submit(command, ticket)


def _graph(sent: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription) -> TopologyDescription:
    """Return a description. Raises KafkaError for nodes that there are not."""
    graph = TopologyDescription.read(sent)
    for node in _nodes(graph):
        if node.node_type not in (SOURCE, PROCESSOR, SINK):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown topology description node type: {node.node_type}")
    if any((source.node_type, processor.node_type) != (SOURCE, PROCESSOR) for source, processor in graph.global_stores):
        text = "Global store must be composed of a source and a processor node."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    return graph


def _nodes(graph: TopologyDescription) -> Iterator[DescribedNode]:
    yield from (node for _, several in graph.subtopologies for node in several)
    yield from (node for pair in graph.global_stores for node in pair)


def _size_of(graph: TopologyDescription) -> int:
    names = sum(len(key) for key, _ in graph.subtopologies)
    return names + sum(map(_node_size, _nodes(graph)))


def _node_size(node: DescribedNode) -> int:
    named = (*node.source_topics, *node.stores, *node.successors)
    return NODE_BYTES + len(node.name) + len(node.sink_topic or "") + sum(len(name) + NAME_BYTES for name in named)


_Group = StreamsGroupDescribeResponse.Group
_Member = _Group.Member
_Topology = _Group.Topology
_NOT_STORED, _AVAILABLE = 1, 3
"""The status of a topology description that no member has uploaded, and of one that the answer has."""


def streams_group_describe(
    context: ApiContext, request: Request, message: StreamsGroupDescribeRequest
) -> Steps[StreamsGroupDescribeResponse]:
    """Describe each group of the request, once."""
    access, sender, check = context.access, request.connection, api_checks.DESCRIBE_STREAMS_GROUP
    groups = []
    for group_id in dict.fromkeys(message.group_ids):
        yield 1
        if not access.allows(sender, check, group_id):
            groups.append(_refused(group_id, check.error, None))
        elif not group_id:
            groups.append(_refused(group_id, ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text))
        elif error := context.coordinator.load_error(group_id):
            groups.append(_refused(group_id, error, error.text))
        elif (found := context.coordinator.streams_group(group_id)) is None:
            what = "is not a streams group" if context.coordinator.has_group(group_id) else "not found"
            text = f"Group {group_id} {what}."
            groups.append(_refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, text))
        else:
            topics = frozenset() if found.topology is None else found.topology.topics
            if not all(access.allows(sender, api_checks.DESCRIBED_TOPOLOGY_TOPIC, name) for name in topics):
                text = "The described group uses topics that the client is not authorized to describe."
                groups.append(_refused(group_id, api_checks.DESCRIBED_TOPOLOGY_TOPIC.error, text))
                continue
            group = _described(found)
            if message.include_topology_description:
                _add_description(group, found.description.graph)
            if message.include_authorized_operations:
                group.authorized_operations = access.operations(sender, ResourceType.GROUP, group_id)
            groups.append(group)
            yield len(group.members)
    return StreamsGroupDescribeResponse(groups=groups)


def _add_description(group: StreamsGroupDescribeResponse.Group, graph: TopologyDescription | None) -> None:
    if graph is None:
        group.topology_description_status = _NOT_STORED
        return
    cls = _Group.TopologyDescription

    def node(make: Any, each: DescribedNode) -> Any:
        return make(
            name=each.name,
            node_type=each.node_type,
            source_topics=list(each.source_topics),
            sink_topic=each.sink_topic,
            stores=list(each.stores),
            successors=list(each.successors),
        )

    of = cls.DescribedSubtopology
    stores = cls.GlobalStore
    group.topology_description_status = _AVAILABLE
    group.topology_description = cls(
        subtopologies=[of(subtopology_id=key, nodes=[node(of.Node, n) for n in nodes]) for key, nodes in graph[0]],
        global_stores=[
            stores(source=node(stores.Source, source), processor=node(stores.Processor, processor))
            for source, processor in graph.global_stores
        ],
    )


def _refused(group_id: str, code: ErrorCode, text: str | None) -> StreamsGroupDescribeResponse.Group:
    return _Group(error_code=code, error_message=text, group_id=group_id, members=[])


def _described(group: StreamsGroup) -> StreamsGroupDescribeResponse.Group:
    configured = group.configured
    counted = {} if configured is None else {key: each.subtopology for key, each in configured.subtopologies.items()}
    return _Group(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _described_topology(group.topology, counted),
        members=[_described_member(member) for _, member in sorted(group.members.items())],
        assignor_name=STICKY,
    )


def _described_topology(
    topology: StreamsTopology, counted: Mapping[str, Subtopology]
) -> StreamsGroupDescribeResponse.Group.Topology:
    return _Topology(
        epoch=topology.epoch,
        subtopologies=[_subtopology(counted.get(each.subtopology_id, each)) for each in topology.subtopologies],
    )


def _subtopology(each: Subtopology) -> StreamsGroupDescribeResponse.Group.Topology.Subtopology:
    cls = _Topology.Subtopology
    return cls(
        subtopology_id=each.subtopology_id,
        source_topics=list(each.source_topics),
        repartition_sink_topics=list(each.repartition_sinks),
        state_changelog_topics=_topics(cls.ChangelogTopic, each.changelogs),
        repartition_source_topics=_topics(cls.RepartitionTopic, each.repartition_sources),
    )


def _topics(make: Any, topics: Iterable[InternalTopic]) -> list[Any]:
    return [
        make(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[make.TopicConfig(key=key, value=value) for key, value in topic.configs],
        )
        for topic in topics
    ]


def _described_member(member: StreamsMember) -> StreamsGroupDescribeResponse.Group.Member:
    endpoint = member.endpoint
    roles = member.roles.items()  # what awaits revocation is the member's still
    owned = TasksByRole(*(frozenset(task for task, each in roles if each is role) for role in TaskRole))
    return _Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else _Member.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[_Member.ClientTag(key=key, value=value) for key, value in member.client_tags],
        task_offsets=_task_offsets(_Member.TaskOffset, member.offsets),
        task_end_offsets=_task_offsets(_Member.TaskEndOffset, member.end_offsets),
        assignment=_assignment(_Member.Assignment, TasksByRole(*owned)),
        target_assignment=_assignment(_Member.TargetAssignment, member.target),
    )


def _task_offsets(make: Any, offsets: Mapping[Task, int]) -> list[Any]:
    return [make(subtopology_id=key, partition=number, offset=offsets[key, number]) for key, number in sorted(offsets)]


def _assignment(make: Any, tasks: TasksByRole) -> Any:
    active, standby, warmup = map(by_subtopology, tasks)
    return make(
        active_tasks=[make.ActiveTask(subtopology_id=key, partitions=numbers) for key, numbers in active.items()],
        standby_tasks=[make.StandbyTask(subtopology_id=key, partitions=numbers) for key, numbers in standby.items()],
        warmup_tasks=[make.WarmupTask(subtopology_id=key, partitions=numbers) for key, numbers in warmup.items()],
    )
