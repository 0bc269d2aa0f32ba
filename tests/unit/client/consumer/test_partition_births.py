"""Which partitions are younger than a consumer's subscription."""

from __future__ import annotations

from kohort.client.cluster.metadata import ClusterView, PartitionView, TopicView
from kohort.client.consumer.partition_births import PartitionBirths
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

OLD, NEW = b"o" * 16, b"n" * 16


def view(count: int, topic_id: bytes = OLD, error: ErrorCode = ErrorCode.NONE) -> ClusterView:
    partitions = {number: PartitionView(number, 1, 0, (1,), (1,)) for number in range(count)}
    return ClusterView(topics={"t": TopicView("t", topic_id, error=error, partitions=partitions)})


def later(births: PartitionBirths) -> list[int]:
    return [number for number in range(4) if births.is_later(TopicPartition("t", number))]


def test_a_partition_that_is_added_is_later_and_stays_so() -> None:
    births = PartitionBirths()
    assert later(births) == []  # nothing is known of the topic
    births.see(view(2), ["t"])
    assert later(births) == [2, 3]  # a group's leader may know more partitions
    births.see(view(4), ["t"])
    assert later(births) == [2, 3]


def test_a_topic_that_does_not_exist_yet_is_later_and_one_that_is_not_shown_is_not() -> None:
    births = PartitionBirths()
    births.see(view(0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ["t"])
    births.see(view(2), ["t"])
    assert later(births) == [0, 1, 2, 3]
    births = PartitionBirths()
    births.see(view(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), ["t"])
    births.see(view(2), ["t"])
    assert later(births) == [2, 3]


def test_a_topic_that_begins_to_match_an_expression_is_later() -> None:
    births = PartitionBirths()
    births.see(view(2), ["t"], ["t"])
    assert later(births) == [0, 1, 2, 3]


def test_every_partition_of_a_topic_that_was_created_again_is_later() -> None:
    births = PartitionBirths()
    births.see(view(2), ["t"])
    births.see(view(2, NEW), ["t"])
    assert later(births) == [0, 1, 2, 3]
    births.see(view(2, NEW), ["t"])
    assert later(births) == [0, 1, 2, 3]
