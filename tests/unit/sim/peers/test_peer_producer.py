"""The producer of a world: what it was asked to write is in the log, once."""

from __future__ import annotations

import pytest
from tests.unit.sim.world_of_peers import PeerWorld

from kohort.wire.record_batches import decode_batch, iter_batches


def logged(world: PeerWorld) -> dict[int, list[int]]:
    """Return the numbers of the records of each partition."""
    assert world.node.node is not None
    topic = world.node.node.topics.get("t")
    assert topic is not None
    found: dict[int, list[int]] = {}
    for partition in topic.partitions:
        numbers = found[partition.index] = []
        log = partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for header, batch in iter_batches(memoryview(b"".join(log.read(offset, 1 << 20)))):
                numbers += [int(record.value or b"") for record in decode_batch(bytes(batch))]
                offset = header.last_offset + 1
    return found


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_written_once_whatever_breaks(seed: int) -> None:
    world = PeerWorld(seed=seed, **{"log.flush.interval.messages": "1"})
    world.network.loss = 0.05
    world.feeder.start()
    random = world.rng.stream("faults")
    for _ in range(12):
        world.pass_s(0.3 + random.random())
        if random.random() < 0.6:
            for end in world.network.open_ends("feed"):
                world.network.break_connection(end)
        else:
            world.node.end("kill" if random.random() < 0.5 else "power loss")
            world.pass_s(random.random())
            assert world.node.start()
    world.feeder.stop()
    world.pass_s(15)
    assert world.feeder.is_idle
    found = logged(world)
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(world.feeder.number))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_what_was_for_a_partition_that_is_gone_is_forgotten() -> None:
    world = PeerWorld()
    world.node.end("kill")
    world.feeder.burst("t", 100)
    world.pass_s(2)
    world.topics.clear()
    assert world.node.start()
    world.pass_s(5)
    assert world.feeder.is_idle
