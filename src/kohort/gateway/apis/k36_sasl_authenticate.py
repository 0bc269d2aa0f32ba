"""SaslAuthenticate: its answer contains until when the client is authenticated (KIP-368)."""

from __future__ import annotations

from kohort.gateway.apis.api import ConnectionApi
from kohort.gateway.apis.connection_state import Connection
from kohort.wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse


def answer(connection: Connection, message: SaslAuthenticateResponse, now_ms: int) -> None:
    """Note when the client must authenticate again."""
    lifetime_ms = message.session_lifetime_ms
    connection.authenticated_until_ms = now_ms + lifetime_ms if lifetime_ms > 0 else None


API = ConnectionApi(request_type=SaslAuthenticateRequest, response_type=SaslAuthenticateResponse, answer=answer)
