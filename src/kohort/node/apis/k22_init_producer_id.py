"""InitProducerId: an id for an idempotent producer.

v3 lets a producer raise its own epoch (KIP-360); v6, two-phase commit, is unstable in Kafka. A transactional id is
refused: there are no transactions here.
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.wire.apis import Api
from kohort.wire.messages import InitProducerIdRequest, InitProducerIdResponse

API = Api.INIT_PRODUCER_ID


def handle(context: ApiContext, request: Request, message: InitProducerIdRequest) -> InitProducerIdResponse:
    """Answer with an id that was never given before, at epoch 0."""
    if message.transactional_id is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Transactions are not supported by this broker.")
    return InitProducerIdResponse(producer_id=context.state.next_producer_id(request.now_ms), producer_epoch=0)
