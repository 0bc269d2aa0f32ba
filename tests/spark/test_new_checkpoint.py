"""A streaming query whose checkpoint is new, in a group that has commits."""

from __future__ import annotations

import pytest
from tests.spark.bare_query import Job, committed
from tests.spark.cluster import Topic

from kohort.client import Admin
from kohort.model.errors import KafkaError
from kohort.spark.membership.stream_offset import StreamOffset

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


async def read_all(topic: Topic, **options: str) -> Job:
    async with Job(topic, **options) as job:
        await job.batch()
        await job.look()
    return job


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_query_whose_checkpoint_was_deleted_fails_and_names_both_ways(topic: Topic, protocol: str) -> None:
    topic.fill(30)

    async def scenario() -> None:
        await read_all(topic, protocol=protocol)
        topic.fill(3)
        async with Job(topic, protocol=protocol) as job:
            with pytest.raises(KafkaError, match=r"onNewCheckpoint to group .* or to startingOffsets .*reset-offsets"):
                await job.batch()
        assert await committed(topic) == {0: 10, 1: 10, 2: 10}
        async with Job(topic, protocol=protocol, onNewCheckpoint="group") as obedient:
            assert await obedient.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}
        async with Job(topic, protocol=protocol, onNewCheckpoint="startingOffsets") as anew:
            assert await anew.batch() == {0: (0, 11), 1: (0, 11), 2: (0, 11)}
            assert await committed(topic) == {0: 0, 1: 0, 2: 0}

    topic.run(scenario())


def test_a_partition_that_was_added_before_the_new_checkpoint_is_read_whole(topic: Topic) -> None:
    """The group had begun: "latest" is for what existed then."""
    topic.fill(30)
    topic.run(read_all(topic))
    topic.grow(4)

    async def scenario() -> None:
        async with Job(topic, startingOffsets="latest", onNewCheckpoint="group") as job:
            assert await job.batch() == {3: (0, 4)}

    topic.run(scenario())


def test_a_group_whose_offsets_were_reset_is_begun_there_by_a_new_checkpoint(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        await read_all(topic)
        async with Admin(topic.bootstrap_servers) as admin:
            await admin.reset_offsets(topic.group_id, dict.fromkeys(topic.partitions, 0))
        async with Job(topic) as job:
            assert await job.batch() == {0: (0, 10), 1: (0, 10), 2: (0, 10)}

    topic.run(scenario())


def test_a_second_job_joins_a_group_that_another_query_advances(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as first:
            await first.batch()
            await first.look()
            async with Job(topic) as second:
                asked = second.until(lambda: second.owned > 0)
                task = topic.thread._loop.create_task(asked)
                await first.until(task.done)
                await task
        assert "onNewCheckpoint=startingOffsets" in caplog.text

    topic.run(scenario())


def test_a_query_of_other_topics_in_the_same_group_does_not_speak_for_the_commits(topic: Topic) -> None:
    """Two flows of a pipeline in one group: a full refresh makes both checkpoints new."""
    topic.fill(30)

    async def scenario() -> None:
        with Topic(topic.bootstrap_servers, f"{topic.name}-other", partitions=1) as other:
            other.fill(1)
            await read_all(topic)
            async with Job(topic, subscribe=other.name) as running:
                await running.batch()
                await running.look()
                job = Job(topic)
                async with job:
                    task = topic.thread._loop.create_task(job.batch())
                    await running.until(task.done)
                    with pytest.raises(KafkaError, match="onNewCheckpoint"):
                        await task

    topic.run(scenario())


def test_a_query_that_finished_no_batch_is_begun_again_where_it_began(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
        async with Job(topic) as again:
            assert await again.batch() == {0: (0, 10), 1: (0, 10), 2: (0, 10)}

    topic.run(scenario())


def test_a_query_keeps_its_name_through_restarts(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        first = await read_all(topic)
        topic.fill(3)
        end = StreamOffset.from_json(first.checkpoint.to_json())
        async with Job(topic, end) as again:
            await again.batch()
        assert first.checkpoint.query
        assert again.checkpoint.query == first.checkpoint.query

    topic.run(scenario())
