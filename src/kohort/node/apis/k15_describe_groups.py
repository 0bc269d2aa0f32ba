"""DescribeGroups: the state and the members of classic groups.

v3 may return what the sender is allowed to do, v4 adds GroupInstanceId, v5 is flexible, v6 returns GROUP_ID_NOT_FOUND
where earlier versions call a missing group Dead (KIP-1043).
"""

from __future__ import annotations

from kohort.group.describe import DescribedGroup
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import GROUP_OPERATIONS, ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse

API = Api.DESCRIBE_GROUPS
_Group = DescribeGroupsResponse.Group


def handle(context: ApiContext, request: Request, message: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """Describe each group of the request, once."""
    groups = []
    for group_id in dict.fromkeys(message.groups):
        yield 1
        if error := context.coordinator.load_error(group_id):
            groups.append(_Group(error_code=error, group_id=group_id, members=[]))
            continue
        described = context.coordinator.describe(group_id)
        if described is None:
            group = _missing(context, group_id, request.api_version)
        else:
            group = yield from _found(described)
        if message.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        groups.append(group)
    return DescribeGroupsResponse(groups=groups)


def _missing(context: ApiContext, group_id: str, version: int) -> _Group:
    if version < 6:
        return _Group(group_id=group_id, group_state="Dead", members=[])
    is_other = context.coordinator.describe_consumer(group_id) is not None
    return _Group(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found.",
        group_id=group_id,
        group_state="Dead",
        members=[],
    )


def _found(described: DescribedGroup) -> Steps[_Group]:
    group = _Group(
        group_id=described.group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[],
    )
    for member in described.members:
        group.members.append(
            _Group.Member(
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
