"""DescribeCluster: the brokers, the controller and the cluster's id.

v1 adds the endpoint type (KIP-919): brokers only here. v2 adds fenced brokers, of which there are none.
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import CLUSTER_OPERATIONS, ApiContext
from kohort.node.client_connection import Request
from kohort.wire.apis import Api
from kohort.wire.messages import DescribeClusterRequest, DescribeClusterResponse

API = Api.DESCRIBE_CLUSTER
_BROKERS, _CONTROLLERS = 1, 2


def handle(context: ApiContext, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer with the one broker there is."""
    if message.endpoint_type == _CONTROLLERS:
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of type BROKER.")
    if message.endpoint_type != _BROKERS:
        text = f"Unsupported endpoint type {message.endpoint_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    host, port = context.advertised
    node_id = context.config.node_id
    response = DescribeClusterResponse(
        cluster_id=context.state.cluster_id,
        controller_id=node_id,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=node_id, host=host, port=port, rack=context.config.broker_rack)
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
