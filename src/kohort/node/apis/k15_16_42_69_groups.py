"""Groups as operators see them: describe classic and consumer groups, list all, delete empty ones with their offsets.

DescribeGroups: v3 may return what the sender is allowed to do, v4 adds GroupInstanceId, v5 is flexible, v6 returns
GROUP_ID_NOT_FOUND where earlier versions call a missing group Dead (KIP-1043). ConsumerGroupDescribe (KIP-848): v1
reports which protocol each member uses (KIP-1099). ListGroups: v3 is flexible, v4 filters by state (KIP-518), v5 by
type (KIP-848). DeleteGroups: v2 is flexible, v3 adds an error message for each group.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from kohort.group.commands import DeleteGroup
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup
from kohort.group.events import ClassicPhase
from kohort.group.results import Result
from kohort.model.acl import ResourceType
from kohort.model.assignment import IdPartitions, id_partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

_Classic = DescribeGroupsResponse.Group


def describe_groups(
    context: ApiContext, request: Request, message: DescribeGroupsRequest
) -> Steps[DescribeGroupsResponse]:
    """Describe each group of the request, once."""
    access, sender, check = context.access, request.connection, api_checks.DESCRIBE_GROUP
    groups = []
    for group_id in dict.fromkeys(message.groups):
        yield 1
        if not access.allows(sender, check, group_id):
            groups.append(_Classic(error_code=check.error, group_id=group_id, members=[]))
            continue
        if error := context.coordinator.load_error(group_id):
            groups.append(_Classic(error_code=error, group_id=group_id, members=[]))
            continue
        described = context.coordinator.describe(group_id)
        if described is None:
            group = _missing_classic(context, group_id, request.api_version)
        else:
            group = yield from _classic_group(described)
        if message.include_authorized_operations and not group.error_code:
            group.authorized_operations = access.operations(sender, ResourceType.GROUP, group_id)
        groups.append(group)
    return DescribeGroupsResponse(groups=groups)


def _missing_classic(context: ApiContext, group_id: str, version: int) -> _Classic:
    if version < 6:
        return _Classic(group_id=group_id, group_state="Dead", members=[])
    is_other = context.coordinator.has_group(group_id)
    return _Classic(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found.",
        group_id=group_id,
        group_state="Dead",
        members=[],
    )


def _classic_group(described: DescribedGroup) -> Steps[_Classic]:
    group = _Classic(
        group_id=described.group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[],
    )
    for member in described.members:
        group.members.append(
            _Classic.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
        )
        yield 1
    return group


_Consumer = ConsumerGroupDescribeResponse.Group
_ConsumerMember = _Consumer.Member
AssignmentT = TypeVar("AssignmentT", _ConsumerMember.Assignment, _ConsumerMember.TargetAssignment)
_CLASSIC, _CONSUMER = 0, 1


PHASES = {
    ClassicPhase.STABLE: "Stable",
    ClassicPhase.PREPARE_REBALANCE: "PrepareRebalance",
    ClassicPhase.COMPLETING_REBALANCE: "CompletingRebalance",
}
"""KIP-848's names for the phase of a classic member, in an extension that other clients skip."""


def consumer_group_describe(
    context: ApiContext, request: Request, message: ConsumerGroupDescribeRequest
) -> Steps[ConsumerGroupDescribeResponse]:
    """Describe each group of the request, once."""
    access, sender, check = context.access, request.connection, api_checks.DESCRIBE_CONSUMER_GROUP
    groups = []
    for group_id in dict.fromkeys(message.group_ids):
        yield 1
        if not access.allows(sender, check, group_id):
            groups.append(_refused(group_id, check.error, None))
        elif not group_id:
            groups.append(_refused(group_id, ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text))
        elif error := context.coordinator.load_error(group_id):
            groups.append(_refused(group_id, error, error.text))
        elif (described := context.coordinator.describe_consumer(group_id)) is None:
            is_other = context.coordinator.has_group(group_id)
            text = f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
            groups.append(_refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, text))
        else:
            group = yield from _consumer_group(context, described)
            if not all(access.allows(sender, api_checks.ASSIGNED_TOPIC, name) for name in _assigned_topics(group)):
                text = "The group has described topic(s) that the client is not authorized to describe."
                group = _refused(group_id, api_checks.ASSIGNED_TOPIC.error, text)
            elif message.include_authorized_operations:
                group.authorized_operations = access.operations(sender, ResourceType.GROUP, group_id)
            groups.append(group)
    return ConsumerGroupDescribeResponse(groups=groups)


