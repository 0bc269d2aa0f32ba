"""The client itself in simulated worlds: programs of every protocol and habit, and the same bytes for the same seed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sim.client_programs import FAMILIES, start

import kohort.sim
from kohort import Producer, Record, TopicPartition
from kohort.sim import World
from kohort.sim.trace import Trace
from kohort.sim.users.world_options import WorldOptions, draw_world

SEEDS = 7
"""Of each family of programs."""


@pytest.mark.parametrize("family", list(FAMILIES))
@kohort.sim.world(seeds=SEEDS)
def test_a_correct_program_survives_whatever_its_world_does(world: World, family: str) -> None:
    start(world, (family,))
    world.run()


@kohort.sim.world(seeds=[78])
def test_a_stale_commit_is_not_sent_again_for_partitions_that_were_lost_in_between(world: World) -> None:
    """The member thaws after it was evicted, and joins again before its commit is refused."""

    async def app() -> None:
        async with world.consumer("orders", group_protocol="consumer") as consumer:
            async for record in consumer:
                world.done(record)

    world.start(app)
    world.run()


@pytest.mark.parametrize("uses_process", [False, True])
@kohort.sim.world(faults=None, instances=1, topics={"orders": 1})
async def test_the_marker_of_a_transaction_is_read_and_committed_though_no_record_follows(
    world: World, uses_process: bool
) -> None:
    async def handle(_: Record) -> None:
        pass

    async def app() -> None:
        async with world.consumer("orders") as consumer:
            if uses_process:
                await consumer.process(handle)
            async for _ in consumer:
                pass

    world.start(app)
    async with Producer(world.bootstrap_servers, transactional_id="writer") as producer:
        for _ in range(2):
            async with producer.transaction():
                await (await producer.send("orders", b"v"))
                await asyncio.sleep(10)  # its record is read before its marker
        await asyncio.sleep(10)
    assert world.committed == world.end_offsets == {TopicPartition("orders", 0): 4}


@kohort.sim.world(faults=None, instances=1, topics={"orders": 1})
async def test_neither_a_marker_nor_what_was_aborted_has_to_take_effect(world: World) -> None:
    async def app() -> None:
        async with world.consumer("orders", isolation_level="read_committed") as consumer:
            async for record in consumer:
                world.done(record)

    world.start(app)
    async with Producer(world.bootstrap_servers, transactional_id="writer") as producer:
        for fate in ("aborted", "committed", "aborted"):
            with contextlib.suppress(LookupError):
                async with producer.transaction():
                    await (await producer.send("orders", fate.encode()))
                    if fate == "aborted":
                        raise LookupError
        await asyncio.sleep(10)


def trace_of(seed: int, family: str) -> list[str]:
    """Run one world; return its trace."""
    lines: list[str] = []
    wishes = WorldOptions(seconds=15)
    world = World(draw_world(seed, wishes), wishes, [Trace(lines.append)])
    start(world, (family,))
    world.run()
    world.conclude()
    world.close()
    return lines


def test_one_seed_is_one_run_whatever_the_hashes_and_addresses_are() -> None:
    script = (
        "from tests.sim.test_user_world_clients import trace_of; import sys\n"
        "for family in ('cooperative', 'mixed'): sys.stdout.write('\\n'.join(trace_of(5, family)))"
    )
    runs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert ran.returncode == 0, ran.stderr
        runs.append(ran.stdout.splitlines())
    assert len(runs[0]) > 500
    assert runs[0] == runs[1]
