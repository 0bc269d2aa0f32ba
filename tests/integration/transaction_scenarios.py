"""What transactions promise, on any broker and in both of their versions (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from tests.integration.scenario_book import PATIENCE_MS, create, poll_until, produce, scenario

from kohort import sync
from kohort.client import (
    Admin,
    Consumer,
    Delivery,
    GroupMetadata,
    OffsetAndMetadata,
    Producer,
    ProducerFenced,
    RebalanceListener,
    TransactionAbortable,
    TransactionAborted,
    read_ranges,
)
from kohort.client.cluster.offset_specs import READ_COMMITTED, READ_UNCOMMITTED
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import iter_batches


def member(bootstrap: str, topic: str, group: str, listener: RebalanceListener | None = None) -> Consumer:
    return Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        heartbeat_interval_ms=100,
        listener=listener,
    )


async def committed(bootstrap: str, topic: str, isolation: str = "read_committed") -> Counter[bytes]:
    """Return the values of a topic's records up to its end, which the markers of ended transactions may reach late."""
    values: Counter[bytes] = Counter()
    async with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level=isolation,  # type: ignore[arg-type]
    ) as consumer:
        async with Admin(bootstrap) as admin:
            described = (await admin.describe_topics([topic]))[topic]
            partitions = [TopicPartition(topic, number) for number in described.partitions]
            ends = await admin.list_offsets(dict.fromkeys(partitions, "latest"))
        consumer.assign(partitions)
        for partition in partitions:
            while (end := ends[partition]) is not None and await consumer.position(partition) < end.offset:
                for batch in await consumer.poll(1000):
                    values.update(record.value or b"" for record in batch)
    return values


async def offsets_of(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, OffsetAndMetadata]:
    """Return what a group has committed, once no transaction's end is on its way (KIP-447)."""
    async with Consumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        found = await consumer.committed([TopicPartition(topic, number) for number in range(partitions)])
    return {partition.partition: entry for partition, entry in found.items()}


async def take_too_long(bootstrap: str, topic: str) -> None:
    """Keep a transaction open until the coordinator has aborted it; its producer is fenced, and nothing is read."""
    only = TopicPartition(topic, 0)

    async def outlast_the_timeout() -> None:
        async with producer.transaction():
            await (await producer.send(topic, b"1"))
            async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as reader:
                reader.assign([only])
                while not (await reader.end_offsets([only]))[only]:
                    await reader.poll(50)

    async with Producer(bootstrap, transactional_id=topic, transaction_timeout_ms=100) as producer:
        with pytest.raises(ProducerFenced, match="took longer than transaction_timeout_ms"):
            await outlast_the_timeout()
    assert not await committed(bootstrap, topic)


