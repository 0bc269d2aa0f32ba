"""The gate between rounds and rebalances, where one comes in the middle of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.errors import RebalanceInProgress
from kohort.client.membership.member_commits import OwnershipWatch
from kohort.member import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.member_settings import MemberSettings
from kohort.spark.membership.round_gate import OpenRound, RoundGate
from kohort.spark.rows.read_settings import Isolation
from kohort.spark.rows.rounds import OffsetRange, Round

HERS, LOST = TopicPartition("flights", 0), TopicPartition("flights", 9)
LIST_ENDS = "kohort.spark.membership.owned_partitions.list_ends"


def gate_of(settings: MemberSettings) -> RoundGate:
    return RoundGate(settings, settings.cluster())


def test_a_partition_lost_while_the_ends_are_requested_opens_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        gate = gate_of(MemberSettings(bootstrap_servers="127.0.0.1:1", group_id="g", topics=("flights",)))
        await gate.barrier.on_partitions_assigned(frozenset({HERS, LOST}))
        gate.owned.advance({HERS: 0, LOST: 0})

        async def ends(
            _: Cluster, partitions: Iterable[TopicPartition], *__: int, **___: object
        ) -> dict[TopicPartition, int]:
            await gate.barrier.on_partitions_lost(frozenset({LOST}))
            return dict.fromkeys(partitions, 500)

        monkeypatch.setattr(LIST_ENDS, ends)
        assert await gate.owned.available(gate.member) == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_partition_that_ends_before_what_was_read_of_it_is_looked_up_again(
    isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic was recreated: its first records would be skipped, and the others wait until there are as many."""

    async def scenario() -> None:
        gate = gate_of(MemberSettings("127.0.0.1:1", "g", ("flights",), isolation_level=isolation))
        await gate.barrier.on_partitions_assigned(frozenset({HERS, LOST}))
        gate.owned.advance({HERS: 100, LOST: 100})

        async def ends(
            _: Cluster, partitions: Iterable[TopicPartition], __: int, isolation: int = 0, **___: object
        ) -> dict[TopicPartition, int]:
            there = {HERS: 90, LOST: 10} if isolation else {HERS: 100, LOST: 10}
            return {each: there[each] for each in partitions}

        async def find(
            _: object, partitions: Partitions, read_to: dict[TopicPartition, int], recreated: Partitions
        ) -> dict[TopicPartition, int]:
            assert (partitions, read_to, recreated) == ({LOST}, {LOST: 100}, frozenset())
            return {LOST: 0}

        monkeypatch.setattr(LIST_ENDS, ends)
        monkeypatch.setattr(gate.starting, "find", find)
        assert (await gate.owned.available(gate.member))[LOST] == (0, 10)

    asyncio.run(scenario())


def test_ends_of_all_partitions_that_a_fetch_has_shown_are_not_looked_up() -> None:
    async def scenario() -> None:
        owned = gate_of(MemberSettings("127.0.0.1:1", "g", ("flights",))).owned
        owned.add(frozenset({HERS, LOST}))
        assert owned.found({HERS: 5, LOST: 9}) == {}, "where reading starts is not known"
        owned.advance({HERS: 0, LOST: 7})
        assert owned.found({HERS: 5}) == {}
        assert owned.found({HERS: 5, LOST: 6}) == {}, "a partition that ends before what was read of it"
        assert owned.found({HERS: 5, LOST: 9}) == {HERS: (0, 5), LOST: (7, 9)}
        assert owned.lag == {HERS: 5, LOST: 2}
        owned.targets = {HERS: 3}
        assert owned.found({HERS: 5, LOST: 9}) == {HERS: (0, 3), LOST: (7, 0)}

    asyncio.run(scenario())


def test_a_commit_that_waits_for_a_rebalance_is_retried_when_the_revocation_waits_for_its_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each waits for the other, until the rebalance timeout ends."""

    async def scenario() -> None:
        gate = gate_of(MemberSettings("127.0.0.1:1", "g", ("flights",)))
        await gate.barrier.on_partitions_assigned(frozenset({HERS}))
        begun = Round(0, 1, (OffsetRange(HERS, 0, 5),))
        gate.barrier.open = OpenRound(begun, frozenset({HERS}), OwnershipWatch(frozenset({HERS})))
        revocations: list[asyncio.Task[None]] = []
        commits = []

        async def commit(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            commits.append(offsets)
            if len(commits) == 1:
                revocations.append(asyncio.create_task(gate.barrier.on_partitions_revoked(frozenset({HERS}))))
                raise RebalanceInProgress(Identity(1, "m"))

        monkeypatch.setattr(gate.member, "commit", commit)
        async with asyncio.timeout(10):
            await gate.commit(begun)
            gate.close(begun, is_committed=True)
            await revocations[0]
        assert len(commits) == 2
        assert not gate.owned.partitions

    asyncio.run(scenario())


def test_a_rebalance_while_another_thread_reads_the_lag_does_not_disturb_it() -> None:
    class Moving(dict[TopicPartition, int]):
        """Is removed once it is read."""

        def __getitem__(self, partition: TopicPartition) -> int:
            gate.owned.remove(frozenset({HERS, LOST}))
            return 0

    async def scenario() -> RoundGate:
        return gate_of(MemberSettings("127.0.0.1:1", "g", ("flights",)))

    gate = asyncio.run(scenario())
    gate.owned._positions, gate.owned._ends = Moving({HERS: 1, LOST: 2}), Moving({HERS: 5, LOST: 5})
    assert gate.owned.lag == {HERS: 4, LOST: 3}


def test_a_gate_that_cannot_start_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Cluster] = []
    closed: list[Cluster] = []

    async def start(cluster: Cluster) -> None:
        started.append(cluster)

    async def close(cluster: Cluster) -> None:
        closed.append(cluster)

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def scenario() -> None:
        monkeypatch.setattr(Cluster, "start", start)
        monkeypatch.setattr(Cluster, "close", close)
        monkeypatch.setattr(MemberSettings, "follow", refuse)
        with pytest.raises(KafkaError):
            await RoundGate.join(MemberSettings("127.0.0.1:1", "g", ("flights",)))
        assert closed == started != []

    asyncio.run(scenario())
