"""The cleaner of a node: which log it takes, how little it does in one turn, and what it says when it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.log.test_cleaner import latest
from tests.unit.node.desk import Desk, produce
from tests.unit.node.group_desk import committed, group_desk, stable_group

from kohort.log import cleaner
from kohort.log.disk import StorageError
from kohort.log.partition_log import PartitionLog
from kohort.model.errors import ErrorCode
from kohort.node.topics import log_cleaner
from kohort.wire.record_batches import Record, encode_batch

BACKOFF_MS = 15_000


def compacted(desk: Desk, name: str = "table", **configs: Any) -> PartitionLog:
    """Create a compacted topic of small segments, and return the log of its partition."""
    desk.create(name, 1, **{"cleanup_policy": "compact", "segment_bytes": 2000, **configs})
    return log_of(desk, name)


def log_of(desk: Desk, name: str = "table", index: int = 0) -> PartitionLog:
    partition = desk.node.topics.partition(name, index)
    assert partition is not None
    return partition.log


def fill(desk: Desk, name: str = "table", rounds: int = 100, keys: int = 5) -> None:
    now_ms = desk.clock.now_ms()
    for n in range(rounds):
        record = Record(0, now_ms, b"key-%d" % (n % keys), b"value %d" % n)
        answer = desk.connect().call(produce(name, encode_batch([record])), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_compacted_topic_is_cleaned_a_backoff_later() -> None:
    desk = Desk()
    log = compacted(desk)
    fill(desk)
    before, size = latest(log), log.size
    desk.advance(BACKOFF_MS + 20)
    assert log.size < size / 2
    assert latest(log) == before
    assert not desk.node.cleaner.is_busy


def test_topic_that_only_deletes_is_left_alone() -> None:
    desk = Desk()
    log = compacted(desk, cleanup_policy="delete")
    fill(desk)
    size = log.size
    desk.advance(BACKOFF_MS * 2)
    assert log.size == size


def test_cleaner_can_be_turned_off() -> None:
    desk = Desk(log_cleaner_enable="false")
    log = compacted(desk)
    fill(desk)
    size = log.size
    desk.advance(BACKOFF_MS * 2)
    assert log.size == size


def test_one_turn_reads_one_slice_and_others_are_served_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cleaner, "SLICE_BYTES", 500)
    monkeypatch.setattr(cleaner, "PIECE_BYTES", 500)
    desk = Desk()
    log = compacted(desk)
    fill(desk)
    desk.advance(BACKOFF_MS)
    assert desk.node.cleaner.is_busy
    turns = 0
    while desk.node.cleaner.is_busy:
        desk.advance(1)
        fill(desk, rounds=1)
        turns += 1
    assert turns > 15
    assert latest(log).keys() == {f"key-{n}" for n in range(5)}


def test_cleaner_reads_no_faster_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cleaner, "SLICE_BYTES", 500)
    monkeypatch.setattr(cleaner, "PIECE_BYTES", 500)
    desk = Desk(log_cleaner_io_max_bytes_per_second=1000)
    log = compacted(desk)
    fill(desk)
    size = log.size
    desk.advance(BACKOFF_MS + 5_000)
    assert desk.node.cleaner.is_busy
    desk.advance(2 * size)
    assert not desk.node.cleaner.is_busy
    assert log.size < size / 2


def test_dirtiest_log_is_cleaned_first_and_the_others_after_it() -> None:
    desk = Desk()
    logs = [compacted(desk, name) for name in ("first", "second")]
    for name in ("first", "second"):
        fill(desk, name)
    logs[0].compact(desk.clock.now_ms())
    fill(desk, "first", rounds=60)
    sizes = [log.size for log in logs]
    desk.advance(BACKOFF_MS + log_cleaner.PAUSE_MS)
    assert logs[1].size < sizes[1]
    assert logs[0].size == sizes[0]
    desk.advance(100)
    assert logs[0].size < sizes[0]


def test_topic_deleted_while_it_is_cleaned_ends_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cleaner, "SLICE_BYTES", 500)
    monkeypatch.setattr(cleaner, "PIECE_BYTES", 500)
    desk = Desk()
    compacted(desk)
    fill(desk)
    desk.advance(BACKOFF_MS + 3)
    assert desk.node.cleaner.is_busy
    topic = desk.node.topics.get("table")
    assert topic is not None
    desk.node.topics.delete(topic, desk.clock.now_ms())
    desk.advance(BACKOFF_MS * 2)
    assert not desk.node.cleaner.is_busy
    assert not [path for path in desk.disk.files if path.startswith("table-0/")]


def test_log_that_cannot_be_read_is_logged_once_and_not_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    compacted(desk)
    fill(desk)
    desk.disk.files[f"table-0/{0:020d}.log"].content[100] ^= 1
    desk.advance(BACKOFF_MS * 10)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "table-0 cannot be cleaned" in errors[0]


def test_disk_that_fails_while_segments_change_places_has_the_log_opened_again() -> None:
    desk = Desk()
    log = compacted(desk)
    fill(desk)
    expected = latest(log)

    def fails(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith(".swap"):
            raise StorageError(5, "the disk fails", path)

    desk.disk.fault = fails
    desk.advance(BACKOFF_MS + 20)
    assert log.failure is not None
    desk.disk.fault = None
    again = log_of(desk)
    assert again is not log
    assert latest(again) == expected
    fill(desk, rounds=1)
    desk.advance(BACKOFF_MS * 2)
    assert len(latest(log_of(desk))) == 5
    assert log_of(desk).size < log.config.segment_bytes + 500


def test_compacted_topic_takes_no_record_without_a_key() -> None:
    desk = Desk()
    compacted(desk)
    answer = desk.connect().call(produce("table", encode_batch([Record(0, desk.clock.now_ms(), None, b"v")])), 9)
    (part,) = answer.responses[0].partition_responses
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert part.error_message == "Compacted topic cannot accept message without key in topic partition table-0."


def test_changed_settings_of_a_topic_count_at_the_next_look() -> None:
    desk = Desk()
    log = compacted(desk, min_cleanable_dirty_ratio="1.0")
    fill(desk)
    size = log.size
    desk.advance(BACKOFF_MS * 2)
    assert log.size == size
    topic = desk.node.topics.get("table")
    assert topic is not None
    desk.node.topics.alter(topic, [("min.cleanable.dirty.ratio", "0.1")], desk.clock.now_ms())
    desk.advance(BACKOFF_MS * 2)
    assert log.size < size


def test_groups_live_on_when_the_broker_comes_back_to_a_cleaned_log() -> None:
    desk = group_desk()
    members = stable_group(desk, 2)
    for n in range(200):
        assert members[n % 2].commit(offset=n) == 0
    place = desk.node.coordinator.partition_of("g")
    log = log_of(desk, "__consumer_offsets", place)
    log.compact(desk.clock.now_ms(), roll=True)
    assert log.size < 1500
    desk = desk.restart()
    for member in members:
        member.desk, member.peer = desk, desk.connect()
        assert member.heartbeat() == 0
    assert committed(members[0].peer) == 199
    assert members[0].commit(offset=200) == 0
    assert committed(members[1].peer) == 200


def test_offsets_topic_is_cleaned_like_any_other() -> None:
    desk = group_desk(offsets_topic_segment_bytes=2000)
    (member,) = stable_group(desk, 1)
    for n in range(100):
        assert member.commit(offset=n) == 0
    log = log_of(desk, "__consumer_offsets", desk.node.coordinator.partition_of("g"))
    size = log.size
    desk.advance(5_000)
    assert member.heartbeat() == 0
    desk.advance(BACKOFF_MS - 5_000 + 20)
    assert log.size < size / 2
    assert committed(desk.restart().connect()) == 99
