"""What our client does on any broker: ours in the integration tests, a real Apache Kafka in the interop tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.integration import consumer_scenarios, lag_scenarios, own_group_scenarios, transaction_scenarios
from tests.integration.scenario_book import PATIENCE_MS, SCENARIOS, Recorder, Scenario, create, produce, run, scenario

from kohort.assign import RangeAssignor, TasksAssignor
from kohort.client import (
    Admin,
    Cluster,
    CommitFailed,
    Consumer,
    Membership,
    MembershipSettings,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    ResourceType,
    UnknownPartition,
    UnknownTopic,
    read_ranges,
)
from kohort.client.producer.partitioner import partition_for_key
from kohort.member import MemberConfig, State
from kohort.member.inputs import Subscribed
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.messages import LeaveGroupRequest
from kohort.wire.record_batches import decode_batch, iter_batches

__all__ = [
    "SCENARIOS",
    "Scenario",
    "consumer_scenarios",
    "lag_scenarios",
    "own_group_scenarios",
    "run",
    "transaction_scenarios",
]


def member(
    cluster: Cluster, name: str, listener: RebalanceListener | None = None, instance_id: str | None = None
) -> Membership:
    return Membership(
        cluster,
        name,
        Subscribed((name,)),
        MembershipSettings(MemberConfig(heartbeat_interval_ms=100, instance_id=instance_id), (RangeAssignor(),)),
        listener=listener,
    )


@scenario
async def members_share_a_topic_and_take_over_from_one_that_leaves(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 6)
    recorder = Recorder()
    async with Cluster(bootstrap) as cluster:
        first, second = member(cluster, name, recorder), member(cluster, name)
        await first.start()
        assert len(await first.joined(timeout_ms=PATIENCE_MS)) == 6
        await second.start()
        await second.wait_for(lambda: len(second.assignment) == 3, timeout_ms=PATIENCE_MS)
        await first.wait_for(lambda: first.state is State.STABLE, timeout_ms=PATIENCE_MS)
        assert first.generation == second.generation
        assert first.assignment | second.assignment == {TopicPartition(name, number) for number in range(6)}
        await second.stop("done")
        await first.wait_for(lambda: len(first.assignment) == 6 and first.state is State.STABLE, timeout_ms=PATIENCE_MS)
        await first.stop()
    assert recorder.callbacks == [
        ("assigned", 6),
        ("revoked", 6),
        ("assigned", 3),
        ("revoked", 3),
        ("assigned", 6),
        ("revoked", 6),
    ]


@scenario
async def a_revocation_waits_for_its_listener_which_may_commit(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    reached, released = asyncio.Event(), asyncio.Event()

    class Finishing(RebalanceListener):
        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            reached.set()
            await released.wait()
            await first.commit({held: OffsetAndMetadata(7, "in hand") for held in partitions})

    async with Cluster(bootstrap) as cluster:
        first, second = member(cluster, name, Finishing()), member(cluster, name)
        await first.start()
        await first.joined(timeout_ms=PATIENCE_MS)
        await second.start()
        await reached.wait()
        assert second.assignment == frozenset(), "the group waits for the member that still works"
        assert len(first.assignment) == 2
        released.set()
        await second.wait_for(lambda: len(second.assignment) == 1, timeout_ms=PATIENCE_MS)
        assert list((await second.committed(second.assignment)).values()) == [OffsetAndMetadata(7, "in hand")]
        await second.stop()
        await first.stop()


@scenario
async def a_removed_member_cannot_commit_and_rejoins(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    recorder = Recorder()
    async with Cluster(bootstrap) as cluster:
        first = member(cluster, name, recorder)
        await first.start()
        await first.joined(timeout_ms=PATIENCE_MS)
        old = first.member_id
        out = LeaveGroupRequest(
            group_id=name, member_id=old, members=[LeaveGroupRequest.Member(member_id=old, reason="a test")]
        )
        await cluster.call_coordinator(name, out, lambda answer: answer.error_code)
        with pytest.raises(CommitFailed, match=f"member {old} in generation 1") as refused:
            await first.commit({TopicPartition(name, 0): OffsetAndMetadata(3)})
        assert (refused.value.member_id, refused.value.generation) == (old, 1)
        await first.wait_for(lambda: first.member_id not in ("", old), timeout_ms=PATIENCE_MS)
        await first.joined(timeout_ms=PATIENCE_MS)
        assert await first.committed([TopicPartition(name, 0)]) == {}
        await first.stop()
    assert recorder.callbacks == [("assigned", 1), ("lost", 1), ("assigned", 1), ("revoked", 1)]


@scenario
async def a_static_member_comes_back_to_its_partitions_without_a_rebalance(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with Cluster(bootstrap) as cluster:
        one, two = member(cluster, name, instance_id="one"), member(cluster, name, instance_id="two")
        await one.start()
        await one.joined(timeout_ms=PATIENCE_MS)
        await two.start()
        await two.wait_for(lambda: len(two.assignment) == 1, timeout_ms=PATIENCE_MS)
        await one.joined(timeout_ms=PATIENCE_MS)
        generation, held = two.generation, two.assignment
        await two.stop()
        again = member(cluster, name, instance_id="two")
        await again.start()
        assert await again.joined(timeout_ms=PATIENCE_MS) == held
        assert (again.generation, one.generation, one.member.rebalances) == (generation, generation, 2)
        await again.stop(leave=True)
        await one.stop(leave=True)


@scenario
async def a_second_member_with_the_same_instance_id_fences_the_first(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    recorder = Recorder()
    async with Cluster(bootstrap) as cluster:
        first = member(cluster, name, recorder, instance_id="i")
        await first.start()
        await first.joined(timeout_ms=PATIENCE_MS)
        second = member(cluster, name, instance_id="i")
        await second.start()
        await second.joined(timeout_ms=PATIENCE_MS)
        with pytest.raises(KafkaError, match=r"group\.instance\.id 'i'") as fenced:
            await first.wait_for(lambda: False, timeout_ms=PATIENCE_MS)
        assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID
        await first.stop()
        assert recorder.callbacks == [("assigned", 1), ("lost", 1)]
        await second.stop(leave=True)


@scenario
async def a_topic_that_grows_is_shared_out_again(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    async with Cluster(bootstrap) as cluster, Admin(bootstrap) as admin:
        first = member(cluster, name)
        await first.start()
        assert len(await first.joined(timeout_ms=PATIENCE_MS)) == 1
        await admin.create_partitions(name, 3)
        await cluster.refresh()
        await first.wait_for(lambda: len(first.assignment) == 3, timeout_ms=PATIENCE_MS)
        await first.stop()


@scenario
async def every_record_is_read_once_while_consumers_come_and_go(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 6)
    await produce(bootstrap, name, 1200)
    seen: list[tuple[TopicPartition, int]] = []

    async def read(most: int) -> None:
        got = 0
        async with Consumer(
            name,
            bootstrap_servers=bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            max_poll_records=40,
        ) as consumer:
            while got < most and len(seen) < 1200:
                for batch in await consumer.poll(500):
                    seen.extend((batch.partition, record.offset) for record in batch)
                    got += len(batch)

    await asyncio.gather(read(200), read(2000), read(2000))
    assert len(seen) == len(set(seen)) == 1200
    async with Admin(bootstrap) as admin:
        committed = await admin.group_offsets(name)
    assert sum(entry.offset for entry in committed.values()) == 1200


@scenario
async def a_task_moves_when_the_copy_of_its_next_owner_has_caught_up(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)

    def worker() -> tuple[TasksAssignor, Consumer]:
        tasks = TasksAssignor()
        return tasks, Consumer(
            name, bootstrap_servers=bootstrap, group_id=name, assignors=[tasks], heartbeat_interval_ms=100
        )

    async def until(condition: Callable[[], bool], *consumers: Consumer) -> None:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while not condition():
                await asyncio.gather(*(consumer.poll(10) for consumer in consumers))

    _, first = worker()
    tasks, second = worker()
    async with first:
        await until(lambda: len(first.assignment()) == 2, first)
        lags: dict[TopicPartition, int] = {}
        second.report_standby_lag(lambda: lags)
        async with second:
            await until(lambda: bool(tasks.warmup), first, second)
            (moving,) = tasks.warmup
            assert len(first.assignment()) == 2
            assert not second.assignment()
            lags[moving] = 0
            await until(lambda: second.assignment() == {moving}, first, second)
            await until(lambda: tasks.is_settled, first, second)
            assert first.assignment() == {TopicPartition(name, 1 - moving.partition)}


@scenario
async def what_was_in_hand_when_the_program_failed_is_read_again(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 30)

    def reader() -> Consumer:
        return Consumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest")

    async def fail() -> None:
        async with reader() as consumer:
            assert (await consumer.poll(PATIENCE_MS, 10))[0].next_offset == 10
            assert (await consumer.poll(PATIENCE_MS, 10))[0].next_offset == 20
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with reader() as consumer:
        [batch] = await consumer.poll(PATIENCE_MS, 10)
        assert batch.first_offset == 10, "the first ten were finished, the second ten were not"


@scenario
async def a_consumer_that_exceeds_max_poll_interval_leaves_and_loses_its_partitions_at_the_next_poll(
    bootstrap: str, name: str
) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 5)
    recorder = Recorder()
    async with Consumer(
        name,
        bootstrap_servers=bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        max_poll_interval_ms=300,
        heartbeat_interval_ms=100,
        listener=recorder,
    ) as consumer:
        assert await consumer.poll(PATIENCE_MS)
        membership = consumer._group.membership
        assert membership is not None
        await membership.wait_for(lambda: membership.member_id == "", timeout_ms=PATIENCE_MS)
        assert recorder.callbacks == [("assigned", 1)], "no callback while it holds records"
        with pytest.raises(CommitFailed):
            await consumer.commit()
        [again] = await consumer.poll(PATIENCE_MS)
        assert again.first_offset == 0, "nothing was committed"
        assert recorder.callbacks == [("assigned", 1), ("lost", 1), ("assigned", 1)]


@scenario
async def a_reader_without_a_group_reads_everything_and_moves_as_it_likes(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 100)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    async with Consumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        seen: list[tuple[str, int, int]] = []
        async for record in consumer:
            seen.append(record[:3])
            if len(seen) == 100:
                break
        assert len(set(seen)) == 100
        ends = await consumer.end_offsets([first, second])
        assert sum(ends.values()) == 100
        assert await consumer.beginning_offsets([first]) == {first: 0}
        assert {await consumer.position(first), await consumer.position(second)} == set(ends.values())
        consumer.pause([first])
        assert consumer.paused() == {first}
        consumer.seek_to_beginning()
        assert {batch.partition for batch in await consumer.poll(PATIENCE_MS)} == {second}
        consumer.resume([first])
        consumer.seek(first, 3)
        [batch] = await consumer.poll(PATIENCE_MS, 2)
        assert (batch.partition, batch.first_offset, await consumer.position(first)) == (first, 3, 5)
        record = await anext(consumer)
        assert (record.topic_partition, record.offset, await consumer.position(first)) == (first, 5, 6)
        at = await consumer.offsets_for_times({first: record.timestamp_ms, second: 1 << 50})
        assert at[first] is not None
        assert at[second] is None
        with pytest.raises(KeyError):
            consumer.seek(TopicPartition(name, 9), 0)
        with pytest.raises(RuntimeError, match="no group"):
            await consumer.commit()


@scenario
async def partitions_assigned_by_hand_are_committed_for_a_group(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 20)
    mine = TopicPartition(name, 1)

    async def read() -> int:
        async with Consumer(bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest") as consumer:
            consumer.assign([mine])
            batches = await consumer.poll(PATIENCE_MS)
            assert {batch.partition for batch in batches} == {mine}
            return batches[0].first_offset

    assert await read() == 0
    async with Admin(bootstrap) as admin:
        assert (await admin.group_offsets(name)).keys() == {mine}


@scenario
async def records_that_are_gone_are_passed_over_or_reported(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 20)
    only = TopicPartition(name, 0)
    async with Admin(bootstrap) as admin:
        assert await admin.delete_records({only: 15}) == {only: 15}
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([only])
        consumer.seek(only, 3)
        assert (await consumer.poll(PATIENCE_MS))[0].records[0].offset == 15
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([only])
        consumer.seek(only, 3)
        with pytest.raises(KafkaError, match=r"offset 3 of .* is out of range"):
            await consumer.poll(PATIENCE_MS)
    async with Consumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="none") as consumer:
        with pytest.raises(KafkaError, match="no committed offset"):
            await consumer.poll(PATIENCE_MS)


@scenario
async def records_come_back_as_they_were_sent_whatever_their_compression(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 3)
    now_ms = round(time.time() * 1000)  # what looks older than retention.ms may be gone before it is read
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        async with Producer(bootstrap, compression_type=codec) as producer:
            sent = [
                await producer.send(
                    name, b"v" * at, key=b"k%d" % at, timestamp_ms=now_ms + at, headers={"h": b"%d" % at, "n": None}
                )
                for at in range(20)
            ]
            empty = await producer.send(name, None, partition=1)
            placed = [await delivery for delivery in sent]
            assert (await empty).topic_partition == TopicPartition(name, 1)
        assert [each.partition for each in placed] == [partition_for_key(b"k%d" % at, 3) for at in range(20)]
        # An idle fetch of the partition before would hold the next one back for its whole wait.
        async with Consumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=5) as consumer:
            for at, each in enumerate(placed):
                consumer.assign([each.topic_partition])
                consumer.seek(each.topic_partition, each.offset)
                record = (await consumer.poll(PATIENCE_MS, 1))[0].records[0]
                assert (record.key, record.value, record.timestamp_ms) == (b"k%d" % at, b"v" * at, now_ms + at)
                assert record.headers == (("h", b"%d" % at), ("n", None))


@scenario
async def a_record_that_cannot_be_sent_raises_the_reason(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(name, 1, configs={"max.message.bytes": "2000"})
    async with Producer(bootstrap, allow_auto_create_topics=False) as producer:
        with pytest.raises(UnknownTopic, match="nowhere-at-all"):
            await producer.send("nowhere-at-all", b"v")
        with pytest.raises(UnknownPartition, match="partitions 0 to 0"):
            await producer.send(name, b"v", partition=4)
        with pytest.raises(KafkaError, match="larger than max_request_size"):
            await producer.send(name, bytes(2_000_000))
        with pytest.raises(TypeError, match="bytes or None, not str"):
            await producer.send(name, "text")  # type: ignore[arg-type]
        small, large = await producer.send(name, b"v"), await producer.send(name, bytes(5000))
        await producer.flush()
        with pytest.raises(KafkaError, match=r"max\.message\.bytes"):
            large.result()
        with pytest.raises(KafkaError, match=r"max\.message\.bytes"):
            small.result()
        assert (await (await producer.send(name, b"v"))).offset == 0, "the numbers begin anew after a batch was refused"


@scenario
async def ranges_are_read_by_a_plain_socket(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 3000)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    async with Admin(bootstrap) as admin:
        ends = {
            held: each.offset
            for held, each in (await admin.list_offsets({first: "latest", second: "latest"})).items()
            if each
        }

    def read() -> dict[TopicPartition, list[int]]:
        offsets: dict[TopicPartition, list[int]] = {first: [], second: []}
        ranges = [(first, 5, ends[first]), (second, 0, ends[second] - 7), (first, 9, 9)]
        for partition, records, position in read_ranges(bootstrap, ranges, max_bytes=4096):
            assert sum(len(view) for _, view in iter_batches(records)) == len(records), "whole batches only"
            offsets[partition] += [
                record.offset
                for _, view in iter_batches(records)
                for record in decode_batch(view)
                if record.offset >= position
            ]
        return offsets

    found = await asyncio.to_thread(read)
    assert found[first] == list(range(5, ends[first]))
    assert found[second][: ends[second] - 7] == list(range(ends[second] - 7))

    def fail(partition: TopicPartition, start: int) -> None:
        list(read_ranges(bootstrap, [(partition, start, start + 1)]))

    with pytest.raises(KafkaError, match=f"has 0 to {ends[first]}"):
        await asyncio.to_thread(fail, first, 99_999)
    with pytest.raises(UnknownPartition):
        await asyncio.to_thread(fail, TopicPartition(name, 9), 0)
    with pytest.raises(UnknownTopic):
        await asyncio.to_thread(fail, TopicPartition("nowhere-at-all", 0), 0)


@scenario
async def an_admin_creates_changes_describes_and_deletes(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(name, 2, configs={"retention.ms": "100000"})
        for refused, code in [
            (admin.create_topic(name), ErrorCode.TOPIC_ALREADY_EXISTS),
            (admin.create_topic("not a name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (admin.create_topic(f"{name}-2", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
            (admin.create_partitions(name, 1), ErrorCode.INVALID_PARTITIONS),
            (admin.delete_topic("nowhere-at-all"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (admin.describe_groups(["no-such-group"]), ErrorCode.GROUP_ID_NOT_FOUND),
            (admin.delete_group("no-such-group"), ErrorCode.GROUP_ID_NOT_FOUND),
        ]:
            with pytest.raises(KafkaError) as error:
                await refused
            assert error.value.code is code
        await admin.create_partitions(name, 4)
        assert len((await admin.describe_topics([name]))[name].partitions) == 4
        assert name in [topic.name for topic in await admin.list_topics()]
        await admin.alter_configs(ResourceType.TOPIC, name, {"retention.ms": None, "cleanup.policy": "compact"})
        configs = await admin.describe_configs(ResourceType.TOPIC, name)
        assert {entry.name for entry in configs.values() if not entry.is_default} == {"cleanup.policy"}
        assert (await admin.describe_cluster()).brokers
        await admin.delete_topic(name)
        with pytest.raises(UnknownTopic):
            await admin.describe_topics([name])


@scenario
async def the_logs_of_each_broker_have_their_directory_and_size(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 10)
    async with Admin(bootstrap) as admin:
        found = await admin.describe_log_dirs()
        assert found.keys() == (await admin.describe_cluster()).brokers.keys()
    directories = [each for several in found.values() for each in several]
    assert {each.error for each in directories} == {ErrorCode.NONE}
    assert sum(each.sizes.get(TopicPartition(name, 0), 0) for each in directories) > 0
    assert all(each.path and each.total_bytes and each.usable_bytes for each in directories)


@scenario
async def a_member_that_an_admin_removes_is_not_in_the_group(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with Admin(bootstrap) as admin, Cluster(bootstrap) as cluster:
        static = member(cluster, name, instance_id="first")
        await static.start()
        await static.joined(timeout_ms=PATIENCE_MS)
        with pytest.raises(KafkaError, match="'second' of group") as unknown:
            await admin.remove_members(name, instance_ids=["second"])
        assert unknown.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        before = static.member_id
        await admin.remove_members(name, instance_ids=["first"], reason="it hangs")
        await static.wait_for(lambda: static.member_id not in ("", before), timeout_ms=PATIENCE_MS)
        await static.stop()


@scenario
async def an_admin_moves_the_offsets_of_a_group_without_members_only(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 10)
    only = TopicPartition(name, 0)
    async with Admin(bootstrap) as admin:
        await admin.reset_offsets(name, {only: 4})
        async with Consumer(name, bootstrap_servers=bootstrap, group_id=name) as consumer:
            assert (await consumer.poll(PATIENCE_MS))[0].first_offset == 4
            described = (await admin.describe_groups([name]))[name]
            assert (described.state, described.protocol) == ("Stable", "range")
            assert [each.assignment for each in described.members] == [frozenset({only})]
            for refused in (admin.reset_offsets(name, {only: 0}), admin.delete_group(name)):
                with pytest.raises(KafkaError) as error:
                    await refused
                assert error.value.code is ErrorCode.NON_EMPTY_GROUP
        assert (await admin.group_offsets(name))[only].offset == 10
        assert [each.state for each in await admin.list_groups() if each.group_id == name] == ["Empty"]
        await admin.delete_offsets(name, [only])
        assert await admin.group_offsets(name) == {}
        await admin.reset_offsets(name, {only: 1})  # brokers before 4.0 drop a group with its last offset
        await admin.delete_group(name)
        assert name not in [each.group_id for each in await admin.list_groups()]


@scenario
async def a_consumer_changes_its_topics_and_its_mind(bootstrap: str, name: str) -> None:
    other = f"{name}-other"
    recorder = Recorder()
    for topic in (name, other):
        await create(bootstrap, topic, 1)
        await produce(bootstrap, topic, 3)
    async with Consumer(
        name,
        bootstrap_servers=bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        listener=recorder,
    ) as consumer:
        assert [batch.partition.topic for batch in await consumer.poll(PATIENCE_MS)] == [name]
        await consumer.subscribe([other])
        assert [batch.partition.topic for batch in await consumer.poll(PATIENCE_MS)] == [other]
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        consumer.assign([TopicPartition(name, 0)])
        consumer.seek(TopicPartition(name, 0), 1)
        assert (await consumer.poll(PATIENCE_MS))[0].first_offset == 1
    assert recorder.callbacks == [("assigned", 1), ("revoked", 1), ("assigned", 1), ("revoked", 1)]
    with pytest.raises(RuntimeError, match="unsubscribe first"):
        Consumer(name, bootstrap_servers=bootstrap).assign([TopicPartition(name, 0)])
