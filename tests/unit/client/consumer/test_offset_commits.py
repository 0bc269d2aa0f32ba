"""When commits are made without being asked for."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.offset_commits import OffsetCommits
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.processing.prompt_commits import PromptCommits
from kohort.member.rebalance_metrics import RebalanceMetrics


def test_while_process_runs_the_interval_has_it_commit_and_makes_no_commit_beside() -> None:
    async def scenario() -> None:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def commit() -> bool:
            asked.set()
            return await answered.wait()

        nothing: Any = None
        config = ConsumerConfig(bootstrap_servers="h:9092", group_id="g")
        commits = OffsetCommits(nothing, config, PartitionTable(), nothing, RebalanceMetrics(300_000))
        commits.prompt = PromptCommits(commit, 1)
        tasks = asyncio.all_tasks()
        commits.commit_if_due()
        assert asyncio.all_tasks() == tasks
        async with asyncio.timeout(10):
            await asked.wait()
        await commits.prompt.stop()

    asyncio.run(scenario())
