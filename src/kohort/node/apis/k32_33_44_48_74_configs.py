"""Settings of a topic, of this broker and of a group: describe, alter, and list the resources that have any.

DescribeConfigs: v1 adds where a value comes from and its synonyms (KIP-226); v3 its type and its text (KIP-569).
AlterConfigs replaces all settings of a resource; it is deprecated since IncrementalAlterConfigs (KIP-339), and still
the only one that aiokafka and older clients send. ListConfigResources (KIP-1142): v0 lists client metrics, of which
there are none. DescribeClientQuotas: no client has any; `kafka-configs --describe` asks before users' credentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kohort.log.disk import StorageError
from kohort.model.acl import CLUSTER_NAME, ResourceType
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.setting import Setting, SettingKind, SettingsError, Table, value_text
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.authorization.api_checks import Check
from kohort.node.broker_state import group_config_entries
from kohort.node.client_connection import Request
from kohort.node.configuration.broker_settings import BROKER, GROUP
from kohort.node.configuration.config import Config, GroupResourceConfig, ResourceConfig, Source, TopicConfig
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

COORDINATED = frozenset({"__consumer_offsets", "__transaction_state"})

SMALLEST_BATCH = 1_048_588
"""The least `max.message.bytes`: a group of some thousand members is one record."""
SMALLEST_SEGMENT = 2 * SMALLEST_BATCH

_REFUSED = ("retention.ms", "retention.bytes", "message.timestamp.type")


def check_internal(name: str, config: TopicConfig) -> None:
    """Raise SettingsError where the settings of a topic would take away what its coordinator needs."""
    if name not in COORDINATED:
        return
    if config.cleanup_policy != ("compact",):
        policy = ",".join(config.cleanup_policy)
        raise SettingsError(
            f"cleanup.policy={policy} of {name} would delete the state of its coordinator: it is compact"
        )
    for refused in _REFUSED:
        if refused in config.texts:
            raise SettingsError(
                f"{refused} of {name} cannot be set: the topic is compacted, and keeps its coordinator's state"
            )
    for setting, least in (("max.message.bytes", SMALLEST_BATCH), ("segment.bytes", SMALLEST_SEGMENT)):
        if setting in config.texts and config.get(setting) < least:
            raise SettingsError(
                f"{setting}={config.get(setting)} of {name} is less than its coordinator needs, {least}"
            )


_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_OTHERS = {_BROKER_LOGGER: "broker logger", _CLIENT_METRICS: "client metrics"}

Changes = list[tuple[str, str | None]]
"""New values by name; None takes a setting back."""


class Resource(NamedTuple):
    """One thing that has settings: which ones there are, and what they are worth."""

    kind: int
    name: str
    table: Table
    config: Config | ResourceConfig

    @property
    def own_texts(self) -> Mapping[str, str]:
        """The settings that were given to the thing itself while the broker ran."""
        if isinstance(self.config, ResourceConfig):
            return self.config.texts
        return {name: value_text(value) or "" for name, value in self.config.dynamic.items()}

    def check(self, changes: Changes) -> None:
        """Raise SettingsError when the changes cannot all be made together."""
        draft: Config | ResourceConfig
        if isinstance(self.config, Config):
            draft = Config({name: value_text(value) or "" for name, value in self.config.static.items()})
        else:
            draft = type(self.config)(self.config.broker)
        for name, text in [*self.own_texts.items(), *changes]:
            draft.alter(name, text)
        if isinstance(draft, GroupResourceConfig):
            draft.check()
        elif isinstance(draft, TopicConfig) and changes:
            check_internal(self.name, draft)

    def alter(self, context: ApiContext, changes: Changes, now_ms: int) -> None:
        """Make changes that were checked."""
        topic = context.topics.get(self.name) if self.kind == _TOPIC else None
        if topic is not None:
            context.topics.alter(topic, changes, now_ms)
        elif self.kind == _GROUP:
            context.state.write(group_config_entries(self.name, changes, now_ms), now_ms)
        else:
            context.state.alter_broker(changes, now_ms)


def _find_resource(context: ApiContext, kind: int, name: str) -> Resource:
    """Return what a config request names. Raises KafkaError."""
    if kind == _TOPIC:
        return Resource(kind, name, TopicConfig.table, context.topics.find(name).config)
    if kind == _BROKER:
        # The empty name is the default of all brokers, and there is only one.
        if name not in ("", str(context.config.node_id)):
            text = f"Unexpected broker id, expected {context.config.node_id} or empty string, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return Resource(kind, name, BROKER, context.config)
    if kind == _GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        return Resource(kind, name, GROUP, context.state.group_configs.get(name))
    other = _OTHERS.get(kind)
    text = f"Resources of type {other} have no settings here." if other else f"Unknown resource type {kind}."
    raise KafkaError(ErrorCode.INVALID_REQUEST, text)


_PROTECTED = {_TOPIC: ResourceType.TOPIC, _GROUP: ResourceType.GROUP}
"""What protects the settings of a resource, by its type; those of everything else are the cluster's."""


