"""A record batch that cannot be read costs no good record: those before it come first, then each poll raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from tests.integration.commands import Commands
from tests.integration.scenario_book import PATIENCE_MS, create, run

from kohort import DeadLetter, Retry
from kohort import Record as ClientRecord
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Cluster, Consumer
from kohort.client.consumer.range_reader import read_ranges
from kohort.model.ids import TopicPartition
from kohort.wire.crc32c import crc32c
from kohort.wire.messages import ProduceRequest
from kohort.wire.record_batches import HEADER_SIZE, CorruptBatch, Record, encode_batch

COUNT = 10
"""Records of each batch."""


def sound() -> bytes:
    return encode_batch([Record(0, 1_000, None, b"%d" % at) for at in range(COUNT)])


def rubbish() -> bytes:
    """Return a batch with the right CRC whose records are none."""
    batch = bytearray(sound())
    batch[HEADER_SIZE:] = b"\xff" * (len(batch) - HEADER_SIZE)
    return sealed(batch)


def out_of_place() -> bytes:
    """Return a batch with the right CRC whose records all have the same offset."""
    payload = sound()[HEADER_SIZE:]
    size = len(payload) // COUNT
    return sealed(bytearray(sound()[:HEADER_SIZE] + payload[:size] * COUNT))


def sealed(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


async def write(bootstrap: str, partition: TopicPartition, *batches: bytes) -> None:
    """Append record batches as they are: the broker looks at their headers and CRCs only."""
    async with Cluster(bootstrap) as cluster:
        leader = await cluster.leader(partition)
        for batch in batches:
            part = ProduceRequest.TopicData.PartitionData(index=partition.partition, records=batch)
            topic = ProduceRequest.TopicData(name=partition.topic, partition_data=[part])
            answer = await cluster.call(
                leader, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), highest=12
            )
            assert answer.responses[0].partition_responses[0].error_code == 0


def flip(directory: Path, partition: TopicPartition, batch: int, at: int) -> None:
    """Change one byte of a batch where it lies on the disk."""
    [segment] = directory.glob(f"**/{partition}/*.log")
    stored = bytearray(segment.read_bytes())
    stored[batch * len(sound()) + at] ^= 0xFF
    segment.write_bytes(stored)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path, group_initial_rebalance_delay_ms=0) as found:
        yield found


Spoil = Callable[[Path, TopicPartition], None]
NOTHING: Spoil = lambda *_: None  # noqa: E731
SPOILED: dict[str, tuple[bytes, Spoil]] = {
    "rubbish with the right CRC": (rubbish(), NOTHING),
    "records at impossible offsets": (out_of_place(), NOTHING),
    "a record that flipped": (sound(), lambda folder, partition: flip(folder, partition, 1, HEADER_SIZE + 5)),
    "a base offset that flipped in a header": (sound(), lambda folder, partition: flip(folder, partition, 1, 1)),
    "a length that flipped in a header": (sound(), lambda folder, partition: flip(folder, partition, 1, 9)),
    "a magic that flipped in a header": (sound(), lambda folder, partition: flip(folder, partition, 1, 16)),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_valid_records_come_first_and_the_position_stays_at_what_cannot_be_read(
    broker: EmbeddedBroker, tmp_path: Path, kind: str
) -> None:
    batch, spoil = SPOILED[kind]

    async def prepare(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await write(bootstrap, TopicPartition(name, 0), sound(), batch, sound())

    async def scenario(bootstrap: str, name: str) -> None:
        partition = TopicPartition(name, 0)
        settings = {"bootstrap_servers": bootstrap, "group_id": name, "auto_offset_reset": "earliest"}
        offsets: list[int] = []
        async with Consumer(name, **settings) as consumer:  # type: ignore[arg-type]
            errors: list[CorruptBatch] = []
            while len(errors) < 3:
                try:
                    for found in await consumer.poll(PATIENCE_MS):
                        offsets += [record.offset for record in found]
                except CorruptBatch as error:
                    errors.append(error)
            assert offsets == list(range(COUNT))
            assert {(error.partition, error.offset) for error in errors} == {(partition, COUNT)}
            assert await consumer.position(partition) == COUNT
            assert {error.next_offset for error in errors} == {None if "header" in kind else 2 * COUNT}
            if (further := errors[0].next_offset) is not None:
                consumer.seek(partition, further)
                [after] = await consumer.poll(PATIENCE_MS)
                assert [record.offset for record in after] == list(range(2 * COUNT, 3 * COUNT))
            consumer.seek(partition, COUNT)
            with pytest.raises(CorruptBatch):
                await consumer.poll(PATIENCE_MS)
        async with Admin(bootstrap) as admin:
            assert (await admin.group_offsets(name))[partition].offset == COUNT, (
                "no commit goes past what was handed out"
            )

    run(prepare, broker.bootstrap_servers, "spoiled")
    broker.stop()
    spoil(tmp_path, TopicPartition("spoiled", 0))
    broker.start()
    run(scenario, broker.bootstrap_servers, "spoiled")


def test_other_partitions_are_read_while_the_one_is_paused(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 2)
        bad, good = TopicPartition(name, 0), TopicPartition(name, 1)
        await write(bootstrap, bad, rubbish())
        async with Consumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            with pytest.raises(CorruptBatch):
                await consumer.poll(PATIENCE_MS)
            consumer.pause([bad])
            await write(bootstrap, good, sound())
            assert sum(len(batch) for batch in await consumer.poll(PATIENCE_MS)) == COUNT
            consumer.resume([bad])
            with pytest.raises(CorruptBatch):
                await consumer.poll(PATIENCE_MS)

    run(scenario, broker.bootstrap_servers, "paused")


@pytest.mark.parametrize("policy", ["skip", DeadLetter("letters"), Retry(["1h"], then=DeadLetter("letters"))])
def test_a_service_handles_what_lies_around_a_batch_that_cannot_be_read_as_its_policy_has_it(
    broker: EmbeddedBroker, policy: DeadLetter | Retry | Literal["skip"]
) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await create(bootstrap, "letters", 1)
        await write(bootstrap, TopicPartition(name, 0), sound(), rubbish(), sound())
        handled: list[int] = []

        async def handler(record: ClientRecord) -> None:
            handled.append(record.offset)
            if len(handled) == 2 * COUNT:
                stopping.append(asyncio.ensure_future(consumer.stop()))

        stopping: list[asyncio.Future[None]] = []
        consumer = Consumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest")
        async with consumer:
            await consumer.process(handler, on_error=policy)
            await asyncio.gather(*stopping)
        assert sorted(handled) == [*range(COUNT), *range(2 * COUNT, 3 * COUNT)]
        async with Admin(bootstrap) as admin:
            assert (await admin.group_offsets(name))[TopicPartition(name, 0)].offset == 3 * COUNT
            ends = await admin.list_offsets({TopicPartition("letters", 0): "latest"})
        written = ends[TopicPartition("letters", 0)].offset
        assert written == (0 if policy == "skip" else 1)
        if written:
            async with Consumer("letters", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as reader:
                [[letter]] = await reader.poll(PATIENCE_MS)
            assert (letter.key, letter.value[21:]) == (None, rubbish()[21:]), "the bytes behind what the broker sets"
            assert (
                dict(letter.headers)["__connect.errors.offset"],
                dict(letter.headers)["kohort.error.attempts"],
            ) == (b"10", b"1")

    run(scenario, broker.bootstrap_servers, "served")


def test_without_a_policy_a_service_ends_at_a_batch_that_cannot_be_read(broker: EmbeddedBroker) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await write(bootstrap, TopicPartition(name, 0), sound(), rubbish(), sound())
        handled: list[int] = []
        async with Consumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest") as consumer:
            with pytest.raises(CorruptBatch, match="seek to 20"):
                await consumer.process(lambda record: handled.append(record.offset))
        assert set(handled) <= set(range(COUNT)), "nothing behind it was handled"

    run(scenario, broker.bootstrap_servers, "ended")


@pytest.mark.parametrize("at", [1, 16], ids=["base offset", "magic"])
def test_a_range_is_read_up_to_what_cannot_be_read(broker: EmbeddedBroker, tmp_path: Path, at: int) -> None:
    async def prepare(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await write(bootstrap, TopicPartition(name, 0), sound(), sound(), sound())

    run(prepare, broker.bootstrap_servers, "ranges")
    partition = TopicPartition("ranges", 0)
    broker.stop()
    flip(tmp_path, partition, 1, at)
    broker.start()
    ranges = read_ranges(broker.bootstrap_servers, [(partition, 0, 3 * COUNT)])
    assert len(next(ranges)[1]) == len(sound())
    with pytest.raises(CorruptBatch, match="ranges-0 cannot be read at offset 10"):
        next(ranges)


def test_the_command_line_writes_the_sound_records_and_names_where_it_stopped(kohort: Commands) -> None:
    kohort("topics", "create", "torn", "--partitions", "2")
    bootstrap = kohort.address
    asyncio.run(write(bootstrap, TopicPartition("torn", 0), sound(), rubbish(), sound()))
    asyncio.run(write(bootstrap, TopicPartition("torn", 1), sound()))
    outcome = kohort("consume", "torn", "--from-beginning", "--group", "torn")
    assert sorted(outcome.out.split()) == sorted(2 * [str(at) for at in range(COUNT)])
    assert outcome.status == 1
    assert "torn-0 cannot be read at offset 10" in outcome.err
