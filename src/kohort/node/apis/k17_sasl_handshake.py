"""SaslHandshake: agree on a mechanism. PLAIN is the only one, and only where the broker has users.

v0 would be followed by raw tokens; like every broker that speaks v1, we expect SaslAuthenticate instead.
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.wire.apis import Api
from kohort.wire.messages import SaslHandshakeRequest, SaslHandshakeResponse

API = Api.SASL_HANDSHAKE
PLAIN = "PLAIN"


def handle(context: ApiContext, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Take the mechanism for this connection."""
    if not context.users or request.connection.is_authenticated:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    if message.mechanism != PLAIN:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[PLAIN])
    if request.api_version == 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    request.connection.sasl_mechanism = message.mechanism
    return SaslHandshakeResponse(mechanisms=[PLAIN])
