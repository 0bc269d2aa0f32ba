"""SASL: agree on a mechanism, then exchange tokens until the client has proved who it is.

SaslHandshake: v0 would be followed by raw tokens; like every broker that speaks v1, we expect SaslAuthenticate instead.
SaslAuthenticate: v1 adds the session's lifetime (KIP-368): a client that stays longer must log in again before, as the
same user by the same mechanism. A failed login is answered after a delay, then the connection closed.
"""

from __future__ import annotations

from typing import Any

from kohort.model.acl import Principal
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authentication import LoginFailed, User
from kohort.node.client_connection import NO_REPLY, Connection, Request
from kohort.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def sasl_handshake(context: ApiContext, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin a login by the mechanism, the first or another one."""
    connection = request.connection
    offered = list(connection.listener.mechanisms)
    if not offered or (connection.is_authenticated and not connection.has_session):
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    if message.mechanism not in offered:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
    if request.api_version == 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if connection.has_session and connection.sasl_mechanism != message.mechanism:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    connection.sasl_mechanism = message.mechanism
    connection.login = context.authentication.begin(connection.listener, message.mechanism)
    return SaslHandshakeResponse(mechanisms=offered)


def sasl_authenticate(context: ApiContext, request: Request, message: SaslAuthenticateRequest) -> Any:
    """Take one token of the client's; at the end of the exchange the client is admitted, or refused."""
    connection = request.connection
    login, connection.login = connection.login, None
    if login is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate comes after SaslHandshake.")
    try:
        answer, user = login.step(bytes(message.auth_bytes))
        if user is None:
            connection.login = login
            return SaslAuthenticateResponse(auth_bytes=answer)
        lifetime_ms = _begin_session(context, connection, user, request.now_ms)
    except LoginFailed as error:
        return _refuse(context, request, str(error))
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)


def _begin_session(context: ApiContext, connection: Connection, user: User, now_ms: int) -> int:
    """Let a client in, and return for how long; 0 is without limit."""
    principal = Principal("User", user.name)
    if connection.has_session and principal != connection.principal:
        raise LoginFailed(f"a client that is {connection.principal} cannot become {principal}")
    settings = connection.listener.settings.of_mechanism(connection.sasl_mechanism or "")
    limits = [settings.connections_max_reauth_ms] if settings.connections_max_reauth_ms else []
    if user.expires_ms is not None:
        limits.append(max(1, user.expires_ms - now_ms))
    connection.is_authenticated = True
    connection.principal = principal
    context.timers.disarm(connection.login_timer)
    if not limits:
        return 0
    connection.has_session = True
    context.timers.arm(connection.session_timer, now_ms + min(limits), lambda _: connection.end_session())
    return min(limits)


def _refuse(context: ApiContext, request: Request, reason: str) -> Any:
    """Answer that a login failed, but not at once: guessing passwords must take long."""
    connection = request.connection
    response = request.refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, f"Authentication failed: {reason}.")
    text = f"SASL authentication by {connection.sasl_mechanism} failed on listener {connection.listener.name}: {reason}"
    delay_ms = context.config.connection_failed_authentication_delay_ms
    if not delay_ms:
        request.server.farewell(request, response, text)
        return NO_REPLY
    at_ms = request.now_ms + delay_ms
    context.timers.arm(connection.login_timer, at_ms, lambda _: request.server.farewell(request, response, text))
    return None
