"""What `Consumer` promises its user, on any broker: Kafka's own PlaintextConsumer suites, written for our API."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest
from tests.integration.scenario_book import PATIENCE_MS, Recorder, create, poll_until, produce, scenario

from kohort.client import Admin, Consumer, OffsetAndMetadata, Producer
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

SOON_MS = 100


def reader(bootstrap: str, group: str | None, *topics: str | re.Pattern[str], **settings: object) -> Consumer:
    return Consumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        metadata_max_age_ms=SOON_MS,
        **settings,  # type: ignore[arg-type]
    )


# Callbacks


@scenario
async def a_callback_may_ask_where_the_consumer_stands(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 5)
    only = TopicPartition(name, 0)
    seen: list[object] = []

    async def look(partitions: Partitions) -> None:
        seen.append(consumer.assignment() == partitions == {only})
        seen.append(await consumer.position(only))
        seen.append(await consumer.beginning_offsets([only]))
        seen.append(await consumer.end_offsets([only]))
        with pytest.raises(RuntimeError, match="unsubscribe first"):
            consumer.assign([only])

    async with reader(bootstrap, name) as consumer:
        await consumer.subscribe([name], on_assigned=look, on_revoked=look)
        read = 0
        while read < 5:
            read += sum(len(batch) for batch in await consumer.poll(PATIENCE_MS))
        assert len(seen) == 4, "nothing is handed out before the callback has finished"
    at_start, at_end = [True, 0, {only: 0}, {only: 5}], [True, 5, {only: 0}, {only: 5}]
    assert seen == at_start + at_end


@scenario
async def a_callback_may_seek_and_pause_what_it_was_given(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 40)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    def move(partitions: Partitions) -> None:
        assert partitions == {first, second}
        consumer.seek(first, 7)
        consumer.pause([second])

    async with reader(bootstrap, name) as consumer:
        await consumer.subscribe([name], on_assigned=move)
        [batch] = await consumer.poll(PATIENCE_MS)
        assert (batch.partition, batch.first_offset) == (first, 7)
        assert consumer.paused() == {second}
        assert (await consumer.position(second)) == 0
        consumer.resume([second])
        assert {each.partition for each in await consumer.poll(PATIENCE_MS)} == {second}


@scenario
async def three_functions_serve_as_a_listener(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    calls: list[str] = []
    async with reader(bootstrap, name) as consumer:
        await consumer.subscribe(
            name,
            on_assigned=lambda partitions: calls.append(f"assigned {len(partitions)}"),
            on_revoked=lambda partitions: calls.append(f"revoked {len(partitions)}"),
        )
        await poll_until(consumer, lambda: bool(calls))
        with pytest.raises(ValueError, match="not both"):
            await consumer.subscribe(name, Recorder(), on_assigned=lambda _: None)
    assert calls == ["assigned 1", "revoked 1"]


@scenario
async def a_long_revocation_keeps_its_member_alive_and_may_commit(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 20)
    beats: list[float] = []

    async def finish(partitions: Partitions) -> None:
        before = first.metrics()["heartbeat-total"]
        while partitions and not beats and first.metrics()["heartbeat-total"] < before + 5:
            await first.committed(partitions)  # something to wait for
        beats.append(first.metrics()["heartbeat-total"] - before)
        await first.commit(dict.fromkeys(partitions, 3))

    async with reader(bootstrap, name, enable_auto_commit=False) as first:
        await first.subscribe(name, on_revoked=finish)
        await poll_until(first, lambda: len(first.assignment()) == 2)
        member_id = first.group_metadata().member_id
        async with reader(bootstrap, name, name, enable_auto_commit=False) as second:
            joining = asyncio.create_task(poll_until(second, lambda: len(second.assignment()) == 1))
            await poll_until(first, joining.done)
            assert beats[0] >= 5, "heartbeats go on while the group waits for the callback"
            assert first.group_metadata().member_id == member_id
            committed = await second.committed([TopicPartition(name, 0), TopicPartition(name, 1)])
            assert [entry.offset for entry in committed.values()] == [3, 3]


# Subscriptions


@scenario
async def a_subscription_grows_and_shrinks(bootstrap: str, name: str) -> None:
    other = f"{name}-other"
    for topic in (name, other):
        await create(bootstrap, topic, 2)
    recorder = Recorder()
    async with reader(bootstrap, name, name, listener=recorder) as consumer:
        await poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        await consumer.subscribe([name, other])
        await poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        assert consumer.subscription() == {name, other}
        await consumer.subscribe([other])
        await poll_until(consumer, lambda: {held.topic for held in consumer.assignment()} == {other})
        assert consumer.subscription() == {other}
        await consumer.subscribe([])
        assert not consumer.assignment()
        assert not consumer.subscription()
    assert sum(count for calls, count in recorder.callbacks if calls == "assigned") == sum(
        count for calls, count in recorder.callbacks if calls == "revoked"
    )


@scenario
async def topics_that_match_an_expression_are_read_as_they_come_and_go(bootstrap: str, name: str) -> None:
    first, later, elsewhere = f"{name}-1", f"{name}-2", f"not-{name}-3"
    for topic in (first, elsewhere):
        await create(bootstrap, topic, 1)
    async with Admin(bootstrap) as admin, reader(bootstrap, name, re.compile(rf"{name}-\d")) as consumer:
        await poll_until(consumer, lambda: consumer.assignment() == {TopicPartition(first, 0)})
        await admin.create_topic(later, 2)
        await poll_until(consumer, lambda: len(consumer.assignment()) == 3)
        assert consumer.subscription() == {first, later}
        await produce(bootstrap, later, 10)
        while not (batches := await consumer.poll(PATIENCE_MS)):
            pass
        assert {batch.partition.topic for batch in batches} == {later}
        await admin.delete_topic(first)
        await poll_until(consumer, lambda: {held.topic for held in consumer.assignment()} == {later})
        assert consumer.subscription() == {later}


@scenario
async def an_expression_may_match_nothing_yet_and_nothing_any_more(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin, reader(bootstrap, name, f"^{name}-.*") as consumer:
        assert await consumer.poll(10) == []
        assert consumer.subscription() == frozenset()
        await admin.create_topic(f"{name}-a", 1)
        await poll_until(consumer, lambda: len(consumer.assignment()) == 1)
        await admin.delete_topic(f"{name}-a")
        await poll_until(consumer, lambda: consumer.assignment() == frozenset())
        await admin.create_topic(f"{name}-b", 1)
        await poll_until(consumer, lambda: consumer.assignment() == {TopicPartition(f"{name}-b", 0)})


@scenario
async def one_expression_follows_another_and_then_names(bootstrap: str, name: str) -> None:
    for topic in (f"{name}-a", f"{name}-b"):
        await create(bootstrap, topic, 1)

    def topics() -> set[str]:
        return {held.topic for held in consumer.assignment()}

    async with reader(bootstrap, name) as consumer:
        await consumer.subscribe(f"^{name}-a")
        await poll_until(consumer, lambda: topics() == {f"{name}-a"})
        await consumer.subscribe(re.compile(f"{name}-[ab]"))
        await poll_until(consumer, lambda: topics() == {f"{name}-a", f"{name}-b"})
        await consumer.subscribe([f"{name}-b"])
        await poll_until(consumer, lambda: topics() == {f"{name}-b"})
        await consumer.unsubscribe()
        consumer.assign([TopicPartition(f"{name}-a", 0)])
        assert await consumer.position(TopicPartition(f"{name}-a", 0)) == 0


@scenario
async def a_pattern_matches_internal_topics_only_if_they_are_not_excluded(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    both = re.compile(f"{name}|__consumer_offsets")
    async with reader(bootstrap, name, name) as consumer:
        await consumer.poll(10)  # now there is a topic of committed offsets
        await poll_until(consumer, lambda: bool(consumer.assignment()))
    async with reader(bootstrap, None, both) as consumer:
        assert consumer.subscription() == {name}
    async with reader(bootstrap, None, both, exclude_internal_topics=False) as consumer:
        assert consumer.subscription() == {name, "__consumer_offsets"}


@scenario
async def a_reader_without_a_group_follows_an_expression_too(bootstrap: str, name: str) -> None:
    await create(bootstrap, f"{name}-a", 1)
    async with Admin(bootstrap) as admin, reader(bootstrap, None, f"^{name}-.") as consumer:
        assert consumer.assignment() == {TopicPartition(f"{name}-a", 0)}
        await admin.create_topic(f"{name}-b", 2)
        await poll_until(consumer, lambda: len(consumer.assignment()) == 3)
        await admin.delete_topic(f"{name}-a")
        await poll_until(consumer, lambda: {held.topic for held in consumer.assignment()} == {f"{name}-b"})


# Commits


@scenario
async def what_was_finished_is_committed_at_the_end_and_before_a_rebalance(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 60)
    both = [TopicPartition(name, 0), TopicPartition(name, 1)]
    async with Admin(bootstrap) as admin:
        async with reader(bootstrap, name, name, auto_commit_interval_ms=600_000) as first:
            got = 0
            while got < 60:
                got += sum(len(batch) for batch in await first.poll(PATIENCE_MS))
            assert await first.committed(both) == {}
            async with reader(bootstrap, name, name, auto_commit_interval_ms=600_000) as second:
                joining = asyncio.create_task(poll_until(second, lambda: len(second.assignment()) == 1))
                await poll_until(first, joining.done)
                committed = await second.committed(both)
                assert sum(entry.offset for entry in committed.values()) >= 30, "before the rebalance"
                assert {partition: entry.offset for partition, entry in committed.items()}.keys() >= second.assignment()
        assert sum(entry.offset for entry in (await admin.group_offsets(name)).values()) == 60


@scenario
async def asynchronous_commits_keep_their_order_and_pass_their_outcome_to_the_callback(
    bootstrap: str, name: str
) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 10)
    only = TopicPartition(name, 0)
    calls: list[tuple[int, KafkaError | None]] = []
    async with reader(bootstrap, name, name, enable_auto_commit=False) as consumer:
        assert await consumer.poll(PATIENCE_MS)
        for offset in range(1, 6):
            consumer.commit_async({only: offset}, lambda offsets, error: calls.append((offsets[only].offset, error)))
        await consumer.commit({only: OffsetAndMetadata(7, "half way", 0)})
        assert calls == [(offset, None) for offset in range(1, 6)]
        assert (await consumer.committed([only]))[only] == OffsetAndMetadata(7, "half way", 0)
        consumer.commit_async({TopicPartition("nowhere-at-all", 0): 1}, lambda _, error: calls.append((-1, error)))
        consumer.commit_async()
    assert calls[5][1] is not None, "the group knows no such topic"
    async with Admin(bootstrap) as admin:
        assert (await admin.group_offsets(name))[only].offset == 10, "what was begun is finished before the end"


@scenario
async def what_its_user_committed_in_hand_is_not_taken_back_when_it_fails(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 10)

    async def fail() -> None:
        async with reader(bootstrap, name, name) as consumer:
            assert len((await consumer.poll(PATIENCE_MS, 4))[0]) == 4
            await consumer.commit()
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with Admin(bootstrap) as admin:
        assert (await admin.group_offsets(name))[TopicPartition(name, 0)].offset == 4


# Where it stands


@scenario
async def a_position_is_the_committed_offset_or_that_of_auto_offset_reset(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 40)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    async with Admin(bootstrap) as admin:
        await admin.reset_offsets(name, {first: 5})
    async with reader(bootstrap, name) as consumer:
        consumer.assign([first, second])
        assert [await consumer.position(first), await consumer.position(second)] == [5, 0]
        consumer.seek_to_end([second])
        assert {second: await consumer.position(second)} == await consumer.end_offsets([second])
        with pytest.raises(KeyError):
            await consumer.position(TopicPartition(name, 9))
        assert await consumer.poll(PATIENCE_MS)
        end = (await consumer.end_offsets([first]))[first]
        assert consumer.lag()[first].records == end - await consumer.position(first)


@scenario
async def by_duration_begins_at_the_first_record_that_is_young_enough(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    now_ms = time.time_ns() // 1_000_000
    async with Producer(bootstrap) as producer:
        for partition, hours in ((0, 3), (0, 2), (0, 0), (1, 2)):
            await producer.send(name, b"", partition=partition, timestamp_ms=now_ms - hours * 3_600_000)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="by_duration:PT1H30M") as consumer:
        consumer.assign([first, second])
        assert [await consumer.position(first), await consumer.position(second)] == [2, 1]


async def write(bootstrap: str, name: str, partitions: tuple[int, ...], count: int, value: bytes = b"new") -> None:
    async with Producer(bootstrap) as producer:
        for at in range(count):
            await producer.send(name, value, partition=partitions[at % len(partitions)])


@scenario
async def a_partition_that_is_added_is_read_from_its_first_record(bootstrap: str, name: str) -> None:
    """With "latest", what is written before the members notice it would be read by no member (KIP-1327)."""
    await create(bootstrap, name, 2)
    await write(bootstrap, name, (0, 1), 10, b"old")
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "latest"}
    first, last = TopicPartition(name, 0), TopicPartition(name, 3)
    async with Admin(bootstrap) as admin, Consumer(name, **settings) as alone:
        async with Consumer(name, group_id=name, **settings) as member:
            await poll_until(member, lambda: len(member.assignment()) == 2)
            assert await member.position(first) == await alone.position(first) > 0
            await admin.create_partitions(name, 4)
            await write(bootstrap, name, (2, 3), 20)
            for consumer in (alone, member):
                assert await consumer.end_offsets([last]) == {last: 10}  # metadata is up to five minutes old until now
                assert await read(consumer, 20) == [b"new"] * 20
        committed = await admin.group_offsets(name)
        assert {each.partition: entry.offset for each, entry in committed.items() if each.partition > 1} == {
            2: 10,
            3: 10,
        }


@scenario
async def a_position_belongs_to_one_topic_and_not_to_its_name(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await write(bootstrap, name, (0,), 5, b"old")
    only = TopicPartition(name, 0)
    async with (
        Admin(bootstrap) as admin,
        reader(bootstrap, name, name, auto_commit_interval_ms=50) as member,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as strict,
    ):
        strict.assign([only])
        strict.seek(only, 5)
        assert await read(member, 5) == [b"old"] * 5
        assert not await strict.poll(100)
        await member.commit()
        await admin.delete_topic(name)
        await admin.create_topic(name, partitions=1)
        await write(bootstrap, name, (0,), 20)
        assert await read(member, 20) == [b"new"] * 20
        with pytest.raises(KafkaError, match="deleted and created again, and offset 5 is of the old one") as raised:
            await read(strict, 1)
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        strict.seek(only, 1)
        assert await read(strict, 19) == [b"new"] * 19


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """Return the values of at least so many records."""
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for batch in await consumer.poll(PATIENCE_MS) for record in batch]
    return values


@scenario
async def a_program_may_enforce_a_rebalance_with_a_reason(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    async with reader(bootstrap, name) as consumer:
        assert consumer.group_metadata() == (name, -1, "", None)
        with pytest.raises(RuntimeError, match="in no group"):
            consumer.enforce_rebalance()
        await consumer.subscribe(name)
        await poll_until(consumer, lambda: bool(consumer.assignment()))
        before = consumer.group_metadata()
        consumer.enforce_rebalance("the weights have changed")
        await poll_until(consumer, lambda: consumer.group_metadata().generation == before.generation + 1)
        assert consumer.group_metadata().member_id == before.member_id


@scenario
async def leaving_may_be_demanded_or_put_off(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)

    async def members() -> list[str | None]:
        described = (await admin.describe_groups([name]))[name]
        return [member.instance_id for member in described.members]

    async def leave(instance: str | None, leave_group: bool | None) -> list[str | None]:
        consumer = reader(bootstrap, name, name, group_instance_id=instance, session_timeout_ms=6_000)
        await consumer.start()
        await poll_until(consumer, lambda: bool(consumer.assignment()))
        await consumer.stop(leave_group=leave_group)
        return await members()

    async with Admin(bootstrap) as admin:
        assert await leave("i", None) == ["i"], "a static member stays"
        assert await leave("i", True) == [], "unless it leaves for good"
        assert await leave(None, None) == []
        assert await leave(None, False) == [None], (
            "a dynamic member stays where leave_group is False, until its session ends"
        )
