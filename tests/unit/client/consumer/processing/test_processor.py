"""What becomes of calls of the handler when their partitions are released, or lost."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer_metrics import ConsumerMetrics
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.finished_offsets import metadata_of
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.processing.process_settings import ProcessSettings
from kohort.client.consumer.processing.processor import Processor
from kohort.client.record import Record
from kohort.client.synchronization import BroadcastEvent
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.ids import TopicPartition
from kohort.wire.visible_batches import VisibleBatches

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def one_record(partition: TopicPartition) -> Batch[Any, Any]:
    record: Record[Any, Any] = Record(*partition, 0, 0, b"k", b"v")
    return Batch(partition, VisibleBatches([], None, 1, None), first_offset=0, high_watermark=1, records=[record])


async def take_all() -> bool:
    return True


def processor_of(settings: ProcessSettings) -> tuple[Processor, PartitionTable, BroadcastEvent]:
    """Return a processor of two partitions, their table, and the event that both share."""
    table, changed = PartitionTable(), BroadcastEvent()
    table.add([T0, T1])
    config = ConsumerConfig(bootstrap_servers="h:9092", group_id="g")
    metrics = ConsumerMetrics(RebalanceMetrics(300_000))
    return Processor(settings, table, changed, config, metrics, take_all, {"gone"}.__contains__), table, changed


def test_a_call_that_is_cancelled_for_one_partition_is_made_again_for_the_records_of_the_others() -> None:
    calls: list[list[int]] = []

    async def scenario() -> None:
        began, again = asyncio.Event(), asyncio.Event()

        async def handler(records: list[Record[Any, Any]]) -> None:
            calls.append([record.partition for record in records])
            if len(calls) == 1:
                began.set()
                await asyncio.Event().wait()
            again.set()

        settings = ProcessSettings(handler=handler, batch=2, revocation_timeout_ms=0)
        processor, table, _ = processor_of(settings)
        async with asyncio.timeout(10):
            processor.add(one_record(T0))
            processor.add(one_record(T1))
            await began.wait()
            await processor.release([T0])
            await again.wait()
        finished = [table[each].finished for each in (T0, T1)]
        await processor.stop()
        assert [each is not None and each.unfinished for each in finished] == [1, 0]

    asyncio.run(scenario())
    assert calls == [[0, 1], [1]]


def test_a_member_that_is_fenced_while_its_partitions_are_revoked_waits_for_their_calls_no_longer() -> None:
    async def scenario() -> None:
        began, is_fenced = asyncio.Event(), False

        async def handler(_: Record[Any, Any]) -> None:
            began.set()
            await asyncio.Event().wait()

        processor, _, changed = processor_of(ProcessSettings(handler=handler, revocation_timeout_ms=3_600_000))
        async with asyncio.timeout(10):
            processor.add(one_record(T0))
            await began.wait()
            release = asyncio.create_task(processor.release([T0], is_lost=lambda: is_fenced))
            await asyncio.sleep(0)
            is_fenced = True
            changed.notify()
            await release
        assert not processor.running
        await processor.stop()

    asyncio.run(scenario())


def test_a_consumer_that_stops_waits_for_calls_until_its_own_deadline() -> None:
    async def scenario() -> None:
        began = asyncio.Event()

        async def handler(_: Record[Any, Any]) -> None:
            began.set()
            await asyncio.Event().wait()

        processor, _, changed = processor_of(ProcessSettings(handler=handler, revocation_timeout_ms=3_600_000))
        async with asyncio.timeout(10):
            processor.add(one_record(T0))
            await began.wait()
            release = asyncio.create_task(processor.release([T0]))
            await asyncio.sleep(0)
            processor.deadline_s = asyncio.get_running_loop().time()  # a revocation waits when `stop` is called
            changed.notify()
            await release
        assert not processor.running
        await processor.stop()

    asyncio.run(scenario())


def test_what_a_former_owner_finished_is_known_though_offsets_without_records_come_first() -> None:
    async def scenario() -> None:
        processor, table, _ = processor_of(ProcessSettings(handler=print))
        state = table[T0]
        state.seek(10)
        state.committed, state.committed_metadata = 10, metadata_of(10, [range(12, 14)])
        state.buffer_batch(Batch(T0, VisibleBatches([], None, 11), first_offset=10, high_watermark=14))
        assert processor.room()
        assert state.pop_batch(None) is None
        assert state.finished is not None
        assert [*state.finished.finished()] == [range(12, 14)]
        await processor.stop()

    asyncio.run(scenario())
