"""ConsumerGroupDescribe: the state and the members of consumer groups (KIP-848).

v1 reports which protocol each member uses (KIP-1099).
"""

from __future__ import annotations

from typing import TypeVar

from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember
from kohort.group.events import ClassicPhase
from kohort.model.errors import ErrorCode
from kohort.model.id_partitions import IdPartitions
from kohort.node.apis.context import GROUP_OPERATIONS, ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

API = Api.CONSUMER_GROUP_DESCRIBE
_Group = ConsumerGroupDescribeResponse.Group
_Member = _Group.Member
AssignmentT = TypeVar("AssignmentT", _Member.Assignment, _Member.TargetAssignment)
_CLASSIC, _CONSUMER = 0, 1


PHASES = {
    ClassicPhase.STABLE: "Stable",
    ClassicPhase.PREPARE_REBALANCE: "PrepareRebalance",
    ClassicPhase.COMPLETING_REBALANCE: "CompletingRebalance",
}
"""KIP-848's names for the phase of a classic member, in an extension that other clients skip."""


def handle(
    context: ApiContext, request: Request, message: ConsumerGroupDescribeRequest
) -> Steps[ConsumerGroupDescribeResponse]:
    """Describe each group of the request, once."""
    groups = []
    for group_id in dict.fromkeys(message.group_ids):
        yield 1
        if not group_id:
            groups.append(_refused(group_id, ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text))
        elif error := context.coordinator.load_error(group_id):
            groups.append(_refused(group_id, error, error.text))
        elif (described := context.coordinator.describe_consumer(group_id)) is None:
            is_other = context.coordinator.describe(group_id) is not None
            text = f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
            groups.append(_refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, text))
        else:
            group = yield from _found(context, described)
            if message.include_authorized_operations:
                group.authorized_operations = GROUP_OPERATIONS
            groups.append(group)
    return ConsumerGroupDescribeResponse(groups=groups)


def _refused(group_id: str, code: ErrorCode, text: str) -> ConsumerGroupDescribeResponse.Group:
    return _Group(error_code=code, error_message=text, group_id=group_id, members=[])


def _found(context: ApiContext, described: DescribedConsumerGroup) -> Steps[ConsumerGroupDescribeResponse.Group]:
    group = _Group(
        group_id=described.group_id,
        group_state=described.state,
        group_epoch=described.epoch,
        assignment_epoch=described.assignment_epoch,
        assignor_name=described.assignor,
        members=[],
    )
    for member in described.members:
        group.members.append(_member(context, member))
        yield 1
    return group


def _member(context: ApiContext, member: DescribedConsumerMember) -> ConsumerGroupDescribeResponse.Group.Member:
    phase = member.classic_phase
    return _Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_named(context, _Member.Assignment, member.assignment),
        target_assignment=_named(context, _Member.TargetAssignment, member.target),
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
