"""What assignors put into the user data of subscriptions and assignments, byte for byte.

A subscription's user data travels from a member to the leader's assignor, an assignment's back. Kafka's own formats
are read whichever client wrote them and written so that Java, librdkafka and kafka-python read them. Ours follow them:
the mark of our members stands at the end, where Kafka's readers stop reading, and an assignment's error goes to
marked members alone. What cannot be read is no user data; reading never raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import repeat
from struct import Struct, unpack_from
from struct import error as ShortRead  # noqa: N812
from typing import NamedTuple

from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

MARK = b"kohort\x01"
"""The last bytes of the user data of our members' subscriptions, and the first of an assignment's with an error."""

NO_GENERATION = -1

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_FLOAT64 = Struct(">d")
_NUMBERS = {count: f">{count}i" for count in range(16)}


class Memory(NamedTuple):
    """What a `sticky` member remembers: its last assignment, and the generation of it or -1."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


NO_MEMORY = Memory()


def encode_sticky(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Return the user data of `sticky`, version 1: partition numbers by topic, and the generation."""
    return _partitions(partitions) + _INT32.pack(generation)


def decode_sticky(user_data: bytes | None) -> Memory:
    """Read the user data of `sticky`: version 1, else version 0 (no generation), else kafka-python's.

    kafka-python 3 writes Java's bytes behind a version number of two bytes, which Java takes for no user data.
    """
    if not user_data:
        return NO_MEMORY
    for start, has_generation in ((0, True), (0, False), (_INT16.size, True)):
        try:
            partitions, at = _read_partitions(user_data, start)
            generation = _INT32.unpack_from(user_data, at)[0] if has_generation else NO_GENERATION
        except (ShortRead, ValueError):
            continue
        return Memory(partitions, generation)
    return NO_MEMORY


def encode_generation(generation: int) -> bytes:
    """Return the user data of `cooperative-sticky`: the generation alone."""
    return _INT32.pack(generation)


def decode_generation(user_data: bytes | None) -> int:
    """Read the user data of `cooperative-sticky`, or -1."""
    try:
        return int(_INT32.unpack_from(user_data or b"")[0])
    except ShortRead:
        return NO_GENERATION


def encode_weight(weight: float) -> bytes:
    """Return the user data of `capacity`: version 0 (int16) and the weight (float64)."""
    return _INT16.pack(0) + _FLOAT64.pack(weight)


def decode_weight(user_data: bytes | None) -> float:
    """Read the user data of `capacity`, of any version; a member that gives no usable weight counts as 1."""
    try:
        weight = float(_FLOAT64.unpack_from(user_data or b"", _INT16.size)[0])
    except ShortRead:
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0


class Copies(NamedTuple):
    """What a member of `tasks` sends about itself: its threads, what it ran last, and the lag of each of its copies."""

    threads: int = 1
    active: frozenset[TopicPartition] = frozenset()
    lags: Mapping[TopicPartition, int] = {}


class AssignedCopies(NamedTuple):
    """What a member of `tasks` is assigned besides its tasks: copies, and after how long it rejoins, or -1."""

    standby: frozenset[TopicPartition] = frozenset()
    warmup: frozenset[TopicPartition] = frozenset()
    probing_ms: int = -1


def encode_copies(copies: Copies) -> bytes:
    """Return the user data of a `tasks` subscription, version 0."""
    behind = sorted(copies.lags.items())
    lags = Struct(f">{len(behind)}q").pack(*(lag for _, lag in behind))
    parts = [_INT16.pack(0), _INT32.pack(copies.threads), _partitions(copies.active)]
    return b"".join([*parts, _partitions(partition for partition, _ in behind), lags])


def decode_copies(user_data: bytes | None) -> Copies:
    """Read the user data of a `tasks` subscription; what cannot be read has one thread and no copies."""
    try:
        threads = _INT32.unpack_from(user_data or b"", _INT16.size)[0]
        active, at = _read_partitions(user_data or b"", _INT16.size + _INT32.size)
        copies, at = _read_partitions(user_data or b"", at)
        lags = unpack_from(f">{len(copies)}q", user_data or b"", at)
    except (ShortRead, ValueError):
        return Copies()
    return Copies(max(1, threads), frozenset(active), dict(zip(copies, lags, strict=True)))


def encode_assigned_copies(assigned: AssignedCopies) -> bytes:
    """Return the user data of a `tasks` assignment, version 0."""
    parts = [_INT16.pack(0), _INT32.pack(assigned.probing_ms)]
    return b"".join([*parts, _partitions(assigned.standby), _partitions(assigned.warmup)])


def decode_assigned_copies(user_data: bytes | None) -> AssignedCopies:
    """Read the user data of a `tasks` assignment; what cannot be read assigns no copies."""
    try:
        probing_ms = _INT32.unpack_from(user_data or b"", _INT16.size)[0]
        standby, at = _read_partitions(user_data or b"", _INT16.size + _INT32.size)
        warmup, _ = _read_partitions(user_data or b"", at)
    except (ShortRead, ValueError):
        return AssignedCopies()
    return AssignedCopies(frozenset(standby), frozenset(warmup), probing_ms)


def marked(user_data: bytes) -> bytes:
    """Return a subscription's user data with our members' mark."""
    return user_data + MARK


def is_marked(user_data: bytes | None) -> bool:
    """Return whether a subscription's user data came from a member of ours."""
    return user_data is not None and user_data.endswith(MARK)


def unmarked(user_data: bytes | None) -> bytes | None:
    """Return a subscription's user data without our members' mark; None where there is nothing else."""
    if user_data is None or not user_data.endswith(MARK):
        return user_data
    return user_data.removesuffix(MARK) or None


REMEMBERING = frozenset({"sticky", "cooperative-sticky", "stream", "tasks"})
"""Assignors whose user data have what a member had: its last assignment, its generation, the lags of its state."""


def wish(assignor: str, user_data: bytes | None) -> bytes | None:
    """Return the part of a subscription's user data by which a member asks for something, without its memory."""
    return None if assignor in REMEMBERING or not user_data else user_data.removesuffix(MARK) or None


def encode_assignment_error(code: ErrorCode, user_data: bytes | None = None) -> bytes:
    """Return an assignment's user data that carries an error: our mark, the code (int16), and the assignor's own."""
    return MARK + _INT16.pack(code) + (user_data or b"")


def without_error(user_data: bytes | None) -> bytes | None:
    """Return the assignor's own part of an assignment's user data."""
    if assignment_error(user_data) is None or user_data is None:
        return user_data
    return user_data[len(MARK) + _INT16.size :] or None


def assignment_error(user_data: bytes | None) -> ErrorCode | None:
    """Return the error that an assignment's user data carries, or None."""
    if user_data is None or not user_data.startswith(MARK):
        return None
    try:
        (code,) = _INT16.unpack_from(user_data, len(MARK))
    except ShortRead:
        return None
    if code == ErrorCode.NONE:
        return None
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return partition numbers by topic, both in order."""
    topics = by_topic(partitions)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, Struct(f">{len(numbers) + 1}i").pack(len(numbers), *numbers)]
    return b"".join(parts)


def _read_partitions(user_data: bytes, at: int) -> tuple[tuple[TopicPartition, ...], int]:
    """Read partition numbers by topic from `at`, and return where they end."""
    found: list[TopicPartition] = []
    most = len(user_data)
    (topics,) = unpack_from(">i", user_data, at)
    if not 0 <= topics <= most:
        raise ValueError("an array is longer than the user data")
    at += 4
    for _ in range(topics):
        (size,) = unpack_from(">h", user_data, at)
        name = user_data[at + 2 : at + 2 + size]
        at += 2 + size
        (count,) = unpack_from(">i", user_data, at)
        if size < 0 or not 0 <= count <= most:
            raise ValueError("a name or an array is longer than the user data")
        topic = name.decode(errors="replace")
        # As TopicPartition(topic, number): a leader reads those of the whole group.
        numbers = unpack_from(_NUMBERS.get(count) or f">{count}i", user_data, at + 4)
        found += map(tuple.__new__, repeat(TopicPartition), zip(repeat(topic), numbers))
        at += 4 + 4 * count
    return tuple(found), at
