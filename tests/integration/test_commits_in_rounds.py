"""A consumer that is closed while its group rebalances commits what it has finished, and warns of what it could not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.integration.hand_member import HandMember
from tests.integration.native_scenarios import membership_of
from tests.integration.scenario_book import PATIENCE_MS, Scenario, create, poll_until, produce, run

from kohort.assign.range import RangeAssignor
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Cluster, Consumer
from kohort.client.consumer.consumer_settings import DEFAULT_ASSIGNORS as DEFAULT
from kohort.member import State
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class Incremental(CooperativeStickyAssignor):
    """A cooperative assignor by the name that a `HandMember` offers."""

    name = "range"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


def reader(bootstrap: str, name: str, **settings: object) -> Consumer:
    choices: dict[str, object] = {"assignors": [Incremental()], "heartbeat_interval_ms": 50, **settings}
    return Consumer(
        name,
        bootstrap_servers=bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=600_000,
        **choices,  # type: ignore[arg-type]
    )


async def committed(bootstrap: str, group: str) -> int:
    """Return the sum of the group's committed offsets."""
    async with Admin(bootstrap) as admin:
        return sum(entry.offset for entry in (await admin.group_offsets(group)).values())


@asynccontextmanager
async def by_hand(bootstrap: str, name: str) -> AsyncIterator[HandMember]:
    async with Cluster(bootstrap) as cluster:
        member = HandMember(cluster, name, name)
        await member.dial()
        try:
            yield member
        finally:
            member.hang_up()


async def share_with(hand: HandMember, consumer: Consumer, leaves: Partitions) -> None:
    """Let a member that joined first, and so leads, give the consumer the rest of the topic."""
    await hand.join()
    await hand.sync({hand.member_id: frozenset()})
    await consumer.start()
    while await hand.beat() is ErrorCode.NONE:
        pass
    await next_round(hand, leaves)
    await poll_until(consumer, lambda: consumer.assignment() == leaves)


async def next_round(hand: HandMember, owned: Partitions) -> None:
    await hand.join()
    await hand.sync({hand.member_id: frozenset()} | dict.fromkeys(hand.others, owned))


async def until(consumer: Consumer, state: State) -> None:
    """Wait for a state of the member, while its user stays where it is."""
    membership = membership_of(consumer)
    await membership.wait_for(lambda: membership.state is state, timeout_ms=PATIENCE_MS)


async def read(consumer: Consumer, count: int) -> None:
    """Read this many records; they count as finished with the next poll, or when the consumer stops."""
    while count:
        count -= sum(len(batch) for batch in await consumer.poll(50, count))


async def closed_while_joining(bootstrap: str, name: str, instance_id: str | None = None) -> None:
    await create(bootstrap, name, 2)
    both = frozenset({TopicPartition(name, 0), TopicPartition(name, 1)})
    async with by_hand(bootstrap, name) as hand:
        consumer = reader(bootstrap, name, group_instance_id=instance_id)
        await share_with(hand, consumer, both)
        await produce(bootstrap, name, 100)
        await read(consumer, 30)
        consumer.pause(both)
        await consumer.poll()
        consumer.resume(both)
        async with by_hand(bootstrap, name) as newcomer:
            joining = asyncio.create_task(newcomer.join())
            while await hand.beat() is ErrorCode.NONE:  # the leader learns of the round, and does not come: it goes on
                pass
            await until(consumer, State.JOINING)
            async with asyncio.timeout(10):
                while await committed(bootstrap, name) < 30:
                    await consumer.position(TopicPartition(name, 0))
            await read(consumer, 20)
            assert membership_of(consumer).state is State.JOINING
            await consumer.stop()
            assert await committed(bootstrap, name) == 50
            joining.cancel()


async def closed_while_joining_as_a_static_member(bootstrap: str, name: str) -> None:
    await closed_while_joining(bootstrap, name, "static")


async def closed_while_the_leader_has_not_synced(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    both = frozenset({TopicPartition(name, 0), TopicPartition(name, 1)})
    async with by_hand(bootstrap, name) as hand:
        consumer = reader(bootstrap, name)
        await share_with(hand, consumer, both)
        await produce(bootstrap, name, 100)
        joining = asyncio.create_task(hand.join())
        await until(consumer, State.JOINING)
        await joining
        await until(consumer, State.SYNCING)
        await read(consumer, 40)
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.wait({stopping}, timeout=0.1)
        await hand.sync({hand.member_id: frozenset()} | dict.fromkeys(hand.others, both))
        await stopping
        assert await committed(bootstrap, name) == 40


IN_A_ROUND = [
    closed_while_joining,
    closed_while_joining_as_a_static_member,
    closed_while_the_leader_has_not_synced,
]


@pytest.mark.parametrize("scenario", IN_A_ROUND, ids=lambda scenario: scenario.__name__)
def test_a_cooperative_member_commits_what_is_finished_before_it_joins_and_when_it_is_closed(
    bootstrap: str, scenario: Scenario
) -> None:
    run(scenario, bootstrap, scenario.__name__)


@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_what_is_finished_is_committed_when_closed_while_another_member_comes(bootstrap: str, protocol: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        await produce(bootstrap, name, 100)
        settings: dict[str, object] = {}
        if protocol == "consumer":
            settings = {"group_protocol": "consumer", "assignors": DEFAULT, "heartbeat_interval_ms": 3_000}
        else:
            settings = {"assignors": [RangeAssignor()]}
        consumer = reader(bootstrap, name, **settings)
        await consumer.start()
        await read(consumer, 40)
        other = reader(bootstrap, name, **settings)
        await other.start()
        await consumer.stop()
        assert await committed(bootstrap, name) == 40
        await other.stop()

    run(scenario, bootstrap, f"comes-{protocol}")


def test_finished_records_that_could_not_be_committed_are_a_warning_with_partitions_and_count(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await produce(bootstrap, name, 100)
        async with by_hand(bootstrap, name) as hand:
            consumer = reader(bootstrap, name)
            await consumer.start()
            await read(consumer, 40)
            hand.member_id = consumer.group_metadata().member_id
            await hand.leave()
            with caplog.at_level(logging.WARNING):
                await consumer.stop()
        assert await committed(bootstrap, name) == 0
        [warning] = [record.getMessage() for record in caplog.records if "read again" in record.getMessage()]
        assert "40 finished records could not be committed" in warning
        assert f"{name}-0 (40)" in warning

    run(scenario, bootstrap, "refused")
