"""The gate between rounds and rebalances, where one comes in the middle of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.round_gate import GroupSettings, RoundGate
from kohort.spark.rows.read_settings import Isolation

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


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_partition_that_ends_before_what_was_read_of_it_is_looked_up_again(
    isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic was made anew: nobody would see its rows until there are as many as before, and then not the first."""

    async def scenario() -> None:
        settings = GroupSettings("127.0.0.1:1", "g", ("flights",), isolation_level=isolation)
        gate = RoundGate(settings)
        gate._membership = settings.membership(settings.cluster(), gate)
        await gate.on_partitions_assigned(frozenset({HERS, LOST}))
        gate._positions.update({HERS: 100, LOST: 100})

        async def ends(
            _: Cluster, partitions: Iterable[TopicPartition], __: int, isolation: int = 0, **___: object
        ) -> dict[TopicPartition, int]:
            there = {HERS: 90, LOST: 10} if isolation else {HERS: 100, LOST: 10}
            return {each: there[each] for each in partitions}

        async def find(
            _: object, partitions: Partitions, read_to: dict[TopicPartition, int], made_anew: Partitions
        ) -> dict[TopicPartition, int]:
            assert (partitions, read_to, made_anew) == ({LOST}, {LOST: 100}, frozenset())
            return {LOST: 0}

        monkeypatch.setattr("kohort.spark.membership.round_gate.list_ends", ends)
        monkeypatch.setattr(gate.starting, "find", find)
        assert (await gate._available())[LOST] == (0, 10)

    asyncio.run(scenario())


def test_a_rebalance_while_another_thread_looks_at_the_lag_does_not_disturb_it() -> None:
    class Moving(dict[TopicPartition, int]):
        """Is gone once it is looked at."""

        def __getitem__(self, partition: TopicPartition) -> int:
            gate._let_go(frozenset({HERS, LOST}))
            return 0

    gate = RoundGate(GroupSettings("127.0.0.1:1", "g", ("flights",)))
    gate._positions, gate._ends = Moving({HERS: 1, LOST: 2}), Moving({HERS: 5, LOST: 5})
    assert gate.lag == {HERS: 4, LOST: 3}


def test_a_gate_that_cannot_start_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Cluster] = []

    async def nothing(_: Cluster) -> None:
        pass

    async def close(cluster: Cluster) -> None:
        closed.append(cluster)

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def scenario() -> None:
        monkeypatch.setattr(Cluster, "start", nothing)
        monkeypatch.setattr(Cluster, "close", close)
        monkeypatch.setattr(GroupSettings, "follow", refuse)
        gate = RoundGate(GroupSettings("127.0.0.1:1", "g", ("flights",)))
        with pytest.raises(KafkaError):
            await gate.start()
        assert closed == [gate._cluster]

    asyncio.run(scenario())
