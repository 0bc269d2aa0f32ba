"""ListGroups: the groups of this node.

v3 is flexible, v4 filters by state (KIP-518), v5 by type (KIP-848).
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import ListGroupsRequest, ListGroupsResponse

API = Api.LIST_GROUPS


def handle(context: ApiContext, request: Request, message: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the groups that pass both filters; letter case does not matter to them."""
    if context.coordinator.is_loading():
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = frozenset(state.lower() for state in message.states_filter)
    types = frozenset(each.lower() for each in message.types_filter)
    response = ListGroupsResponse(groups=[])
    for group in context.coordinator.list_groups(states, types):
        response.groups.append(
            ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
        )
        yield 1
    return response
