"""The things that have settings, as the config APIs name them: a topic, this broker, or a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.configuration import broker_settings, group_configs
from kohort.node.configuration.broker_settings import Setting, value_text
from kohort.node.configuration.config import (
    Config,
    ConfigError,
    GroupResourceConfig,
    ResourceConfig,
    TopicConfig,
    find,
    parse_value,
)
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps

TOPIC, BROKER, GROUP = 2, 4, 32
_OTHERS = {8: "broker logger", 16: "client metrics"}


Changes = list[tuple[str, str | None]]
"""New values by name; None takes a setting back."""


class Resource(NamedTuple):
    """One thing that has settings: which ones there are, and what they are worth."""

    kind: int
    name: str
    table: Mapping[str, Setting[Any]]
    config: Config | ResourceConfig

    @property
    def own_texts(self) -> Mapping[str, str]:
        """The settings that were given to the thing itself while the broker ran."""
        if isinstance(self.config, ResourceConfig):
            return self.config.texts
        return {name: value_text(value) or "" for name, value in self.config.dynamic.items()}

    def check(self, changes: Changes) -> None:
        """Raise ConfigError when the changes cannot all be made together."""
        draft: Config | ResourceConfig
        if isinstance(self.config, Config):
            draft = Config({name: value_text(value) or "" for name, value in self.config.static.items()})
        else:
            draft = type(self.config)(self.config.broker)
        for name, text in [*self.own_texts.items(), *changes]:
            draft.alter(name, text)
        if isinstance(draft, GroupResourceConfig):
            draft.check()

    def alter(self, context: ApiContext, changes: Changes, now_ms: int) -> None:
        """Make changes that were checked."""
        topic = context.topics.get(self.name) if self.kind == TOPIC else None
        if topic is not None:
            context.topics.alter(topic, changes, now_ms)
        elif self.kind == GROUP:
            context.state.write(group_configs.entries(self.name, changes, now_ms), now_ms)
        else:
            context.state.alter_broker(changes, now_ms)


def find_resource(context: ApiContext, kind: int, name: str) -> Resource:
    """Return what a config request names. Raises KafkaError."""
    if kind == TOPIC:
        return Resource(kind, name, TopicConfig.table, context.topics.find(name).config)
    if kind == BROKER:
        # The empty name is the default of all brokers, and there is only one.
        if name not in ("", str(context.config.node_id)):
            text = f"Unexpected broker id, expected {context.config.node_id} or empty string, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return Resource(kind, name, broker_settings.BROKER, context.config)
    if kind == GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        return Resource(kind, name, broker_settings.GROUP, context.state.group_configs.get(name))
    other = _OTHERS.get(kind)
    text = f"Resources of type {other} have no settings here." if other else f"Unknown resource type {kind}."
    raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def alter_each(
    context: ApiContext, request: Request, message: Any, cls: type[Any], changes_of: Callable[[Resource, Any], Changes]
) -> Steps[list[Any]]:
    """Change each resource on its own: all of its settings or, if one is refused, none. Return the results."""
    results = []
    twice = Counter((asked.resource_type, asked.resource_name) for asked in message.resources)
    for asked in message.resources:
        result = cls(error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name)
        try:
            if twice[asked.resource_type, asked.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            resource = find_resource(context, asked.resource_type, asked.resource_name)
            if len({config.name for config in asked.configs}) < len(asked.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each setting must appear at most once.")
            changes = changes_of(resource, asked)
            resource.check(changes)
            if not message.validate_only:
                resource.alter(context, changes, request.now_ms)
        except ConfigError as error:
            result.error_code, result.error_message = ErrorCode.INVALID_CONFIG, str(error)
        except (KafkaError, StorageError) as error:
            set_error(result, error)
        results.append(result)
        yield 1
    return results


def checked_value(resource: Resource, name: str, value: str | None) -> str:
    """Return a value that a setting may have. Raises ConfigError, KafkaError."""
    setting = find(resource.table, name)
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {name}.")
    parse_value(setting, value)
    return value
