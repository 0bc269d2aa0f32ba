"""Answers that the gateway itself encodes."""

from __future__ import annotations

from struct import Struct

from kohort.gateway.relay.relay import RequestHead
from kohort.wire.codec import encode
from kohort.wire.message import Response

_HEAD = Struct(">ii")


def encode_answer(head: RequestHead, message: Response) -> bytes:
    """Return the frame of an answer to a request, with its length."""
    body = encode(message, head.api_version)
    tags = b"\0" if head.api_version in message.FLEXIBLE else b""
    return _HEAD.pack(4 + len(tags) + len(body), head.correlation_id) + tags + body
