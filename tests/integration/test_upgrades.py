"""From eager to cooperative and back by rolling bounces, under load; groups of mixed protocols and versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest
from tests.integration.client_scenarios import PATIENCE_MS, create, run
from tests.integration.old_member import OldMember
from tests.integration.timeline import Ledger, Timeline

from kohort.assign import CooperativeStickyAssignor, RangeAssignor, assignor
from kohort.assign.spec import Assignor, GroupSpec
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Cluster, Consumer, Producer
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_contract import Act

PARTITIONS = 6
Configured = Callable[[], Sequence[Assignor]]


def eager() -> Sequence[Assignor]:
    return (RangeAssignor(),)


def both() -> Sequence[Assignor]:
    return (RangeAssignor(), CooperativeStickyAssignor())


def cooperative() -> Sequence[Assignor]:
    return (CooperativeStickyAssignor(),)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


class Worker:
    """A program around a consumer: it reads all the time, and writes down what it read."""

    def __init__(self, fleet: Fleet, number: int, assignors: Sequence[Assignor]) -> None:
        self.timeline = Timeline(f"m{number}", fleet.ledger, *assignors)
        self.consumer = Consumer(
            fleet.name,
            bootstrap_servers=fleet.bootstrap,
            group_id=fleet.name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            assignors=self.timeline.assignors,
            listener=self.timeline,
        )
        self._fleet = fleet
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def start(self) -> None:
        await self.consumer.start()
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        self.timeline.is_closing = self._is_stopping = True
        assert self._task is not None
        await self._task
        await self.consumer.stop()
        self.timeline.check()

    async def _work(self) -> None:
        while not self._is_stopping:
            for batch in await self.consumer.poll(20):
                self._fleet.seen.update(int(record.value or b"") for record in batch)
            self._fleet.changed.set()


class Fleet:
    """Workers of one group and a producer that never stops; no partition is ever owned twice."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.ledger = Ledger()
        self.seen: set[int] = set()
        self.sent = 0
        self.workers: list[Worker] = []
        self.retired: list[Worker] = []
        self.changed = asyncio.Event()
        self._number = 0
        self._is_over = False

    async def add(self, configured: Configured) -> Worker:
        self._number += 1
        worker = Worker(self, self._number, configured())
        self.workers.append(worker)
        await worker.start()
        return worker

    async def retire(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.retired.append(worker)
        await worker.stop()

    async def bounce(self, configured: Configured, after_each: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop and replace one worker after the other, each time until all partitions are shared out again."""
        for worker in list(self.workers):
            await self.retire(worker)
            await self.add(configured)
            await self.settle()
            if after_each is not None:
                await after_each()

    async def settle(self, others: int = 0) -> None:
        """Wait until every partition has an owner, every worker an equal share, and one of them has read on."""
        share = (PARTITIONS - others) // len(self.workers)

        def is_shared() -> bool:
            sizes = [len(worker.consumer.assignment()) for worker in self.workers]
            return sum(sizes) == PARTITIONS - others and min(sizes) >= share

        await self.until(is_shared)
        mark = self.sent
        await self.until(lambda: self.sent > mark + 100)
        await self.until(lambda: self.seen.issuperset(range(mark + 100)))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while not condition():
                self.changed.clear()
                await self.changed.wait()
        for worker in self.workers:
            worker.timeline.check()

    async def protocol(self) -> str:
        async with Admin(self.bootstrap) as admin:
            return (await admin.describe_groups([self.name]))[self.name].protocol

    async def __aenter__(self) -> Fleet:
        await create(self.bootstrap, self.name, PARTITIONS)
        self._producing = asyncio.create_task(self._produce())
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self._is_over = True
        await self._producing
        try:
            if error is None:
                await self.until(lambda: len(self.seen) == self.sent)
        finally:
            for worker in self.workers:
                await worker.stop()
        for worker in self.workers + self.retired:
            assert not worker.timeline.losses, "no member was evicted"

    async def _produce(self) -> None:
        async with Producer(self.bootstrap, linger_ms=1) as producer:
            while not self._is_over:
                for _ in range(20):
                    delivery = await producer.send(self.name, b"%d" % self.sent, partition=self.sent % PARTITIONS)
                    self.sent += 1
                await delivery


def test_a_group_goes_from_eager_to_cooperative_and_back_by_rolling_bounces_under_load(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        async with Fleet(bootstrap, name) as fleet:
            for _ in range(3):
                await fleet.add(eager)
            await fleet.settle()
            assert await fleet.protocol() == "range"

            await fleet.bounce(both)
            assert await fleet.protocol() == "range", "every member still revokes everything"

            await fleet.bounce(cooperative)
            assert await fleet.protocol() == "cooperative-sticky"
            upgraded = list(fleet.workers)
            newcomer = await fleet.add(cooperative)
            await fleet.settle()
            await fleet.retire(newcomer)
            await fleet.settle()

            await fleet.bounce(both)
            assert await fleet.protocol() == "range", "the last cooperative member has gone"
            await fleet.bounce(eager)
            assert await fleet.protocol() == "range"
        for worker in [*upgraded, newcomer]:
            assert worker.timeline.stops == 0, "a cooperative member never stood still"

    run(scenario, bootstrap, "rolling")


def test_eager_and_cooperative_members_share_one_group(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        async with Fleet(bootstrap, name) as fleet:
            steady = await fleet.add(cooperative)
            await fleet.settle()
            stopping = await fleet.add(both)
            await fleet.settle()
            third = await fleet.add(cooperative)
            await fleet.settle()
            assert await fleet.protocol() == "cooperative-sticky"
            assert steady.timeline.stops == third.timeline.stops == 0
            assert stopping.timeline.stops > 0, "EAGER gives everything up in every round"
            await fleet.retire(stopping)
            await fleet.settle()

    run(scenario, bootstrap, "mixed")


def test_an_old_member_is_shared_with_while_the_group_can_still_be_eager(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        async with Fleet(bootstrap, name) as fleet, Cluster(bootstrap) as cluster:
            await fleet.add(both)
            await fleet.add(both)
            await fleet.settle()
            old = OldMember(cluster, name, [name], ["range"])
            old.on_change = lambda before, after: (
                fleet.ledger.give_up("old", before),
                fleet.ledger.take("old", after),
            )
            old.start()
            await fleet.until(lambda: len(old.assignment) == 2)
            await old.leave()
            await fleet.settle()

    run(scenario, bootstrap, "old-eager")


@assignor(name="by-turns", cooperative=True, withhold=True, user_data=b"mine")
def by_turns(spec: GroupSpec) -> dict[str, Assignment]:
    """Deal the partitions out in turns; each member is given bytes, too."""
    assert {member.subscription.user_data for member in spec.members.values()} == {b"mine"}
    names = sorted(spec.members)
    each = sorted(TopicPartition(topic, at) for topic, found in spec.topics.items() for at in range(found.partitions))
    return {name: Assignment(frozenset(each[at :: len(names)]), b"yours") for at, name in enumerate(names)}


@pytest.mark.parametrize("one", [CooperativeStickyAssignor(), by_turns], ids=["kafkas", "users"])
def test_an_old_member_that_joins_after_the_upgrade_gets_no_partition_and_every_member_reports_the_error(
    bootstrap: str, one: Assignor
) -> None:
    def cooperative() -> Sequence[Assignor]:
        return (one,)

    async def scenario(bootstrap: str, name: str) -> None:
        async with Fleet(bootstrap, name) as fleet, Cluster(bootstrap) as cluster:
            first = await fleet.add(cooperative)
            second = await fleet.add(cooperative)
            await fleet.settle()
            kept = first.consumer.assignment(), second.consumer.assignment()
            old = OldMember(cluster, name, [name], [one.name])
            old.start()

            def error(worker: Worker) -> ErrorCode | None:
                membership = worker.consumer._group.membership
                return None if membership is None else membership.member.assignment_error

            expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            await fleet.until(lambda: error(first) is error(second) is expected)
            await fleet.until(lambda: old.is_stable)
            assert (first.consumer.assignment(), second.consumer.assignment()) == kept, "they keep what they have"
            assert old.assignment == frozenset()
            for worker in (first, second):
                assert worker.consumer.metrics()["assignment-errors-total"] > 0
                assert worker.timeline.stops == 0

            await fleet.retire(second)
            await fleet.until(lambda: len(first.consumer.assignment()) == PARTITIONS)
            assert old.assignment == frozenset(), "what a member leaves behind goes to those that were upgraded"
            await old.leave()
            await fleet.until(lambda: error(first) is None)
            assert first.timeline.stops == 0
            assert first.timeline.moved(Act.ASSIGNED) == {TopicPartition(name, at) for at in range(PARTITIONS)}

    run(scenario, bootstrap, f"old-cooperative-{one.name}")
