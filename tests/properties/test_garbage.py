"""Whatever bytes a client sends, the node survives: an error or a closed connection, never an exception."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.node.desk import Desk, Peer, batch, create, fetch, only, produce

from kohort.node.apis.routes import served
from kohort.wire import messages
from kohort.wire.apis import VERSIONS
from kohort.wire.frames import encode_request


class Failures(logging.Handler):
    """Keeps what was logged with a traceback: a handler that did not expect what it got."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))


FAILURES = Failures()

PAIRS = [(api, version) for api in served() for version in VERSIONS[api]]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    desk = Desk(group_initial_rebalance_delay_ms=0)
    desk.create("orders", 2)
    logging.getLogger("kohort").addHandler(FAILURES)
    yield desk
    logging.getLogger("kohort").removeHandler(FAILURES)


def read_all(desk: Desk, *chunks: bytes) -> None:
    """Send chunks on a connection of their own, let its waits end, and see that others are still served."""
    peer = desk.connect()
    peer.connection.send = lambda _: None
    for chunk in chunks:
        peer.feed(chunk)
    peer.leave()
    assert peer.connection not in desk.node.connections
    assert only(desk.connect().call(produce("orders", batch(b"x")), 9)).error_code == 0
    found, FAILURES.found = FAILURES.found, []
    assert not found, found[0]


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


@settings(max_examples=examples(150), deadline=None)
@given(chunks=st.lists(st.binary(max_size=80), max_size=4))
def test_random_bytes_never_raise(desk: Desk, chunks: list[bytes]) -> None:
    read_all(desk, *chunks)


@settings(max_examples=examples(400), deadline=None)
@given(pair=st.sampled_from(PAIRS), tail=st.binary(max_size=120))
def test_a_right_header_before_random_bytes_never_raises(desk: Desk, pair: tuple[int, int], tail: bytes) -> None:
    api, version = pair
    read_all(desk, framed(pack(">hhih", api, version, 1, 2) + b"me" + tail))


def sound_requests() -> list[tuple[Any, int]]:
    commit = messages.OffsetCommitRequest.Topic
    protocol = messages.JoinGroupRequest.Protocol(name="range", metadata=b"\0\3\0\0\0\0")
    return [
        (produce("orders", batch(b"payload", b"more")), 9),
        (fetch("orders", max_wait_ms=1), 12),
        (fetch("orders", max_wait_ms=1, session_epoch=0), 11),
        (create("fresh", 2, retention_ms="5"), 7),
        (messages.MetadataRequest(topics=[messages.MetadataRequest.Topic(name="orders")]), 12),
        (messages.ListOffsetsRequest(replica_id=-1, topics=[]), 7),
        (
            messages.JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            ),
            9,
        ),
        (
            messages.OffsetCommitRequest(
                group_id="g",
                topics=[
                    commit(
                        name="orders",
                        partitions=[commit.Partition(partition_index=0, committed_offset=1, committed_metadata="")],
                    )
                ],
            ),
            8,
        ),
        (messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4),
    ]


SOUND = [encode_request(message, version, 1, "me") for message, version in sound_requests()]


@settings(max_examples=examples(600), deadline=None)
@given(
    frame=st.sampled_from(SOUND),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 40),
)
def test_a_sound_request_with_changed_bytes_never_raises(
    desk: Desk, frame: bytes, changes: list[tuple[int, int]], cut: int
) -> None:
    body = bytearray(frame[4:])
    for at, value in changes:
        body[at % len(body)] = value
    read_all(desk, framed(bytes(body[: len(body) - cut])))


@settings(max_examples=examples(50), deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=8))
def test_where_the_network_cuts_the_stream_makes_no_difference(desk: Desk, cuts: list[int]) -> None:
    peer: Peer = desk.connect()
    stream = b"".join(peer.frame(messages.MetadataRequest(topics=[]), 9)[0] for _ in range(12))
    for size in [*cuts, len(stream)]:
        peer.feed(stream[:size])
        stream = stream[size:]
    assert [number for number, _ in peer.replies] == list(range(1, 13))
