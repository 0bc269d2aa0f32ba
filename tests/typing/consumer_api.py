"""What type checkers make of `Consumer`'s protocols; read by `test_public_api`, never run."""

from __future__ import annotations

import re
from typing import assert_type

from kohort import Consumer, SubscriptionPattern, TopicPartition, sync
from kohort.client import GroupMetadata, OffsetAndMetadata


async def native() -> None:
    async with Consumer(
        SubscriptionPattern("orders-.*"),
        "payments",
        re.compile("x"),
        bootstrap_servers="h:1",
        group_id="g",
        group_protocol="consumer",
        group_remote_assignor="uniform",
        acceptable_recovery_lag=5_000,
        lag_growth_ms=30_000,
    ) as consumer:
        consumer.report_standby_lag({TopicPartition("t", 0): 5})
        consumer.report_standby_lag(lambda: {TopicPartition("t", 0): 5})
        assert_type(consumer.group_metadata(), GroupMetadata)
        assert_type(await consumer.committed([]), dict[TopicPartition, OffsetAndMetadata])
        await consumer.subscribe([SubscriptionPattern("a"), "b"])


def refused() -> None:
    Consumer("t", bootstrap_servers="h:1", group_id="g", group_protocol="newest")  # type: ignore[arg-type]
    Consumer("t", bootstrap_servers="h:1", group_id="g", group_protocol="auto", group_remote_assignor=7)  # type: ignore[arg-type]
    Consumer("t", bootstrap_servers="h:1", group_id="g", growth_ms=7)  # type: ignore[call-arg]
    SubscriptionPattern(re.compile("a"))  # type: ignore[arg-type]


def blocking() -> None:
    with sync.Consumer(
        "t", bootstrap_servers="h:1", group_id="g", group_protocol="auto", protocol_check_ms=1
    ) as consumer:
        consumer.report_standby_lag({TopicPartition("t", 0): 5})
        assert_type(consumer.group_metadata(), GroupMetadata)
