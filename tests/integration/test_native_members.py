"""Members of the consumer protocol on our broker: each of `native_scenarios`, and what only our broker has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.integration.native_scenarios import NATIVE, membership_of, reader, together
from tests.integration.old_member import OldMember
from tests.integration.scenario_book import Recorder, Scenario, create, produce, run

from kohort import sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Cluster
from kohort.model.ids import TopicPartition


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("scenario", NATIVE, ids=lambda scenario: scenario.__name__)
def test_on_our_broker(scenario: Scenario, bootstrap: str) -> None:
    run(scenario, bootstrap, f"n-{scenario.__name__[:40]}")


def test_auto_falls_back_where_the_broker_does_not_serve_the_protocol() -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        async with reader(bootstrap, name, name, group_protocol="auto", protocol_check_ms=20) as consumer:
            await together(consumer, until=lambda: len(consumer.assignment()) == 2)
            for _ in range(10):  # ten polls of 20 ms: the probe has looked meanwhile
                await consumer.poll(20)
                assert membership_of(consumer).protocol == "classic"
            assert membership_of(consumer).generation == 1, "the broker announces the requests, and serves none"

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, group_coordinator_rebalance_protocols="classic") as broker:
        run(scenario, broker.bootstrap_servers, "fallback")


def test_a_member_that_moved_and_is_refused_returns_to_its_group_under_its_id() -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        quick = {"heartbeat_interval_ms": 50, "protocol_check_ms": 100}
        async with reader(bootstrap, name, name, group_protocol="classic", **quick) as leader:
            await together(leader, until=lambda: len(leader.assignment()) == 2)
            recorder = Recorder()
            async with reader(bootstrap, name, name, group_protocol="auto", listener=recorder, **quick) as auto:
                await together(leader, auto, until=lambda: len(leader.assignment()) == len(auto.assignment()) == 1)
                joined = membership_of(auto).identity
                await together(leader, auto, until=lambda: len(recorder.callbacks) == 3)
                assert recorder.callbacks == [("assigned", 1), ("revoked", 1), ("assigned", 1)]
                assert membership_of(auto).identity == joined, "the move that was refused cost the group no rebalance"

    # The policy is the one condition that DescribeGroups does not show.
    settings = {"group_initial_rebalance_delay_ms": 0, "group_consumer_migration_policy": "disabled"}
    with EmbeddedBroker(**settings) as broker:
        run(scenario, broker.bootstrap_servers, "refused")


def test_auto_is_classic_beside_an_old_member_and_moves_once_that_is_gone(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 4)
        recorder = Recorder()
        settings = {"group_protocol": "auto", "protocol_check_ms": 20, "heartbeat_interval_ms": 50}
        async with (
            Cluster(bootstrap) as cluster,
            reader(bootstrap, name, name, group_protocol="classic", heartbeat_interval_ms=50) as leader,
        ):
            await together(leader, until=lambda: len(leader.assignment()) == 4)
            old = OldMember(cluster, name, [name], ["range"])
            old.start()
            await together(leader, until=lambda: len(leader.assignment()) == 2)
            async with reader(bootstrap, name, name, listener=recorder, **settings) as auto:
                await together(leader, auto, until=lambda: len(auto.assignment()) >= 1)
                assert membership_of(auto).protocol == "classic"
                await old.leave()
                await together(leader, auto, until=lambda: membership_of(auto).protocol == "consumer")
                await together(leader, auto, until=lambda: len(leader.assignment()) == len(auto.assignment()) == 2)
                assert "lost" not in dict(recorder.callbacks)

    run(scenario, bootstrap, "moves")


def test_lags_that_matter_give_the_group_a_new_epoch_and_others_do_not(bootstrap: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        copy = TopicPartition(name, 1)
        async with reader(bootstrap, name, name) as consumer:
            await together(consumer, until=lambda: len(consumer.assignment()) == 2)
            epoch = consumer.group_metadata().generation
            consumer.report_standby_lag({copy: 50_000})
            consumer.report_standby_lag({copy: 40_000})
            beats = consumer.metrics()["heartbeat-total"]
            await asyncio.wait_for(asyncio.shield(consumer.commit({copy: 0})), 5)
            assert (consumer.group_metadata().generation, consumer.metrics()["heartbeat-total"]) == (epoch, beats)
            consumer.report_standby_lag({copy: 100})
            await together(consumer, until=lambda: consumer.group_metadata().generation > epoch)

    run(scenario, bootstrap, "lags")


def test_a_function_of_lags_is_asked_before_each_heartbeat() -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        lags = {TopicPartition(name, 1): 50_000}
        async with reader(bootstrap, name, name) as consumer:
            consumer.report_standby_lag(lambda: lags)
            await together(consumer, until=lambda: len(consumer.assignment()) == 2)
            epoch = consumer.group_metadata().generation
            lags[TopicPartition(name, 1)] = 100
            await together(consumer, until=lambda: consumer.group_metadata().generation > epoch)

    quick = {"group_consumer_min_heartbeat_interval_ms": 100, "group_consumer_heartbeat_interval_ms": 100}
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, **quick) as broker:
        run(scenario, broker.bootstrap_servers, "asked")


@pytest.mark.parametrize("acceptable", [100, 20_000])
def test_the_broker_takes_a_copy_for_caught_up_at_the_lag_that_its_member_accepts(acceptable: int) -> None:
    """The lags go with the join: the broker moves the partition at once, or not at all."""

    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        settings: dict[str, object] = {"group_remote_assignor": "standby", "acceptable_recovery_lag": acceptable}
        async with reader(bootstrap, name, name, **settings) as alice:
            await together(alice, until=lambda: len(alice.assignment()) == 2)
            bob = reader(bootstrap, name, name, **settings)
            bob.report_standby_lag(lambda: dict.fromkeys([TopicPartition(name, 0), TopicPartition(name, 1)], 15_000))
            async with bob:
                await together(alice, bob, until=lambda: membership_of(bob).is_stable)
                share = 1 if acceptable > 15_000 else 0
                await together(alice, bob, until=lambda: len(bob.assignment()) == share)
                await together(alice, bob, until=lambda: len(alice.assignment()) == 2 - share)

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, group_consumer_assignors="uniform,standby") as broker:
        run(scenario, broker.bootstrap_servers, "accepts")


def test_a_program_without_a_loop_speaks_it_too(bootstrap: str) -> None:
    asyncio.run(create(bootstrap, "blocking", 2))
    asyncio.run(produce(bootstrap, "blocking", 10))
    consumer = sync.Consumer(
        "blocking",
        bootstrap_servers=bootstrap,
        group_id="blocking",
        auto_offset_reset="earliest",
        group_protocol="consumer",
        group_remote_assignor="uniform",
    )
    with consumer:
        consumer.report_standby_lag({TopicPartition("blocking", 0): 7})
        read = 0
        while read < 10:
            read += sum(len(batch) for batch in consumer.poll(1_000))
        consumer.commit()
        assert consumer.group_metadata().generation > 0
