"""What workers of Kafka Connect write is read, and what no worker writes is refused."""

from __future__ import annotations

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.wire.connect_protocol import (
    ConnectAssignment,
    ConnectWorker,
    decode_connect_assignment,
    decode_connect_worker,
)
from kohort.wire.primitives import MalformedMessage


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


TASKS = pack(">i", 2) + text("sink") + pack(">iii", 2, -1, 0) + text("source") + pack(">ii", 1, 0)
HEAD = pack(">h", 0) + text("connect-1") + text("http://a/") + pack(">q", 7) + TASKS
ASSIGNED = (("sink", -1), ("sink", 0), ("source", 0))


def test_metadata_of_all_versions_begins_alike() -> None:
    worker = pack(">h", 1) + text("http://a/") + pack(">q", 7)
    assert decode_connect_worker(worker + pack(">i", -1)) == ConnectWorker(1, "http://a/", 7)
    assert decode_connect_worker(pack(">h", 0) + worker[2:]) == ConnectWorker(0, "http://a/", 7)


def test_a_worker_continues_with_what_it_ran_and_is_not_revoked() -> None:
    before = pack(">h", 1) + HEAD + pack(">ii", -1, 0)
    worker = decode_connect_worker(pack(">h", 1) + text("http://a/") + pack(">q", 7) + pack(">i", len(before)) + before)
    assert worker.allocation == ASSIGNED
    given = ConnectAssignment(1, assigned=(("sink", 1),), revoked=(("sink", -1), ("source", 0)))
    assert worker.running(given) == (("sink", 0), ("sink", 1))
    assert worker.running(ConnectAssignment(0, assigned=(("sink", 1),))) == (("sink", 1),)


def test_an_assignment_has_what_is_revoked_and_the_delay_from_version_1_on() -> None:
    eager = ConnectAssignment(0, 0, "connect-1", "http://a/", 7, ASSIGNED)
    assert decode_connect_assignment(pack(">h", 0) + HEAD) == eager
    revoked = pack(">i", 1) + text("sink") + pack(">ii", 1, 1) + pack(">i", 4_000)
    sessioned = decode_connect_assignment(pack(">h", 2) + HEAD + revoked)
    assert (sessioned.version, sessioned.revoked, sessioned.delay_ms) == (2, (("sink", 1),), 4_000)
    nothing = decode_connect_assignment(pack(">h", 2) + HEAD[: -len(TASKS)] + pack(">iii", -1, -1, 0))
    assert (nothing.assigned, nothing.revoked) == ((), ())
    assert decode_connect_assignment(b"") == ConnectAssignment()


@pytest.mark.parametrize("end", range(1, len(HEAD) + 2))
def test_a_part_of_an_assignment_is_refused(end: int) -> None:
    with pytest.raises(MalformedMessage):
        decode_connect_assignment((pack(">h", 0) + HEAD)[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(blob: bytes) -> None:
    for read in (decode_connect_worker, decode_connect_assignment):
        with contextlib.suppress(MalformedMessage):
            read(blob)


def test_a_count_that_the_bytes_cannot_have_is_refused_before_it_is_read() -> None:
    with pytest.raises(MalformedMessage, match=r"^ConnectAssignmentInfo v0: .* buffer"):
        decode_connect_assignment(pack(">h", 0) + HEAD[: -len(TASKS)] + pack(">i", 2**31 - 1))
