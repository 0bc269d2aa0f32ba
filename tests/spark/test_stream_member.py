"""A streaming query's membership without Spark: which batches it plans, what it commits, and what a rebalance does."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest
from tests.spark.bare_query import Job, committed
from tests.spark.cluster import Topic

from kohort.client import Admin, UnknownTopic
from kohort.client.cluster.list_offsets import list_ends
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.control_socket import (
    report_ended,
    report_finished,
    request_lags,
    socket_path,
    wait_until_left,
)
from kohort.spark.membership.stream_offset import CommitMark, StreamOffset
from kohort.spark.options.source_options import TriggerLimits
from kohort.wire.record_batches import Record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

PROTOCOLS = ["eager", "cooperative", "consumer", "auto"]


async def reset(topic: Topic, offset: int) -> None:
    async with Admin(topic.bootstrap_servers) as admin:
        await admin.reset_offsets(topic.group_id, dict.fromkeys(topic.partitions, offset))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_batch_is_committed_when_the_next_is_asked_for_in_every_protocol(topic: Topic, protocol: str) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol=protocol) as job:
            assert await job.batch() == {0: (0, 10), 1: (0, 10), 2: (0, 10)}
            assert await committed(topic) == {0: 0, 1: 0, 2: 0}
            assert not await job.look()
            assert await committed(topic) == {0: 10, 1: 10, 2: 10}
            assert await topic._members() == 1
        assert await topic._members() == 0

    topic.run(scenario())


def test_a_batch_that_is_asked_for_twice_is_the_same_batch(topic: Topic) -> None:
    topic.fill(9)

    async def scenario() -> None:
        async with Job(topic) as job:
            start = job.checkpoint
            await job.batch()
            topic.fill(9)
            assert await job.member.next(start) == job.checkpoint

    topic.run(scenario())


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_batch_that_the_application_says_is_done_is_committed_before_the_next_is_asked_for(
    topic: Topic, protocol: str
) -> None:
    """So a rebalance does not wait for the next trigger."""
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol=protocol) as first:
            await first.batch()
            end = first.checkpoint.to_json()
            assert await asyncio.to_thread(report_finished, end["reader"], end)
            assert await committed(topic) == {0: 10, 1: 10, 2: 10}
            async with Job(topic, protocol=protocol) as second:
                await second.until(lambda: second.owned > 0)

    topic.run(scenario())


def test_a_program_reads_the_lag_of_a_query_through_its_reader(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
            name, gate = job.checkpoint.to_json()["reader"], job.member.gate
            lags = await asyncio.to_thread(request_lags, name)
            assert {each: lag.oldest for each, lag in lags.items()} == {
                each: lag.oldest for each, lag in (await gate.lags()).items()
            }
            assert [lag.records for lag in lags.values()] == [10, 10, 10], "the batch is not committed yet"
            assert all(
                lag.seconds is not None and lag.oldest is not None and lag.oldest.offset == 0 for lag in lags.values()
            )
            assert not await job.look()
            lags = await asyncio.to_thread(request_lags, name)
            assert [(lag.records, lag.seconds) for lag in lags.values()] == [(0, 0.0)] * 3

            async def refused() -> None:
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "this user may not")

            with monkeypatch.context() as patched:
                patched.setattr(gate, "lags", refused)
                with pytest.raises(KafkaError, match="this user may not"):
                    await asyncio.to_thread(request_lags, name)
        with pytest.raises(KafkaError, match="no reader answers at"):
            request_lags(name)

    topic.run(scenario())


def test_a_batch_stays_open_after_a_failed_commit_and_a_later_call_commits_it(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark is done with it: its rows must not come again because a listener was the first to say so."""
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
            end, gate = job.checkpoint.to_json(), job.member.gate

            async def unreachable(*_: object) -> None:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

            with monkeypatch.context() as patched:
                patched.setattr(gate, "commit", unreachable)
                assert not await asyncio.to_thread(report_finished, end["reader"], end)
                with pytest.raises(KafkaError, match="coordinator"):
                    await job.look()
            assert not await job.look()
            assert await committed(topic) == {0: 10, 1: 10, 2: 10}

    topic.run(scenario())


