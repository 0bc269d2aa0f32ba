"""DescribeConfigs: the settings in force, of topics and of the broker.

v1 adds where a value comes from and its synonyms (KIP-226); v3 its type and its text (KIP-569).
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.config import Source, value_text
from kohort.node.connection import Request
from kohort.node.node import Node
from kohort.node.resources import find_resource
from kohort.node.settings import BROKER, TOPIC, Kind, Setting
from kohort.node.topics import Topic
from kohort.wire.apis import Api
from kohort.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse

API = Api.DESCRIBE_CONFIGS
_Result = DescribeConfigsResponse.Result


def handle(node: Node, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource on its own; settings that do not exist are left out, as in Kafka."""
    results = []
    for resource in message.resources:
        result = _Result(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
        )
        try:
            topic = find_resource(node, resource.resource_type, resource.resource_name)
            wanted = resource.configuration_keys
            table = BROKER if topic is None else TOPIC
            result.configs = [
                _describe(node, message, topic, setting)
                for name, setting in table.items()
                if wanted is None or name in wanted
            ]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.text
        results.append(result)
    return DescribeConfigsResponse(results=results)


def refuse(message: DescribeConfigsRequest, code: ErrorCode, text: str, version: int) -> DescribeConfigsResponse:
    """Say an error about every resource."""
    return DescribeConfigsResponse(
        results=[
            _Result(
                error_code=code,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[],
            )
            for resource in message.resources
        ]
    )


def _describe(
    node: Node, message: DescribeConfigsRequest, topic: Topic | None, setting: Setting
) -> DescribeConfigsResponse.Result.Config:
    name = setting.name
    is_secret = setting.kind is Kind.PASSWORD
    if topic is None:
        value, source, read_only = node.config.get(name), node.config.source(name), not setting.is_dynamic
    else:
        value, source, read_only = topic.config.get(name), topic.config.source(name), False
    config = _Result.Config(
        name=name,
        value=None if is_secret else value_text(value),
        read_only=read_only,
        config_source=source,
        is_sensitive=is_secret,
        config_type=setting.kind.code,
        documentation=setting.doc if message.include_documentation else None,
    )
    if message.include_synonyms and not is_secret:
        config.synonyms = _synonyms(node, topic, setting)
    return config


def _synonyms(node: Node, topic: Topic | None, setting: Setting) -> list[DescribeConfigsResponse.Result.Config.Synonym]:
    synonym = _Result.Config.Synonym
    found = []
    if topic is not None and setting.name in topic.config.texts:
        found.append(synonym(name=setting.name, value=topic.config.texts[setting.name], source=Source.TOPIC))
    for name in setting.broker_names or ((setting.name,) if topic is None else ()):
        for source, layer in (
            (Source.DYNAMIC_BROKER, node.config.dynamic),
            (Source.STATIC_BROKER, node.config.static),
        ):
            if name in layer:
                found.append(synonym(name=name, value=value_text(layer[name]), source=source))
        if BROKER[name].default is not None:
            found.append(synonym(name=name, value=BROKER[name].default, source=Source.DEFAULT))
    return found
