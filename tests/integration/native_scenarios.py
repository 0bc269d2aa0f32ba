"""What members of the consumer protocol (KIP-848) do on any broker, ours or Apache Kafka.

Apache's heartbeats are five seconds apart, so a step that waits for one is waited for longer.
"""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.integration.scenario_book import Recorder, Scenario, create, poll_until, produce

from kohort.client import Admin, Cluster, CommitFailed, Consumer, Membership, MembershipSettings, SubscriptionPattern
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.protocol_driver import ConsumerDriver
from kohort.member import ConsumerState, MemberConfig
from kohort.member.effects import ConsumerHeartbeat
from kohort.member.inputs import ConsumerHeartbeatAnswered, Subscribed
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

NATIVE: list[Scenario] = []
LONG_MS = 40_000


def scenario(function: Scenario) -> Scenario:
    NATIVE.append(function)
    return function


def reader(
    bootstrap: str, group: str, *topics: str | re.Pattern[str] | SubscriptionPattern, **settings: object
) -> Consumer:
    return Consumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        metadata_max_age_ms=200,
        **{"group_protocol": "consumer"} | settings,  # type: ignore[arg-type]
    )


async def together(*consumers: Consumer, until: object) -> None:
    """Poll all of them until the condition holds."""
    assert callable(until)
    async with asyncio.timeout(LONG_MS / 1000):
        while not until():
            await asyncio.gather(*(consumer.poll(20) for consumer in consumers))


def some(recorder: Recorder) -> list[tuple[str, int]]:
    """The callbacks with partitions: Apache's targets are a second apart, a member may join before its own."""
    return [(callback, count) for callback, count in recorder.callbacks if count]


def membership_of(consumer: Consumer) -> Membership:
    assert consumer._group.membership is not None
    return consumer._group.membership


async def take_out(bootstrap: str, group: str, member_id: str) -> None:
    """Leave the group in a member's name, as a coordinator that puts it out."""
    async with Cluster(bootstrap) as cluster:
        link = CoordinatorLink(cluster, group)
        response = ConsumerDriver(link, MemberConfig(), member_id).carry_out(ConsumerHeartbeat(1, member_id, -1))
        assert response is not None
        answer = await response
        link.drop()
    assert isinstance(answer, ConsumerHeartbeatAnswered)
    assert answer.error is ErrorCode.NONE


@scenario
async def members_share_and_take_over_and_nothing_is_owned_twice(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 6)
    recorder = Recorder()
    async with reader(bootstrap, name, name, listener=recorder, group_remote_assignor="range") as first:
        await together(first, until=lambda: len(first.assignment()) == 6)
        async with reader(bootstrap, name, name) as second:

            def shared() -> bool:
                assert not first.assignment() & second.assignment(), "a partition has one owner"
                return len(first.assignment()) == len(second.assignment()) == 3

            await together(first, second, until=shared)
            assert first.group_metadata().generation == second.group_metadata().generation
        await together(first, until=lambda: len(first.assignment()) == 6)
    assert some(recorder) == [("assigned", 6), ("revoked", 3), ("assigned", 3), ("revoked", 6)]
    assert recorder.callbacks[recorder.callbacks.index(("revoked", 3)) + 1] == ("assigned", 0), (
        "assigned is called even with nothing"
    )


@scenario
async def records_are_read_once_and_commits_survive_epochs(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 4)
    await produce(bootstrap, name, 400)
    seen: list[tuple[TopicPartition, int]] = []

    async def read(consumer: Consumer) -> None:
        for batch in await consumer.poll(50, 10):
            seen.extend((batch.partition, record.offset) for record in batch)
        await consumer.commit()

    async with reader(bootstrap, name, name, enable_auto_commit=False) as first:
        while len(seen) < 100:
            await read(first)
        async with reader(bootstrap, name, name, enable_auto_commit=False) as second:
            async with asyncio.timeout(LONG_MS / 1000):
                while len(seen) < 300 or len(second.assignment()) < 2:
                    await asyncio.gather(read(first), read(second))
        async with asyncio.timeout(LONG_MS / 1000):
            while len(seen) < 400:
                await read(first)
        committed = await first.committed(TopicPartition(name, number) for number in range(4))
        assert sum(entry.offset for entry in committed.values()) == 400
    assert len(seen) == len(set(seen)) == 400


