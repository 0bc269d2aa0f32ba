"""DescribeConfigs: the settings in force, of topics, of the broker and of groups.

v1 adds where a value comes from and its synonyms (KIP-226); v3 its type and its text (KIP-569).
"""

from __future__ import annotations

from typing import Any

from kohort.model.errors import KafkaError
from kohort.node.apis.config_resources import Resource, find_resource
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.configuration.broker_settings import BROKER, Kind, Setting, value_text
from kohort.node.configuration.config import ResourceConfig, Source
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse

API = Api.DESCRIBE_CONFIGS
_Result = DescribeConfigsResponse.Result


def handle(context: ApiContext, request: Request, message: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    """Describe each resource on its own, once; settings that do not exist are left out, as in Kafka."""
    results = []
    for asked in {(asked.resource_type, asked.resource_name): asked for asked in message.resources}.values():
        result = _Result(
            error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name, configs=[]
        )
        try:
            resource = find_resource(context, asked.resource_type, asked.resource_name)
            wanted = None if asked.configuration_keys is None else frozenset(asked.configuration_keys)
            for name, setting in resource.table.items():
                if wanted is None or name in wanted:
                    result.configs.append(_describe(context, message, resource, setting))
                    yield 1
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.text
        results.append(result)
        yield 1
    return DescribeConfigsResponse(results=results)


def _describe(
    context: ApiContext, message: DescribeConfigsRequest, resource: Resource, setting: Setting[Any]
) -> DescribeConfigsResponse.Result.Config:
    is_secret = setting.kind is Kind.PASSWORD
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
