"""Idempotent producers: duplicates, order, epochs, the wrap of sequences, expiry, and what a restart remembers."""

from __future__ import annotations

import pytest
from tests.unit.log.workbench import DIRECTORY, append, batch, fill, names, open_log, overwrite

from kohort.log.disk import Disk
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import Appended, PartitionLog
from kohort.log.producer_state import CorruptSnapshot, Duplicate, Producers, sequence_after
from kohort.log.segments import LogConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.record_batches import BatchHeader, ControlType, control_record, encode_batch, read_header

LARGEST = (1 << 31) - 1


def header(sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, producer_id: int = 9) -> BatchHeader:
    sent = batch(count, base_offset=offset, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return read_header(sent)


def refusal(producers: Producers, one: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        producers.check(one)
    return caught.value.code


@pytest.fixture
def producers() -> Producers:
    """Producer 9, epoch 0, has written sequences 0..9 in ten batches at offsets 100..109."""
    producers = Producers()
    for n in range(10):
        assert producers.check(header(n, offset=100 + n)) is None
        producers.update(header(n, offset=100 + n))
    return producers


def test_the_last_five_batches_are_known_again(producers: Producers) -> None:
    for n in range(5, 10):
        assert producers.check(header(n)) == Duplicate(100 + n, 100 + n, -1)
    assert refusal(producers, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_resembles_an_old_one_is_no_duplicate(producers: Producers) -> None:
    assert refusal(producers, header(9, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, header(8, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order(producers: Producers) -> None:
    assert refusal(producers, header(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(10, 500)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(producers: Producers) -> None:
    assert refusal(producers, header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0, epoch=1)) is None
    producers.update(header(0, epoch=1, offset=110))
    assert refusal(producers, header(10)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, header(9)) is ErrorCode.INVALID_PRODUCER_EPOCH, "not a duplicate any more"
    assert producers.check(header(0, epoch=1)) == Duplicate(110, 110, -1)


def test_of_an_unknown_producer_any_sequence_is_taken(producers: Producers) -> None:
    assert producers.check(header(77, producer_id=10)) is None


def test_batches_without_a_producer_id_belong_to_no_producer(producers: Producers) -> None:
    assert producers.check(read_header(batch())) is None
    producers.update(read_header(batch()))
    assert len(producers) == 1


@pytest.mark.parametrize(("sequence", "epoch"), [(-1, 0), (0, -1)])
def test_a_producer_id_needs_sequence_and_epoch(producers: Producers, sequence: int, epoch: int) -> None:
    assert refusal(producers, header(sequence, epoch=epoch)) is ErrorCode.INVALID_RECORD


def test_sequences_wrap_after_the_largest_int32() -> None:
    producers = Producers()
    producers.update(header(LARGEST - 1, 2, offset=0))
    assert refusal(producers, header(LARGEST)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0)) is None
    producers = Producers()
    producers.update(header(LARGEST - 1, 5, offset=40))
    assert producers.check(header(LARGEST - 1, 5)) == Duplicate(40, 44, -1)
    assert producers.check(header(3)) is None
    assert sequence_after(LARGEST, 1) == 0
    assert sequence_after(LARGEST - 1, 4) == 2


def test_learning_twice_of_a_batch_changes_nothing(producers: Producers) -> None:
    before = producers.snapshot()
    producers.update(header(9))
    assert producers.snapshot() == before
    assert producers.check(header(5)) == Duplicate(105, 105, -1)


def test_a_control_batch_raises_the_epoch_and_no_sequence() -> None:
    producers = Producers()
    producers.update(header(0, 3))
    marker = encode_batch(
        [control_record(ControlType.ABORT, 0)], producer_id=9, producer_epoch=1, transactional=True, control=True
    )
    producers.update(read_header(marker))
    assert refusal(producers, header(3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(header(0, epoch=1)) is None


def marker(epoch: int, offset: int = 0) -> BatchHeader:
    control = [control_record(ControlType.COMMIT, 0)]
    return read_header(
        encode_batch(control, base_offset=offset, producer_id=9, producer_epoch=epoch, transactional=True, control=True)
    )


def test_after_a_marker_that_raised_the_epoch_a_batch_that_overtakes_the_first_is_out_of_order(
    producers: Producers,
) -> None:
    producers.update(marker(1, 110))
    assert refusal(producers, header(250, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0, epoch=1)) is None


def test_a_producer_of_which_only_a_marker_was_left_may_send_any_sequence_after_a_restart() -> None:
    producers = Producers()
    producers.replay(marker(0), -1, None)
    assert producers.check(header(250)) is None
    producers.update(header(250, offset=1))
    assert refusal(producers, header(252)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, header(250, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_was_refused_for_a_moment_comes_before_those_behind_it() -> None:
    producers = Producers()
    producers.await_again(header(0))
    producers.await_again(header(250))
    assert refusal(producers, header(250)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0, 250)) is None
    producers.update(header(0, 250))
    assert producers.check(header(250)) is None


def test_a_new_epoch_does_not_wait_for_a_batch_of_the_last_one() -> None:
    producers = Producers()
    producers.await_again(header(3))
    assert producers.check(header(7, epoch=1)) is None


def test_a_producer_that_sends_nothing_is_forgotten_by_the_brokers_clock() -> None:
    producers = Producers()
    producers.update(header(0), 1_000_000)  # the records' own timestamps are long past
    producers.expire(1_000_000 + 99, 100)
    assert len(producers) == 1
    producers.expire(1_000_000 + 100, 100)
    assert len(producers) == 0


def test_a_snapshot_brings_back_the_last_batch_of_each(producers: Producers) -> None:
    producers.update(header(LARGEST, 3, producer_id=11, epoch=4, offset=200))
    restored = Producers()
    restored.restore(producers.snapshot())
    assert restored.check(header(9)) == Duplicate(109, 109, -1)
    assert refusal(restored, header(8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert restored.check(header(10)) is None
    assert restored.check(header(LARGEST, 3, producer_id=11, epoch=4)) == Duplicate(200, 202, -1)
    assert restored.snapshot() == producers.snapshot()


def test_a_damaged_snapshot_is_refused_and_changes_nothing(producers: Producers) -> None:
    content = producers.snapshot()
    before = Producers()
    before.restore(content)
    for damaged in (b"", content[:5], content[:-1], content + b"\x00", b"\x00\x09" + content[2:]):
        with pytest.raises(CorruptSnapshot):
            before.restore(damaged)
    for at in range(2, len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1
        with pytest.raises(CorruptSnapshot):
            before.restore(bytes(flipped))
    assert before.snapshot() == content


# -- with a log


def produce(log: PartitionLog, sequence: int, count: int = 1, *, now_ms: int = 0) -> Duplicate | Appended:
    sent = batch(count, producer_id=9, producer_epoch=0, base_sequence=sequence)
    duplicate = log.producers.check(read_header(sent))
    return duplicate or append(log, sent, now_ms=now_ms)


@pytest.mark.parametrize("ending", ["closed", "killed", "killed without snapshots", "killed with bad snapshots"])
def test_a_restart_remembers_the_producers(disk: Disk, ending: str) -> None:
    log = open_log(disk)
    sequence = 0
    for n in range(60):
        produce(log, sequence, n % 3 + 1)
        sequence += n % 3 + 1
    end = log.log_end_offset
    if ending == "closed":
        log.close()
    assert len(names(disk, ".log")) > 2
    for name in names(disk, ".snapshot"):
        if "without" in ending:
            disk.remove(f"{DIRECTORY}/{name}")
        elif "bad" in ending:
            overwrite(disk, f"{DIRECTORY}/{name}", 3, b"\xff\xff")
    log = open_log(disk)
    assert log.log_end_offset == end
    assert isinstance(produce(log, sequence - 3, 3), Duplicate)
    with pytest.raises(KafkaError):
        produce(log, sequence + 1)
    assert produce(log, sequence).base_offset == end


def test_after_a_restart_a_duplicate_is_answered_with_its_offset(disk: Disk) -> None:
    log = open_log(disk)
    append(log, batch(4))
    first = produce(log, 0, 3)
    log.close()
    assert produce(open_log(disk), 0, 3) == Duplicate(first.base_offset, first.last_offset, -1)


def test_a_duplicate_under_log_append_time_has_its_old_time(disk: Disk) -> None:
    log = open_log(disk, LogConfig(message_timestamp_type="LogAppendTime"))
    produce(log, 0, now_ms=5000)
    assert produce(log, 0, now_ms=6000) == Duplicate(0, 0, 5000)


def test_a_batch_that_was_not_written_is_not_remembered() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    produce(log, 0)
    disk.capacity = disk.used
    with pytest.raises(OSError, match="no space"):
        produce(log, 1)
    disk.capacity = None
    assert produce(log, 1).base_offset == 1


def test_retention_forgets_producers_and_the_snapshots_of_deleted_segments(disk: Disk) -> None:
    config = LogConfig(segment_bytes=2000, producer_id_expiration_ms=100)
    log = open_log(disk, config)
    produce(log, 0, now_ms=1000)
    fill(log)
    bases = {int(name[:20]) for name in names(disk, ".log")}
    assert {int(name[:20]) for name in names(disk, ".snapshot")} == bases - {0}
    log.delete_records(log.high_watermark)
    log.enforce_retention(1101)
    assert len(log.producers) == 0
    assert len(names(disk, ".snapshot")) <= 1
