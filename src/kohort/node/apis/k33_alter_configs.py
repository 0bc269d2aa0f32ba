"""AlterConfigs: the whole set of a resource's settings; what is not named goes back to its default.

Deprecated since IncrementalAlterConfigs (KIP-339), and still the only one that aiokafka and older clients send.
"""

from __future__ import annotations

from kohort.node.apis.config_resources import Changes, Resource, alter_each, checked_value
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import AlterConfigsRequest, AlterConfigsResponse

API = Api.ALTER_CONFIGS


def handle(context: ApiContext, request: Request, message: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    """Set what each resource names and remove the rest."""
    results = yield from alter_each(context, request, message, AlterConfigsResponse.Response, _changes)
    return AlterConfigsResponse(responses=results)


def _changes(resource: Resource, asked: AlterConfigsRequest.Resource) -> Changes:
    named: Changes = [(each.name, checked_value(resource, each.name, each.value)) for each in asked.configs]
    return named + [(name, None) for name in sorted(resource.own_texts.keys() - dict(named).keys())]
