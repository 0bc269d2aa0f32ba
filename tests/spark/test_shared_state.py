"""Queries that keep state as members of a group: with which members they share, and where they continue."""

from __future__ import annotations

import asyncio

import pytest
from tests.spark.bare_query import Job, committed
from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Consumer
from kohort.spark.membership.shared_state import SharedState
from kohort.spark.membership.stream_offset import CommitMark, StreamOffset

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

STATE = frozenset({"Aggregate"})
PROTOCOLS = ["cooperative", "consumer"]


async def read_all(topic: Topic, operators: frozenset[str] | None = STATE, **options: str) -> Job:
    async with Job(topic, operators=operators, **options) as job:
        await job.batch()
        await job.look()
    return job


async def reset(topic: Topic, offset: int) -> None:
    async with Admin(topic.bootstrap_servers) as admin:
        await admin.reset_offsets(topic.group_id, dict.fromkeys(topic.partitions, offset))


def plain(topic: Topic) -> Consumer:
    return Consumer(topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id)


async def assigned(consumer: Consumer) -> None:
    """Poll until a consumer has an assignment."""
    while not consumer.assignment():
        await consumer.poll(timeout_ms=100)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("operators", [STATE, frozenset(), None], ids=["state", "none", "unknown"])
def test_no_query_continues_where_the_state_is_in_another_checkpoint(
    topic: Topic, protocol: str, operators: frozenset[str] | None
) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic, protocol=protocol)
        topic.fill(3)
        for on_new in ("fail", "group"):
            with pytest.raises(SharedState, match=f"query {first.checkpoint.query}, which ended batch 0"):
                await Job(topic, operators=operators, protocol=protocol, onNewCheckpoint=on_new).__aenter__()
        async with Job(topic, first.checkpoint, STATE, protocol=protocol) as again:
            assert await again.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}
        allowed = {"allowSharedState": "true", "onNewCheckpoint": "group", "protocol": protocol}
        async with Job(topic, operators=operators, **allowed) as other:
            assert await other.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}

    topic.run(scenario())


@pytest.mark.parametrize("operators", [STATE, frozenset()], ids=["state", "none"])
def test_no_second_query_joins_beside_a_query_with_state_which_is_not_disturbed(
    topic: Topic, operators: frozenset[str]
) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, operators=STATE) as first:
            await first.batch()
            await first.look()
            generation = first.member.gate.member.generation
            with pytest.raises(SharedState):
                await Job(topic, operators=operators, onNewCheckpoint="startingOffsets").__aenter__()
            topic.fill(3)
            assert await first.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}
            assert first.member.gate.member.generation == generation

    topic.run(scenario())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_query_with_state_ends_when_another_client_gets_a_part_of_its_partitions(topic: Topic, protocol: str) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, operators=STATE, protocol=protocol) as job:
            await job.batch()
            await job.look()
            kind = "consumer" if protocol == "consumer" else "classic"
            other = Consumer(
                topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id, group_protocol=kind
            )
            async with other:
                reading = asyncio.create_task(other.poll(timeout_ms=30_000))
                with pytest.raises(SharedState, match=r"is stateful \(Aggregate\), and the group .* has the member"):
                    await job.until(lambda: False)
                reading.cancel()
            assert job.checkpoint.batch == 0

    topic.run(scenario())


