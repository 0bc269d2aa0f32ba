"""Long polls, limits and incremental sessions of Fetch."""

from __future__ import annotations

import pytest
from tests.unit.node.desk import Desk, Peer, batch, fetch, only, produce
from tests.unit.node.test_records_apis import values

from kohort.model.errors import ErrorCode
from kohort.wire.messages import DeleteTopicsRequest, FetchRequest, FetchResponse


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.create("orders", 3)
    return desk


def put(peer: Peer, *payloads: bytes, partition: int = 0) -> None:
    for payload in payloads:
        assert only(peer.call(produce("orders", batch(payload), partition=partition), 9)).error_code == 0


def test_a_fetch_at_the_end_waits_until_records_arrive(desk: Desk) -> None:
    reader, writer = desk.connect(), desk.connect()
    reader.send(fetch("orders", max_wait_ms=500), 11)
    desk.advance(499)
    assert reader.answers() == []
    put(writer, b"new")
    (answer,) = reader.answers()
    assert values(only(answer)) == [b"new"]
    desk.advance(10_000)
    assert reader.answers() == []


def test_a_fetch_that_finds_nothing_is_answered_empty_when_its_wait_is_over(desk: Desk) -> None:
    reader = desk.connect()
    reader.send(fetch("orders", max_wait_ms=500), 11)
    desk.advance(500)
    (answer,) = reader.answers()
    assert (only(answer).error_code, values(only(answer)), only(answer).high_watermark) == (0, [], 0)


def test_min_bytes_counts_all_partitions_and_what_was_there_before(desk: Desk) -> None:
    reader, writer = desk.connect(), desk.connect()
    size = len(batch(b"12345"))
    put(writer, b"12345")
    message = fetch("orders", min_bytes=3 * size, max_wait_ms=1000)
    message.topics[0].partitions.append(
        FetchRequest.Topic.Partition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
    )
    reader.send(message, 11)
    put(writer, b"12345", partition=1)
    put(writer, b"elsewhere", partition=2)
    assert reader.answers() == []
    put(writer, b"12345", partition=1)
    (answer,) = reader.answers()
    assert [len(values(partition)) for partition in answer.responses[0].partitions] == [1, 2]


