"""SASL: agree on a mechanism, then check one PLAIN token (RFC 4616). PLAIN is the only one, where the broker has users.

SaslHandshake: v0 would be followed by raw tokens; like every broker that speaks v1, we expect SaslAuthenticate instead.
SaslAuthenticate: v1 adds the session's lifetime (KIP-368), unlimited here. A wrong password is answered, then the
connection closed.
"""

from __future__ import annotations

from hmac import compare_digest

from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.principal import Principal
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import NO_REPLY, Request, Silence
from kohort.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PLAIN = "PLAIN"


def sasl_handshake(context: ApiContext, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Take the mechanism for this connection."""
    if not context.users or request.connection.is_authenticated:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    if message.mechanism != PLAIN:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[PLAIN])
    if request.api_version == 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    request.connection.sasl_mechanism = message.mechanism
    return SaslHandshakeResponse(mechanisms=[PLAIN])


def sasl_authenticate(
    context: ApiContext, request: Request, message: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Silence:
    """Let the client in when its name and password are those of a user."""
    connection = request.connection
    if connection.is_authenticated or connection.sasl_mechanism is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate comes after SaslHandshake, once.")
    token = message.auth_bytes.split(b"\0")
    if len(token) == 3:
        wanted, name, password = (part.decode("utf-8", "replace") for part in token)
        expected = context.users.get(name)
        is_right = expected is not None and compare_digest(expected.encode(), password.encode())
        if is_right and wanted in ("", name):
            connection.is_authenticated = True
            connection.principal = Principal("User", name)
            return SaslAuthenticateResponse(auth_bytes=b"")
    response = request.refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed.")
    request.server.farewell(request, response, "SASL authentication failed")
    return NO_REPLY
