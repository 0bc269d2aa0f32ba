"""`queued.max.request.bytes` and the limits before a login: what strangers may keep in memory, and who goes on."""

from __future__ import annotations

import logging
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.node.desk import Desk, Peer, batch, fetch, only, produce

from kohort.model.errors import ErrorCode
from kohort.node.request_memory import FREE_BYTES, STALL_MS
from kohort.wire.messages import (
    ApiVersionsRequest,
    FetchRequest,
    HeartbeatRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

MIB = 1 << 20
LIMIT = 2 * MIB
CHUNK = 1 << 13


class Sender:
    """A client whose socket is read in chunks, and only while the node asks for it."""

    def __init__(self, desk: Desk, frame: bytes, host: str = "192.0.2.1") -> None:
        self.peer = desk.connect(host=host)
        self._left = frame

    @property
    def is_read(self) -> bool:
        return not (self.peer.throttled and self.peer.throttled[-1]) and self.peer.closed is None

    @property
    def is_done(self) -> bool:
        return not self._left

    def send(self, size: int = CHUNK) -> bool:
        """Send the next chunk if it is read; return whether it was."""
        if not self.is_read or not self._left:
            return False
        chunk, self._left = self._left[:size], self._left[size:]
        self.peer.feed(chunk)
        return True


def half(size: int) -> bytes:
    """Return the first half of a frame of so many bytes."""
    return pack(">ihhih", size, 0, 9, 1, -1) + bytes(size // 2)


def run(senders: list[Sender], chunk: int = CHUNK) -> None:
    """Let all senders send in turn until none of them is read, or has more."""
    while sum(sender.send(chunk) for sender in senders):
        pass


@pytest.fixture
def desk() -> Desk:
    desk = Desk(queued_max_request_bytes=LIMIT)
    desk.create("orders", max_message_bytes=64 * MIB)
    return desk


def held(desk: Desk) -> int:
    return sum(connection.request_bytes for connection in desk.node.connections)


def test_half_frames_of_many_connections_stay_below_the_limit_together(desk: Desk) -> None:
    senders = [Sender(desk, half(MIB)) for _ in range(25)]
    run(senders)
    memory = desk.node.connections.memory
    assert memory.buffered <= LIMIT + len(senders) * CHUNK, "a chunk is read before its size is known"
    assert held(desk) <= LIMIT + len(senders) * CHUNK + MIB, "and one request is let through"
    assert len(memory.waiting) >= 20
    assert all(sender.peer.closed is None for sender in senders)
    for sender in senders:
        sender.peer.leave()
    assert (memory.buffered, memory.waiting, memory.favoured) == (0, {}, None)


def test_a_connection_over_its_share_is_not_read_and_one_line_reports_it(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run([Sender(desk, half(4 * MIB)) for _ in range(5)])
    [line] = caplog.messages
    assert "queued.max.request.bytes is 2097152: 192.0.2.1, which has" in line
    assert "is not read until there is more memory" in line
    assert desk.node.connections.memory.waits >= 5


def test_a_group_is_served_and_its_neighbours_produce_beside_greedy_connections(desk: Desk) -> None:
    run([Sender(desk, half(4 * MIB)) for _ in range(10)])
    peer = desk.connect()
    beat = peer.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    small = Sender(desk, b"")
    small._left = small.peer.frame(produce("orders", batch(bytes(50_000))), 9)[0]
    run([small])
    assert small.is_done, "a tenth of the memory is still free"


def test_a_request_larger_than_the_whole_memory_completes(desk: Desk) -> None:
    sender = Sender(desk, b"")
    sender._left = sender.peer.frame(produce("orders", batch(bytes(5 * MIB))), 9)[0]
    run([sender])
    assert sender.is_done
    assert desk.node.topics.partition("orders", 0).log.log_end_offset == 1  # type: ignore[union-attr]
    assert desk.node.connections.memory.buffered == 0


def test_large_requests_of_many_connections_all_complete_one_after_the_other(desk: Desk) -> None:
    senders = []
    for _ in range(12):
        sender = Sender(desk, b"")
        sender._left = sender.peer.frame(produce("orders", batch(bytes(3 * MIB))), 9)[0]
        senders.append(sender)
    run(senders)
    assert [sender.is_done for sender in senders] == [True] * 12
    assert [only(answer).error_code for sender in senders for answer in sender.peer.answers()] == [0] * 12


def test_what_stands_still_is_closed_only_where_others_wait(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    alone = Sender(desk, half(8 * MIB))
    run([alone])
    desk.advance(10 * STALL_MS)
    assert alone.peer.closed is None
    others = [Sender(desk, half(8 * MIB)) for _ in range(3)]
    honest = Sender(desk, b"")
    honest._left = honest.peer.frame(produce("orders", batch(bytes(3 * MIB))), 9)[0]
    run([*others, honest])
    with caplog.at_level(logging.WARNING):
        desk.advance(STALL_MS)
        run([honest])
    assert alone.peer.closed is not None
    assert honest.is_done, "the shortest request is the next that is let through"
    assert "4 others wait for memory (queued.max.request.bytes)" in caplog.text
    assert desk.node.connections.memory.closed == 1


def test_a_request_that_waits_behind_another_is_not_closed_for_it(desk: Desk) -> None:
    run([Sender(desk, half(4 * MIB))])
    waiting = desk.connect()
    waiting.send(fetch("orders", max_wait_ms=60_000), 11)
    waiting.feed(half(MIB))
    desk.advance(3 * STALL_MS)
    assert waiting.closed is None


def test_a_request_that_is_worked_on_in_steps_counts_until_it_is_answered(desk: Desk) -> None:
    peer = desk.connect()
    partition = FetchRequest.Topic.Partition
    partitions = [partition(partition=at) for at in range(3000)]
    frame, _ = peer.frame(FetchRequest(topics=[FetchRequest.Topic(topic="none", partitions=partitions)]), 4)
    desk.flushes_by_hand = True
    peer.feed(frame)
    memory = desk.node.connections.memory
    assert memory.buffered == len(frame) - 4
    while not peer.replies:
        desk.node.flush(desk.clock.now_ms())
    assert memory.buffered == 0


def test_without_a_limit_every_connection_is_read() -> None:
    desk = Desk(queued_max_request_bytes=-1)
    senders = [Sender(desk, half(MIB)) for _ in range(10)]
    run(senders)
    assert all(sender.is_done for sender in senders)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(1, MIB // 2), st.booleans()), min_size=1, max_size=8), st.integers(4000, 60_000))
def test_a_client_that_sends_whole_requests_is_served_whatever_others_have(
    frames: list[tuple[int, bool]], chunk: int
) -> None:
    """Half frames and whole ones, in chunks of any size: the whole ones are answered, and memory stays bounded."""
    desk = Desk(queued_max_request_bytes=MIB // 4)
    desk.create("orders", max_message_bytes=8 * MIB)
    senders, honest = [], []
    for size, is_whole in frames:
        sender = Sender(desk, half(size))
        if is_whole:
            sender._left = sender.peer.frame(produce("orders", batch(bytes(size))), 9)[0]
            honest.append(sender)
        senders.append(sender)
    for _ in range(len(frames) + 1):
        while sum(sender.send(chunk) for sender in senders):
            assert desk.node.connections.memory.buffered <= MIB // 4 + len(frames) * (FREE_BYTES + chunk)
        desk.advance(STALL_MS)
    assert [sender.is_done for sender in honest] == [True] * len(honest)
    for sender in senders:
        sender.peer.leave()
    assert desk.node.connections.memory.buffered == 0


# -- before the login


def log_in(peer: Peer) -> None:
    peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    peer.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)


def test_before_the_login_a_request_has_at_most_half_a_megabyte() -> None:
    desk = Desk(kohort_sasl_plain_users="alice:secret")
    desk.create("orders")
    stranger, client = desk.connect(), desk.connect()
    stranger.feed(half(600_000)[:20])
    assert stranger.closed == "a frame of 600000 bytes is over the limit of 524288"
    log_in(client)
    sender = client.frame(produce("orders", batch(bytes(900_000))), 9)[0]
    client.feed(sender)
    assert [only(answer).error_code for answer in client.answers()] == [0]


def test_before_the_login_no_other_request_is_decoded() -> None:
    desk = Desk(kohort_sasl_plain_users="alice:secret")
    for frame in (
        desk.connect().frame(MetadataRequest(topics=[MetadataRequest.Topic(name="x")] * 9000), 1)[0],
        pack(">ihhih", 10, 3, 1, 1, -1),
        pack(">ihhih", 10, 999, 1, 1, -1),
        pack(">i", 3) + b"\0\3\0",
    ):
        peer = desk.connect()
        peer.feed(frame)
        assert "before SASL authentication" in (peer.closed or "")
    assert desk.connect().call(ApiVersionsRequest(), 0).error_code == 0