def test_a_fetch_of_nothing_and_one_with_an_error_are_answered_at_once(desk: Desk) -> None:
    peer = desk.connect()
    assert peer.call(FetchRequest(max_wait_ms=500, min_bytes=1), 11).responses == []
    assert only(peer.call(fetch("nowhere"), 11)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(peer.call(fetch("orders", partition=3), 11)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for offset in (-1, 1):
        assert only(peer.call(fetch("orders", offset), 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_client_that_leaves_takes_its_waiting_fetch_with_it(desk: Desk) -> None:
    reader = desk.connect()
    partition = desk.node.topics.partition("orders", 0)
    assert partition is not None
    armed = len(desk.node.timers)
    reader.send(fetch("orders", max_wait_ms=1 << 30), 11)
    assert len(partition.waiters) == 1
    reader.leave()
    assert len(partition.waiters) == 0
    assert len(desk.node.timers) == armed
    put(desk.connect(), b"x")


def test_deleting_a_topic_wakes_the_fetches_that_wait_on_it(desk: Desk) -> None:
    reader, admin = desk.connect(), desk.connect()
    reader.send(fetch("orders"), 11)
    admin.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1), 4)
    desk.advance(0)
    (answer,) = reader.answers()
    assert only(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_at_least_one_batch_is_returned_however_small_the_limits(desk: Desk) -> None:
    peer = desk.connect()
    put(peer, b"x" * 1000, b"y" * 1000)
    for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0, "max_bytes": 0}):
        assert values(only(peer.call(fetch("orders", **limits), 11))) == [b"x" * 1000]


def test_max_bytes_bounds_the_whole_answer(desk: Desk) -> None:
    peer = desk.connect()
    for partition in range(3):
        put(peer, b"x" * 1000, b"y" * 1000, partition=partition)
    message = fetch("orders", max_bytes=len(batch(b"x" * 1000)) * 3)
    message.topics[0].partitions += [
        FetchRequest.Topic.Partition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (1, 2)
    ]
    answer = peer.call(message, 11)
    assert [len(values(partition)) for partition in answer.responses[0].partitions] == [2, 1, 0]


def test_only_read_committed_gets_a_list_of_aborted_transactions(desk: Desk) -> None:
    peer = desk.connect()
    put(peer, b"x")
    assert only(peer.call(fetch("orders", isolation_level=0), 11)).aborted_transactions is None
    assert only(peer.call(fetch("orders", isolation_level=1), 11)).aborted_transactions == []


def test_followers_are_turned_away(desk: Desk) -> None:
    peer = desk.connect()
    assert peer.call(fetch("orders", replica_id=2), 11).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- sessions


def begin(peer: Peer, *partitions: int) -> FetchResponse:
    message = fetch("orders", session_id=0, session_epoch=0, max_wait_ms=0)
    message.topics[0].partitions = [
        FetchRequest.Topic.Partition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in partitions
    ]
    return peer.call(message, 11)


def proceed(peer: Peer, session_id: int, epoch: int, **fields: object) -> FetchResponse:
    message = FetchRequest(session_id=session_id, session_epoch=epoch, max_wait_ms=0, min_bytes=1, **fields)
    return peer.call(message, 11)


def advanced(partition: int, offset: int) -> list[FetchRequest.Topic]:
    asked = FetchRequest.Topic.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return [FetchRequest.Topic(topic="orders", partitions=[asked])]


def served(answer: FetchResponse) -> list[int]:
    return [partition.partition_index for topic in answer.responses for partition in topic.partitions]


def test_a_session_answers_only_what_is_new(desk: Desk) -> None:
    peer, writer = desk.connect(), desk.connect()
    first = begin(peer, 0, 1, 2)
    assert first.session_id != 0
    assert served(first) == [0, 1, 2]
    assert served(proceed(peer, first.session_id, 1)) == []
    put(writer, b"x", partition=1)
    second = proceed(peer, first.session_id, 2)
    assert served(second) == [1]
    assert values(only(second)) == [b"x"]
    assert served(proceed(peer, first.session_id, 3, topics=advanced(1, 1))) == []


def test_a_session_partition_with_an_error_is_in_every_response(desk: Desk) -> None:
    peer = desk.connect()
    first = begin(peer, 0, 9)
    for epoch in (1, 2):
        answer = proceed(peer, first.session_id, epoch)
        assert [p.error_code for p in answer.responses[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_session_forgets_and_adds_partitions(desk: Desk) -> None:
    peer, writer = desk.connect(), desk.connect()
    session_id = begin(peer, 0).session_id
    forgotten = [FetchRequest.ForgottenTopic(topic="orders", partitions=[0])]
    added = proceed(peer, session_id, 1, topics=advanced(2, 0), forgotten_topics_data=forgotten)
    assert served(added) == [2]
    put(writer, b"x", partition=0)
    put(writer, b"x", partition=2)
    assert served(proceed(peer, session_id, 2)) == [2]


def test_a_busy_partition_does_not_starve_the_others_of_a_session(desk: Desk) -> None:
    peer, writer = desk.connect(), desk.connect()
    session_id = begin(peer, 0, 1).session_id
    for partition in (0, 1):
        put(writer, b"x" * 500, b"y" * 500, partition=partition)
    assert [served(proceed(peer, session_id, epoch, max_bytes=1))[0] for epoch in (1, 2, 3)] == [0, 1, 0]


def test_a_session_epoch_that_was_lost_or_repeated_is_refused(desk: Desk) -> None:
    peer = desk.connect()
    session_id = begin(peer, 0).session_id
    assert proceed(peer, session_id, 2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert proceed(peer, session_id + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert proceed(peer, session_id, 1).error_code == ErrorCode.NONE
    assert proceed(peer, session_id, 1).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_by_names_is_not_continued_by_ids(desk: Desk) -> None:
    peer = desk.connect()
    session_id = begin(peer, 0).session_id
    message = FetchRequest(session_id=session_id, session_epoch=1, max_wait_ms=0, min_bytes=1)
    assert peer.call(message, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_fetch_or_a_last_one_ends_the_session_before(desk: Desk) -> None:
    peer = desk.connect()
    session_id = begin(peer, 0).session_id
    again = fetch("orders", session_id=session_id, session_epoch=0, max_wait_ms=0)
    renewed = peer.call(again, 11).session_id
    assert renewed not in (0, session_id)
    assert len(desk.node.context.fetch_sessions) == 1
    last = fetch("orders", session_id=renewed, session_epoch=-1, max_wait_ms=0)
    assert peer.call(last, 11).session_id == 0
    assert len(desk.node.context.fetch_sessions) == 0


def test_the_session_cache_is_bounded_and_evicts_only_what_has_rested() -> None:
    desk = Desk(max_incremental_fetch_session_cache_slots=2)
    desk.create("orders")
    peer = desk.connect()
    ids = [begin(peer, 0).session_id for _ in range(3)]
    assert ids[2] == 0
    desk.advance(60_000)
    proceed(peer, ids[0], 1)
    desk.advance(60_000)
    assert begin(peer, 0).session_id != 0
    assert proceed(peer, ids[1], 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert proceed(peer, ids[0], 2).error_code == ErrorCode.NONE