def _assigned_topics(group: ConsumerGroupDescribeResponse.Group) -> set[str]:
    return {
        entry.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for entry in assignment.topic_partitions
    }


def _refused(group_id: str, code: ErrorCode, text: str | None) -> ConsumerGroupDescribeResponse.Group:
    return _Consumer(error_code=code, error_message=text, group_id=group_id, members=[])


def _consumer_group(
    context: ApiContext, described: DescribedConsumerGroup
) -> Steps[ConsumerGroupDescribeResponse.Group]:
    group = _Consumer(
        group_id=described.group_id,
        group_state=described.state,
        group_epoch=described.epoch,
        assignment_epoch=described.assignment_epoch,
        assignor_name=described.assignor,
        members=[],
    )
    for member in described.members:
        group.members.append(_consumer_member(context, member))
        yield 1
    return group


def _consumer_member(
    context: ApiContext, member: DescribedConsumerMember
) -> ConsumerGroupDescribeResponse.Group.Member:
    phase = member.classic_phase
    return _ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        # What awaits revocation is the member's still (KAFKA-20431).
        assignment=_named(context, _ConsumerMember.Assignment, id_partitions((*member.assignment, *member.pending))),
        target_assignment=_named(context, _ConsumerMember.TargetAssignment, member.target),
        member_type=_CONSUMER if phase is None else _CLASSIC,
        phase=None if phase is None or not context.config.kohort_extensions else PHASES[phase],
    )


def _named(context: ApiContext, cls: type[AssignmentT], partitions: IdPartitions) -> AssignmentT:
    """Return partitions with the names of their topics; as in Kafka, those of a topic that is gone are left out."""
    found = cls(topic_partitions=[])
    for topic_id, numbers in partitions:
        topic = context.topics.by_id(topic_id)
        if topic is not None:
            entry = cls.TopicPartition(topic_id=topic_id, topic_name=topic.name, partitions=list(numbers))
            found.topic_partitions.append(entry)
    return found


def list_groups(context: ApiContext, request: Request, message: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the groups that pass both filters; letter case does not matter to them."""
    if context.coordinator.is_loading():
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = frozenset(state.lower() for state in message.states_filter)
    types = frozenset(each.lower() for each in message.types_filter)
    response = ListGroupsResponse(groups=[])
    access, sender = context.access, request.connection
    lists_all = access.allows(sender, api_checks.LIST_GROUPS_CLUSTER)
    for group in context.coordinator.list_groups(states, types):
        yield 1
        if not lists_all and not access.allows(sender, api_checks.LIST_GROUPS_GROUP, group.group_id):
            continue
        response.groups.append(
            ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
        )
    return response


_Result = DeleteGroupsResponse.Result


def delete_groups(
    context: ApiContext, request: Request, message: DeleteGroupsRequest
) -> Steps[DeleteGroupsResponse | None]:
    """Delete each group, once; the response comes when all of them have been decided."""
    results = [_Result(group_id=group_id) for group_id in dict.fromkeys(message.groups_names)]
    allowed = []
    for answer in results:
        yield 1
        try:
            context.access.require(request.connection, api_checks.DELETE_GROUP, answer.group_id)
            allowed.append(answer)
        except KafkaError as error:
            set_error(answer, error)
    waiting = len(allowed)

    def ticket(answer: _Result, result: Result) -> None:
        nonlocal waiting
        waiting -= 1
        answer.error_code = result.error
        answer.error_message = result.error.text if result.error else None
        if not waiting:
            request.reply(DeleteGroupsResponse(results=results))

    for answer in allowed:
        context.coordinator.submit(DeleteGroup(answer.group_id), partial(ticket, answer))
        yield 4
    return None if allowed else DeleteGroupsResponse(results=results)
