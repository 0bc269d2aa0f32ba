"""How far a group is behind on any broker: timestamps, transactions, deleted records, topics that are other ones."""

from __future__ import annotations

import asyncio
import time

from tests.integration.scenario_book import PATIENCE_MS, create, produce, scenario

from kohort.client import Admin, Consumer, Lag, LagReason, OffsetAndMetadata, Producer
from kohort.model.ids import TopicPartition

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def lag_of(
    admin: Admin,
    only: TopicPartition,
    offset: OffsetAndMetadata | int | None = None,
    isolation: str = "read_uncommitted",
) -> Lag:
    """Commit an offset for the group of the topic's name, and return its lag."""
    if offset is not None:
        await admin.reset_offsets(only.topic, {only: offset})
    return (await admin.lag(only.topic, [only], isolation_level=isolation))[only]


async def produce_at(bootstrap: str, name: str, *times_ms: int) -> None:
    async with Producer(bootstrap) as producer:
        for at_ms in times_ms:
            await (await producer.send(name, b"v", partition=0, timestamp_ms=at_ms))


@scenario
async def lag_in_seconds_is_the_age_of_the_oldest_record_that_is_not_committed(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    only, began_ms = TopicPartition(name, 0), now_ms()
    times_ms = [began_ms - 3 * HOUR_MS, began_ms - 2 * HOUR_MS, began_ms - 1000, began_ms + HOUR_MS // 2]
    await produce_at(bootstrap, name, *times_ms)
    async with Admin(bootstrap) as admin:
        assert (await lag_of(admin, only)).reason is LagReason.NOT_COMMITTED
        before_ms = now_ms()
        behind = await lag_of(admin, only, 1)
        assert behind.seconds is not None
        assert before_ms <= times_ms[1] + behind.seconds * 1000 <= now_ms()
        assert (behind.records, behind.is_bound, behind.end, behind.reason) == (3, False, 4, None)
        ahead = await lag_of(admin, only, 3)
        assert (ahead.records, ahead.seconds, ahead.reason) == (1, None, LagReason.CLOCK_AHEAD)
        done = await lag_of(admin, only, 4)
        assert (done.records, done.seconds, done.reason) == (0, 0, None)
        assert await admin.lag(f"{name}-without-offsets") == {}


@scenario
async def lag_in_seconds_is_by_the_brokers_clock_where_that_stamps_records(bootstrap: str, name: str) -> None:
    only = TopicPartition(name, 0)
    async with Admin(bootstrap) as admin:
        await admin.create_topic(name, 1, configs={"message.timestamp.type": "LogAppendTime"})
        before_ms = now_ms()
        await produce_at(bootstrap, name, before_ms - 2 * HOUR_MS, before_ms - HOUR_MS)
        after_ms = now_ms()
        lag = await lag_of(admin, only, 0)
        assert lag.oldest is not None
        assert lag.oldest.is_append_time
        assert before_ms <= lag.oldest.timestamp_ms <= after_ms
        assert lag.records == 2


@scenario
async def markers_and_aborted_records_are_no_lag(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    only = TopicPartition(name, 0)
    async with Producer(bootstrap, transactional_id=name) as producer, Admin(bootstrap) as admin:

        async def records(offset: int) -> list[int | None]:
            both = [await lag_of(admin, only, offset, each) for each in ("read_uncommitted", "read_committed")]
            assert all(lag.records or lag.seconds == 0 for lag in both)
            return [lag.records for lag in both]

        async with producer.transaction():
            await (await producer.send(name, b"committed", partition=0))
        # Kafka answers the end of a transaction before it writes the markers.
        async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as reader:
            reader.assign([only])
            reader.seek(only, 0)
            while await reader.position(only) < 2:
                await reader.poll(50)
        assert await records(0) == [1, 1]
        assert await records(1) == [0, 0], "what is left is the marker"
        async with producer.transaction() as transaction:
            await (await producer.send(name, b"open", partition=0))
            assert await records(2) == [1, 0]
            await transaction.abort()
        assert await records(2) == [1, 0]


@scenario
async def records_that_were_deleted_before_they_were_read_are_named(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    only, began_ms = TopicPartition(name, 0), now_ms()
    await produce_at(bootstrap, name, began_ms - 2 * HOUR_MS, began_ms - HOUR_MS, began_ms - 60_000)
    async with Admin(bootstrap) as admin:
        assert (await lag_of(admin, only, 0)).records == 3
        await admin.delete_records({only: 2})
        lag = await lag_of(admin, only)
        assert (lag.records, lag.deleted, lag.start, lag.reason) == (1, 2, 2, None)
        assert lag.seconds is not None
        assert 60 <= lag.seconds < HOUR_MS / 1000


@scenario
async def offsets_that_this_log_cannot_have_are_named(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 5)
    only = TopicPartition(name, 0)
    async with Admin(bootstrap) as admin:
        assert (await lag_of(admin, only, 500)).reason is LagReason.BEYOND_END
        other_epoch = OffsetAndMetadata(3, "", leader_epoch=9)
        assert (await lag_of(admin, only, other_epoch)).reason is LagReason.LOG_TRUNCATED
        same_epoch = OffsetAndMetadata(3, "", leader_epoch=0)
        assert (await lag_of(admin, only, same_epoch)).records == 2


@scenario
async def a_topic_that_is_deleted_and_created_again_has_no_lag_of_the_old_one(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 5)
    only = TopicPartition(name, 0)
    async with Admin(bootstrap) as admin:
        assert (await lag_of(admin, only, 3)).records == 2
        await admin.delete_topic(name)
        gone = await lag_of(admin, only)
        assert (gone.records, gone.seconds, gone.reason) == (None, None, LagReason.TOPIC_DELETED)
        await admin.create_topic(name, 1)
        await produce(bootstrap, name, 5)
        again = await lag_of(admin, only)
        assert again.records is None
        assert again.reason in (LagReason.NOT_COMMITTED, LagReason.TOPIC_RECREATED)


@scenario
async def a_consumer_knows_its_lag_in_seconds_without_a_request(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    only, began_ms = TopicPartition(name, 0), now_ms()
    times_ms = [began_ms - 2 * HOUR_MS, began_ms - HOUR_MS]
    await produce_at(bootstrap, name, *times_ms)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([only])
        async with asyncio.timeout(PATIENCE_MS / 1000):
            assert len((await consumer.poll(PATIENCE_MS, max_records=1))[0]) == 1
        lag = consumer.lag()[only]
        assert lag.seconds is not None
        assert (lag.records, lag.reason) == (1, None)
        assert times_ms[1] + lag.seconds * 1000 <= now_ms()
        assert lag.oldest is not None
        assert lag.oldest.timestamp_ms == times_ms[1]
        assert await consumer.poll(PATIENCE_MS)
        assert (consumer.lag()[only].records, consumer.lag()[only].seconds) == (0, 0)
