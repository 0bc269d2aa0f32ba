"""What a streaming query does where records, or their topics, are gone before it has read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.spark.bare_query import Job, committed
from tests.spark.cluster import Topic

from kohort.client import Admin
from kohort.model.errors import KafkaError
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.source.stream_reader import StreamReader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_topic_that_is_made_anew_while_it_is_read_is_a_loss_and_then_read_from_its_first_record_on(
    topic: Topic, fails: str, start: str
) -> None:
    async def scenario() -> None:
        async with Job(topic, startingOffsets=start, failOnDataLoss=fails, protocol="cooperative") as job:
            assert not await job.look()
            topic.fill(30)
            await job.batch()
            assert not await job.look()
            await delete(topic)
            await topic._create()
            topic.fill(9)
            if fails == "false":
                assert await job.batch() == {0: (0, 3), 1: (0, 3), 2: (0, 3)}
            else:
                with pytest.raises(KafkaError, match="failOnDataLoss"):
                    await job.batch()

    topic.run(scenario())


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_topic_that_was_made_anew_with_more_than_there_was_is_known_by_its_id(
    topic: Topic, fails: str, is_running: bool
) -> None:
    """Its offsets alone look like those of the old one, and its first rows would be skipped."""
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, failOnDataLoss=fails, protocol="cooperative") as job:
            await job.batch()
            await job.look()
            if is_running:
                await replace(topic)
                await expect_a_loss(job, fails)
        if not is_running:
            await replace(topic)
            async with Job(topic, job.checkpoint, failOnDataLoss=fails, protocol="cooperative") as again:
                await expect_a_loss(again, fails)

    topic.run(scenario())


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_that_is_read_from_a_topic_made_anew_meanwhile_has_none_of_its_rows(topic: Topic, fails: str) -> None:
    topic.fill(30)

    async def plan() -> Job:
        async with Job(topic, failOnDataLoss=fails) as job:
            await job.batch()
            await replace(topic)
        return job

    job = topic.run(plan())
    reader = StreamReader(job.options, 2)
    tasks = reader.partitions(StreamOffset(topic.group_id).to_json(), job.checkpoint.to_json())
    rows = (batch.num_rows for task in tasks for batch in reader.read(task))
    if fails == "false":
        assert list(rows) == []
    else:
        with pytest.raises(KafkaError, match=r"was deleted and created again.*failOnDataLoss=false"):
            list(rows)


@pytest.mark.parametrize("bound", ["", "all"])
def test_a_query_with_state_is_advised_a_new_checkpoint_which_counts_the_new_topic_alone(
    topic: Topic, bound: str
) -> None:
    """`failOnDataLoss=false` would add the rows of the new topic to the counts of the old one."""
    topic.fill(30)
    state = frozenset({"Aggregate"})

    async def scenario() -> None:
        async with Job(topic, operators=state, boundPartitions=bound) as job:
            await job.batch()
            await job.look()
        await replace(topic)
        async with Job(topic, job.checkpoint, state, boundPartitions=bound) as again:
            with pytest.raises(KafkaError, match=r"begin with a new checkpoint and onNewCheckpoint=startingOffsets"):
                await again.batch()
        async with Job(topic, operators=state, boundPartitions=bound, onNewCheckpoint="startingOffsets") as anew:
            assert await anew.batch() == {0: (0, 20), 1: (0, 20), 2: (0, 20)}

    topic.run(scenario())


async def replace(topic: Topic) -> None:
    await delete(topic)
    await topic._create()
    topic.fill(60)


async def expect_a_loss(job: Job, fails: str) -> None:
    if fails == "false":
        assert await job.batch() == {0: (0, 20), 1: (0, 20), 2: (0, 20)}
    else:
        with pytest.raises(KafkaError, match=r"deleted and created again, and failOnDataLoss is true"):
            await job.batch()


def test_available_now_ends_where_a_topic_was_made_anew_with_less_than_there_was(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, maxOffsetsPerTrigger="15", failOnDataLoss="false", protocol="cooperative") as job:
            await job.member.set_targets()
            assert await job.batch() == {0: (0, 5), 1: (0, 5), 2: (0, 5)}
            await delete(topic)
            await topic._create()
            topic.fill(9)
            assert await job.batch() == {0: (0, 3), 1: (0, 3), 2: (0, 3)}
            assert not await asyncio.wait_for(job.look(), 30)
            assert await topic._members() == 0

    topic.run(scenario())


@pytest.mark.parametrize("fails", ["true", "false"])
def test_offsets_that_retention_has_overtaken_end_the_query_or_are_skipped(topic: Topic, fails: str) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
        async with Admin(topic.bootstrap_servers) as admin:
            await admin.delete_records(dict.fromkeys(topic.partitions, 7))
        async with Job(topic, failOnDataLoss=fails) as again:
            if fails == "false":
                assert (await again.batch())[0] == (7, 10)
            else:
                with pytest.raises(KafkaError, match=r"has the committed offset 0, the log has 7 to 10.*failOnData"):
                    await again.batch()

    topic.run(scenario())


@pytest.fixture
def doomed(topic: Topic) -> Iterator[Topic]:
    """A second topic, whose records come in the first one's group."""
    with Topic(topic.bootstrap_servers, f"{topic.name}-doomed", partitions=2) as made:
        made.fill(4)
        yield made


async def delete(topic: Topic) -> None:
    async with Admin(topic.bootstrap_servers) as admin:
        await admin.delete_topic(topic.name)


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_query_that_bears_losses_reads_the_others_on_when_a_topic_is_deleted(
    topic: Topic, doomed: Topic, protocol: str
) -> None:
    topic.fill(3)

    async def scenario() -> None:
        both = f"{topic.name},{doomed.name}"
        async with Job(topic, subscribe=both, protocol=protocol, failOnDataLoss="false") as job:
            assert await job.batch()
            await delete(doomed)
            topic.fill(3)
            while topic.partitions[0] not in [each.partition for each in job.checkpoint.ranges if each.start == 1]:
                await job.batch()
            await job.until(lambda: job.owned == 3)
            assert not await job.look()
            assert await committed(topic) == {0: 2, 1: 2, 2: 2}

    topic.run(scenario())


def test_a_query_that_bears_no_losses_ends_with_the_name_of_a_topic_that_was_deleted(
    topic: Topic, doomed: Topic
) -> None:
    async def scenario() -> None:
        async with Job(topic, subscribe=f"{topic.name},{doomed.name}") as job:
            assert await job.batch()
            await delete(doomed)
            with pytest.raises(KafkaError, match=rf"{doomed.name}-0, .*the topic was deleted.* failOnDataLoss=false"):
                await job.batch()

    topic.run(scenario())


def test_a_query_that_fails_on_data_loss_ends_also_if_the_group_learns_first_that_a_topic_was_deleted(
    topic: Topic, doomed: Topic
) -> None:
    """Its partitions are lost to the member before it looks up their ends."""

    async def scenario() -> None:
        async with Job(topic, subscribe=f"{topic.name},{doomed.name}", protocol="cooperative") as job:
            assert await job.batch()
            await delete(doomed)
            job.member.gate._cluster.request_refresh()
            await job.member.gate.member.wait_for(lambda: job.owned == 3, timeout_ms=30_000)
            with pytest.raises(KafkaError, match=rf"{doomed.name}-0, .*the topic was deleted.* failOnDataLoss=false"):
                await job.batch()

    topic.run(scenario())
