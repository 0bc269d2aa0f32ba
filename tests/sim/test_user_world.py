"""A user's program in a world: what the decorator makes of a test, and what breaks one."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import kohort.sim
from kohort import KafkaError, TopicPartition
from kohort.model.errors import ErrorCode
from kohort.sim import World, WorldFailed
from kohort.sim.kernel.host import WALL_MS

T0 = TopicPartition("orders", 0)


def reader(world: World, **settings: Any) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a program that reads everything, with auto-commit."""

    async def app() -> None:
        async with world.consumer("orders", **settings) as consumer:
            async for record in consumer:
                world.done(record)

    return app


# The decorator


@kohort.sim.world(seeds=3)
def test_a_program_that_does_nothing_wrong_passes(world: World, tmp_path: Path) -> None:
    assert tmp_path.is_dir(), "other parameters are fixtures, as ever"
    world.start(reader(world))
    world.run()
    world.settle()
    processed = {partition: set(offsets) for partition, offsets in world.processed.items()}
    assert processed == {each: set(range(end)) for each, end in world.end_offsets.items() if end}


@kohort.sim.world(seeds=2)
async def test_a_test_may_be_async_and_waits_in_the_worlds_time(world: World) -> None:
    world.start(reader(world))
    await asyncio.sleep(60)
    assert world.now == 60


@kohort.sim.world
def test_the_decorator_needs_no_arguments(world: World) -> None:
    assert world.topics == {"orders": 4}


def test_outside_pytest_it_is_a_plain_function_that_raises() -> None:
    ran: list[int] = []

    @kohort.sim.world(seeds=range(3, 6))
    def check(world: World, word: str) -> None:
        ran.append(world.seed)
        assert word != "no" or world.seed != 4, "four is no good"

    check("yes")
    assert ran == [3, 4, 5]
    with pytest.raises(WorldFailed, match="four is no good") as failed:
        check(word="no")
    assert (failed.value.seed, failed.value.invariant) == (4, "AssertionError")
    assert isinstance(failed.value.__cause__, AssertionError), "with where it was raised"


def test_one_seed_can_be_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    @kohort.sim.world(seeds=10)
    def check(world: World) -> None:
        ran.append(world.seed)

    monkeypatch.setenv("KOHORT_SEED", "77")
    check()
    monkeypatch.delenv("KOHORT_SEED")
    monkeypatch.setenv("KOHORT_SEEDS", "2")
    check()
    assert ran == [77, 0, 1]


def test_a_test_without_a_world_and_a_fault_that_does_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="a parameter named 'world'"):
        kohort.sim.world(seeds=1)(lambda: None)
    with pytest.raises(ValueError, match="there is no fault 'earthquake': choose among"):
        kohort.sim.world(faults=["earthquake"])


def test_what_the_seed_does_not_decide_is_reported() -> None:
    runs: list[int] = []

    @kohort.sim.world(seeds=1)
    def check(world: World) -> None:
        runs.append(world.seed)
        assert len(runs) > 1

    with pytest.raises(WorldFailed, match="did not fail a second time"):
        check()


# What breaks a world


def broken(app: Callable[[World], Callable[..., Coroutine[Any, Any, None]]], **wishes: Any) -> WorldFailed:
    """Run a program until its world breaks; return how."""

    @kohort.sim.world(**wishes)
    def check(world: World) -> None:
        world.start(app(world))
        world.run()

    with pytest.raises(WorldFailed) as failed:
        check()
    return failed.value


def test_a_record_that_is_committed_and_forgotten_is_missed_and_the_story_names_the_instance() -> None:
    def forgetful(world: World) -> Callable[[], Coroutine[Any, Any, None]]:
        async def app() -> None:
            async with world.consumer("orders") as consumer:
                async for record in consumer:
                    if record.offset != 7:
                        world.done(record)

        return app

    failed = broken(forgetful, seeds=1, faults=["burst"])
    assert failed.invariant == "AtLeastOnce"
    assert re.search(r"@7 never took effect: app-\d was handed it at", str(failed))
    assert re.search(r"app-\d committed", str(failed))
    assert "--kohort-seed 0" in str(failed)