def test_a_query_with_state_does_not_join_beside_another_client(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with plain(topic) as other:
            await assigned(other)
            await other.commit()
            with pytest.raises(SharedState, match="has the member"):
                await Job(topic, operators=STATE, **{"kafka.session.timeout.ms": "1000"}).__aenter__()
            async with Job(topic, operators=STATE, allowSharedState="true") as job:
                task = asyncio.create_task(job.until(lambda: job.owned > 0))
                while not task.done():
                    await other.poll(timeout_ms=100)

    topic.run(scenario())


def test_a_query_with_state_begins_where_a_tool_has_set_the_offsets_of_its_group(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        await reset(topic, 4)
        async with Job(topic, operators=STATE) as job:
            assert await job.batch() == {0: (4, 10), 1: (4, 10), 2: (4, 10)}

    topic.run(scenario())


@pytest.mark.parametrize("offset", [4, 12])
def test_a_reset_behind_the_back_of_a_checkpoint_with_state_is_named_and_the_state_can_win(
    topic: Topic, offset: int
) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic)
        topic.fill(9)
        await reset(topic, offset)
        for mismatch in ("fail", "group"):
            async with Job(topic, first.checkpoint, STATE, onOffsetMismatch=mismatch) as again:
                with pytest.raises(SharedState, match=f"at offset {offset}, which this query did not commit.* ends at"):
                    await again.batch()
        async with Job(topic, first.checkpoint, STATE, onOffsetMismatch="checkpoint") as again:
            assert await again.batch() == {0: (10, 13), 1: (10, 13), 2: (10, 13)}

    topic.run(scenario())


def test_a_batch_that_was_not_committed_is_not_read_into_the_state_again(topic: Topic) -> None:
    """The group is two batches behind: commits failed, or the query was killed."""
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic)
        topic.fill(60)
        done = first.checkpoint
        async with Job(topic, done, STATE, maxOffsetsPerTrigger="9") as job:
            for _ in range(2):
                await job.batch()
            ahead = job.checkpoint
        assert ahead.batch > done.batch + 1
        async with Job(topic, ahead, STATE) as again:
            starts = {each.partition.partition: each.stop for each in ahead.places}
            await again.batch()
            assert {each.partition.partition: each.start for each in again.checkpoint.ranges}.items() <= starts.items()

    topic.run(scenario())


def test_a_restart_waits_for_the_session_of_the_run_that_was_killed(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        quick = {"kafka.session.timeout.ms": "1500", "protocol": "cooperative"}
        first = await read_all(topic, **quick)
        topic.fill(3)
        killed = await Job(topic, first.checkpoint, STATE, **quick).__aenter__()
        await killed.until(lambda: killed.owned == 3)
        await killed.member.gate.stop("it is killed", leave=False)
        killed.member.socket.close()
        assert await topic._members() == 1
        async with Job(topic, first.checkpoint, STATE, **quick) as again:
            assert await again.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}

    topic.run(scenario())


# Partitions that are bound to a checkpoint


def test_queries_with_bound_partitions_get_theirs_back_and_those_of_an_absent_one_wait(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, operators=STATE, boundPartitions="1/2") as odd:
            assert await odd.batch() == {0: (0, 10), 2: (0, 10)}
            async with Job(topic, operators=STATE, boundPartitions="2/2") as even:
                task = asyncio.create_task(even.batch())
                await odd.until(task.done)
                assert await task == {1: (0, 10)}
                await even.look()
            topic.fill(3)
            assert await odd.batch() == {0: (10, 11), 2: (10, 11)}
            await odd.look()
            assert await committed(topic) == {0: 11, 1: 10, 2: 11}
            async with Job(topic, even.checkpoint, STATE, boundPartitions="2/2") as even:
                task = asyncio.create_task(even.batch())
                await odd.until(task.done)
                assert await task == {1: (10, 11)}

    topic.run(scenario())


def test_the_group_does_not_decide_where_a_bound_checkpoint_continues(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic, boundPartitions="all")
        topic.fill(3)
        for offset in (2, 11):
            await reset(topic, offset)
            caplog.clear()
            async with Job(topic, first.checkpoint, STATE, boundPartitions="all") as again:
                assert await again.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}
                assert await committed(topic) == {0: 10, 1: 10, 2: 10}
            assert f"is at offset {offset}, which this query did not commit: it continues at 10" in caplog.text

    topic.run(scenario())


