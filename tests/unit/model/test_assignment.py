"""Sets of partitions as users meet them."""

from __future__ import annotations

from kohort.model.assignment import in_order
from kohort.model.ids import TopicPartition


def test_what_users_walk_over_comes_by_topic_and_number() -> None:
    partitions = [TopicPartition("orders", 10), TopicPartition("orders", 2), TopicPartition("bills", 3)]
    ordered = in_order(partitions)
    assert list(ordered) == sorted(partitions)
    assert ordered == frozenset(partitions)
    assert repr(in_order(partitions[:1])) == "frozenset({TopicPartition(topic='orders', partition=10)})"
    assert repr(in_order([])) == "frozenset({})"