@scenario
async def records_of_an_open_transaction_are_no_lag_of_a_reader_of_committed_ones(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    only = TopicPartition(name, 0)
    lags: dict[str, int | None] = {}
    async with Producer(bootstrap, transactional_id=name) as producer, producer.transaction():
        for number in range(7):
            await (await producer.send(name, b"%d" % number, partition=0))
        for isolation in ("read_committed", "read_uncommitted"):
            async with Consumer(bootstrap_servers=bootstrap, isolation_level=isolation) as reader:
                reader.assign([only])
                reader.seek(only, 0)
                while only not in reader.lag() or reader.lag()[only].records is None:
                    await reader.poll(50, max_records=1)
                lags[isolation] = reader.lag()[only].records
    assert lags == {"read_committed": 0, "read_uncommitted": 6}


def numbers(found: Iterable[bytes]) -> list[int]:
    return sorted(int(value) for value in found)


@scenario
async def each_record_is_transformed_once_while_members_come_and_go_and_transactions_fail(
    bootstrap: str, name: str
) -> None:
    source, target = name, f"{name}-out"
    await create(bootstrap, source, 4)
    await create(bootstrap, target, 3)
    await produce(bootstrap, source, 400)
    done = 0

    async def transform(who: str, limit: int, failing: int) -> None:
        """Copy about `limit` records; the transactions of some rounds fail."""
        nonlocal done
        taken = rounds = 0
        async with (
            Producer(bootstrap, transactional_id=f"{name}-{who}") as producer,
            member(bootstrap, source, name) as consumer,
        ):
            while taken < limit and done < 400:
                batches = await consumer.poll(50, max_records=20)
                if not batches:
                    continue
                rounds += 1
                try:
                    async with producer.transaction() as transaction:
                        for batch in batches:
                            for record in batch:
                                await producer.send(target, record.value, key=record.value)
                        await transaction.send_offsets(consumer)
                        if rounds % failing == 0:
                            raise LookupError("something the program met")
                except (LookupError, KafkaError):
                    consumer.seek_to_committed()
                    continue
                count = sum(map(len, batches))
                taken += count
                done += count

    await asyncio.gather(transform("a", 100, 3), transform("b", 400, 4), transform("c", 150, 2))
    assert numbers((await committed(bootstrap, target)).elements()) == list(range(400))
    assert sum(entry.offset for entry in (await offsets_of(bootstrap, name, source, 4)).values()) == 400


@scenario
async def an_open_transaction_is_listed_and_described_with_its_producers(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    partition = TopicPartition(name, 1)
    async with Admin(bootstrap) as admin, Producer(bootstrap, transactional_id=name) as producer:

        async def look() -> None:
            async with producer.transaction():
                await (await producer.send(name, b"1", partition=1))
                listed = {each.transactional_id: each for each in await admin.list_transactions(["ongoing"])}[name]
                described = (await admin.describe_transactions([name]))[name]
                [found] = (await admin.describe_producers([partition]))[partition]
                assert (listed.state, described.state) == ("Ongoing", "Ongoing")
                assert described.partitions == frozenset({partition})
                assert described.start_ms is not None
                assert listed.producer_id == described.producer_id == found.producer_id
                assert (found.last_sequence, found.transaction_start) == (0, 0)
                raise LookupError

        with pytest.raises(LookupError):
            await look()
        [ended] = (await admin.describe_producers([partition]))[partition]
        assert ended.transaction_start is None
        with pytest.raises(KafkaError) as unknown:
            await admin.describe_transactions([f"{name}-unknown"])
        assert unknown.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@scenario
async def an_exception_aborts_and_the_records_of_the_block_are_not_read(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with Producer(bootstrap, transactional_id=name, linger_ms=2000) as producer:
        sent: list[Delivery] = []

        async def fail() -> None:
            async with producer.transaction():
                sent.append(await producer.send(name, b"1", partition=0))
                await producer.flush()
                sent.append(await producer.send(name, b"2", partition=1))
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert (await sent[0]).offset == 0
        with pytest.raises(TransactionAborted, match="was aborted before"):
            await sent[1]
        for value in (b"3", b"4"):
            async with producer.transaction():
                await producer.send(name, value, partition=0)
        async with producer.transaction() as transaction:
            await producer.send(name, b"5", partition=1)
            await transaction.abort()
        async with producer.transaction() as transaction:
            await producer.send(name, b"6", partition=1)
            await transaction.commit()
            with pytest.raises(RuntimeError, match="this transaction has ended"):
                await transaction.send_offsets(GroupMetadata(name), {})
    assert numbers(await committed(bootstrap, name)) == [3, 4, 6]
    assert set(numbers(await committed(bootstrap, name, "read_uncommitted"))) >= {1, 3, 4, 6}


@scenario
async def a_range_has_the_ends_of_transactions_unless_committed_records_are_wanted(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    async with Producer(bootstrap, transactional_id=name) as producer:
        for value in (b"committed", b"aborted"):
            async with producer.transaction() as transaction:
                await (await producer.send(name, value))
                if value == b"aborted":
                    await transaction.abort()

    def controls(isolation: int) -> list[tuple[int, bool]]:
        ranges = [(TopicPartition(name, 0), 0, 4)]
        read = read_ranges(bootstrap, ranges, isolation=isolation)
        return [
            (header.base_offset, header.is_control) for _, batches, _ in read for header, _ in iter_batches(batches)
        ]

    assert await asyncio.to_thread(controls, READ_UNCOMMITTED) == [(0, False), (1, True), (2, False), (3, True)]
    assert await asyncio.to_thread(controls, READ_COMMITTED) == [(0, False)]


@scenario
async def offsets_count_once_the_transaction_commits_and_never_after_its_abort(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    async with Producer(bootstrap, transactional_id=name) as producer, Admin(bootstrap) as admin:
        async with producer.transaction() as transaction:
            await transaction.send_offsets(GroupMetadata(name), {zero: 5, one: OffsetAndMetadata(6, "note")})
            await transaction.send_offsets(GroupMetadata(name), {zero: 7})
            assert await admin.group_offsets(name) == {}
        both = {0: OffsetAndMetadata(7), 1: OffsetAndMetadata(6, "note")}
        assert await offsets_of(bootstrap, name, name, 2) == both
        async with producer.transaction() as transaction:
            await transaction.send_offsets(GroupMetadata(name), {zero: 9})
            await transaction.abort()
        assert await offsets_of(bootstrap, name, name, 2) == both
        async with producer.transaction():
            pass


@scenario
async def a_second_producer_of_the_transactional_id_fences_the_first(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    async with Producer(bootstrap, transactional_id=name) as first:

        async def overtake() -> None:
            async with first.transaction():
                await (await first.send(name, b"1"))
                async with Producer(bootstrap, transactional_id=name) as second, second.transaction():
                    await second.send(name, b"2")

        with pytest.raises(ProducerFenced, match=f"{name}.*is fenced"):
            await overtake()
        with pytest.raises(ProducerFenced):
            await first.transaction().begin()
        with pytest.raises(ProducerFenced):
            await first.send(name, b"3")
    assert numbers(await committed(bootstrap, name)) == [2]


@scenario
async def a_group_that_rebalanced_takes_no_offsets_of_the_member_it_removed(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, 1)
    only = TopicPartition(name, 0)
    async with Producer(bootstrap, transactional_id=name) as producer:
        async with member(bootstrap, name, name) as consumer:
            await poll_until(consumer, lambda: bool(consumer.assignment()))
            stale = consumer.group_metadata()
        async with member(bootstrap, name, name) as successor:
            await poll_until(successor, lambda: bool(successor.assignment()))

            async def commit_as_the_old_one() -> None:
                async with producer.transaction() as transaction:
                    await producer.send(name, b"7")
                    await transaction.send_offsets(stale, {only: 1})

            with pytest.raises(TransactionAbortable, match=f"member {stale.member_id} in generation") as refused:
                await commit_as_the_old_one()
            assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            async with producer.transaction() as transaction:
                await transaction.send_offsets(successor.group_metadata(), {only: 1})
            assert (await successor.committed([only]))[only].offset == 1
    assert numbers(await committed(bootstrap, name)) == [0]


@scenario
async def a_record_that_is_not_written_leaves_only_the_abort(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(name, 1, configs={"max.message.bytes": "1000"})
    async with Producer(bootstrap, transactional_id=name) as producer:

        async def send_too_much() -> None:
            async with producer.transaction():
                await producer.send(name, b"1")
                await producer.flush()
                await producer.send(name, b"2" * 2000)

        with pytest.raises(TransactionAbortable, match=r"can only be aborted: records were not written.*max\.message"):
            await send_too_much()
        async with producer.transaction():
            await producer.send(name, b"3")
    assert numbers(await committed(bootstrap, name)) == [3]


@scenario
async def a_transaction_of_many_partitions_and_records_is_read_as_a_whole(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 40)
    async with Producer(bootstrap, transactional_id=name, compression_type="gzip", batch_size=2000) as producer:
        for is_kept in (False, True):
            async with producer.transaction() as transaction:
                for number in range(10_000):
                    await producer.send(name, b"%d" % number, partition=number % 40)
                if not is_kept:
                    await transaction.abort()
    assert numbers((await committed(bootstrap, name)).elements()) == list(range(10_000))


@scenario
async def a_rebalance_waits_for_the_transaction_of_what_was_polled(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    await produce(bootstrap, name, 20)
    revoked: list[Partitions] = []

    class Noting(RebalanceListener):
        def on_partitions_revoked(self, partitions: Partitions) -> None:
            revoked.append(partitions)

    async with (
        Producer(bootstrap, transactional_id=name) as producer,
        member(bootstrap, name, name, Noting()) as first,
    ):
        read = 0
        while not read:
            read = sum(map(len, await first.poll(200, max_records=5)))
        async with member(bootstrap, name, name) as second:
            async with producer.transaction() as transaction:
                await second.poll(500)
                assert not revoked, "the first member still works on its records"
                await transaction.send_offsets(first)
            await asyncio.gather(
                poll_until(first, lambda: len(first.assignment()) == 1),
                poll_until(second, lambda: len(second.assignment()) == 1),
            )
            assert [len(each) for each in revoked] == [2]
            assert sum(entry.offset for entry in (await first.committed(revoked[0])).values()) == read


@scenario
async def blocking_clients_have_transactions_too(bootstrap: str, name: str) -> None:
    target = f"{name}-out"
    await create(bootstrap, name, 1)
    await create(bootstrap, target, 1)
    await produce(bootstrap, name, 3)

    def transform() -> None:
        with (
            sync.Producer(bootstrap, transactional_id=name) as producer,
            sync.Consumer(
                name,
                bootstrap_servers=bootstrap,
                group_id=name,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer,
        ):
            for is_failing in (True, False):
                seen = consumer.poll(PATIENCE_MS, max_records=3)
                assert [record.value for batch in seen for record in batch] == [b"0", b"1", b"2"]
                try:
                    with producer.transaction() as transaction:
                        producer.send(target, b"7")
                        transaction.send_offsets(consumer)
                        if is_failing:
                            raise LookupError
                except LookupError:
                    consumer.seek_to_committed()
            only = TopicPartition(name, 0)
            assert consumer.committed([only])[only].offset == 3
            with pytest.raises(RuntimeError, match="cannot send records: it has no transaction"):
                producer.send(target, b"8")

    await asyncio.to_thread(transform)
    assert numbers((await committed(bootstrap, target)).elements()) == [7]
