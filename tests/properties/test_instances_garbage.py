"""Whatever instances of the gateway send each other: it changes groups, or the link is closed; nothing is shared on."""

from __future__ import annotations

import random as random_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.properties.test_gateway_garbage import Client, changed

from kohort.gateway.gateway import Gateway
from kohort.gateway.peers.instance_messages import decode_message, encode_message
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.group.coordinator_settings import GroupSettings
from kohort.wire.primitives import MalformedMessage

PARKED = PolicyTable((Policy(client_ids="client", treatment=Treatment.PARK),))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    try:
        message = decode_message(data)
    except MalformedMessage:
        return
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize("is_changed", [False, True])
@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_what_a_peer_shares_is_taken_or_its_link_closed(is_changed: bool, seed: int) -> None:
    random = random_module.Random(seed)
    parts = [Gateway(GroupSettings(), lambda *_: None, policies=PARKED, instance_id=name) for name in ("a", "b")]
    links: list[list[bytes]] = [[], []]
    for number, gateway in enumerate(parts):
        gateway.instances.connected("ba"[number], links[1 - number].append, 0)
    clients = [Client(gateway, rewrites=False) for gateway in parts for _ in range(2)]
    now_ms, told = 0, 0
    for _ in range(60):
        now_ms += random.choice((0, 0, 1, 50, 4000))
        client = random.choice(clients)
        is_answer = bool(client.open) and random.random() < 0.5
        data = client.answer(random) if is_answer else client.request(random)
        client.feed("broker" if is_answer else "client", data, now_ms, random)
        for number, gateway in enumerate(parts):
            gateway.tick(now_ms)
            messages, links[number][:] = links[number][:], []
            for message in messages:
                told += 1
                sent = changed(message, random) if is_changed and random.random() < 0.3 else message
                try:
                    gateway.instances.received("ba"[number], sent, now_ms)
                except MalformedMessage:
                    assert is_changed or b"\xff" in message, "what an instance sends its peer can read"
                    gateway.instances.disconnected("ba"[number], now_ms)
                    gateway.instances.connected("ba"[number], links[1 - number].append, now_ms)
    assert told < 60 * 20, "what a peer shared is not shared on"
    for gateway in parts:
        for each in "ab":
            gateway.instances.disconnected(each, now_ms)
        gateway.tick(now_ms + 600_000)
