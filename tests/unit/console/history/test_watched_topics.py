"""Logs of partitions at two looks: bytes, and how fast they are written."""

from __future__ import annotations

import pytest

from kohort.client.cluster.metadata import PartitionView, TopicView
from kohort.console.history import watched_topics
from kohort.console.history.watched_topics import WatchedTopics
from kohort.model.ids import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDERS = TopicView("orders", partitions={each: PartitionView(each, 1, 0, (1,), (1,)) for each in (0, 1)})


def looked(*looks: tuple[int, dict[TopicPartition, int], dict[TopicPartition, int]]) -> WatchedTopics:
    """Fold looks: the time, the ends and the sizes; each log begins at 0."""
    topics = WatchedTopics()
    topics.views = {"orders": ORDERS}
    for at_ms, end, sizes in looks:
        topics.fold(at_ms, dict.fromkeys(end, 0), end, sizes)
    return topics


def test_the_rate_is_that_between_two_looks_and_its_bytes_have_the_mean_size() -> None:
    topics = looked(
        (1000, {ZERO: 100, ONE: 0}, {ZERO: 1000, ONE: 0}), (3000, {ZERO: 200, ONE: 0}, {ZERO: 3000, ONE: 0})
    )
    log = topics.log("orders", 0)
    assert (log.records, log.size, log.rate, log.rate_bytes) == (200, 3000, 50.0, 750.0)
    assert topics.sum(ORDERS) == (2, 200, 3000, 50.0, 750.0)


def test_one_partition_that_is_unknown_makes_the_sum_unknown() -> None:
    topics = looked((1000, {ZERO: 100}, {ZERO: 1000}), (3000, {ZERO: 200}, {ZERO: 3000}))
    assert topics.sum(ORDERS) == (2, None, None, None, None)


def test_the_first_look_has_no_rate() -> None:
    assert looked((1000, {ZERO: 100}, {})).log("orders", 0).rate is None


@pytest.mark.parametrize(
    ("at_ms", "end"), [(900, 200), (1000, 200), (5000, 40)], ids=["clock set back", "same moment", "topic made anew"]
)
def test_no_rate_is_negative_or_endless(at_ms: int, end: int) -> None:
    assert looked((1000, {ZERO: 100}, {}), (at_ms, {ZERO: end}, {})).log("orders", 0).rate is None


def test_looks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_topics, "PARTITIONS", 10)
    topics = WatchedTopics()
    for number in range(30):
        topics.fold(1000, {}, {TopicPartition("t", number): 1}, {})
    assert len(topics._logs) == 10
    assert topics.log("t", 29).end == 1
