"""When commits are made without being asked for."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.offset_commits import OffsetCommits
from kohort.client.consumer.partition_state import PartitionTable
from kohort.member.rebalance_metrics import RebalanceMetrics


def test_nothing_is_committed_by_the_interval_while_process_commits_what_has_finished() -> None:
    async def scenario() -> None:
        nothing: Any = None
        config = ConsumerConfig(bootstrap_servers="h:9092", group_id="g")
        commits = OffsetCommits(nothing, config, PartitionTable(), nothing, RebalanceMetrics(300_000))
        commits.is_prompt = True
        commits.commit_if_due()
        assert len(asyncio.all_tasks()) == 1
        assert commits.next_due_s(None) is None

    asyncio.run(scenario())
