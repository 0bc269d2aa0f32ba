"""No turn of the event loop is long, whatever clients send: measured in lines of Python that a turn executes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from struct import pack_into
from types import FrameType
from typing import Any

import pytest
from tests.properties.wide_requests import wide_requests
from tests.unit.node.desk import Desk, only, produce
from tests.unit.node.group_desk import GroupMember, group_desk, stable_group
from tests.unit.wire.test_record_walk import forged

from kohort.model.errors import ErrorCode
from kohort.node.apis.routes import served
from kohort.wire.apis import VERSIONS, Api, request_class
from kohort.wire.compression import Compression, compress
from kohort.wire.crc32c import crc32c
from kohort.wire.frames import encode_request
from kohort.wire.messages import (
    ApiVersionsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    FetchRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
)
from kohort.wire.record_batches import Record, encode_batch, signed_varint

ENTRIES = 5000
LONGEST_TURN = 40_000
"""Lines. What is done at once for each entry comes to eight of them: enough to take it over, too few to act on it."""


def lines_of(turn: Callable[[], object]) -> int:
    """Return how many lines of Python a call executes."""
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        turn()
    finally:
        sys.settrace(before)
    return count


def not_counted(turn: Callable[[], object]) -> int:
    """Make a call, so that it compiles and imports what it needs; counting its lines would take many times as long."""
    turn()
    return 0


def longest_turn(desk: Desk, frame: bytes) -> int:
    """Feed a frame and let the node work until nothing is left to do; return the lines of its longest turn."""
    connection = desk.node.connections.open("192.0.2.2", lambda _: None, lambda _: None)
    turns = [lines_of(lambda: desk.node.connections.receive(connection, frame, desk.clock.now_ms()))]
    while desk.node.needs_flush:
        turns.append(lines_of(lambda: desk.node.flush(desk.clock.now_ms())))
    return max(turns)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.create("orders", 3)
    return desk


def metadata(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names])


def unknown_partitions(count: int) -> FetchRequest:
    partition = FetchRequest.Topic.Partition
    return FetchRequest(
        topics=[FetchRequest.Topic(topic="none", partitions=[partition(partition=i) for i in range(count)])]
    )


@pytest.mark.parametrize("api", served(), ids=lambda api: api.name)
def test_a_request_with_a_long_list_is_worked_off_in_short_turns(api: Api) -> None:
    for version in sorted({VERSIONS[api].lowest, VERSIONS[api].highest}):
        for name, message in wide_requests(request_class(api), version, ENTRIES):
            desk = Desk(auto_create_topics_enable="false")
            desk.flushes_by_hand = True
            for _, short in wide_requests(request_class(api), version, 1):
                longest_turn(desk, encode_request(short, version, 1, "tester"))  # compiles and imports
            peer = desk.connect()
            number = peer.send(message, version)
            while desk.node.needs_flush:
                desk.node.flush(desk.clock.now_ms())
            assert peer.closed or [reply[0] for reply in peer.replies] == [number], f"v{version} {name}: one answer"
            lines = longest_turn(desk, encode_request(message, version, 1, "tester"))
            assert lines <= LONGEST_TURN, f"v{version} {name}"


def test_a_request_with_too_many_entries_closes_its_connection_before_they_are_read(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    peer = desk.connect("greedy", "192.0.2.7")
    frame, _ = peer.frame(metadata(*[""] * 100_000), 0)
    desk.flushes_by_hand = True
    with caplog.at_level(logging.WARNING):
        assert lines_of(lambda: peer.feed(frame)) < 1000
    assert peer.closed
    assert caplog.messages == [
        "closed connection from 192.0.2.7: METADATA v0 of client 'greedy' has 100000 entries in its lists or more;"
        " kohort.request.max.entries is 20000"
    ]


def test_entries_of_all_lists_of_a_request_count_together(desk: Desk) -> None:
    topic = FetchRequest.Topic
    partitions = [topic.Partition(partition=i) for i in range(5000)]
    few = FetchRequest(topics=[topic(topic=f"t{i}", partitions=partitions) for i in range(3)])
    many = FetchRequest(topics=[topic(topic=f"t{i}", partitions=partitions) for i in range(4)])
    peer, other = desk.connect(), desk.connect()
    peer.send(few, 4)
    other.send(many, 4)
    assert (peer.closed, len(peer.replies)) == (None, 1)
    assert other.closed, "4 topics and 20,000 partitions are more than 20,000 entries"


def test_a_list_that_says_to_be_longer_than_its_message_is_refused_unread(desk: Desk) -> None:
    frame = desk.connect().frame(metadata(*["x" * 100] * 100), 0)[0]
    at = frame.index((100).to_bytes(4, "big") + b"\0\x64x")
    desk.flushes_by_hand = True
    connection = (peer := desk.connect()).connection
    broken = frame[:at] + (15_000).to_bytes(4, "big") + frame[at + 4 :]
    assert lines_of(lambda: desk.node.connections.receive(connection, broken, 0)) < 1000
    assert "15000 entries" in (peer.closed or "")


def test_what_is_named_twice_is_described_once(desk: Desk) -> None:
    peer = desk.connect()
    assert [topic.name for topic in peer.call(metadata(*["orders", "none", "orders"] * 500), 5).topics] == [
        "orders",
        "none",
    ]
    groups = DescribeGroupsRequest(groups=["a", "b", "a"] * 500)
    assert [group.group_id for group in peer.call(groups, 5).groups] == ["a", "b"]
    resource = DescribeConfigsRequest.Resource(resource_type=2, resource_name="orders", configuration_keys=None)
    assert len(peer.call(DescribeConfigsRequest(resources=[resource] * 1500), 1).results) == 1


def test_others_are_served_between_the_turns_of_a_long_request(desk: Desk) -> None:
    desk.flushes_by_hand = True
    greedy, other = desk.connect(), desk.connect()
    greedy.send(unknown_partitions(ENTRIES), 4)
    desk.node.flush(desk.clock.now_ms())
    other.send(ApiVersionsRequest(), 0)
    assert (len(greedy.replies), len(other.replies)) == (0, 1)


def test_long_requests_of_several_clients_take_turns(desk: Desk) -> None:
    desk.flushes_by_hand = True
    first, second, turns = desk.connect(), desk.connect(), 0
    first.send(unknown_partitions(ENTRIES), 4)
    second.send(unknown_partitions(ENTRIES // 10), 4)
    while not second.replies:
        desk.node.flush(desk.clock.now_ms())
        turns += 1
    assert not first.replies
    assert turns < ENTRIES / 100


def test_requests_behind_a_long_one_are_answered_after_it(desk: Desk) -> None:
    peer = desk.connect()
    frames = [
        peer.frame(each, version) for each, version in ((unknown_partitions(ENTRIES), 4), (ApiVersionsRequest(), 0))
    ]
    peer.feed(b"".join(frame for frame, _ in frames))
    assert [number for number, _ in peer.replies] == [number for _, number in frames]


def test_many_short_requests_that_come_at_once_are_served_in_several_turns(desk: Desk) -> None:
    desk.flushes_by_hand = True
    peer = desk.connect()
    peer.feed(b"".join(peer.frame(ApiVersionsRequest(), 0)[0] for _ in range(2000)))
    assert 0 < len(peer.replies) < 1000
    while desk.node.needs_flush:
        desk.node.flush(desk.clock.now_ms())
    assert [number for number, _ in peer.replies] == list(range(1, 2001))


def test_a_long_commit_is_stored_whole(desk: Desk) -> None:
    partition = OffsetCommitRequest.Topic.Partition
    offsets = [partition(partition_index=i % 3, committed_offset=i, committed_metadata="") for i in range(ENTRIES)]
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.Topic(name="orders", partitions=offsets)])
    [topic] = desk.connect().call(commit, 2).topics
    assert {each.error_code for each in topic.partitions} == {0}
    stored = {each.partition: each.offset for each in desk.node.coordinator.offsets("g")}
    assert stored == {0: ENTRIES - 2, 1: ENTRIES - 1, 2: ENTRIES - 3}


def test_a_client_that_leaves_within_a_long_request_leaves_nothing_to_do(desk: Desk) -> None:
    desk.flushes_by_hand = True
    peer = desk.connect()
    peer.send(unknown_partitions(ENTRIES), 4)
    peer.leave()
    desk.node.flush(desk.clock.now_ms())
    assert not desk.node.needs_flush


def crowded(records: int) -> bytes:
    """Return a batch of few kilobytes that unpacks to so many records, at time 1000 where its header says 5000."""
    rows = [Record(0, 1000, b"k", None)] * records
    batch = bytearray(encode_batch(rows, compression=Compression.GZIP))
    pack_into(">q", batch, 35, 5000)
    pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def test_a_small_batch_of_many_records_is_decoded_in_short_turns(desk: Desk) -> None:
    desk.create("compacted", cleanup_policy="compact")
    asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=3000)
    by_time = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name="orders", partitions=[asked])])
    for message, version in ((produce("orders", crowded(1)), 9), (produce("compacted", crowded(1)), 9), (by_time, 5)):
        desk.connect().call(message, version)  # compiles and imports
    assert only(desk.connect().call(produce("orders", crowded(30_000)), 9)).error_code == 0
    desk.flushes_by_hand = True
    for message, version in ((produce("compacted", crowded(30_000)), 9), (by_time, 5)):
        assert longest_turn(desk, encode_request(message, version, 1, "tester")) <= LONGEST_TURN
    assert desk.node.topics.partition("compacted", 0).log.log_end_offset == 30_001  # type: ignore[union-attr]


def test_a_compacted_topic_takes_no_batch_that_its_cleaner_would_decode_for_long(desk: Desk) -> None:
    desk.create("compacted", cleanup_policy="compact")
    answer = only(desk.connect().call(produce("compacted", crowded(100_001)), 9))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.error_message == "A batch of 100001 records; a compacted topic takes 100000 in one."


def test_the_offsets_of_all_groups_are_expired_in_short_turns(desk: Desk) -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = OffsetCommitRequest.Topic(name="orders", partitions=[partition])
    peer = desk.connect()
    for number in range(1000):
        peer.call(OffsetCommitRequest(group_id=f"g{number}", topics=[topic]), 2)
    coordinator = desk.node.coordinator
    assert sum(len(hosted.shard.offsets) for hosted in coordinator.partitions) == 1000
    desk.flushes_by_hand = True
    desk.clock.advance(8 * 24 * 3_600_000)
    turns = [lines_of(lambda: desk.node.tick(desk.clock.now_ms()))]
    while desk.node.needs_flush:
        turns.append(lines_of(lambda: desk.node.flush(desk.clock.now_ms())))
    assert sum(len(hosted.shard.offsets) for hosted in coordinator.partitions) == 0
    assert max(turns) <= 1.5 * LONGEST_TURN, "five hundred events of groups are written at once"
    assert "offsets expiry" in desk.node.timers, "the next look at them is due later"


def test_the_retention_of_all_logs_is_enforced_in_short_turns(desk: Desk) -> None:
    desk.create("many", 300)
    desk.flushes_by_hand = True
    desk.clock.advance(300_000)
    turns = [lines_of(lambda: desk.node.tick(desk.clock.now_ms()))]
    while desk.node.needs_flush:
        turns.append(lines_of(lambda: desk.node.flush(desk.clock.now_ms())))
    assert len(turns) >= 10
    assert max(turns) <= LONGEST_TURN


def test_an_answer_of_a_hundred_thousand_entries_is_sent_in_few_buffers(desk: Desk) -> None:
    desk.create("wide", 50_000)
    peer = desk.connect()
    sent: list[int] = []
    peer.connection.send = lambda buffers: sent.append(len(buffers))
    desk.flushes_by_hand = True
    frame = peer.frame(MetadataRequest(topics=None), 9)[0]
    assert longest_turn(desk, frame) <= LONGEST_TURN
    peer.feed(frame)
    while desk.node.needs_flush:
        desk.node.flush(desk.clock.now_ms())
    assert sum(sent) < 50_000 // 100


def attacks(desk: Desk) -> dict[str, bytes]:
    """Return requests of one greedy client, each with much to do."""
    peer = desk.connect()
    bomb = forged(compress(Compression.GZIP, bytes(8 << 20)), 1, Compression.GZIP)
    headers = signed_varint(100_000) + b"\0\1" * 100_000
    body = b"\0\0\0" + signed_varint(-1) + signed_varint(-1) + headers
    many_headers = forged(signed_varint(len(body)) + body, 1)
    join = JoinGroupRequest.Protocol
    messages = {
        "bomb": (produce("compacted", bomb), 9),
        "lying header": (produce("orders", forged(b"ab", (1 << 31) - 1)), 9),
        "a record of many headers": (produce("compacted", many_headers), 9),
        "many records": (produce("compacted", crowded(20_000)), 9),
        "many new topics": (metadata(*(f"new-{at}" for at in range(ENTRIES))), 5),
        "many protocols": (
            JoinGroupRequest(
                group_id="x", protocols=[join(name=f"p{at}", metadata=bytes(100)) for at in range(ENTRIES)]
            ),
            5,
        ),
    }
    return {name: peer.frame(message, version)[0] for name, (message, version) in messages.items()}


def turns_beside(
    desk: Desk, members: list[GroupMember], frame: bytes, count: Callable[[Callable[[], object]], int]
) -> list[int]:
    """Let two clients send a frame; return the lines of each turn. Each member gets its heartbeats answered between."""
    connections = desk.node.connections
    greedy = [connections.open("192.0.2.9", lambda _: None, lambda _: None) for _ in range(2)]
    turns = [count(lambda each=each: connections.receive(each, frame, desk.clock.now_ms())) for each in greedy]
    while desk.node.needs_flush:
        assert [member.heartbeat() for member in members] == [0, 0, 0]
        turns.append(count(lambda: desk.node.flush(desk.clock.now_ms())))
    for each in greedy:
        connections.drop(each, desk.clock.now_ms())
    return turns


def test_a_group_has_its_heartbeats_answered_in_each_turn_beside_greedy_clients() -> None:
    longest: dict[str, int] = {}
    for count in (not_counted, lines_of):
        desk = group_desk(message_max_bytes=8 << 20, kohort_produce_max_unpacked_bytes=2 << 20)
        desk.create("compacted", cleanup_policy="compact")
        members = stable_group(desk, 3)
        frames = attacks(desk)
        desk.flushes_by_hand = True
        longest = {name: max(turns_beside(desk, members, frame, count)) for name, frame in frames.items()}
        assert [member.heartbeat() for member in members] == [0, 0, 0]
    assert {name: lines for name, lines in longest.items() if lines > LONGEST_TURN} == {}
