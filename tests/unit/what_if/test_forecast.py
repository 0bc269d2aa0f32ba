"""When partitions are read, and what piles up while they are not."""

from __future__ import annotations

from kohort.model.ids import TopicPartition
from kohort.what_if.forecast import Growth, PartitionReaders, ReadInterval, UnreadInterval, balance_of, growth_of

ONE, TWO = ("a", 1), ("a", 2)
"""Two members of one name."""
P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partition_is_unread_from_its_discovery_until_a_member_reads_it() -> None:
    reading = PartitionReaders()
    reading.add([P, Q], 100)
    reading.start([P], ONE, 300)
    assert reading.all_unread(0, 400) == [UnreadInterval(P, 100, 300), UnreadInterval(Q, 100, 400)]


def test_what_was_unread_is_cut_off_at_both_ends() -> None:
    reading = PartitionReaders()
    reading.add([P], 0)
    reading.start([P], ONE, 500)
    assert reading.all_unread(200, 400) == [UnreadInterval(P, 200, 400)]
    assert reading.all_unread(500, 900) == []


def test_partition_that_two_read_for_a_moment_is_read_until_the_second_stops() -> None:
    reading = PartitionReaders()
    reading.add([P], 0)
    reading.start([P], ONE, 0)
    reading.start([P], TWO, 100)
    reading.stop([P], ONE, 150)
    reading.stop([P], TWO, 200)
    assert reading.all_unread(0, 300) == [UnreadInterval(P, 200, 300)]
    assert reading.all_read(50, 300) == [ReadInterval(P, "a", 50, 150), ReadInterval(P, "a", 100, 200)]


def test_who_reads_a_partition_now_is_reported_until_now() -> None:
    reading = PartitionReaders()
    reading.add([P], 0)
    reading.start([P], TWO, 100)
    assert reading.all_read(0, 300) == [ReadInterval(P, "a", 100, 300)]


def test_what_piles_up_follows_each_partitions_own_rate() -> None:
    unread = [UnreadInterval(P, 0, 2_000_000), UnreadInterval(Q, 0, 1_000_000), UnreadInterval(P, 5_000_000, 6_000_000)]
    assert growth_of(unread, {P: 10, Q: 100}) == Growth(130, Q, 100)
    assert growth_of(unread, {}) == Growth(0, None, 0)
    assert growth_of(unread, None) is None


def test_balance_has_the_least_and_the_most_of_a_member() -> None:
    assert balance_of([4, 4, 3])[:4] == (3, 11, 3, 4)
    assert balance_of([])[:4] == (0, 0, 0, 0)
