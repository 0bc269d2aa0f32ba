from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kohort.client.cluster.metadata import ClusterView, PartitionView, TopicView
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.partition_births import PartitionBirths
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.subscription_follower import SubscriptionFollower
from kohort.client.consumer.topic_subscription import TopicSubscription
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class Clock(asyncio.SelectorEventLoop):
    now_s = 0.0

    def time(self) -> float:
        return self.now_s


def test_a_topic_that_does_not_exist_is_warned_of_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    config = ConsumerConfig(bootstrap_servers="127.0.0.1:1", group_id="g")
    follower = SubscriptionFollower(
        TopicSubscription(("nope", "there")),
        nothing,
        config,
        PartitionTable(),
        nothing,
        nothing,
        nothing,
        PartitionBirths(),
    )
    view = ClusterView(topics={"nope": TopicView("nope", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    clock = Clock()

    async def see(now_s: float) -> int:
        clock.now_s = now_s
        follower._warn_of_missing(view)
        return len(caplog.records)

    with caplog.at_level(logging.WARNING):
        warned = [clock.run_until_complete(see(now_s)) for now_s in (0, 1, 5, 6, 64, 66)]
    clock.close()
    assert warned == [0, 0, 1, 1, 1, 2]
    assert "kohort wants what does not exist, and reads nothing from it: nope: create it" in caplog.text


def test_an_assigned_partition_that_does_not_exist_is_warned_of_too(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    partitions = PartitionTable()
    partitions.retain({TopicPartition("t", 0), TopicPartition("t", 7), TopicPartition("nope", 0)})
    config = ConsumerConfig(bootstrap_servers="127.0.0.1:1")
    follower = SubscriptionFollower(
        TopicSubscription(), nothing, config, partitions, nothing, nothing, nothing, PartitionBirths()
    )
    there = TopicView("t", partitions={0: PartitionView(0, 1, 0, (1,), (1,))})
    view = ClusterView(topics={"t": there, "nope": TopicView("nope", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    clock = Clock()

    async def see(now_s: float) -> None:
        clock.now_s = now_s
        follower._follow(view)

    for now_s in (0, 5):
        clock.run_until_complete(see(now_s))
    clock.close()
    assert "reads nothing from it: nope-0, t-7: create it" in caplog.text
