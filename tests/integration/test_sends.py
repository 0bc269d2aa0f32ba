"""Each record that a producer takes has an end of its own: a place in the log or an exception, and never another's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kohort import ClientStopped, Consumer, KafkaError, Producer, Record, TopicPartition, sync
from kohort.broker.embedded import EmbeddedBroker

LONG_MS = 20_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
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


async def read_all(bootstrap: str, topic: str, count: int) -> list[Record]:
    async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        records: list[Record] = []
        while len(records) < count:
            records += [record for batch in await consumer.poll(LONG_MS) for record in batch]
        return records


NO_RECORDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"headers": [("trace", "7")]}, TypeError, "the value of header 'trace' is bytes or None, not str"),
    ({"headers": {"trace": 7}}, TypeError, "the value of header 'trace' is bytes or None, not int"),
    ({"headers": [(b"trace", b"7")]}, TypeError, "a header's name=b'trace' is a bytes: expected a str"),
    ({"headers": [("\ud800", b"7")]}, ValueError, "which UTF-8 cannot carry"),
    ({"headers": "ab"}, TypeError, "headers contains 'a': expected pairs"),
    ({"headers": [["trace", b"7"]]}, TypeError, "expected pairs of a str and bytes"),
    ({"headers": 7}, TypeError, "headers=7 is an int: expected pairs"),
    ({"timestamp_ms": time.time()}, TypeError, "is a float: expected a whole number of milliseconds"),
    ({"timestamp_ms": "7"}, TypeError, "timestamp_ms='7' is a str"),
    ({"timestamp_ms": -1}, ValueError, "timestamp_ms=-1: expected a whole number of milliseconds from 0"),
    ({"timestamp_ms": 2**63}, ValueError, "from 0 to 9223372036854775807"),
    (
        {"value": "text"},
        TypeError,
        "a record's value is bytes or None, not str: encode it, or give the producer value_",
    ),
    ({"value": bytearray(b"x")}, TypeError, "not bytearray"),
    ({"key": 7}, TypeError, "a record's key is bytes or None, not int"),
    ({"partition": "0"}, TypeError, "partition='0' is a str: expected a whole number"),
    ({"partition": True}, TypeError, "partition=True is a bool"),
    ({"partition": -1}, KafkaError, "so there is no -1"),
    ({"partition": 7}, KafkaError, "partitions 0 to 0, so there is no 7"),
    ({"topic": b"t"}, TypeError, "topic=b't' is a bytes: expected a str"),
    ({"topic": ""}, ValueError, "topic is empty"),
    ({"topic": None}, TypeError, "topic=None"),
    ({"topic": "no topic!"}, KafkaError, "topic 'no topic!'"),
]


def test_a_record_that_is_sent_and_waited_for_returns_its_place_or_raises_its_error(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with Producer(broker.bootstrap_servers, linger_ms=0) as producer:
            first = await producer.send_and_wait("t", b"first", key=b"k", headers={"trace": b"1"})
            assert (first.topic, first.partition, first.offset) == ("t", 0, 0)
            with pytest.raises(KafkaError) as refused:
                await producer.send_and_wait("t", b"1" * 2_000_000)
            assert refused.value.code.name == "MESSAGE_TOO_LARGE"

    asyncio.run(scenario())
    with sync.Producer(broker.bootstrap_servers) as producer:
        assert producer.send_and_wait("t", b"second", b"k", partition=0, timestamp_ms=7).timestamp_ms == 7


def test_a_record_that_is_none_is_refused_alone_and_the_others_of_its_batch_are_written(
    broker: EmbeddedBroker,
) -> None:
    async def scenario() -> None:
        async with Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            sent = [await producer.send("t", b"first", headers={"trace": b"1", "none": None}, timestamp_ms=7)]
            for given, kind, text in NO_RECORDS:
                with pytest.raises(kind) as refused:
                    await producer.send(**({"topic": "t", "value": b"no"} | given))
                assert text in str(refused.value)
                sent.append(await producer.send("t", b"good"))
            await producer.flush()
            offsets = [(await delivery).offset for delivery in sent]
        assert offsets == list(range(len(NO_RECORDS) + 1))
        read = await read_all(broker.bootstrap_servers, "t", len(offsets))
        assert read[0] == Record("t", 0, 0, 7, None, b"first", (("trace", b"1"), ("none", None)))
        assert [record.value for record in read[1:]] == [b"good"] * len(NO_RECORDS)

    asyncio.run(scenario())


def test_serializers_make_the_bytes_and_leave_nulls_alone(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with Producer(
            broker.bootstrap_servers, key_serializer=str.encode, value_serializer=lambda value: value.to_bytes(2, "big")
        ) as producer:
            await producer.send("t", 258, key="k")
            await producer.send("t", None, key="gone")
            await producer.send("t", 1)
            with pytest.raises(OverflowError):
                await producer.send("t", 70_000)
            await producer.flush()
        read = await read_all(broker.bootstrap_servers, "t", 3)
        assert [(record.key, record.value) for record in read] == [
            (b"k", b"\x01\x02"),
            (b"gone", None),
            (None, b"\x00\x01"),
        ]
        async with Producer(broker.bootstrap_servers, value_serializer=str) as producer:
            with pytest.raises(TypeError, match="value_serializer returned str: expected bytes or None"):
                await producer.send("t", 1)

    asyncio.run(scenario())


def test_all_that_waits_when_a_producer_is_stopped_ends(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        producer = Producer(broker.bootstrap_servers, linger_ms=0, buffer_memory=3_000, batch_size=1_000)
        await producer.start()
        await (await producer.send("t", b"written"))
        with frozen(broker):
            taken = [await producer.send("t", b"x" * 900) for _ in range(3)]
            for_room = [asyncio.create_task(producer.send("t", b"x" * 900)) for _ in range(3)]
            for_a_topic = asyncio.create_task(producer.send("unheard-of", b"x"))
            waiting = [*for_room, for_a_topic, *map(asyncio.ensure_future, taken)]
            await asyncio.sleep(0)
            await producer.stop(timeout_ms=50)
            outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), LONG_MS / 1000)
        assert [type(outcome) for outcome in outcomes] == [ClientStopped] * 7
        assert all(delivery.done() for delivery in taken)
        with pytest.raises(RuntimeError, match="not started"):
            await producer.send("t", b"late")

    asyncio.run(scenario())


def test_a_stop_that_is_cancelled_leaves_no_record_without_an_end(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        producer = Producer(broker.bootstrap_servers)
        await producer.start()
        await (await producer.send("t", b"written"))
        with frozen(broker):
            taken = await producer.send("t", b"x")
            stopping = asyncio.create_task(producer.stop())
            await asyncio.sleep(0)
            stopping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopping
            with pytest.raises(ClientStopped):
                await asyncio.wait_for(taken, LONG_MS / 1000)

    asyncio.run(scenario())


def test_threads_that_wait_are_released_when_another_stops_their_producer(broker: EmbeddedBroker) -> None:
    outcomes: list[object] = []

    def end_of(call: Callable[[], object]) -> None:
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(type(error))

    producer = sync.Producer(broker.bootstrap_servers, linger_ms=0, buffer_memory=1_000, batch_size=1_000)
    producer.start()
    assert producer.send("t", b"written").result().offset == 0
    with frozen(broker):
        taken = producer.send("t", b"x" * 900)
        calls: list[Callable[[], object]] = [
            taken.result,
            producer.flush,
            lambda: producer.send("t", b"x" * 900),
            lambda: producer.send("unheard-of", b"x"),
        ]
        threads = [threading.Thread(target=end_of, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        producer.stop(timeout_ms=50)
        for thread in threads:
            thread.join(LONG_MS / 1000)
            assert not thread.is_alive()
    assert set(outcomes) <= {ClientStopped, RuntimeError, None}, "a send that begins later finds no producer"
    assert ClientStopped in outcomes
    with pytest.raises(ClientStopped):
        taken.result()


def test_a_client_that_was_inherited_by_fork_is_refused_and_a_new_one_works(broker: EmbeddedBroker) -> None:
    program = f"""
        import os, sys
        from kohort.sync import Admin, Producer

        address = {broker.bootstrap_servers!r}
        producer = Producer(address)
        producer.start()
        taken = producer.send("t", b"the parent's")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in (producer.flush, producer.stop, lambda: producer.send("t", b"the child's")):
                    try:
                        call()
                    except RuntimeError as error:
                        assert "make a client in the process that uses it" in str(error), error
                    else:
                        raise AssertionError("an inherited client was used")
                with Producer(address) as own:
                    own.send("t", b"the child's").result()
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        taken.result()
        producer.stop()
        """
    if not hasattr(os, "fork"):
        pytest.skip("this system has no os.fork()")
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    with sync.Admin(broker.bootstrap_servers) as admin:
        [end] = admin.list_offsets({TopicPartition("t", 0): "latest"}).values()
    assert end is not None
    assert end.offset == 2
