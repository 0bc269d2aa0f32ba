"""Laws of the codec, for every message in every version: what is written is read, and malformed bytes are refused.

Random messages come from a seeded generator, so that a failure names its message, version and seed.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator, Iterator
from random import Random
from typing import TypeVar

import pytest
from tests.properties.random_messages import message_versions, random_message

from kohort.wire import codec
from kohort.wire.message import Message
from kohort.wire.primitives import MalformedMessage

ResultT = TypeVar("ResultT")

SEEDS = range(6)
EVERY = message_versions()
BOMBS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\x80" * 9)
"""Lengths and counts of two billion, classic and compact, and a varint without an end."""

NAMES = sorted({cls.__name__ for cls, _ in EVERY})


def versions_of(name: str) -> Iterator[tuple[type[Message], int]]:
    return ((cls, version) for cls, version in EVERY if cls.__name__ == name)


def seed_of(cls: type[Message], version: int, seed: int) -> Random:
    return Random(f"{cls.__name__} v{version} {seed}")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read(name: str) -> None:
    for cls, version in versions_of(name):
        for seed in SEEDS:
            message = random_message(cls, version, seed_of(cls, version, seed))
            blob = codec.encode(message, version)
            read, position = codec.decode(cls, version, blob)
            assert (read, position) == (message, len(blob)), f"v{version}, seed {seed}"
            assert codec.encode(read, version) == blob, f"v{version}, seed {seed}"


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("Request", "Response"))])
def test_what_is_written_or_read_in_steps_is_the_same(name: str) -> None:
    for cls, version in versions_of(name):
        message = random_message(cls, version, seed_of(cls, version, 0))
        blob = codec.encode(message, version)
        parts: list[codec.Buffer] = []
        assert result_of(codec.stepwise_gatherer(cls, version)(message, parts)) is None, f"v{version}"
        assert b"".join(parts) == blob, f"v{version}"
        read = result_of(codec.stepwise_decoder(cls, version)(blob, 0, len(blob)))
        assert read == (message, len(blob)), f"v{version}: no entry takes less than a byte"


def result_of(steps: Generator[int, None, ResultT]) -> ResultT:
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_is_malformed(name: str) -> None:
    for cls, version in versions_of(name):
        blob = codec.encode(random_message(cls, version, seed_of(cls, version, 0)), version)
        for size in cuts(len(blob), Random(name)):
            with pytest.raises(MalformedMessage):
                codec.decode(cls, version, blob[:size])


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bits_are_read_or_malformed(name: str) -> None:
    random = Random(name)
    for cls, version in versions_of(name):
        blob = bytearray(codec.encode(random_message(cls, version, seed_of(cls, version, 1)), version))
        for _ in range(40 if blob else 0):
            at, bit = random.randrange(len(blob)), 1 << random.randrange(8)
            blob[at] ^= bit
            read_or_refuse(cls, version, bytes(blob))
            blob[at] ^= bit


@pytest.mark.parametrize("name", NAMES)
def test_random_bytes_are_read_or_malformed(name: str) -> None:
    random = Random(name)
    for cls, version in versions_of(name):
        for size in (0, 1, 2, 7, 30, 200):
            read_or_refuse(cls, version, random.randbytes(size))
            read_or_refuse(cls, version, bytes(random.choice((0, 0, 0, 1, 2, 255)) for _ in range(size)))


@pytest.mark.parametrize("name", NAMES)
def test_lengths_that_nothing_stands_behind_cost_nothing(name: str) -> None:
    """Each place in a message takes the largest lengths there are, and memory does not follow them."""
    for cls, version in versions_of(name):
        blob = codec.encode(random_message(cls, version, seed_of(cls, version, 2)), version)
        read_or_refuse(cls, version, blob)  # what the first message of a kind compiles is not measured
        tracemalloc.start()
        for at in cuts(len(blob), Random(name), most=8 if len(blob) > 4_000 else 40):
            for bomb in (
                b"\x7f\xff\xff\xff",
                b"\xff\xff\xff\xff\x07",
                b"\xff\xff\xff\xff\x0f",
                b"\x7f\xff",
                b"\x80" * 9,
            ):
                read_or_refuse(cls, version, blob[:at] + bomb + blob[at + len(bomb) :])
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 1 << 20, f"v{version}"


def read_or_refuse(cls: type[Message], version: int, blob: bytes) -> None:
    """Decode: any other exception than `MalformedMessage` fails the test, as does reading past the end."""
    try:
        _, position = codec.decode(cls, version, blob)
    except MalformedMessage:
        return
    assert position <= len(blob)


def cuts(length: int, random: Random, most: int = 120) -> list[int]:
    """Return positions inside of `length` bytes: all of them, or `most` of a long message."""
    return list(range(length)) if length <= most else sorted(random.sample(range(length), most))