def test_a_program_that_stops_reading_does_not_come_to_rest() -> None:
    def sleepy(world: World) -> Callable[[], Coroutine[Any, Any, None]]:
        async def app() -> None:
            async with world.consumer("orders") as consumer:
                await anext(consumer)
                await asyncio.Event().wait()

        return app

    assert broken(sleepy, seeds=1, faults=["burst"], instances=1).invariant == "ConvergesAfterHealing"


def test_a_defect_of_the_program_ends_its_world_and_is_shown_with_its_traceback() -> None:
    def faulty(world: World) -> Callable[[], Coroutine[Any, Any, None]]:
        async def app() -> None:
            async with world.consumer("orders") as consumer:
                async for _ in consumer:
                    raise LookupError("no such customer")

        return app

    failed = broken(faulty, seeds=1)
    assert failed.invariant == "ProgramFailed"
    assert isinstance(failed.__cause__, LookupError)


@kohort.sim.world(seeds=1, faults=["burst"], instances=1)
def test_a_program_that_crashes_of_its_world_is_started_again(world: World) -> None:
    async def app() -> None:
        if world.instances[0].crashes < 3:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the cluster is away")
        await reader(world)()

    world.start(app)
    world.settle()
    assert world.instances[0].crashes == 3


def test_a_check_of_the_users_own_breaks_a_world() -> None:
    @kohort.sim.world(seeds=1)
    def check(world: World) -> None:
        world.invariant(lambda: world.now < 5)
        world.start(reader(world))
        world.run()

    with pytest.raises(WorldFailed, match=r"broke AssertionError after 5\.000 s"):
        check()


# Time, random numbers and what is not there


@kohort.sim.world(faults=None, instances=2)
def test_the_standard_library_has_the_worlds_time_and_random_numbers(world: World) -> None:
    seen: dict[str, list[Any]] = {}

    async def app(instance: kohort.sim.Instance) -> None:
        began = time.monotonic()
        time.sleep(2)
        await asyncio.sleep(1)
        mine = seen.setdefault(instance.name, [])
        mine += [time.monotonic() - began, time.time() * 1000 - WALL_MS, uuid.uuid4(), random.random()]

    real = time.time()
    world.start(app)
    world.run(10)
    assert abs(time.time() - real) < 60, "the test itself has the system's time"
    assert [each[0] for each in seen.values()] == [3.0, 3.0]
    assert [round(each[1]) for each in seen.values()] == [3000, 3000]
    assert seen["app-1"][2:] != seen["app-2"][2:]


@pytest.mark.parametrize(
    ("reach_out", "what"),
    [
        (lambda: threading.Thread(target=print).start(), "no thread"),
        (lambda: subprocess.run(["true"], check=True), "no subprocess"),
        (lambda: socket.create_connection(("127.0.0.1", 9)), "no socket"),
        (print, "no threads"),
    ],
)
def test_what_is_real_is_refused_in_a_program(reach_out: Callable[[], object], what: str) -> None:
    if what == "no threads":
        from kohort.sync import Admin

        reach_out = Admin("n1:9092").start

    def app(_: World) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            reach_out()

        return main

    assert what in str(broken(app, seeds=1))


def test_only_the_test_lets_time_pass() -> None:
    def app(world: World) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            world.run(1)

        return main

    assert "the test lets time pass, not the program" in str(broken(app, seeds=1))


def test_pytest_runs_the_seeds_that_its_options_name(tmp_path: Path) -> None:
    module = tmp_path / "test_ran.py"
    module.write_text(
        "import kohort.sim\n\n@kohort.sim.world(seeds=9)\ndef test_it(world):\n    print(f'<{world.seed}>')\n"
    )
    for options, ran in ((["--kohort-seed", "7"], ["7"]), (["--kohort-seeds", "2"], ["0", "1"])):
        # It finds the plugin by itself here, and would rewrite the assertions of all of kohort for that.
        command = [sys.executable, "-m", "pytest", "--assert=plain", "-qsp", "no:cacheprovider", *options, str(module)]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert re.findall(r"<(\d+)>", outcome.stdout) == ran, outcome.stdout + outcome.stderr
