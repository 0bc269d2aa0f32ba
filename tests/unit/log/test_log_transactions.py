"""Transactions in a log: the last stable offset, the index of aborted ones, and what of it survives (KIP-98)."""

from __future__ import annotations

import struct

import pytest
from tests.unit.log.workbench import DIRECTORY, names, open_log

from kohort.log.disk import Disk, read_file
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.record_batches import BatchHeader, Marker, Record, encode_batch, encode_marker, iter_batches

COMPACT = LogConfig(segment_bytes=1000, cleanup_policy=("compact",), retention_ms=-1, delete_retention_ms=0)


class Writer:
    """Appends to one log what transactional producers would."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.sequences: dict[int, int] = {}

    def write(self, producer_id: int, *keys: bytes, epoch: int = 0) -> int:
        sequence = self.sequences.get(producer_id, 0)
        records = [Record(0, 1_000, key, b"v") for key in keys or (b"k",)]
        self.sequences[producer_id] = sequence + len(records)
        batch = encode_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        return self.log.append([batch], leader_epoch=0, now_ms=1_000).base_offset

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        batch = encode_marker(producer_id, epoch, Marker(commit, 0), 1_000)
        return self.log.append([batch], leader_epoch=0, now_ms=1_000).base_offset

    def plain(self, key: bytes = b"p") -> int:
        return self.log.append([encode_batch([Record(0, 1_000, key, b"v")])], leader_epoch=0, now_ms=1_000).base_offset


def aborted(log: PartitionLog, offset: int = 0) -> list[tuple[int, int, int]]:
    views = log.read(offset, 1 << 20, up_to=log.last_stable_offset)
    return [each[:3] for each in log.aborted_transactions(offset, views)]


@pytest.fixture
def writer(disk: Disk) -> Writer:
    return Writer(open_log(disk))


def test_an_open_transaction_ends_what_committed_readers_see(writer: Writer) -> None:
    writer.plain()
    first = writer.write(7)
    writer.plain()
    assert writer.log.last_stable_offset == first == 1
    assert writer.log.high_watermark == 3
    writer.end(7, commit=True)
    assert writer.log.last_stable_offset == writer.log.log_end_offset == 4


def test_the_first_of_several_open_transactions_counts(writer: Writer) -> None:
    writer.write(1)
    second = writer.write(2)
    writer.end(1, commit=True)
    assert writer.log.last_stable_offset == second
    writer.end(2, commit=False)
    assert writer.log.last_stable_offset == writer.log.log_end_offset


def test_a_transaction_ends_for_readers_when_its_marker_is_durable(disk: Disk) -> None:
    log = open_log(disk, LogConfig(flush_policy="fsync"))
    writer = Writer(log)
    writer.write(1)
    log.flush()
    writer.end(1, commit=True)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.flush()
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_named_to_who_reads_their_records(writer: Writer) -> None:
    writer.write(1)
    writer.write(2)
    writer.end(1, commit=False)
    writer.end(2, commit=True)
    writer.write(3)
    writer.end(3, commit=False)
    assert aborted(writer.log) == [(1, 0, 2), (3, 4, 5)]
    assert aborted(writer.log, 3) == [(3, 4, 5)]
    views = writer.log.read(0, 1, up_to=1)
    assert [each.producer_id for each in writer.log.aborted_transactions(0, views)] == [1]


def test_the_index_is_in_kafka_s_format(disk: Disk) -> None:
    writer = Writer(open_log(disk))
    writer.plain()
    writer.write(1)
    writer.write(2)
    writer.end(2, commit=False)
    writer.end(1, commit=False)
    content = read_file(disk, f"{DIRECTORY}/{0:020d}.txnindex")
    assert list(struct.iter_unpack(">hqqqq", content)) == [(0, 2, 2, 3, 1), (0, 1, 1, 4, 5)]


@pytest.mark.parametrize("clean", [True, False])
def test_open_and_aborted_transactions_survive_a_restart(disk: Disk, clean: bool) -> None:
    writer = Writer(open_log(disk))
    writer.write(1)
    writer.end(1, commit=False)
    first = writer.write(2)
    if clean:
        writer.log.close()
    reopened = open_log(disk)
    assert reopened.last_stable_offset == first
    assert aborted(reopened) == [(1, 0, 1)]
    after = Writer(reopened)
    after.end(2, commit=False)
    assert aborted(reopened) == [(1, 0, 1), (2, 2, 3)]


def test_an_aborted_transaction_over_two_segments_is_indexed_where_its_marker_is(disk: Disk) -> None:
    log = open_log(disk)
    writer = Writer(log)
    writer.write(1)
    log.roll()
    writer.plain()
    writer.end(1, commit=False)
    assert aborted(log) == [(1, 0, 2)]
    log.close()
    assert names(disk, ".txnindex") == [f"{1:020d}.txnindex"]
    assert aborted(open_log(disk)) == [(1, 0, 2)]


def test_a_damaged_index_is_an_error_and_not_ignored(disk: Disk) -> None:
    writer = Writer(open_log(disk))
    writer.write(1)
    writer.end(1, commit=False)
    writer.log.close()
    file = disk.open(f"{DIRECTORY}/{0:020d}.txnindex")
    file.truncate(33)
    file.close()
    with pytest.raises(OSError, match="no index of aborted transactions"):
        aborted(open_log(disk))


def test_cleaning_removes_aborted_records_and_their_entries(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    writer = Writer(log)
    writer.write(1, b"a")
    writer.end(1, commit=False)
    writer.write(1, b"b")
    writer.end(1, commit=True)
    open_at = writer.write(2, b"c")
    log.roll()
    writer.plain()
    writer.end(2, commit=False)
    log.compact(0)
    assert aborted(log) == [(2, open_at, open_at + 2)]
    log.roll()
    writer.plain(b"q")
    log.compact(0)
    assert aborted(log) == []
    log.close()
    assert aborted(open_log(disk, COMPACT)) == []


def test_an_open_transaction_prevents_its_producer_from_expiring(writer: Writer) -> None:
    writer.write(1)
    writer.log.producers.expire(10**9, 1)
    assert len(writer.log.producers) == 1
    writer.end(1, commit=True)
    writer.log.producers.expire(10**9, 1)
    assert not len(writer.log.producers)


def test_markers_of_the_past_are_refused(writer: Writer) -> None:
    writer.write(1, epoch=3)
    with pytest.raises(KafkaError) as refused:
        writer.log.producers.check_marker(1, 2, 0)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    batch = encode_marker(1, 3, Marker(True, 5), 1_000)
    writer.log.append([batch], leader_epoch=0, now_ms=1_000)
    with pytest.raises(KafkaError) as refused:
        writer.log.producers.check_marker(1, 3, 4)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    writer.log.producers.check_marker(1, 3, 5)  # a repetition


def batches(log: PartitionLog) -> list[BatchHeader]:
    views = log.read(0, 1 << 20, up_to=log.log_end_offset)
    while views and (more := log.read(_end(views), 1 << 20, up_to=log.log_end_offset)):
        views += more
    return [header for view in views for header, _ in iter_batches(view)]


def _end(views: list[memoryview]) -> int:
    return [header for header, _ in iter_batches(views[-1])][-1].last_offset + 1


def test_a_crash_at_any_step_of_a_cleaning_loses_no_aborted_transaction() -> None:
    """Aborted records are named as long as they are there, and each one named has a marker."""
    for steps in range(12):
        disk = MemoryDisk()
        writer = Writer(open_log(disk, COMPACT))
        writer.write(1, b"a")
        writer.end(1, commit=False)
        writer.write(2, b"c")
        writer.log.roll()
        writer.end(2, commit=False)
        writer.log.roll()
        writer.plain()
        passing = writer.log.cleaner.begin(0)
        for _ in range(steps):
            next(passing, None)
        reopened = open_log(disk, COMPACT)
        named = {producer_id for producer_id, *_ in aborted(reopened)}
        found = batches(reopened)
        there = {
            each.producer_id for each in found if each.producer_id >= 0 and not each.is_control and each.record_count
        }
        assert there <= named, steps
        assert named <= {each.producer_id for each in found if each.is_control}, steps
