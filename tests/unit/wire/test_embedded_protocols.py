"""What threads of Kafka Streams write is read, in the bytes of real ones; what none writes is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.wire.embedded_protocols import (
    RUNNING,
    UNKNOWN,
    ConnectAssignment,
    ConnectWorker,
    StreamsAssignment,
    StreamsSubscription,
    StreamsTask,
    decode_connect_assignment,
    decode_connect_worker,
    decode_streams_assignment,
    decode_streams_subscription,
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


# Two instances with a standby replica, an address for queries, and two sub-topologies of two partitions.
SUBSCRIBED_2_3 = bytes.fromhex(
    "0000000400000004db9daaa038134996811f7cd55fe6e18700000004000000000000000000000000000000010000000100000000"
    "0000000100000001000000000000000e3132372e302e302e313a31323334"
)
ASSIGNED_2_4 = bytes.fromhex(
    "00000005000000050000000200000000000000000000000000000001000000020000000100000000000000010021636f756e7469"
    "6e672d776f7264732d636f756e74732d7265706172746974696f6e000000000000000100000001000000010021636f756e74696e"
    "672d776f7264732d636f756e74732d7265706172746974696f6e0000000100000002000000010005776f72647300000000002163"
    "6f756e74696e672d776f7264732d636f756e74732d7265706172746974696f6e0000000200093132372e302e302e31000004d300"
    "0000020000000000000000000000000000000100093132372e302e302e31000004d2000000020000000100000001000000010000"
    "000000000000"
)
SUBSCRIBED_4_3 = bytes.fromhex(
    "0000000b0000000b91abef5910084caa8a10e08f6f6c33840000000e3132372e302e302e313a3132333400000002000000010000"
    "0000fffffffffffffffeffff00000001000000010000000000000005ffff050000000000000000"
)
ASSIGNED_4_3 = bytes.fromhex(
    "0000000b0000000b0000000200000001000000000000000000000000000000000000000000000001000000010000000100000000"
    "000000010021636f756e74696e672d776f7264732d636f756e74732d7265706172746974696f6e00000001000000020000000000"
    "05776f726473000000010021636f756e74696e672d776f7264732d636f756e74732d7265706172746974696f6e00000002000931"
    "32372e302e302e31000004d3000000020000000000000001000000010000000100093132372e302e302e31000004d20000000200"
    "0000000000000000000001000000000000000200093132372e302e302e31000004d300000001000000010000000000093132372e"
    "302e302e31000004d2000000010000000100000001000000007fffffffffffffff"
)


def task(text: str) -> StreamsTask:
    subtopology, partition = text.split("_")
    return StreamsTask(int(subtopology), int(partition))


def test_subscription_of_2_3_lists_tasks() -> None:
    assert decode_streams_subscription(SUBSCRIBED_2_3) == StreamsSubscription(
        4,
        4,
        "db9daaa0-3813-4996-811f-7cd55fe6e187",
        active=(task("0_0"), task("0_1"), task("1_0"), task("1_1")),
        endpoint="127.0.0.1:1234",
    )


def test_subscription_of_4_3_has_an_offset_for_each_task_with_state() -> None:
    found = decode_streams_subscription(SUBSCRIBED_4_3)
    assert found.offset_sums == ((task("1_0"), RUNNING), (task("1_1"), 5))
    assert found.running == (task("1_0"),)
    assert (found.version, found.endpoint, found.tags) == (11, "127.0.0.1:1234", ())


def test_assignment_of_2_4() -> None:
    assert decode_streams_assignment(ASSIGNED_2_4) == StreamsAssignment(
        5, 5, (task("0_0"), task("0_1")), (task("1_0"), task("1_1"))
    )


def test_assignment_of_4_3() -> None:
    assert decode_streams_assignment(ASSIGNED_4_3) == StreamsAssignment(
        11, 11, (task("1_0"), task("0_0")), (task("1_1"),)
    )
    probing = decode_streams_assignment(ASSIGNED_4_3[:-8] + pack(">q", 1_795_466_377_397))
    assert probing.next_rebalance_ms == 1_795_466_377_397
    assert decode_streams_assignment(ASSIGNED_4_3[:-8] + pack(">q", 0)).next_rebalance_ms == 0


def test_versions_7_to_9_nest_offsets_in_subtopologies() -> None:
    head = pack(">ii", 9, 11) + bytes(16) + pack(">i", 0)
    sums = pack(">iii", 1, 3, 2) + pack(">iq", 0, RUNNING) + pack(">iq", 1, UNKNOWN)
    found = decode_streams_subscription(head + sums + pack(">bi", 0, 1))
    assert found.offset_sums == ((task("3_0"), RUNNING), (task("3_1"), UNKNOWN))
    assert found.error == 1


def test_client_tags_and_named_topologies_are_read() -> None:
    head = pack(">ii", 11, 11) + bytes(16) + pack(">i", 0)
    sums = pack(">iiiqh", 1, 0, 4, 7, 5) + b"other" + pack(">bi", 0, 0)
    tags = pack(">ii", 1, 4) + b"zone" + pack(">i", 1) + b"a"
    found = decode_streams_subscription(head + sums + tags)
    assert [str(each) for each, _ in found.offset_sums] == ["other__0_4"]
    assert found.tags == (("zone", "a"),)
    name = "other".encode("utf-16-be")
    given = pack(">iii", 11, 11, 1) + pack(">iii", 0, 4, 5) + name + pack(">iiiiiq", 0, 0, 0, 0, 0, 0)
    assert decode_streams_assignment(given).active == (StreamsTask(0, 4, "other"),)


def test_of_a_newer_version_only_its_number_is_read() -> None:
    assert decode_streams_subscription(pack(">ii", 12, 13) + b"?") == StreamsSubscription(12, 13)
    assert decode_streams_assignment(pack(">ii", 12, 12) + b"?") == StreamsAssignment(12, 12)


WHOLE: list[tuple[Callable[[bytes], object], bytes]] = [
    (decode_streams_subscription, SUBSCRIBED_2_3),
    (decode_streams_subscription, SUBSCRIBED_4_3),
    (decode_streams_assignment, ASSIGNED_2_4),
    (decode_streams_assignment, ASSIGNED_4_3),
]


@pytest.mark.parametrize(("decode", "whole"), WHOLE)
def test_a_part_of_a_message_is_refused(decode: Callable[[bytes], object], whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(MalformedMessage):
            decode(whole[:end])


@pytest.mark.parametrize("decode", [decode_streams_subscription, decode_streams_assignment])
@given(data=st.binary(), version=st.integers(-1, 12))
def test_bytes_of_others_are_refused_and_nothing_else(
    decode: Callable[[bytes], object], data: bytes, version: int
) -> None:
    with contextlib.suppress(MalformedMessage):
        decode(pack(">i", version) + data)
    with contextlib.suppress(MalformedMessage):
        decode(data)


def test_a_list_of_a_million_in_a_few_bytes_is_refused() -> None:
    with pytest.raises(MalformedMessage, match=r"^AssignmentInfo v11: .* buffer"):
        decode_streams_assignment(pack(">iii", 11, 11, 1_000_000))