def _require(context: ApiContext, request: Request, checks: Mapping[ResourceType, Check], asked: Any) -> None:
    kind = _PROTECTED.get(asked.resource_type, ResourceType.CLUSTER)
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else asked.resource_name
    context.access.require(request.connection, checks[kind], name)


def _alter_each(
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
            _require(context, request, api_checks.ALTER_CONFIGS_OF, asked)
            resource = _find_resource(context, asked.resource_type, asked.resource_name)
            if len({config.name for config in asked.configs}) < len(asked.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each setting must appear at most once.")
            changes = changes_of(resource, asked)
            resource.check(changes)
            if not message.validate_only:
                resource.alter(context, changes, request.now_ms)
        except SettingsError as error:
            result.error_code, result.error_message = ErrorCode.INVALID_CONFIG, str(error)
        except (KafkaError, StorageError) as error:
            set_error(result, error)
        results.append(result)
        yield 1
    return results


def _checked_value(resource: Resource, name: str, value: str | None) -> str:
    """Return a value that a setting may have. Raises SettingsError, KafkaError."""
    setting = resource.table.find(name)
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {name}.")
    setting.parse(value)
    return value


_Result = DescribeConfigsResponse.Result


def describe_configs(
    context: ApiContext, request: Request, message: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse]:
    """Describe each resource on its own, once; settings that do not exist are left out, as in Kafka."""
    results = []
    for asked in {(asked.resource_type, asked.resource_name): asked for asked in message.resources}.values():
        result = _Result(
            error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name, configs=[]
        )
        try:
            _require(context, request, api_checks.DESCRIBE_CONFIGS_OF, asked)
            resource = _find_resource(context, asked.resource_type, asked.resource_name)
            wanted = None if asked.configuration_keys is None else frozenset(asked.configuration_keys)
            for name, setting in resource.table.items():
                if wanted is None or name in wanted:
                    result.configs.append(_describe(context, message, resource, setting))
                    yield 1
        except KafkaError as error:
            set_error(result, error)
        results.append(result)
        yield 1
    return DescribeConfigsResponse(results=results)


def _describe(
    context: ApiContext, message: DescribeConfigsRequest, resource: Resource, setting: Setting[Any]
) -> DescribeConfigsResponse.Result.Config:
    is_secret = setting.kind is SettingKind.PASSWORD
    own = resource.config
    config = _Result.Config(
        name=setting.name,
        value=None if is_secret else value_text(own.get(setting.name)),
        read_only=not (setting.is_dynamic or isinstance(own, ResourceConfig)),
        config_source=own.source(setting.name),
        is_sensitive=is_secret,
        config_type=setting.kind.code,
        documentation=setting.doc if message.include_documentation else None,
    )
    if message.include_synonyms and not is_secret:
        config.synonyms = _synonyms(context, own if isinstance(own, ResourceConfig) else None, setting)
    return config


def _synonyms(
    context: ApiContext, own: ResourceConfig | None, setting: Setting[Any]
) -> list[DescribeConfigsResponse.Result.Config.Synonym]:
    synonym = _Result.Config.Synonym
    found = []
    if own is not None and setting.name in own.texts:
        found.append(synonym(name=setting.name, value=own.texts[setting.name], source=own.own_source))
    for name in setting.broker_names or ((setting.name,) if own is None else ()):
        for source, layer in (
            (Source.DYNAMIC_BROKER, context.config.dynamic),
            (Source.STATIC_BROKER, context.config.static),
        ):
            if name in layer:
                found.append(synonym(name=name, value=value_text(layer[name]), source=source))
        if BROKER[name].default is not None:
            found.append(synonym(name=name, value=value_text(BROKER[name].default), source=Source.DEFAULT))
    return found


def alter_configs(context: ApiContext, request: Request, message: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    """Set what each resource names and remove the rest."""
    results = yield from _alter_each(context, request, message, AlterConfigsResponse.Response, _replacing_changes)
    return AlterConfigsResponse(responses=results)


def _replacing_changes(resource: Resource, asked: AlterConfigsRequest.Resource) -> Changes:
    named: Changes = [(each.name, _checked_value(resource, each.name, each.value)) for each in asked.configs]
    return named + [(name, None) for name in sorted(resource.own_texts.keys() - dict(named).keys())]


SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def incremental_alter_configs(
    context: ApiContext, request: Request, message: IncrementalAlterConfigsRequest
) -> Steps[IncrementalAlterConfigsResponse]:
    """Change each resource on its own: all of its settings or, if one is refused, none."""
    results = yield from _alter_each(
        context, request, message, IncrementalAlterConfigsResponse.Response, _single_changes
    )
    return IncrementalAlterConfigsResponse(responses=results)


def _single_changes(resource: Resource, asked: IncrementalAlterConfigsRequest.Resource) -> Changes:
    return [(config.name, _new_value(resource, config)) for config in asked.configs]


def _new_value(resource: Resource, config: IncrementalAlterConfigsRequest.Resource.Config) -> str | None:
    setting = resource.table.find(config.name)
    if config.config_operation == DELETE:
        return None
    if config.config_operation == SET:
        return _checked_value(resource, config.name, config.value)
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {config.name}.")
    if config.config_operation not in (APPEND, SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}.")
    if setting.kind is not SettingKind.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Only lists can be appended to; {config.name} is none.")
    current: tuple[str, ...] = resource.config.get(config.name) or ()
    items = [item.strip() for item in config.value.split(",") if item.strip()]
    if config.config_operation == APPEND:
        return ",".join([*current, *(item for item in items if item not in current)])
    return ",".join(item for item in current if item not in items)


_KNOWN = frozenset({_TOPIC, _BROKER, _GROUP, *_OTHERS})


def list_config_resources(
    context: ApiContext, request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources of the types asked for, of all types when none is."""
    if request.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = frozenset(message.resource_types) or _KNOWN
    if not wanted <= _KNOWN:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type.")
    resource = ListConfigResourcesResponse.ConfigResource
    found = []
    if _TOPIC in wanted:
        found += [resource(resource_name=topic.name, resource_type=_TOPIC) for topic in context.topics]
    for kind in (_BROKER, _BROKER_LOGGER):
        if kind in wanted:
            found.append(resource(resource_name=str(context.config.node_id), resource_type=kind))
    if _GROUP in wanted:
        found += [resource(resource_name=group_id, resource_type=_GROUP) for group_id in context.state.group_configs]
    return ListConfigResourcesResponse(config_resources=found)


def describe_client_quotas(
    context: ApiContext, request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Answer that no client has a quota."""
    return DescribeClientQuotasResponse(error_message=None, entries=[])
