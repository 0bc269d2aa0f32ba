"""`Consumer.process` on a broker: order, what is committed, rebalances, failures, dead letters, handlers that hang."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import get_context
from typing import Any

import pytest
from tests.integration.scenario_book import PATIENCE_MS

from kohort import (
    Admin,
    Consumer,
    DeadLetter,
    DeserializationFailed,
    KafkaError,
    OffsetAndMetadata,
    OutputRecord,
    Producer,
    Retry,
    TopicPartition,
    UnknownTopic,
    sync,
)
from kohort.testing import EmbeddedBroker

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, num_partitions=4) as found:
        yield found


def member(broker: EmbeddedBroker, **settings: Any) -> Consumer:
    given = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"} | settings
    return Consumer("t", group_id="g", **given)


async def write(broker: EmbeddedBroker, values: Iterator[bytes] | list[bytes], keys: int = 0) -> None:
    async with Producer(broker.bootstrap_servers) as producer:
        for at, value in enumerate(values):
            key = b"k%d" % (at % keys) if keys else None
            await producer.send("t", value, key=key, partition=None if keys else 0)


@asynccontextmanager
async def processing(consumer: Consumer, handler: Callable[[Any], object], **how: Any) -> AsyncIterator[None]:
    """Run `process` while the block runs, and stop the consumer at its end."""
    async with consumer:
        task = asyncio.create_task(consumer.process(handler, **how))
        try:
            yield
        finally:
            await consumer.stop()
            await task


class Seen(list[Any]):
    """What handlers have seen, on whatever thread; a test waits until it is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        self._changed.set()

    async def until(self, is_enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while not is_enough():
                self._changed.clear()
                if not is_enough():
                    await asyncio.to_thread(self._changed.wait, 1)

    @property
    def by_key(self) -> dict[bytes, list[int]]:
        """The values of records, as numbers, by their keys."""
        found: dict[bytes, list[int]] = defaultdict(list)
        for record in self:
            found[record.key].append(int(record.value))
        return found


async def turns(count: int) -> None:
    """Let the event loop run so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def forever() -> None:
    await asyncio.Event().wait()


async def committed(broker: EmbeddedBroker) -> dict[TopicPartition, OffsetAndMetadata]:
    async with Admin(broker.bootstrap_servers) as admin:
        return dict(await admin.group_offsets("g"))


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * PATIENCE_MS / 1000):
            await scenario()

    asyncio.run(bounded())


def test_many_records_run_at_once_and_each_key_keeps_its_order(broker: EmbeddedBroker) -> None:
    seen = Seen()
    running = most = 0

    async def handler(record: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await turns(20)
        seen.append(record)
        running -= 1

    async def scenario() -> None:
        await write(broker, [b"%d" % each for each in range(400)], keys=50)
        service = member(broker)
        async with processing(service, handler):
            await seen.until(lambda: len(seen) == 400)
            assert service.metrics()["handlers-unfinished"] <= 400
        assert service.metrics()["records-consumed-total"] == 400
        assert all(each == sorted(each) for each in seen.by_key.values())
        assert 20 < most <= 50, "each key, whatever its partition"
        assert sum(each.offset for each in (await committed(broker)).values()) == 400

    run(scenario)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_come_and_go_handle_each_record_once(broker: EmbeddedBroker, protocol: str) -> None:
    seen = Seen()

    async def handler(record: Any) -> None:
        await turns(int(record.value) % 20)
        seen.append(record)

    async def scenario() -> None:
        await write(broker, [b"%d" % each for each in range(3_000)], keys=100)
        async with processing(member(broker, group_protocol=protocol), handler, concurrency=40):
            for share in (700, 1_400, 2_100):
                async with processing(member(broker, group_protocol=protocol), handler, concurrency=40):
                    await seen.until(lambda share=share: len(seen) >= share)  # type: ignore[misc]
            await seen.until(lambda: len(seen) >= 3_000)
        assert sorted(int(record.value) for record in seen) == list(range(3_000))
        assert all(each == sorted(each) for each in seen.by_key.values())

    run(scenario)


def test_the_next_owner_skips_what_finished_above_an_unfinished_record(broker: EmbeddedBroker) -> None:
    first = Seen()
    second = Seen()

    async def stuck_at_0(record: Any) -> None:
        if record.offset == 0:
            await forever()
        first.append(record.offset)

    async def handler(record: Any) -> None:
        second.append(record.offset)

    async def scenario() -> None:
        await write(broker, [b"v"] * 10)
        service = member(broker)
        async with processing(service, stuck_at_0, revocation_timeout_ms=100):
            await first.until(lambda: len(first) == 9)
            found = service.metrics()
            assert (found["handlers-running"], found["handlers-unfinished"]) == (1, 1)
            assert found["handlers-longest"] >= 0
        assert (await committed(broker))[T0].offset == 0
        async with processing(member(broker), handler):
            await second.until(lambda: bool(second))
        assert second == [0]
        assert (await committed(broker))[T0] == OffsetAndMetadata(10, "", -1)

    run(scenario)


def test_a_member_that_does_not_know_the_metadata_reads_again_from_the_committed_offset(broker: EmbeddedBroker) -> None:
    first = Seen()

    async def stuck_at_0(record: Any) -> None:
        if record.offset == 0:
            await forever()
        first.append(record.offset)

    async def scenario() -> None:
        await write(broker, [b"v"] * 5)
        async with processing(member(broker), stuck_at_0, revocation_timeout_ms=100):
            await first.until(lambda: len(first) == 4)
        offsets: list[int] = []
        async with member(broker) as plain:
            while len(offsets) < 5:
                offsets += [record.offset for batch in await plain.poll(PATIENCE_MS) for record in batch]
        assert offsets == [0, 1, 2, 3, 4]

    run(scenario)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_where_the_broker_takes_less_metadata_what_fits_is_committed(
    exactly_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    handled = Seen()

    async def every_second(record: Any) -> None:
        if record.offset % 2 == 0:
            await forever()
        handled.append(record.offset)

    async def scenario(broker: EmbeddedBroker) -> None:
        await write(broker, [b"v"] * 200)
        how: dict[str, Any] = {"revocation_timeout_ms": 100, "exactly_once": exactly_once}
        async with processing(member(broker), every_second, **how):
            await handled.until(lambda: len(handled) == 100)
        metadata = (await committed(broker))[T0].metadata
        assert 40 < len(metadata) <= 100

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, offset_metadata_max_bytes=100) as broker:
        run(lambda: scenario(broker))
    assert "offset.metadata.max.bytes is below" in caplog.text


@pytest.mark.parametrize("metadata", ["a note", "kohort1:", "kohort1:!!!", "kohort2:AAEB", "kohort1:BQEB"])
def test_metadata_that_is_rubbish_is_ignored_with_a_line_in_the_log(
    broker: EmbeddedBroker, metadata: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = Seen()

    async def handler(record: Any) -> None:
        offsets.append(record.offset)

    async def scenario() -> None:
        await write(broker, [b"v"] * 4)
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.reset_offsets("g", {T0: OffsetAndMetadata(1, metadata)})
        async with processing(member(broker), handler):
            await offsets.until(lambda: len(offsets) == 3)

    with caplog.at_level(logging.INFO, "kohort.client.consumer"):
        run(scenario)
    assert offsets == [1, 2, 3]
    assert sum("lists no finished records" in each.getMessage() for each in caplog.records) == 1


def test_a_failure_stops_process_with_the_handlers_exception_and_the_record_comes_again(broker: EmbeddedBroker) -> None:
    offsets = Seen()

    async def handler(record: Any) -> None:
        if record.offset == 2 and 2 not in offsets:
            offsets.append(2)
            raise KeyError("no such customer")
        offsets.append(record.offset)

    async def scenario() -> None:
        await write(broker, [b"v"] * 5)
        async with member(broker) as consumer:
            with pytest.raises(KeyError, match="no such customer") as failed:
                await consumer.process(handler)
            assert "t-0, offset 2, key None" in failed.value.__notes__[0]
            task = asyncio.create_task(consumer.process(handler))
            await offsets.until(lambda: offsets.count(2) == 2 and set(offsets) == {0, 1, 2, 3, 4})
            await consumer.stop()
            await task
        assert Counter(offsets) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}

    run(scenario)


def test_a_failed_record_is_tried_again_after_each_delay_while_its_key_waits_and_others_go_on(
    broker: EmbeddedBroker,
) -> None:
    seen = Seen()

    async def handler(record: Any) -> None:
        seen.append(record.value)
        if record.value == b"1" and seen.count(b"1") < 3:
            raise TimeoutError

    async def scenario() -> None:
        async with Producer(broker.bootstrap_servers) as producer:
            for value, key in ((b"1", b"a"), (b"2", b"a"), (b"3", b"b")):
                await producer.send("t", value, key=key, partition=0)
        policy = Retry(["10ms", "20ms"], on=(TimeoutError,))
        async with processing(member(broker), handler, on_error=policy):
            await seen.until(lambda: b"2" in seen and b"3" in seen)
        assert [each for each in seen if each != b"3"] == [b"1", b"1", b"1", b"2"]
        assert seen.index(b"3") < seen.index(b"2")

    run(scenario)


def test_a_restart_forgets_neither_attempts_nor_the_time_of_the_next_one(broker: EmbeddedBroker) -> None:
    seen = Seen()
    policy = Retry(["10ms", "1h"], then="skip")

    async def handler(record: Any) -> None:
        seen.append(record.offset)
        if record.offset == 0:
            raise TimeoutError

    async def scenario() -> None:
        await write(broker, [b"v"] * 3)
        async with processing(member(broker), handler, on_error=policy):
            await seen.until(lambda: seen.count(0) == 2 and len(seen) == 4)
        del seen[:]
        await write(broker, [b"v"])
        async with processing(member(broker), handler, on_error=policy):
            await seen.until(lambda: bool(seen))
        assert seen == [3]
        del seen[:]
        # Policies without such a delay do not have it wait; the third attempt is its last.
        async with processing(member(broker), handler, on_error=Retry([0, 0], then="skip")):
            await seen.until(lambda: bool(seen))
        assert seen == [0]
        assert (await committed(broker))[T0] == OffsetAndMetadata(4, "", -1)

    run(scenario)


def test_long_delays_are_waited_for_in_the_retry_topic_and_the_handler_gets_the_record_as_it_came(
    broker: EmbeddedBroker,
) -> None:
    seen = Seen()
    policy = Retry([0, "50ms", "60ms"], then=DeadLetter("dlq"), order="none", topic="t.retry", park_after="50ms")

    async def handler(record: Any) -> None:
        seen.append(record)
        if record.value == b"1":
            raise TimeoutError

    async def scenario() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic("t", 1)
            await admin.create_topic("t.retry", 2)
            await admin.create_topic("dlq", 1)
            await admin.reset_offsets("g", {T0: OffsetAndMetadata(0)})
        async with Producer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"1", key=b"k", headers={"own": b"h"}, timestamp_ms=7)
            await producer.send("t", b"2", key=b"k")
        letters: list[Any] = []
        reader = Consumer("dlq", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        async with processing(member(broker, auto_offset_reset="latest"), handler, on_error=policy), reader as dlq:
            while not letters:
                letters += [record for batch in await dlq.poll(PATIENCE_MS) for record in batch]
        ones = [record for record in seen if record.value == b"1"]
        assert len(ones) == 4
        assert {tuple(record) for record in ones} == {("t", 0, 0, 7, b"k", b"1", (("own", b"h"),))}
        headers = dict(letters[0].headers)
        assert (headers["__connect.errors.topic"], headers["kohort.error.attempts"]) == (b"t", b"4")
        found = await committed(broker)
        assert found[T0].offset == 2
        assert sum(offset.offset for each, offset in found.items() if each.topic == "t.retry") == 2

    run(scenario)


def test_what_is_parked_waits_for_its_time_at_the_next_owner_too(broker: EmbeddedBroker) -> None:
    seen = Seen()
    policy = Retry(["1h"], then="skip", order="none", topic="t.retry")

    async def handler(record: Any) -> None:
        seen.append(record.value)
        if record.value == b"1":
            raise TimeoutError

    async def scenario() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic("t.retry", 1)
        await write(broker, [b"1", b"2"])
        parked = TopicPartition("t.retry", 0)
        service = member(broker)
        async with processing(service, handler, on_error=policy):
            while not (await service.end_offsets([parked]))[parked]:
                await asyncio.sleep(0)
        assert (await committed(broker))[T0].offset == 2
        assert sorted(seen) == [b"1", b"2"]
        service = member(broker)
        async with processing(service, handler, on_error=policy):
            while service.metrics()["records-consumed-total"] < 1:
                await asyncio.sleep(0)
            assert service.metrics()["handlers-unfinished"] == 0, "it takes no place"
        assert len(seen) == 2
        assert (await committed(broker)).get(parked, OffsetAndMetadata(0)).offset == 0

    run(scenario)


def test_a_retry_topic_that_is_deleted_is_named_with_the_records_that_waited_in_it(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(record: Any) -> None:
        if record.value == b"bad":
            raise ValueError(record.value)

    async def scenario() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic("t.retry", 1)
            await write(broker, [b"v", b"bad"])
            policy, parked = Retry(["1h"], order="none", topic="t.retry"), TopicPartition("t.retry", 0)
            service = member(broker, metadata_max_age_ms=100)
            async with processing(service, handler, on_error=policy):
                async with asyncio.timeout(PATIENCE_MS / 1000):
                    while parked not in service.assignment() or await service.position(parked) < 1:
                        await asyncio.sleep(0)
                    await admin.delete_topic("t.retry")
                    while "t.retry was deleted" not in caplog.text:
                        await asyncio.sleep(0)
        assert "1 records that waited in it are handled no more: t-0 at 1" in caplog.text

    run(scenario)


def test_what_handlers_return_and_dead_letters_are_in_one_transaction_with_the_offsets(broker: EmbeddedBroker) -> None:
    async def handler(record: Any) -> OutputRecord | list[OutputRecord] | None:
        if record.value == b"bad":
            raise ValueError(record.value)
        if record.value == b"none":
            return None
        return [OutputRecord("out", record.value + b"%d" % number, record.key, partition=0) for number in (1, 2)]

    async def scenario() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic("out", 1)
            await admin.create_topic("dlq", 1)
        await write(broker, [b"a", b"bad", b"none", b"b"], keys=1)
        reader = Consumer(
            "out",
            "dlq",
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        found: dict[str, list[bytes | None]] = defaultdict(list)
        service = member(broker)
        async with processing(service, handler, exactly_once=True, on_error=DeadLetter("dlq")), reader:
            while sum(map(len, found.values())) < 5:
                for batch in await reader.poll(PATIENCE_MS):
                    found[batch.partition.topic] += [record.value for record in batch]
        assert found == {"out": [b"a1", b"a2", b"b1", b"b2"], "dlq": [b"bad"]}
        assert sum(each.offset for each in (await committed(broker)).values()) == 4

    run(scenario)


def test_an_output_for_a_topic_that_is_not_there_ends_process_and_its_record_comes_again(
    broker: EmbeddedBroker,
) -> None:
    async def handler(record: Any) -> OutputRecord:
        return OutputRecord("nowhere", record.value)

    async def scenario() -> None:
        await write(broker, [b"v"])
        async with member(broker, request_timeout_ms=1_000) as consumer:
            with pytest.raises(UnknownTopic, match="nowhere"):
                await consumer.process(handler, exactly_once=True)
            assert (await committed(broker)).get(T0, OffsetAndMetadata(0)).offset == 0
            again = await consumer.poll(PATIENCE_MS)
            assert [record.value for batch in again for record in batch] == [b"v"]

    run(scenario)


def test_a_handler_that_returns_no_output_where_one_is_written_fails_as_others_do(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(broker, [b"v"])
        async with member(broker) as consumer:
            with pytest.raises(TypeError, match="returned b'v': with exactly_once it returns an OutputRecord"):
                await consumer.process(lambda record: record.value, exactly_once=True)

    run(scenario)


def test_a_retry_topic_that_is_not_there_ends_process_and_the_record_stays_unfinished(broker: EmbeddedBroker) -> None:
    async def handler(record: Any) -> None:
        raise ValueError(record.offset)

    async def scenario() -> None:
        await write(broker, [b"v"])
        async with member(broker, request_timeout_ms=1_000) as consumer:
            policy = Retry(["1h"], order="none", topic="t.retry")
            with pytest.raises(KafkaError, match=r"the retry topic t.retry cannot be written: .* stays unfinished"):
                await consumer.process(handler, on_error=policy)
            assert consumer.subscription() == {"t"}
        assert (await committed(broker)).get(T0, OffsetAndMetadata(0)).offset == 0

    run(scenario)


def test_after_the_last_attempt_the_record_goes_to_the_dead_letter_topic_as_it_came(broker: EmbeddedBroker) -> None:
    def handler(record: Any) -> None:
        raise ValueError(f"no price in {record.value['id']}")

    async def scenario() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic("dlq", 1)
        async with Producer(broker.bootstrap_servers) as producer:
            await producer.send("t", b'{"id": 7}', key=b"k", partition=0, timestamp_ms=1_000, headers={"own": b"h"})
        letters: list[Any] = []
        reader = Consumer("dlq", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        policy = Retry([0.01], then=DeadLetter("dlq"))
        service = member(broker, value_deserializer=json.loads)
        async with processing(service, handler, on_error=policy), reader as dlq:
            while not letters:
                letters += [record for batch in await dlq.poll(PATIENCE_MS) for record in batch]
        (letter,) = letters
        assert (letter.key, letter.value, letter.timestamp_ms) == (b"k", b'{"id": 7}', 1_000)
        assert dict(letter.headers) == {
            "own": b"h",
            "__connect.errors.topic": b"t",
            "__connect.errors.partition": b"0",
            "__connect.errors.offset": b"0",
            "__connect.errors.connector.name": b"g",
            "__connect.errors.exception.class.name": b"builtins.ValueError",
            "__connect.errors.exception.message": b"no price in 7",
            "kohort.error.attempts": b"2",
        }
        assert (await committed(broker))[T0].offset == 1
        found = service.metrics()
        assert (found["handlers-failed-total"], found["dead-letters-total"]) == (2, 1)

    run(scenario)


def test_a_dead_letter_topic_that_cannot_be_written_ends_process_and_the_record_stays_unfinished(
    broker: EmbeddedBroker,
) -> None:
    async def handler(record: Any) -> None:
        raise ValueError(record.offset)

    async def scenario() -> None:
        await write(broker, [b"v"])
        async with member(broker, request_timeout_ms=1_000) as consumer:
            with pytest.raises(KafkaError, match=r"the dead-letter topic dlq cannot be written: .* stays unfinished"):
                await consumer.process(handler, on_error=DeadLetter("dlq"))
        assert (await committed(broker)).get(T0, OffsetAndMetadata(0)).offset == 0

    run(scenario)


def test_a_record_that_no_value_can_be_made_of_takes_the_same_way(broker: EmbeddedBroker) -> None:
    values = Seen()

    async def handler(record: Any) -> None:
        values.append(record.value)

    async def scenario() -> None:
        await write(broker, [b"1", b"{", b"3"])
        async with member(broker, value_deserializer=json.loads) as consumer:
            with pytest.raises(DeserializationFailed, match="value_deserializer raised JSONDecodeError"):
                await consumer.process(handler)
        async with processing(member(broker, value_deserializer=json.loads), handler, on_error="skip"):
            await values.until(lambda: sorted(values) == [1, 3])
        assert (await committed(broker))[T0].offset == 3

    run(scenario)


def test_a_batch_is_a_list_and_a_plain_function_runs_in_threads(broker: EmbeddedBroker) -> None:
    sizes = Seen()

    async def scenario() -> None:
        await write(broker, [b"v"] * 25)
        async with processing(member(broker), lambda records: sizes.append(len(records)), batch=10):
            await sizes.until(lambda: sum(sizes) == 25)
        assert max(sizes) <= 10

    run(scenario)


def doubled(record: Any) -> None:
    if record.value == b"3":
        raise ArithmeticError("three")


def test_a_handler_may_run_in_other_processes_and_its_exception_comes_back(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(broker, [b"%d" % each for each in range(5)])
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            async with member(broker) as consumer:
                with pytest.raises(ArithmeticError, match="three"):
                    await consumer.process(doubled, executor=pool, ordering="partition")
        assert (await committed(broker))[T0].offset == 3

    run(scenario)


def test_a_handler_that_never_waits_does_not_stop_the_heartbeats(broker: EmbeddedBroker) -> None:
    handled = 0

    async def handler(_: Any) -> None:
        nonlocal handled
        handled += 1

    async def scenario() -> None:
        await write(broker, [b"v"] * 5_000)
        async with processing(member(broker), handler, ordering="none"):
            turns = 0
            while handled < 5_000:
                await asyncio.sleep(0)
                turns += 1
            assert turns > 50

    run(scenario)


def test_without_an_event_loop_it_is_the_same_until_another_thread_stops_the_consumer(broker: EmbeddedBroker) -> None:
    asyncio.run(write(broker, [b"%d" % each for each in range(10)]))
    values = Seen()
    is_done = threading.Event()

    def handler(record: Any) -> None:
        values.append(int(record.value))
        if len(values) == 10:
            is_done.set()

    with sync.Consumer(
        "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        running = threading.Thread(target=consumer.process, args=(handler,))
        running.start()
        assert is_done.wait(PATIENCE_MS / 1000)
        consumer.stop()
        running.join()
    assert sorted(values) == list(range(10))


@pytest.mark.parametrize(
    ("settings", "how", "text"),
    [
        ({"enable_auto_commit": False}, {}, "it needs a group_id, and enable_auto_commit=True"),
        ({}, {"ordering": "topic"}, "ordering='topic' is none of key, partition, none"),
        ({}, {"concurrency": 0}, "concurrency"),
        ({}, {"batch": 0}, "batch"),
        ({}, {"on_error": "retry"}, "on_error='retry' is neither"),
        ({}, {"on_error": DeadLetter("t")}, "the dead-letter topic t is read by this consumer"),
        ({}, {"executor": 4}, "executor=4 is no concurrent.futures.Executor"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    broker: EmbeddedBroker, settings: dict[str, Any], how: dict[str, Any], text: str
) -> None:
    async def scenario() -> None:
        async with member(broker, **settings) as consumer:
            with pytest.raises((TypeError, ValueError), match=text):
                await consumer.process(print, **how)

    run(scenario)