@scenario
async def the_broker_resolves_an_expression_also_for_topics_that_come_later(bootstrap: str, name: str) -> None:
    await create(bootstrap, f"{name}-a", 2)
    async with reader(bootstrap, name, SubscriptionPattern(f"{name}-[a-c]")) as consumer:
        await together(consumer, until=lambda: len(consumer.assignment()) == 2)
        assert consumer.subscription() == {f"{name}-a"}
        await create(bootstrap, f"{name}-b", 1)
        await create(bootstrap, f"{name}-d", 1)
        await produce(bootstrap, f"{name}-b", 5)
        await together(consumer, until=lambda: TopicPartition(f"{name}-b", 0) in consumer.assignment())
        assert consumer.subscription() == {f"{name}-a", f"{name}-b"}
        await consumer.subscribe(f"{name}-d")
        await together(consumer, until=lambda: consumer.assignment() == {TopicPartition(f"{name}-d", 0)})


@scenario
async def an_expression_that_the_broker_cannot_read_ends_the_member_with_advice(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    async with reader(bootstrap, name, SubscriptionPattern(r"(?=a)b")) as consumer:
        with pytest.raises(KafkaError, match="RE2") as failed:
            await together(consumer, until=lambda: False)
    assert failed.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@scenario
async def a_pattern_of_the_clients_own_is_followed_by_names(bootstrap: str, name: str) -> None:
    await create(bootstrap, f"{name}-1", 1)
    async with reader(bootstrap, name, re.compile(rf"{name}-(?=\d).*")) as consumer:
        await together(consumer, until=lambda: len(consumer.assignment()) == 1)
        await create(bootstrap, f"{name}-2", 1)
        await together(consumer, until=lambda: len(consumer.assignment()) == 2)


@scenario
async def a_removed_member_loses_all_partitions_and_rejoins_under_its_id(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    recorder = Recorder()
    async with reader(bootstrap, name, name, listener=recorder) as consumer:
        await together(consumer, until=lambda: len(consumer.assignment()) == 2)
        before = consumer.group_metadata()
        await take_out(bootstrap, name, before.member_id)
        with pytest.raises(CommitFailed) as refused:
            await consumer.commit({TopicPartition(name, 0): 1})
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        await together(consumer, until=lambda: some(recorder) == [("assigned", 2), ("lost", 2), ("assigned", 2)])
        assert consumer.group_metadata().member_id == before.member_id
        await consumer.commit({TopicPartition(name, 0): 0})


@scenario
async def an_unknown_assignor_ends_the_member_with_advice(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    async with reader(bootstrap, name, name, group_remote_assignor="nearest") as consumer:
        with pytest.raises(KafkaError, match=r"no assignor 'nearest'.*group\.consumer\.assignors") as failed:
            await together(consumer, until=lambda: False)
    assert failed.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


@scenario
async def a_static_member_returns_to_its_partitions_without_a_new_epoch(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 4)
    recorder = Recorder()
    async with reader(bootstrap, name, name, group_instance_id="one", listener=recorder) as first:
        async with reader(bootstrap, name, name, group_instance_id="two") as second:
            await together(first, second, until=lambda: len(first.assignment()) == len(second.assignment()) == 2)
            held, epoch, before = second.assignment(), first.group_metadata().generation, list(recorder.callbacks)
        async with reader(bootstrap, name, name, group_instance_id="two") as again:
            await together(first, again, until=lambda: again.assignment() == held)
            assert (recorder.callbacks, first.group_metadata().generation) == (before, epoch)
            async with reader(bootstrap, name, name, group_instance_id="two") as twin:
                with pytest.raises(KafkaError, match=r"another live member has group\.instance\.id 'two'"):
                    await together(twin, until=lambda: False)


@scenario
async def a_stale_member_loses_its_partitions_at_the_next_poll(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 5)
    recorder = Recorder()
    async with reader(bootstrap, name, name, max_poll_interval_ms=300, listener=recorder) as consumer:
        assert await consumer.poll(LONG_MS)
        member = membership_of(consumer)
        await member.wait_for(lambda: member.state is ConsumerState.STALE, timeout_ms=LONG_MS)
        assert recorder.callbacks == [("assigned", 1)]
        with pytest.raises(CommitFailed):
            await consumer.commit()
        [again] = await consumer.poll(LONG_MS)
        assert again.first_offset == 0
        assert some(recorder) == [("assigned", 1), ("lost", 1), ("assigned", 1)]


@scenario
async def classic_and_native_members_share_a_group(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 6)
    async with reader(bootstrap, name, name, group_protocol="classic", heartbeat_interval_ms=100) as old:
        await together(old, until=lambda: len(old.assignment()) == 6)
        async with reader(bootstrap, name, name) as new:

            def shared() -> bool:
                assert not old.assignment() & new.assignment(), "a partition has one owner"
                return len(old.assignment()) == len(new.assignment()) == 3

            await together(old, new, until=shared)
        await together(old, until=lambda: len(old.assignment()) == 6)


@scenario
async def an_auto_member_is_native_where_it_can_be_and_takes_classic_ones_along(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 4)
    async with reader(bootstrap, name, name, group_protocol="auto") as first:
        await together(first, until=lambda: len(first.assignment()) == 4)
        assert membership_of(first).protocol == "consumer"
        async with Admin(bootstrap) as admin:
            [listed] = [each for each in await admin.list_groups() if each.group_id == name]
        assert listed.group_id == name


@scenario
async def deleted_partitions_go_and_the_topic_made_anew_comes(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await create(bootstrap, f"{name}-b", 1)
    recorder = Recorder()
    async with reader(bootstrap, name, name, f"{name}-b", listener=recorder) as consumer:
        await together(consumer, until=lambda: len(consumer.assignment()) == 2)
        async with Admin(bootstrap) as admin:
            await admin.delete_topic(f"{name}-b")
            await together(consumer, until=lambda: len(consumer.assignment()) == 1)
            assert recorder.callbacks[0] == ("assigned", 2)
            assert recorder.callbacks[1][1] == 1
            await admin.create_topic(f"{name}-b", 2)
        await together(consumer, until=lambda: len(consumer.assignment()) == 3)


@scenario
async def a_topic_made_anew_is_read_from_its_beginning(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 30)
    only = TopicPartition(name, 0)
    async with reader(bootstrap, name, name) as consumer:
        await together(consumer, until=lambda: bool(consumer.assignment()))
        await consumer.commit({only: 20})
        async with Admin(bootstrap) as admin:
            await admin.delete_topic(name)
            await together(consumer, until=lambda: not consumer.assignment())
            await admin.create_topic(name, 1)
        await produce(bootstrap, name, 30)
        await together(consumer, until=lambda: bool(consumer.assignment()))
        assert await consumer.committed([only]) == {}, "what was committed was another topic's"


@scenario
async def a_membership_alone_is_stable_and_leaves(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with Cluster(bootstrap) as cluster:
        member = Membership(cluster, name, Subscribed((name,)), MembershipSettings(protocol="consumer"))
        await member.start()
        await member.joined(timeout_ms=LONG_MS)
        # Apache Kafka's coordinator may learn of a new topic a little later than the member does.
        await member.wait_for(lambda: len(member.assignment) == 2 and member.is_stable, timeout_ms=LONG_MS)
        assert member.state is ConsumerState.STABLE
        await member.stop()
        assert member.assignment == frozenset()


@scenario
async def a_rebalance_commits_what_is_finished(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 40)
    async with reader(bootstrap, name, name, auto_commit_interval_ms=3_600_000) as first:
        read = await poll_until(first, lambda: len(first.assignment()) == 2)
        while read < 40:
            read += sum(len(batch) for batch in await first.poll(50))
        async with reader(bootstrap, name, name) as second:
            await together(first, second, until=lambda: len(second.assignment()) == 1)
            [taken] = second.assignment()
            assert await second.position(taken) == (await first.committed([taken]))[taken].offset > 0
