"""AlterConfigs: the whole set of a resource's settings; what is not named goes back to its default.

Deprecated since IncrementalAlterConfigs (KIP-339), and still the only one that aiokafka and older clients send.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.model.errors import KafkaError
from kohort.node.apis import k44_incremental_alter_configs as incremental
from kohort.node.apis.config_resources import find_resource
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest

API = Api.ALTER_CONFIGS
_Change = IncrementalAlterConfigsRequest.Resource.Config
_Result = AlterConfigsResponse.Response


def handle(context: ApiContext, request: Request, message: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    """Set what each resource names and remove the rest, as one incremental change per resource."""
    resources = []
    for resource in message.resources:
        yield 1
        named = {config.name for config in resource.configs}
        removed = sorted(set(_present(context, resource.resource_type, resource.resource_name)) - named)
        changes = [
            _Change(name=each.name, config_operation=incremental.SET, value=each.value) for each in resource.configs
        ]
        changes += [_Change(name=name, config_operation=incremental.DELETE, value=None) for name in removed]
        resources.append(
            IncrementalAlterConfigsRequest.Resource(
                resource_type=resource.resource_type, resource_name=resource.resource_name, configs=changes
            )
        )
    change = IncrementalAlterConfigsRequest(resources=resources, validate_only=message.validate_only)
    done = yield from incremental.handle(context, request, change)
    response = AlterConfigsResponse(responses=[])
    for each in done.responses:
        response.responses.append(
            _Result(
                error_code=each.error_code,
                error_message=each.error_message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
        yield 1
    return response


def _present(context: ApiContext, resource_type: int, name: str) -> Iterable[str]:
    """Return the settings that a resource has of its own; one that is not there is refused later, by its name."""
    try:
        return find_resource(context, resource_type, name).own_texts
    except KafkaError:
        return ()