def test_a_bound_query_begins_at_its_starting_offsets_where_another_client_has_committed(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topic.fill(30)

    async def scenario() -> None:
        await reset(topic, 4)
        await read_all(topic, boundPartitions="all")
        assert "is at offset 4, which another client has set: a query with bound partitions begins at 0" in caplog.text

    topic.run(scenario())


def test_the_first_of_two_processes_with_one_part_ends_with_a_sentence_and_the_second_reads_on(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, operators=STATE, boundPartitions="1/2") as first:
            await first.batch()
            await first.look()
            topic.fill(3)
            async with Job(topic, first.checkpoint, STATE, boundPartitions="1/2") as second:
                task = asyncio.create_task(second.batch())
                with pytest.raises(SharedState, match="another process was started with boundPartitions=1/2"):
                    await first.until(lambda: False)
                assert await task == {0: (10, 11), 2: (10, 11)}

    topic.run(scenario())


def test_two_divisions_of_one_group_that_share_a_partition_are_named(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, operators=STATE, boundPartitions="1/2") as first:
            await first.batch()
            async with Job(topic, operators=STATE, boundPartitions="1/3") as second:
                task = asyncio.create_task(second.batch())
                await first.until(task.done)
                with pytest.raises(
                    SharedState, match=r"boundPartitions=1/3 of the group .* has partitions of this part"
                ):
                    await task

    topic.run(scenario())


def test_bound_partitions_do_not_go_with_members_of_other_clients(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with plain(topic) as other:
            await assigned(other)
            async with Job(topic, operators=STATE, boundPartitions="1/2") as job:
                with pytest.raises(SharedState, match="has members without boundPartitions"):
                    await job.batch()

    topic.run(scenario())


def test_two_sources_of_a_query_with_bound_partitions_fence_each_other_not(
    topic: Topic, broker: EmbeddedBroker
) -> None:
    """A join of two topics: each source is a member of its own, with an instance id of its own."""
    topic.fill(30)
    with Topic(broker.bootstrap_servers, f"{topic.name}-2", partitions=3) as other:
        other.group_id = topic.group_id
        other.fill(30)

        async def scenario() -> None:
            async with (
                Job(topic, operators=STATE, boundPartitions="1/2") as left,
                Job(other, operators=STATE, boundPartitions="1/2") as right,
            ):
                task = asyncio.create_task(right.batch())
                assert await left.batch() == {0: (0, 10), 2: (0, 10)}
                await left.until(task.done)
                assert await task == {0: (0, 10), 2: (0, 10)}
                await right.look()

        topic.run(scenario())


def test_partitions_that_are_added_belong_to_a_part_by_their_number(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic, boundPartitions="2/2")
        async with Admin(topic.bootstrap_servers) as admin:
            await admin.create_partitions(topic.name, 6)
        async with Job(topic, first.checkpoint, STATE, boundPartitions="2/2") as again:
            await again.until(lambda: again.owned == 3)
            assert {each.partition for each in again.member.gate.owned.partitions} == {1, 3, 5}

    topic.run(scenario())


def test_a_checkpoint_is_not_read_under_another_division(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic, boundPartitions="1/2")
        for part in ("1/3", "all", ""):
            with pytest.raises(SharedState, match="has the state of the part 1/2"):
                await Job(topic, first.checkpoint, STATE, boundPartitions=part).__aenter__()
        with pytest.raises(SharedState, match="belongs to the state"):
            await Job(topic, operators=STATE, boundPartitions="1/2").__aenter__()
        async with Job(topic, operators=STATE, boundPartitions="1/2", onNewCheckpoint="startingOffsets") as anew:
            assert await anew.batch() == {0: (0, 10), 2: (0, 10)}

    topic.run(scenario())


def test_marks_and_checkpoints_carry_the_part(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic, boundPartitions="1/2")
        assert StreamOffset.from_json(first.checkpoint.to_json()) == first.checkpoint
        assert first.checkpoint.bound == "1/2"
        mark = CommitMark(first.checkpoint.query, 0, "1/2")
        async with Admin(topic.bootstrap_servers) as admin:
            found = await admin.group_offsets(topic.group_id)
        assert {CommitMark.parse(entry.metadata) for entry in found.values()} == {mark}

    topic.run(scenario())
