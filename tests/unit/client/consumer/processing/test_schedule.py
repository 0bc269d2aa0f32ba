"""Which records may be handled at the same time, and in which order they come."""

from __future__ import annotations

import random

from kohort.client.consumer.finished_offsets import FinishedOffsets, Waiting
from kohort.client.consumer.processing.schedule import Ordering, PartitionWork, Schedule, WorkItem
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import Record

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def work(partition: TopicPartition = T0) -> PartitionWork:
    return PartitionWork(partition, FinishedOffsets(0))


def records(*keys: str | None) -> list[Record]:
    """Return a record of each key, at the offsets 0, 1, …"""
    return [Record(offset, 0, None if key is None else key.encode(), b"v", ()) for offset, key in enumerate(keys)]


def offsets(items: list[WorkItem]) -> list[int]:
    return [item.record.offset for item in items]


def schedule_of(ordering: Ordering, *keys: str | None) -> Schedule:
    schedule = Schedule(ordering)
    schedule.add(work(), records(*keys))
    return schedule


def test_of_each_key_one_record_at_a_time_is_handled() -> None:
    schedule = schedule_of("key", "a", "b", "a", "c")
    assert offsets(schedule.pop(1) + schedule.pop(1) + schedule.pop(1)) == [0, 1, 3]
    assert schedule.pop(1) == []


def test_the_next_record_of_a_key_comes_when_the_one_before_has_finished() -> None:
    schedule = schedule_of("key", "a", "a")
    first = schedule.pop(1)
    schedule.leave(first)
    assert offsets(schedule.pop(1)) == [1]


def test_records_without_a_key_keep_no_order() -> None:
    schedule = schedule_of("key", None, None)
    assert offsets(schedule.pop(1) + schedule.pop(1)) == [0, 1]


def test_one_key_in_two_partitions_is_two_lanes_as_its_order_is_a_partitions() -> None:
    schedule = Schedule("key")
    schedule.add(work(T0), records("a"))
    schedule.add(work(T1), records("a"))
    assert schedule.ready == 2


def test_by_partition_one_record_of_each_is_handled_and_by_none_all_at_once() -> None:
    assert schedule_of("partition", "a", "b", None).ready == 1
    assert schedule_of("none", "a", "a", "a").ready == 3


def test_a_batch_has_the_records_of_a_lane_in_order_and_the_lane_waits_for_all_of_them() -> None:
    schedule = schedule_of("key", "a", "a", "a", "b")
    batch = schedule.pop(2)
    assert offsets(batch) == [0, 1]
    assert offsets(schedule.pop(5)) == [3]
    schedule.leave(batch)
    assert offsets(schedule.pop(5)) == [2]


def test_a_record_that_comes_back_is_handled_before_what_waits_behind_it() -> None:
    schedule = schedule_of("key", "a", "a", "a")
    failed = schedule.pop(2)
    schedule.come_back(failed)
    assert schedule.ready == 1
    again = schedule.pop(1)
    assert offsets(again) == [0]
    schedule.leave(again)
    assert offsets(schedule.pop(1)) == [1]


def test_a_record_that_has_left_its_lane_lets_the_others_go_on_and_comes_back_without_one() -> None:
    schedule = schedule_of("key", "a", "a")
    (failed,) = schedule.pop(1)
    schedule.leave_lane(failed)
    assert offsets(schedule.pop(1)) == [1]
    schedule.come_back([failed])
    assert offsets(schedule.pop(1)) == [0]


def test_what_waits_of_a_partition_that_is_given_up_is_forgotten_and_what_runs_is_not() -> None:
    schedule = Schedule("key")
    gone, kept = work(T0), work(T1)
    schedule.add(gone, records("a", "a", "b", None))
    schedule.add(kept, records("a"))
    running = schedule.pop(1)
    schedule.drop({gone}.__contains__)
    assert [(item.work, item.record.offset) for item in schedule.pop(9)] == [(kept, 0)]
    schedule.leave(running)
    assert schedule.pop(1) == []
    assert schedule.records == 1, "the one of the other partition that runs"


def test_the_bytes_of_keys_and_values_are_counted_until_a_record_leaves() -> None:
    schedule = schedule_of("key", "aa", None)
    assert (schedule.records, schedule.size) == (2, 4)
    schedule.leave(schedule.pop(1))
    assert (schedule.records, schedule.size) == (1, 1)


def test_whatever_runs_fails_and_comes_back_each_key_keeps_its_order() -> None:
    for seed in range(100):
        draw = random.Random(seed)
        schedule = Schedule("key")
        keys = [draw.choice("abcdef") for _ in range(60)]
        schedule.add(work(), records(*keys))
        running: list[list[WorkItem]] = []
        finished: dict[bytes, list[int]] = {}
        while schedule.records:
            if (items := schedule.pop(draw.randint(1, 3))) and draw.random() < 0.7:
                running.append(items)
            elif items:
                schedule.come_back(items)
            if running and draw.random() < 0.6:
                ended = running.pop(draw.randrange(len(running)))
                if draw.random() < 0.3:
                    schedule.come_back(ended)
                    continue
                for item in ended:
                    finished.setdefault(item.record.key or b"", []).append(item.record.offset)
                schedule.leave(ended)
        assert all(each == sorted(each) for each in finished.values()), seed
        assert sum(map(len, finished.values())) == 60, seed


def test_a_record_that_failed_at_a_former_owner_waits_and_its_key_with_it_where_it_did_there() -> None:
    schedule, owned = Schedule("key"), work()
    owned.finished.waiting = {0: Waiting(3, 5_000, True), 2: Waiting(1, 6_000, False)}
    waiting = schedule.add(owned, records("a", "a", "b", "b"))
    assert [(item.record.offset, item.attempts, item.due_ms) for item in waiting] == [(0, 3, 5_000), (2, 1, 6_000)]
    assert offsets(schedule.pop(10)) == [3], "the key of 2 goes on without it"
    schedule.come_back([waiting[0]])
    assert offsets(schedule.pop(10)) == [0, 1]
