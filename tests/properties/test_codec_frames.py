"""Laws of frames and of the embedded protocol: any stream, cut anywhere; any subscription; any bytes at all."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from kohort.wire.frames import FrameSplitter, decode_request_header
from kohort.wire.primitives import MalformedMessage

LIMIT = 64
UNTIMED = settings(deadline=None)
TOPICS = st.text(min_size=1, max_size=5)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(TOPICS, max_size=4).map(lambda topics: tuple(sorted(topics))),
    user_data=st.none() | st.binary(max_size=20),
    owned=st.sets(PARTITIONS, max_size=6).map(lambda owned: tuple(sorted(owned))),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | st.text(min_size=1, max_size=5),
)
ASSIGNMENTS = st.builds(Assignment, st.frozensets(PARTITIONS, max_size=6), st.none() | st.binary(max_size=20))


@UNTIMED
@given(st.lists(st.binary(max_size=LIMIT), max_size=8), st.lists(st.integers(1, 90), min_size=1, max_size=30))
def test_a_stream_cut_anywhere_gives_its_frames(frames: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    splitter, found, position = FrameSplitter(LIMIT), [], 0
    while position < len(stream):
        size = sizes[position % len(sizes)]
        found += splitter.feed(stream[position : position + size])
        position += size
    assert found == frames


@UNTIMED
@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_give_frames_or_are_refused(chunks: list[bytes]) -> None:
    splitter = FrameSplitter(LIMIT)
    with contextlib.suppress(MalformedMessage):
        for chunk in chunks:
            assert all(len(frame) <= LIMIT for frame in splitter.feed(chunk))


@UNTIMED
@given(st.binary(max_size=40))
def test_any_bytes_are_a_request_header_or_malformed(frame: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        _, position = decode_request_header(frame)
        assert position <= len(frame)


@UNTIMED
@given(SUBSCRIPTIONS, st.binary(max_size=9))
def test_a_subscription_survives_the_wire_and_newer_fields(subscription: Subscription, newer: bytes) -> None:
    blob = encode_subscription(subscription)
    assert decode_subscription(blob) == subscription
    assert decode_subscription(b"\0\4" + blob[2:] + newer) == subscription
    assert subscribed_topics(blob) == frozenset(subscription.topics)


@UNTIMED
@given(ASSIGNMENTS, st.integers(0, 3), st.binary(max_size=9))
def test_an_assignment_survives_the_wire_and_newer_fields(assignment: Assignment, version: int, newer: bytes) -> None:
    blob = encode_assignment(assignment, version)
    assert decode_assignment(blob) == assignment
    assert decode_assignment(b"\0\4" + blob[2:] + newer) == assignment


@UNTIMED
@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda blob: b"\0\1\0\0" + blob))
def test_any_bytes_are_a_subscription_or_malformed(blob: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, subscribed_topics):
        with contextlib.suppress(MalformedMessage):
            decode(blob)
