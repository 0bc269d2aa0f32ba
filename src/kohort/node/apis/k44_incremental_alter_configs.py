"""IncrementalAlterConfigs: set, remove, add to or take from single settings (KIP-339)."""

from __future__ import annotations

from collections import Counter

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.config_resources import Resource, find_resource
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.configuration.broker_settings import Kind
from kohort.node.configuration.config import ConfigError, find, parse_value
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

API = Api.INCREMENTAL_ALTER_CONFIGS
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_Asked = IncrementalAlterConfigsRequest.Resource
_Result = IncrementalAlterConfigsResponse.Response


def handle(
    context: ApiContext, request: Request, message: IncrementalAlterConfigsRequest
) -> Steps[IncrementalAlterConfigsResponse]:
    """Change each resource on its own: all of its settings or, if one is refused, none."""
    results = []
    twice = Counter((resource.resource_type, resource.resource_name) for resource in message.resources)
    for asked in message.resources:
        result = _Result(error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name)
        try:
            if twice[asked.resource_type, asked.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            resource = find_resource(context, asked.resource_type, asked.resource_name)
            changes = _changes(resource, asked)
            resource.check(changes)
            if not message.validate_only:
                resource.alter(context, changes, request.now_ms)
        except ConfigError as error:
            result.error_code, result.error_message = ErrorCode.INVALID_CONFIG, str(error)
        except (KafkaError, StorageError) as error:
            set_error(result, error)
        results.append(result)
        yield 1
    return IncrementalAlterConfigsResponse(responses=results)


def _changes(resource: Resource, asked: _Asked) -> list[tuple[str, str | None]]:
    names = Counter(config.name for config in asked.configs)
    if any(count > 1 for count in names.values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each setting must appear at most once.")
    return [_change(resource, config) for config in asked.configs]


def _change(resource: Resource, config: IncrementalAlterConfigsRequest.Resource.Config) -> tuple[str, str | None]:
    setting = find(resource.table, config.name)
    if config.config_operation == DELETE:
        return config.name, None
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {config.name}.")
    if config.config_operation == SET:
        parse_value(setting, config.value)
        return config.name, config.value
    if config.config_operation not in (APPEND, SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}.")
    if setting.kind is not Kind.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Only lists can be appended to; {config.name} is none.")
    current: tuple[str, ...] = resource.config.get(config.name) or ()
    items = [item.strip() for item in config.value.split(",") if item.strip()]
    if config.config_operation == APPEND:
        return config.name, ",".join([*current, *(item for item in items if item not in current)])
    return config.name, ",".join(item for item in current if item not in items)
