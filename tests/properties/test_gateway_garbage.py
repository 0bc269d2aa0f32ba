"""Whatever clients and brokers send through a gateway: bytes pass in their order, or the connection is closed.

Several clients share the gateway, with and without other addresses, and join the same groups; some of what they and
their brokers send is well formed, some is changed, some is rubbish.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.properties.random_messages import any_number, random_message
from tests.unit.gateway.relay.test_relay import pieces_of
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, OBSERVED
from kohort.gateway.relay.relay import Relay
from kohort.gateway.rewriting.address_relay import RewritingRelay
from kohort.group.coordinator_settings import GroupSettings
from kohort.wire.apis import VERSIONS, Api, request_class, response_class
from kohort.wire.frames import encode_request
from kohort.wire.message_schemas import Field
from kohort.wire.primitives import MalformedMessage

READ = (
    Api.API_VERSIONS,
    Api.METADATA,
    Api.FIND_COORDINATOR,
    Api.JOIN_GROUP,
    Api.SYNC_GROUP,
    Api.HEARTBEAT,
    Api.LEAVE_GROUP,
    Api.OFFSET_COMMIT,
    Api.CONSUMER_GROUP_HEARTBEAT,
    Api.PRODUCE,
)


def small(field: Field, random: Random) -> int:
    """Return a number of which few are different, so that generations, epochs and node ids often fit."""
    return random.choice((0, 1, 1, 2)) if random.random() < 0.8 else any_number(field, random)


class Client:
    """A connection through the gateway, with what left it on both sides."""

    def __init__(self, gateway: Gateway, *, rewrites: bool) -> None:
        self.to_client, self.to_broker = bytearray(), bytearray()
        self.sent = bytearray()
        self.reasons: list[str] = []
        self.open: list[tuple[Api, int, int]] = []
        self.number = 0
        self.relay: Relay | RewritingRelay
        if rewrites:
            open_relay: Callable[[Any, Any], Relay] = lambda to_client, to_broker: gateway.open(  # noqa: E731
                "host", to_client, to_broker
            )
            self.relay = RewritingRelay(
                open_relay, lambda *_: ("gateway", 9000), self.to_client.extend, self._to_broker, self.reasons.append
            )
        else:
            self.relay = gateway.open("host", self.to_client.extend, self._to_broker)

    def _to_broker(self, data: Any) -> None:
        assert not self.reasons, "nothing passes once the connection is to be closed"
        self.to_broker.extend(data)

    def request(self, random: Random) -> bytes:
        """Return a request; the broker will answer it."""
        api = random.choice(READ)
        version = random.choice(list(VERSIONS[api]))
        self.number += 1
        self.open.append((api, version, self.number))
        message = random_message(request_class(api), version, random, small, is_extended=False)
        for name in ("group_id", "member_id"):
            if hasattr(message, name):
                setattr(message, name, random.choice(("g", "m1", "m2")))
        return encode_request(message, version, self.number, "client")

    def answer(self, random: Random) -> bytes:
        """Return the answer to the oldest request."""
        api, version, number = self.open.pop(0)
        message = random_message(response_class(api), version, random, small, is_extended=False)
        if hasattr(message, "error_code") and random.random() < 0.7:
            message.error_code = 0
        if hasattr(message, "member_id"):
            message.member_id = random.choice(("m1", "m2"))
        return b"".join(encode_response(message, version, number))

    def feed(self, direction: str, data: bytes, now_ms: int, random: Random) -> None:
        if self.reasons:
            return
        try:
            for chunk in pieces_of(data, [random.randrange(len(data) + 1) for _ in range(random.randrange(3))]):
                if direction == "client":
                    self.sent += chunk
                    self.relay.from_client(chunk, now_ms)
                else:
                    self.relay.from_broker(chunk, now_ms)
        except MalformedMessage as error:
            self.reasons.append(str(error))


def changed(data: bytes, random: Random) -> bytes:
    """Return bytes with some of them flipped, left out, or others put in."""
    place = random.randrange(len(data))
    match random.randrange(4):
        case 0:
            return data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
        case 1:
            return data[:place] + data[place + random.randrange(1, 9) :]
        case 2:
            return data[:place] + random.randbytes(random.randrange(1, 9)) + data[place:]
        case _:
            body = random.randbytes(random.randrange(40))
            return pack(">i", len(body)) + body


@pytest.mark.parametrize("parks", [False, True])
@settings(max_examples=examples(150), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_bytes_pass_in_their_order_or_the_connection_is_closed(parks: bool, seed: int) -> None:
    random = random_module.Random(seed)
    gateway = Gateway(GroupSettings(), lambda *_: None, policies=EVERYTHING_PARKED if parks else OBSERVED)
    clients = [Client(gateway, rewrites=number % 2 == 0) for number in range(4)]
    now_ms = 0
    for _ in range(40):
        now_ms += random.choice((0, 0, 1, 50, 4000))
        gateway.tick(now_ms)
        client = random.choice(clients)
        is_answer = bool(client.open) and random.random() < 0.5
        data = client.answer(random) if is_answer else client.request(random)
        if random.random() < 0.1:
            data = changed(data, random)
        client.feed("broker" if is_answer else "client", data, now_ms, random)
    if not parks:
        for client in clients:
            assert client.sent.startswith(client.to_broker) or b"\x7f\xff" in client.to_broker
            assert client.reasons or len(client.to_broker) + client.relay.buffered_bytes >= len(client.sent)
    for client in clients:
        client.relay.closed(now_ms, is_by_client=True)
    gateway.tick(now_ms + 600_000)
