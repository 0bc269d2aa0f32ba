"""Responses as a broker writes them, for tests that play one."""

from __future__ import annotations

from kohort.wire.apis import Api, flexible_from
from kohort.wire.codec import Buffer, gather
from kohort.wire.frames import join_small
from kohort.wire.message import Message


def encode_response(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Return a response with its length and header, in buffers: record batches by reference."""
    api = Api(message.API_KEY)
    is_flexible = api is not Api.API_VERSIONS and version >= flexible_from(api)
    parts: list[Buffer] = [b"", b"\0" if is_flexible else b""]
    gather(message, version, parts)
    size = sum(map(len, parts)) + 4
    parts[0] = size.to_bytes(4, "big") + correlation_id.to_bytes(4, "big")
    return join_small(parts)
