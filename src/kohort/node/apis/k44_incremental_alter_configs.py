"""IncrementalAlterConfigs: set, remove, add to or take from single settings (KIP-339)."""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.config_resources import Changes, Resource, alter_each, checked_value
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.configuration.broker_settings import Kind
from kohort.node.configuration.config import find
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

API = Api.INCREMENTAL_ALTER_CONFIGS
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def handle(
    context: ApiContext, request: Request, message: IncrementalAlterConfigsRequest
) -> Steps[IncrementalAlterConfigsResponse]:
    """Change each resource on its own: all of its settings or, if one is refused, none."""
    results = yield from alter_each(context, request, message, IncrementalAlterConfigsResponse.Response, _changes)
    return IncrementalAlterConfigsResponse(responses=results)


def _changes(resource: Resource, asked: IncrementalAlterConfigsRequest.Resource) -> Changes:
    return [(config.name, _value(resource, config)) for config in asked.configs]


def _value(resource: Resource, config: IncrementalAlterConfigsRequest.Resource.Config) -> str | None:
    setting = find(resource.table, config.name)
    if config.config_operation == DELETE:
        return None
    if config.config_operation == SET:
        return checked_value(resource, config.name, config.value)
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {config.name}.")
    if config.config_operation not in (APPEND, SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}.")
    if setting.kind is not Kind.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Only lists can be appended to; {config.name} is none.")
    current: tuple[str, ...] = resource.config.get(config.name) or ()
    items = [item.strip() for item in config.value.split(",") if item.strip()]
    if config.config_operation == APPEND:
        return ",".join([*current, *(item for item in items if item not in current)])
    return ",".join(item for item in current if item not in items)
