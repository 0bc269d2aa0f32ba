"""What passes through a relay: bytes unchanged and in order, and at most one thing that waits."""

from __future__ import annotations

import itertools
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.gateway.relay.frame_cutter import FrameCutter, Passing, Whole
from kohort.gateway.relay.read_budget import ReadBudget
from kohort.gateway.relay.relay import MOST_OPEN, READ_BYTES, Exchange, Relay, RequestHead, Sink
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

READ, OTHER = 12, 3
HELD = b"held"


def request(api_key: int, correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ihhi", 8 + len(body), api_key, 1, correlation_id) + body


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ii", 4 + len(body), correlation_id) + body


class Reader:
    """Reads requests of one API; those with the body `HELD` wait, and answers with it wait where they may."""

    def __init__(self, *, lets_wait: bool = False) -> None:
        self.waiting: list[Exchange] = []
        self.passed_keys: list[int] = []
        self.oversized_keys: list[int] = []
        self.lets_wait = lets_wait
        self.ahead: set[int] = set()
        """Correlation ids of requests whose answers go ahead."""

    def reads(self, head: RequestHead) -> bool:
        return head.api_key == READ

    def request(self, exchange: Exchange, now_ms: int) -> bool:
        del now_ms
        if exchange.frame.endswith(HELD):
            self.waiting.append(exchange)
            return False
        return True

    def answered(self, exchange: Exchange, frame: bytes, now_ms: int) -> Buffer | None:
        del now_ms
        if frame.endswith(HELD) and exchange.is_last:
            exchange.context = frame
            self.waiting.append(exchange)
            return None
        return frame

    def goes_ahead(self, head: RequestHead) -> bool:
        return head.correlation_id in self.ahead

    def passed(self, head: RequestHead, now_ms: int) -> None:
        del now_ms
        self.passed_keys.append(head.api_key)

    def followed(self, waiting: Exchange, behind: Exchange | None, now_ms: int) -> bool:
        del behind, now_ms
        if self.lets_wait:
            return True
        self.release(waiting)
        return False

    def release(self, waiting: Exchange) -> None:
        if waiting.context is None:
            waiting.pass_on()
        else:
            assert isinstance(waiting.context, bytes)
            waiting.answer(waiting.context)

    def closed(self, unanswered: tuple[Exchange, ...], now_ms: int, *, is_by_client: bool) -> None:
        pass

    def oversized(self, head: RequestHead) -> None:
        self.oversized_keys.append(head.api_key)

    def answer_oversized(self, exchange: Exchange, now_ms: int) -> None:
        del now_ms
        self.oversized_keys.append(exchange.head.api_key)


class Ends:
    """A relay with its reader, and what it wrote to both sides."""

    def __init__(self, *, lets_wait: bool = False) -> None:
        self.reader = Reader(lets_wait=lets_wait)
        self.client, self.broker = bytearray(), bytearray()
        self.relay = Relay(self.reader, self.client.extend, self.broker.extend)


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[start:stop] for start, stop in itertools.pairwise(places) if start < stop]


