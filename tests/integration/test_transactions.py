"""Transactions of our producer while brokers die, freeze and lose patience, and where the program calls out of turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.integration.scenario_book import create, run
from tests.integration.transaction_scenarios import committed, numbers, offsets_of, take_too_long

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import (
    Admin,
    Consumer,
    GroupMetadata,
    Producer,
    TransactionAbortable,
    TransactionAborted,
    TransactionFatal,
    TransactionRetriable,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

SOON_MS = 600


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "kohort", group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@contextmanager
def frozen(broker: EmbeddedBroker) -> Iterator[None]:
    """Keep the broker from doing anything; connections stay open."""
    frozen, go_on = threading.Event(), threading.Event()
    assert broker._loop is not None
    broker._loop.call_soon_threadsafe(lambda: (frozen.set(), go_on.wait()))
    frozen.wait()
    try:
        yield
    finally:
        go_on.set()


def test_an_admin_aborts_what_a_transaction_has_open_in_a_partition(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        only = TopicPartition("t", 0)
        async with Admin(bootstrap) as admin, Producer(bootstrap, transactional_id="tx") as producer:
            transaction = producer.transaction()
            await transaction.begin()
            await (await producer.send("t", b"1"))
            [found] = (await admin.describe_producers([only]))[only]
            assert found.transaction_start == 0
            await admin.abort_transaction(only, found)
            [ended] = (await admin.describe_producers([only]))[only]
            assert ended.transaction_start is None
            assert not await committed(bootstrap, "t")
            await transaction.abort()

    run(scenario, broker.bootstrap_servers, "t")


def test_each_transaction_is_whole_over_crashes_of_the_broker(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 2)
        async with Producer(bootstrap, transactional_id="tx", linger_ms=1) as producer:
            for number in range(20):
                async with producer.transaction() as transaction:
                    await producer.send("t", b"%d" % number, partition=0)
                    await transaction.send_offsets(GroupMetadata("g"), {TopicPartition("t", 0): number + 1})
                    if number % 5 == 2:
                        await producer.flush()
                        await asyncio.to_thread(broker.kill)
                        await asyncio.to_thread(broker.start)
                    await producer.send("t", b"%d" % number, partition=1)
        values = await committed(bootstrap, "t")
        assert values == dict.fromkeys((b"%d" % number for number in range(20)), 2)
        assert (await offsets_of(bootstrap, "g", "t", 1))[0].offset == 20

    run(scenario, broker.bootstrap_servers, "t")


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_is_not_answered_is_asked_for_again(broker: EmbeddedBroker, is_commit: bool) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap, transactional_id="tx", max_block_ms=SOON_MS) as producer:
            transaction = producer.transaction()
            end = transaction.commit if is_commit else transaction.abort
            await transaction.begin()
            await (await producer.send("t", b"1"))
            with frozen(broker):
                with pytest.raises(TransactionRetriable, match=f"took longer than max_block_ms={SOON_MS}"):
                    await end()
                with pytest.raises(RuntimeError, match="is not answered yet"):
                    await producer.send("t", b"2")
            await end()
            async with producer.transaction():
                await producer.send("t", b"3")
        assert numbers(await committed(bootstrap, "t")) == ([1, 3] if is_commit else [3])

    run(scenario, broker.bootstrap_servers, "t")


def test_a_commit_that_is_not_answered_before_the_producer_stops_is_decided(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)

        async def commit_in_vain(producer: Producer) -> None:
            async with producer.transaction():
                await (await producer.send("t", b"1"))
                freezing.__enter__()

        freezing = frozen(broker)
        async with Producer(bootstrap, transactional_id="tx", max_block_ms=SOON_MS) as producer:
            with pytest.raises(TransactionRetriable):
                await commit_in_vain(producer)
            freezing.__exit__(None, None, None)
        assert numbers(await committed(bootstrap, "t")) == [1]

    run(scenario, broker.bootstrap_servers, "t")


def test_an_abort_that_is_not_answered_is_waited_for_by_the_next_transaction(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap, transactional_id="tx", max_block_ms=SOON_MS) as producer:
            with ExitStack() as freezing, pytest.raises(LookupError):  # the abort that was not answered is logged
                await fail_in_a_freeze(producer, freezing)
            async with producer.transaction():
                await producer.send("t", b"3")
        assert numbers(await committed(bootstrap, "t")) == [3]

    async def fail_in_a_freeze(producer: Producer, freezing: ExitStack) -> None:
        async with producer.transaction():
            await (await producer.send("t", b"1"))
            freezing.enter_context(frozen(broker))
            await producer.send("t", b"2")
            raise LookupError

    run(scenario, broker.bootstrap_servers, "t")


def test_offsets_that_are_not_answered_leave_only_the_abort(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap, transactional_id="tx", max_block_ms=SOON_MS) as producer:

            async def send_offsets(number: int, topic: str = "t") -> None:
                async with producer.transaction() as transaction:
                    await transaction.send_offsets(GroupMetadata("g"), {TopicPartition(topic, 0): number})

            with frozen(broker), pytest.raises(TransactionAbortable, match="TxnOffsetCommit of 'tx' took longer than"):
                await send_offsets(1)
            await send_offsets(2)
            with pytest.raises(TransactionAbortable, match="does not host this topic-partition"):
                await send_offsets(3, "none")
        assert (await offsets_of(bootstrap, "g", "t", 1))[0].offset == 2

    run(scenario, broker.bootstrap_servers, "t")


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        await take_too_long(bootstrap, "t")

    run(scenario, broker.bootstrap_servers, "t")


def test_a_cancelled_block_aborts_and_a_cancelled_commit_is_finished_by_a_second_one(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap, transactional_id="tx") as producer:

            async def work_on() -> None:
                async with producer.transaction():
                    await (await producer.send("t", b"1"))
                    await asyncio.Event().wait()

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(work_on(), SOON_MS / 1000)
            transaction = producer.transaction()
            await transaction.begin()
            await producer.send("t", b"2")
            with frozen(broker), pytest.raises(TimeoutError):
                await asyncio.wait_for(transaction.commit(), SOON_MS / 1000)
            with pytest.raises(RuntimeError, match=r"cannot begin a transaction: .* commit is not answered yet"):
                await producer.transaction().begin()
            await transaction.commit()
        assert numbers(await committed(bootstrap, "t")) == [2]

    run(scenario, broker.bootstrap_servers, "t")


def test_a_producer_that_stops_aborts_what_is_open_at_once(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap, transactional_id="tx", linger_ms=5000) as producer:
            await producer.transaction().begin()
            await producer.send("t", b"1")
            await producer.flush()
            waiting = await producer.send("t", b"2")
        with pytest.raises(TransactionAborted):
            await waiting
        async with Producer(bootstrap) as other:
            await other.send("t", b"3")
        assert numbers(await committed(bootstrap, "t")) == [3]

    run(scenario, broker.bootstrap_servers, "t")


def test_a_topic_that_is_deleted_in_the_middle_leaves_only_the_abort(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        for topic in ("t", "u"):
            await create(bootstrap, topic, 1)
        settings = {
            "request_timeout_ms": SOON_MS,
            "delivery_timeout_ms": 2 * SOON_MS,
            "allow_auto_create_topics": False,
        }
        async with (
            Admin(bootstrap) as admin,
            Producer(bootstrap, transactional_id="tx", **settings) as producer,  # type: ignore[arg-type]
        ):

            async def write_and_delete() -> None:
                async with producer.transaction():
                    await (await producer.send("t", b"1"))
                    await (await producer.send("u", b"1"))
                    await admin.delete_topic("t")
                    await producer.send("t", b"2")

            with pytest.raises(TransactionAbortable):
                await write_and_delete()
            async with producer.transaction():
                await producer.send("u", b"3")
        assert numbers(await committed(bootstrap, "u")) == [3]

    run(scenario, broker.bootstrap_servers, "t")


def test_calls_out_of_turn_say_what_is_missing(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, "t", 1)
        async with Producer(bootstrap) as plain:
            with pytest.raises(RuntimeError, match="pass transactional_id"):
                plain.transaction()
        with pytest.raises(RuntimeError, match="not started"):
            Producer(bootstrap, transactional_id="tx").transaction()
        async with Producer(bootstrap, transactional_id="tx") as producer:
            with pytest.raises(RuntimeError, match="cannot send records: it has no transaction"):
                await producer.send("t", b"1")
            transaction = producer.transaction()
            with pytest.raises(RuntimeError, match="has not begun"):
                await transaction.commit()
            async with transaction:
                with pytest.raises(RuntimeError, match="begin a transaction: it has an open transaction"):
                    await producer.transaction().begin()
                with pytest.raises(TypeError, match="pass offsets, or the consumer"):
                    await transaction.send_offsets(GroupMetadata("g"))
                async with Consumer("t", bootstrap_servers=bootstrap, group_id="g") as consumer:
                    with pytest.raises(RuntimeError, match="enable_auto_commit=False"):
                        await transaction.send_offsets(consumer)
                async with Consumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
                    with pytest.raises(RuntimeError, match="has no group"):
                        await transaction.send_offsets(consumer)
            with pytest.raises(RuntimeError, match="make a new one"):
                await transaction.begin()
        async with Producer(bootstrap, transactional_id="tx", transaction_timeout_ms=900_001) as refused:
            raise AssertionError(refused)

    with pytest.raises(TransactionFatal, match=r"longer than the brokers' transaction\.max\.timeout\.ms") as fatal:
        run(scenario, broker.bootstrap_servers, "t")
    assert fatal.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="transactional_id='': expected a name"):
        Producer("127.0.0.1:1", transactional_id="")
    with pytest.raises(ValueError, match="needs idempotence, which enable_idempotence=False turns off"):
        Producer("127.0.0.1:1", transactional_id="tx", enable_idempotence=False)
    with pytest.raises(ValueError, match="needs idempotence, which acks=1 turns off"):
        Producer("127.0.0.1:1", transactional_id="tx", acks=1)
    with pytest.raises(ValueError, match="transaction_timeout_ms=0: expected"):
        Producer("127.0.0.1:1", transactional_id="tx", transaction_timeout_ms=0)
    with pytest.raises(TypeError, match="did you mean 'transactional_id'"):
        Producer("127.0.0.1:1", transaction_id="tx")  # type: ignore[call-arg]