def test_a_reader_that_the_application_says_has_ended_leaves_without_a_commit(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
            assert await asyncio.to_thread(report_ended, job.checkpoint.reader)
            assert (await topic._members(), await committed(topic)) == (0, {0: 0, 1: 0, 2: 0})
            assert not socket_path(job.checkpoint.reader).exists()
            assert not await asyncio.to_thread(report_ended, job.checkpoint.reader)

    topic.run(scenario())


def test_an_application_can_wait_until_its_reader_has_left(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol="eager") as job:
            await job.batch()
            leaving = asyncio.create_task(job.member.leave("the query was stopped"))
            assert await asyncio.to_thread(wait_until_left, job.checkpoint.reader)
            assert await topic._members() == 0
            await leaving

    topic.run(scenario())


def test_who_asks_a_member_to_leave_that_is_leaving_waits_until_it_has_left(topic: Topic) -> None:
    """Spark stops a reader and ends its process a moment later: the signal must not cut the leave short."""

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.until(lambda: job.owned == 3)
            first = asyncio.create_task(job.member.leave("the query was stopped"))
            await asyncio.create_task(job.member.leave("the query has ended"))
            assert first.done()
            assert await topic._members() == 0

    topic.run(scenario())


def test_a_reader_that_starts_removes_the_sockets_of_those_that_were_killed(topic: Topic) -> None:
    async def scenario() -> None:
        async with Job(topic) as job:
            living, dead, young = socket_path(job.member.socket.name), socket_path("dead"), socket_path("young")
            for path in (dead, young):
                with socket.socket(socket.AF_UNIX) as killed:
                    killed.bind(str(path))
            for path in (living, dead):
                os.utime(path, (0, 0))
            async with Job(topic):
                assert [path.exists() for path in (living, dead, young)] == [True, False, True]
            young.unlink()

    topic.run(scenario())


def test_batches_are_as_large_as_the_options_allow(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, maxOffsetsPerTrigger="12") as job:
            sizes = [sum(stop - start for start, stop in (await job.batch()).values()) for _ in range(3)]
            assert sizes == [12, 12, 6]
            topic.fill(30)
            assert len((await job.member.next(job.checkpoint, TriggerLimits())).ranges) == 3

    topic.run(scenario())


def test_batches_are_as_heavy_as_the_options_allow(topic: Topic) -> None:
    for _ in range(10):
        topic.produce(0, [Record(0, 0, None, bytes(50_000))])

    async def scenario() -> None:
        async with Job(topic, maxBytesPerTrigger="210000") as job:
            sizes = [sum(stop - start for start, stop in (await job.batch()).values()) for _ in range(3)]
            assert sizes == [4, 4, 2]

    topic.run(scenario())


def test_few_offsets_are_left_for_later_until_there_are_enough(topic: Topic) -> None:
    topic.fill(6)

    async def scenario() -> None:
        async with Job(topic, minOffsetsPerTrigger="6") as job:
            await job.batch()  # the first look waits long, the others do not
            topic.fill(3)
            assert not await job.look()
            topic.fill(3)
            assert await job.batch() == {0: (2, 4), 1: (2, 4), 2: (2, 4)}

    topic.run(scenario())


def test_the_first_batch_does_not_wait_for_as_many_as_the_others(topic: Topic) -> None:
    """As in Spark's own source: the longest delay is counted from the last batch, and there was none."""
    topic.fill(3)

    async def scenario() -> None:
        async with Job(topic, minOffsetsPerTrigger="6") as job:
            assert await job.look()

    topic.run(scenario())


def test_available_now_ends_where_the_topics_ended_with_all_committed_and_the_member_gone(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, maxOffsetsPerTrigger="20") as job:
            await job.member.set_targets()
            topic.fill(30)
            sizes = []
            while await job.look():
                sizes.append(sum(each.size for each in job.checkpoint.ranges))
            assert sizes == [20, 10]
            assert await committed(topic) == {0: 10, 1: 10, 2: 10}
            assert await topic._members() == 0
            assert not await job.look()

    topic.run(scenario())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_revocation_waits_for_the_batch_and_its_commit(topic: Topic, protocol: str) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol=protocol) as first:
            assert len(await first.batch()) == 3
            async with Job(topic, protocol=protocol) as second:
                begun = asyncio.create_task(second.batch())
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(begun), 0.5)
                assert await committed(topic) == {0: 0, 1: 0, 2: 0}
                await first.until(lambda: first.owned < 3)
                topic.fill(30)
                taken = await begun
                assert all(start == 10 for start, _ in taken.values())

    topic.run(scenario())


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_batches_on_what_stays_go_on_while_another_is_waited_for(topic: Topic, protocol: str) -> None:
    """The first job's revocation is held up by its batch; the second one's batches are not held up by the first."""
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol=protocol) as first, Job(topic, protocol=protocol) as second:
            asked = asyncio.create_task(second.until(lambda: 0 < second.owned < 3))
            await first.until(lambda: asked.done() and 0 < first.owned < 3)
            await asked
            if first.owned < second.owned:  # both were in the first round: the one with two partitions gives one up
                first, second = second, first
            topic.fill(300)
            held = await first.batch()
            async with Job(topic, protocol=protocol) as third:
                wanted = asyncio.create_task(third.batch())
                for _ in range(3):
                    await second.batch()
                    topic.fill(300)
                found = await committed(topic)
                assert {each: found[each] for each in held} == {each: start for each, (start, _) in held.items()}
                assert not wanted.done()
                wanted.cancel()

    topic.run(scenario())


