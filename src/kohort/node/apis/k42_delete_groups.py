"""DeleteGroups: delete empty groups and what they committed.

v2 is flexible, v3 adds an error message for each group.
"""

from __future__ import annotations

from functools import partial

from kohort.group.commands import DeleteGroup
from kohort.group.results import Result
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import DeleteGroupsRequest, DeleteGroupsResponse

API = Api.DELETE_GROUPS
_Result = DeleteGroupsResponse.Result


def handle(context: ApiContext, request: Request, message: DeleteGroupsRequest) -> Steps[DeleteGroupsResponse | None]:
    """Delete each group, once; the response comes when all of them have been decided."""
    results = [_Result(group_id=group_id) for group_id in dict.fromkeys(message.groups_names)]
    waiting = len(results)

    def ticket(answer: _Result, result: Result) -> None:
        nonlocal waiting
        waiting -= 1
        answer.error_code = result.error
        answer.error_message = result.error.text if result.error else None
        if not waiting:
            request.reply(DeleteGroupsResponse(results=results))

    for answer in results:
        context.coordinator.submit(DeleteGroup(answer.group_id), partial(ticket, answer), context.clock.now_ms)
        yield 4
    return None if results else DeleteGroupsResponse(results=[])
