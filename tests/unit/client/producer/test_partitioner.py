"""Java's murmur2, and the partition that records without a key stick to."""

from __future__ import annotations

import pytest

from kohort.client.cluster.metadata import PartitionView
from kohort.client.producer.partitioner import StickyPartitioner, murmur2, partition_for_key

# Keys in hex and kafka-clients' Utils.murmur2 of them, as a signed int.
JAVA = [
    ("", 275646681),
    ("79", 191545620),
    ("4dc4", -740549124),
    ("5629f6", -1299840614),
    ("ab9b7c97", -1665815154),
    ("124394c6d8", 1004335256),
    ("1f5a881affaa", -1230357610),
    ("b7d431d310693b", 40178614),
    ("058d5332f9a14b7a", 351103101),
    ("40d361c63f456bde4c", -1836885178),
    ("cbb5b78c96a4f1a51403", -218967454),
    ("44a4fae919259408f38c51", -19767427),
    ("c736a6d099b015e1ba76074f", 441617202),
    ("4b80efc2801c8fc8e9ce4fcfc0", 88904050),
    ("0917e9d1f980abd59723f43ab59b", 97709279),
    ("fe999b0f611058b5de3509bf282695", 2039254656),
    ("965994c7832fd98528bccc9a67bc95d3", 1548406824),
    ("4cc4d24927c39a00a0592f548d885da95f", 682824470),
    ("b8899ac40621d6cebe4ebd85c58cdec926eb", -4508533),
    ("c1f0306bb1995f86606d25b80d63ced43afc91", -2115728023),
    ("6eab9f506f266ee916e9bd9e671624075836d88c", 1700042399),
    ("466b6e0e9dfb76a8a59162266e22f6f54124d24794", -2019679551),
    ("cac88e93cde21b5df66f4bbfa67055557aa5ccf2781f", -991999046),
    ("a90305239f40075ab9b750ae5cb7aaa9049ff5c90abd52", 447234244),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_murmur2_is_java_s(key: str, expected: int) -> None:
    assert murmur2(bytes.fromhex(key)) == expected & 0xFFFFFFFF


def test_a_negative_hash_gives_a_partition_too() -> None:
    assert partition_for_key(bytes.fromhex("4dc4"), 10) == (-740549124 & 0x7FFFFFFF) % 10


def partitions(*leaders: int) -> dict[int, PartitionView]:
    return {number: PartitionView(number, leader, 0, (), ()) for number, leader in enumerate(leaders)}


def test_records_without_a_key_stay_until_a_batch_is_full_and_then_move() -> None:
    numbers = iter([0.0, 0.9])
    sticky = StickyPartitioner(100, lambda: next(numbers))
    chosen = [sticky.choose("t", partitions(1, 1, 1), 40) for _ in range(4)]
    assert chosen == [0, 0, 0, 2]


def test_a_partition_without_a_leader_is_not_chosen() -> None:
    sticky = StickyPartitioner(100, lambda: 0.0)
    assert sticky.choose("t", partitions(-1, 5), 10) == 1


def test_a_partition_that_lost_its_leader_is_left() -> None:
    sticky = StickyPartitioner(100, lambda: 0.0)
    assert sticky.choose("t", partitions(5, 5), 10) == 0
    assert sticky.choose("t", partitions(-1, 5), 10) == 1


def test_without_any_leader_one_is_chosen_all_the_same() -> None:
    assert StickyPartitioner(100, lambda: 0.0).choose("t", partitions(-1, -1), 10) == 0
