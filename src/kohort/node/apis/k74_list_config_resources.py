"""ListConfigResources: what has settings (KIP-1142). v0 lists client metrics only, of which there are none."""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.config_resources import BROKER, GROUP, TOPIC
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.wire.apis import Api
from kohort.wire.messages import ListConfigResourcesRequest, ListConfigResourcesResponse

API = Api.LIST_CONFIG_RESOURCES
_BROKER_LOGGER, _CLIENT_METRICS = 8, 16
_KNOWN = frozenset({TOPIC, BROKER, _BROKER_LOGGER, _CLIENT_METRICS, GROUP})


def handle(context: ApiContext, request: Request, message: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of the types asked for, of all types when none is."""
    if request.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = frozenset(message.resource_types) or _KNOWN
    if not wanted <= _KNOWN:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type.")
    resource = ListConfigResourcesResponse.ConfigResource
    found = []
    if TOPIC in wanted:
        found += [resource(resource_name=topic.name, resource_type=TOPIC) for topic in context.topics]
    for kind in (BROKER, _BROKER_LOGGER):
        if kind in wanted:
            found.append(resource(resource_name=str(context.config.node_id), resource_type=kind))
    if GROUP in wanted:
        found += [resource(resource_name=group_id, resource_type=GROUP) for group_id in context.state.group_configs]
    return ListConfigResourcesResponse(config_resources=found)
