"""Frames cut out of a stream, in whatever pieces it comes."""

from __future__ import annotations

import random

import pytest

from kohort.net.byte_stream import FrameReceiver
from kohort.wire.frames import FrameTooLarge
from kohort.wire.primitives import MalformedMessage


def framed(*sizes: int) -> bytes:
    return b"".join(size.to_bytes(4, "big") + bytes([size % 251]) * size for size in sizes)


def feed(receiver: FrameReceiver, stream: bytes, most: int) -> list[bytes]:
    frames: list[bytes] = []
    while stream:
        buffer = receiver.buffer()
        count = min(len(buffer), most, len(stream))
        buffer[:count] = stream[:count]
        stream = stream[count:]
        frames += [bytes(frame) for frame in receiver.received(count)]
    return frames


@pytest.mark.parametrize("most", [1, 3, 4, 5, 1000, 65_535, 65_536, 1 << 20])
def test_frames_come_out_whole_however_the_stream_is_cut(most: int) -> None:
    sizes = [0, 1, 5, 300, 65_531, 65_532, 65_533, 70_000, 4] if most > 100 else [0, 1, 5, 300]
    found = feed(FrameReceiver(1 << 20), framed(*sizes), most)
    assert [len(frame) for frame in found] == sizes
    assert found == [bytes([size % 251]) * size for size in sizes]


def test_random_cuts_give_the_same_frames() -> None:
    chance = random.Random(4)
    sizes = [chance.choice([chance.randrange(200), chance.randrange(200_000)]) for _ in range(60)]
    receiver, stream, found = FrameReceiver(1 << 20), framed(*sizes), []
    while stream:
        cut = chance.randrange(1, 50_000)
        found += feed(receiver, stream[:cut], chance.randrange(1, 70_000))
        stream = stream[cut:]
    assert [len(frame) for frame in found] == sizes


def test_a_large_frame_is_received_where_it_stays() -> None:
    receiver = FrameReceiver(1 << 20)
    receiver.buffer()[:6] = framed(100_000)[:6]
    assert receiver.received(6) == []
    assert receiver.is_large
    place = receiver.buffer()
    assert len(place) == 100_000 - 2, "what is left of the frame and not a byte more"
    [frame] = receiver.received(len(place))
    assert isinstance(frame, memoryview)
    assert frame.readonly
    assert frame.obj is place.obj


def test_a_frame_over_the_limit_is_refused_at_its_length() -> None:
    receiver = FrameReceiver(1000)
    receiver.buffer()[:4] = (1001).to_bytes(4, "big")
    with pytest.raises(FrameTooLarge, match="1001"):
        receiver.received(4)


def test_a_negative_length_is_no_frame() -> None:
    receiver = FrameReceiver(1000)
    receiver.buffer()[:4] = b"\xff\xff\xff\xff"
    with pytest.raises(MalformedMessage, match="-1"):
        receiver.received(4)