@given(
    st.lists(st.tuples(st.sampled_from([READ, OTHER]), st.binary(max_size=40)), max_size=12),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_however_the_bytes_come_they_leave_unchanged_in_both_directions(
    frames: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    ends = Ends()
    requests = b"".join(request(key, number, body + b".") for number, (key, body) in enumerate(frames))
    answers = b"".join(answer(number, body + b".") for number, (_, body) in enumerate(frames))
    for chunk in pieces_of(requests, cuts):
        ends.relay.from_client(chunk, 0)
    for chunk in pieces_of(answers, cuts):
        ends.relay.from_broker(chunk, 0)
    assert (bytes(ends.broker), bytes(ends.client)) == (requests, answers)
    assert ends.reader.passed_keys == [key for key, _ in frames if key == OTHER]
    assert ends.relay.buffered_bytes == 0


def test_a_frame_that_is_not_read_leaves_as_it_comes() -> None:
    ends = Ends()
    ends.relay.from_client(request(OTHER, 1, bytes(100))[:20], 0)
    assert len(ends.broker) == 20
    assert ends.relay.buffered_bytes == 0


def test_a_request_that_waits_goes_before_the_one_behind_it() -> None:
    ends = Ends()
    ends.relay.from_client(request(READ, 1, HELD), 0)
    assert ends.relay.is_waiting
    assert not ends.broker
    ends.relay.from_client(request(OTHER, 2), 0)
    assert bytes(ends.broker) == request(READ, 1, HELD) + request(OTHER, 2)


def test_an_answer_that_waits_goes_before_the_next_one() -> None:
    ends = Ends()
    ends.relay.from_client(request(READ, 1), 0)
    ends.relay.from_broker(answer(1, HELD), 0)
    assert not ends.client
    ends.relay.from_client(request(OTHER, 2), 0)
    ends.relay.from_broker(answer(2), 0)
    assert bytes(ends.client) == answer(1, HELD) + answer(2)


def test_answers_behind_one_that_continues_to_wait_do_so_too() -> None:
    ends = Ends(lets_wait=True)
    ends.relay.from_client(request(READ, 1), 0)
    ends.relay.from_broker(answer(1, HELD), 0)
    ends.relay.from_client(request(OTHER, 2), 0)
    ends.relay.from_broker(answer(2), 0)
    assert not ends.client
    [waiting] = ends.reader.waiting
    waiting.answer(answer(1, b"news"))
    assert bytes(ends.client) == answer(1, b"news") + answer(2)
    waiting.answer(answer(1))
    assert len(ends.client) == len(answer(1, b"news") + answer(2)), "it is answered once"


def test_answers_that_go_ahead_leave_before_one_that_waits() -> None:
    ends = Ends(lets_wait=True)
    ends.reader.ahead = {1, 3}
    ends.relay.from_client(request(READ, 2) + request(READ, 1), 0)
    ends.relay.from_broker(answer(2, HELD) + answer(1), 0)
    ends.relay.from_client(request(READ, 3) + request(OTHER, 4), 0)
    ends.relay.from_broker(answer(3, b"ahead") + answer(4), 0)
    assert bytes(ends.client) == answer(1) + answer(3, b"ahead")
    [waiting] = ends.reader.waiting
    waiting.answer(answer(2))
    assert bytes(ends.client) == answer(1) + answer(3, b"ahead") + answer(2) + answer(4)


def test_an_answer_with_requests_behind_it_cannot_wait() -> None:
    ends = Ends()
    ends.relay.from_client(request(READ, 1) + request(READ, 2), 0)
    ends.relay.from_broker(answer(1, HELD), 0)
    assert bytes(ends.client) == answer(1, HELD)


def test_a_request_too_long_to_be_read_passes_and_is_reported() -> None:
    ends = Ends()
    ends.relay.from_client(request(READ, 1, bytes(READ_BYTES)), 0)
    assert len(ends.broker) == READ_BYTES + 12
    assert ends.reader.oversized_keys == [READ]


def test_requests_beyond_those_that_may_await_answers_pass_unread() -> None:
    ends = Ends()
    for number in range(MOST_OPEN + 10):
        ends.relay.from_client(request(READ, number), 0)
    assert len(ends.broker) == (MOST_OPEN + 10) * len(request(READ, 0))
    assert len(ends.reader.oversized_keys) == 10
    ends.relay.from_broker(answer(0), 0)
    ends.relay.from_client(request(READ, -1), 0)
    assert len(ends.reader.oversized_keys) == 10


def test_an_answer_too_long_to_be_read_passes_and_is_reported() -> None:
    ends = Ends()
    ends.relay.from_client(request(READ, 1), 0)
    ends.relay.from_broker(answer(1, bytes(READ_BYTES)), 0)
    assert len(ends.client) == READ_BYTES + 8
    assert ends.reader.oversized_keys == [READ]


def test_the_answer_to_a_request_that_was_repeated_takes_the_place_of_the_first_whatever_its_length() -> None:
    ends = Ends()
    ends.relay.from_client(request(READ, 1), 0)
    ends.relay.from_broker(answer(1, HELD), 0)
    [waiting] = ends.reader.waiting
    waiting.repeat()
    long = answer(1, bytes(READ_BYTES))
    ends.relay.from_broker(long, 0)
    ends.relay.release(0)
    assert bytes(ends.client) == long


def test_a_negative_length_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="length is -1"):
        Ends().relay.from_client(b"\xff" * 12, 0)


def test_a_frame_shorter_than_its_head_passes() -> None:
    cutter = FrameCutter(12, lambda _head, _length: True)
    assert list(cutter.feed(b"\0\0\0\2ab")) == [Passing(b"\0\0\0\2ab", memoryview(b"\0\0\0\2ab"))]
    assert list(cutter.feed(request(READ, 1))) == [Whole(request(READ, 1))]


def test_frames_beyond_the_budget_of_all_connections_pass_unread() -> None:
    budget = ReadBudget(limit=10_000)
    large = request(READ, 1, b"x" * 6_000)
    first, second, sent = Reader(), Reader(), [b"", b""]

    def to_broker(at: int) -> Sink:
        def send(data: Buffer) -> None:
            sent[at] += bytes(data)

        return send

    relays = [Relay(each, lambda _: None, to_broker(at), budget) for at, each in enumerate((first, second))]
    relays[0].from_client(large[:100], 0)
    relays[1].from_client(large, 0)
    assert second.oversized_keys == [READ]
    assert sent == [b"", large], "the one that is not gathered passes as it comes"
    relays[0].closed(0, is_by_client=True)
    assert budget.reserved == 0
