"""The gate between rounds and rebalances, where one comes in the middle of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kohort.client.cluster import Cluster
from kohort.model.ids import TopicPartition
from kohort.spark.membership.round_gate import GroupSettings, RoundGate

HERS, LOST = TopicPartition("flights", 0), TopicPartition("flights", 9)


def test_a_partition_lost_while_the_ends_are_asked_for_opens_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        gate = RoundGate(GroupSettings(bootstrap_servers="127.0.0.1:1", group_id="g", topics=("flights",)))
        await gate.on_partitions_assigned(frozenset({HERS, LOST}))
        gate._positions.update({HERS: 0, LOST: 0})

        async def ends(
            _: Cluster, partitions: Iterable[TopicPartition], *__: int, **___: object
        ) -> dict[TopicPartition, int]:
            await gate.on_partitions_lost(frozenset({LOST}))
            return dict.fromkeys(partitions, 500)

        monkeypatch.setattr("kohort.spark.membership.round_gate.list_ends", ends)
        assert await gate._available() == {}

    asyncio.run(scenario())