def test_a_lost_batch_is_not_committed_and_its_rows_are_read_again(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol="cooperative") as job:
            before = await job.batch()
            topic.remove_member(job.member.gate.member.member_id)
            assert await job.batch() == before
            await job.look()
            assert await committed(topic) == {0: 10, 1: 10, 2: 10}

    topic.run(scenario())


def test_what_stayed_is_committed_where_only_some_of_a_batch_is_lost(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
            await job.member.gate.barrier.on_partitions_lost(frozenset({topic.partitions[1]}))
            await job.look()
            assert await committed(topic) == {0: 10, 1: 0, 2: 10}

    topic.run(scenario())


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_batch_that_was_done_and_not_committed_is_not_read_again_after_a_kill(topic: Topic, protocol: str) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol=protocol) as job:
            await job.batch()
        assert await committed(topic) == {0: 0, 1: 0, 2: 0}
        topic.fill(3)
        async with Job(topic, job.checkpoint, protocol=protocol) as again:
            assert await again.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}
            assert await committed(topic) == {0: 10, 1: 10, 2: 10}

    topic.run(scenario())


def test_the_group_is_right_where_another_job_has_read_on(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
        topic.fill(30)
        async with Job(topic) as other:
            assert (await other.batch())[0] == (0, 20)
            await other.look()
        topic.fill(3)
        async with Job(topic, job.checkpoint) as again:
            assert (await again.batch())[0] == (20, 21)

    topic.run(scenario())


def test_offsets_that_were_reset_end_the_query_unless_on_offset_mismatch_is_set(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
            await job.look()
        await reset(topic, 4)
        topic.fill(3)
        async with Job(topic, job.checkpoint) as refused:
            with pytest.raises(KafkaError, match=r"is at offset 4, which no Spark job.*last batch.* is 0 to 10"):
                await refused.batch()
        async with Job(topic, job.checkpoint, onOffsetMismatch="group") as obedient:
            assert (await obedient.batch())[0] == (4, 11)
        await reset(topic, 4)
        async with Job(topic, job.checkpoint, onOffsetMismatch="checkpoint") as stubborn:
            assert (await stubborn.batch())[0] == (10, 11)

    topic.run(scenario())


def test_a_checkpoint_of_another_group_ends_the_query_with_both_names(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        other = StreamOffset("another", 3, 4, StreamOffset.from_json(_checkpoint(topic)).places)
        async with Job(topic, other) as job:
            with pytest.raises(KafkaError, match=r"of the group 'another', and group\.id is"):
                await job.batch()
        async with Job(topic, other, onOffsetMismatch="group", startingOffsets="latest") as obedient:
            assert not await obedient.look()
            topic.fill(3)
            assert await obedient.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}

    topic.run(scenario())


def _checkpoint(topic: Topic) -> dict[str, object]:
    return {
        "version": 1,
        "group": topic.group_id,
        "batch": 0,
        "generation": 1,
        "from": {},
        "topics": {topic.name: {"0": 5}},
    }


def test_every_commit_of_a_job_bears_its_mark(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic) as job:
            await job.batch()
            await job.look()
        async with Admin(topic.bootstrap_servers) as admin:
            found = await admin.group_offsets(topic.group_id)
        assert {entry.metadata for entry in found.values()} == {CommitMark(job.checkpoint.query, 0).text}

    topic.run(scenario())


def test_a_query_that_starts_at_the_latest_offsets_and_finds_nothing_starts_there_again(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, startingOffsets="latest") as job:
            assert not await job.look()
        topic.fill(3)
        async with Job(topic, startingOffsets="latest") as again:
            assert await again.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}

    topic.run(scenario())


def test_a_partition_that_comes_later_is_read_from_its_first_record_on(topic: Topic) -> None:
    async def scenario() -> None:
        async with Job(topic, startingOffsets="latest", protocol="cooperative") as job:
            assert not await job.look()
            async with Admin(topic.bootstrap_servers) as admin:
                await admin.create_partitions(topic.name, 4)
            topic.partitions.append(TopicPartition(topic.name, 3))
            topic.fill(4)
            job.member.gate._cluster.request_refresh()
            read = await job.batch()
            while 3 not in read:
                read |= await job.batch()
            assert read[3] == (0, 1)

    topic.run(scenario())


def test_a_partition_that_came_while_the_job_was_down_is_read_from_its_first_record_on(topic: Topic) -> None:
    async def scenario() -> None:
        async with Job(topic, startingOffsets="latest") as job:
            assert not await job.look()
            topic.fill(3)
            await job.batch()
        async with Admin(topic.bootstrap_servers) as admin:
            await admin.create_partitions(topic.name, 4)
        topic.partitions.append(TopicPartition(topic.name, 3))
        topic.fill(4)
        async with Job(topic, job.checkpoint, startingOffsets="latest") as again:
            assert (await again.batch())[3] == (0, 1)

    topic.run(scenario())


def test_starting_offsets_are_for_partitions_that_the_group_has_none_of(topic: Topic) -> None:
    topic.fill(30)
    chosen = f'{{"{topic.name}": {{"0": 3, "1": -2, "2": -1}}}}'

    async def scenario() -> None:
        async with Job(topic, startingOffsets=chosen) as job:
            assert await job.batch() == {0: (3, 10), 1: (0, 10)}
            await job.look()
        topic.fill(3)
        async with Job(topic, startingOffsets=chosen, onNewCheckpoint="group") as again:
            assert await again.batch() == {0: (10, 11), 1: (10, 11), 2: (10, 11)}

    topic.run(scenario())


@pytest.mark.parametrize("fails", ["true", "false"])
def test_records_that_come_while_the_latest_offsets_are_looked_up_are_no_loss(
    topic: Topic, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.fill(30)

    async def scenario() -> None:
        with monkeypatch.context() as busy:

            async def look_and_write(*asked: Any, **how: Any) -> dict[TopicPartition, int]:
                found = await list_ends(*asked, **how)
                topic.fill(3)
                return found

            busy.setattr("kohort.spark.membership.starting_offsets.list_ends", look_and_write)
            async with Job(topic, startingOffsets="latest", failOnDataLoss=fails) as job:
                assert not await job.look()
                topic.fill(3)
                assert await job.batch() == {0: (12, 13), 1: (12, 13), 2: (12, 13)}

    topic.run(scenario())


def test_an_offset_to_start_at_that_is_not_there_is_named_with_its_option(topic: Topic) -> None:
    topic.fill(30)
    chosen = f'{{"{topic.name}": {{"0": 500, "1": -2, "2": -1}}}}'

    async def scenario() -> None:
        async with Job(topic, startingOffsets=chosen) as job:
            with pytest.raises(KafkaError, match=rf"startingOffsets is 500 for {topic.name}-0, the log has 0 to 10"):
                await job.batch()
        async with Job(topic, startingOffsets=chosen, failOnDataLoss="false") as job:
            assert await job.batch() == {0: (0, 10), 1: (0, 10)}

    topic.run(scenario())


def test_a_pattern_finds_topics_also_those_that_come_later(topic: Topic) -> None:
    topic.fill(3)

    async def scenario() -> None:
        async with Job(topic, subscribePattern=f"{topic.name}.*", subscribe="") as job:
            assert len(await job.batch()) == 3
            async with Admin(topic.bootstrap_servers) as admin:
                await admin.create_topic(f"{topic.name}-new", partitions=1)
            job.member.gate._cluster.request_refresh()
            await job.until(lambda: job.owned == 4)

    topic.run(scenario())


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_misspelled_topic_ends_the_query_with_its_name(topic: Topic, fails: str) -> None:
    async def scenario() -> None:
        async def read() -> None:
            async with Job(topic, subscribe=f"{topic.name},no-such-topic", failOnDataLoss=fails) as job:
                await job.member.set_targets()
                await job.batch()

        with pytest.raises(UnknownTopic, match="'no-such-topic' does not exist: create it, or check its name"):
            await read()

    topic.run(scenario())


def test_a_topic_that_does_not_exist_is_created_where_the_options_allow_it(topic: Topic) -> None:
    async def scenario() -> None:
        new = f"{topic.name}-new"
        async with Job(topic, subscribe=new, **{"kafka.allow.auto.create.topics": "true"}) as job:
            await job.until(lambda: job.owned > 0)

    topic.run(scenario())


def test_two_jobs_share_by_their_cores(topic: Topic) -> None:
    async def scenario() -> None:
        async with (
            Job(topic, assignor="capacity", **{"assignor.weight": "1"}) as small,
            Job(topic, assignor="capacity", **{"assignor.weight": "2"}) as large,
        ):
            asked = asyncio.create_task(large.until(lambda: large.owned == 2))
            await small.until(asked.done)
            await asked
            assert small.owned == 1

    topic.run(scenario())


def test_a_neighbour_of_another_client_shares_the_topic(topic: Topic) -> None:
    topic.fill(30)

    async def scenario() -> None:
        async with Job(topic, protocol="eager") as job:
            await job.batch()
            neighbour = await topic._join()
            await job.until(lambda: 0 < job.owned < 3 and job.owned + len(neighbour.assignment) == 3)

    topic.run(scenario())
