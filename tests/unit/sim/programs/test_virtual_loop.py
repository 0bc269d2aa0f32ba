"""A program on a virtual loop lives as on its own machine: its time passes, and it dies and stops with its host."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import pytest

from kohort.net import environment
from kohort.sim.kernel.host import WALL_MS, Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.programs.virtual_loop import NotSimulated, Stalled, VirtualLoop


class Machine:
    """One host with a loop."""

    def __init__(self, drift_ppm: int = 0) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(1))
        self.host = Host("app", self.scheduler, drift_ppm=drift_ppm)
        self.loop = VirtualLoop(self.host, self.network, Random(2))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def pass_s(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.loop.close()


def test_an_hour_of_sleep_takes_none_and_ends_at_its_time(machine: Machine) -> None:
    async def sleep() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert machine.run(sleep()) == 3600
    assert machine.scheduler.now_us == 3_600_000_000


def test_a_timer_never_fires_before_its_time_by_the_clock_of_its_host() -> None:
    machine = Machine(drift_ppm=333)

    async def sleep() -> None:
        loop = asyncio.get_running_loop()
        for delay in (0.1, 1 / 3, 1e-7, 0.0000004, 2.7182818284, 0):
            until = loop.time() + delay
            async with asyncio.timeout_at(until + 60):
                await asyncio.sleep(delay)
            assert loop.time() >= until

    machine.run(sleep())
    machine.loop.close()


def test_a_host_whose_clock_is_fast_wakes_early_by_the_time_of_the_world() -> None:
    machine = Machine(drift_ppm=100_000)
    machine.run(asyncio.sleep(11))
    assert machine.scheduler.now_us == 10_000_000
    machine.loop.close()


def test_tasks_groups_queues_and_timeouts_work_as_on_any_loop(machine: Machine) -> None:
    async def work() -> list[str]:
        seen: list[str] = []
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        ready = asyncio.Event()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
                await asyncio.sleep(1)
            ready.set()

        async def consume() -> None:
            while not ready.is_set() or not queue.empty():
                try:
                    async with asyncio.timeout(0.4):
                        seen.append(f"got {await queue.get()}")
                except TimeoutError:
                    seen.append("late")

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
        return seen

    assert machine.run(work()) == ["got 0", "late", "late", "got 1", "late", "late", "got 2", "late", "late", "late"]


def test_a_group_cancels_its_tasks_in_the_order_of_their_making(machine: Machine) -> None:
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(99)
        finally:
            ended.append(number)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(wait(number))
            await asyncio.sleep(1)
            raise ValueError

    with pytest.raises(ExceptionGroup):
        machine.run(work())
    assert ended == list(range(50))


def test_a_killed_process_does_nothing_more_not_even_its_last_words(machine: Machine) -> None:
    lines: list[str] = []

    async def live() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                lines.append("alive")
        finally:
            asyncio.get_running_loop().call_soon(lines.append, "scheduled")
            lines.append("dropped")

    machine.loop.create_task(live())
    machine.pass_s(2.5)
    machine.host.kill()
    machine.pass_s(10)
    assert lines == ["alive", "alive"]
    machine.loop.close()
    machine.pass_s(10)
    assert lines == ["alive", "alive", "dropped"]


def test_a_frozen_process_continues_where_it_stood_and_sees_that_time_has_passed(machine: Machine) -> None:
    times: list[float] = []

    async def live() -> None:
        while True:
            await asyncio.sleep(1)
            times.append(asyncio.get_running_loop().time())

    machine.loop.create_task(live())
    machine.pass_s(1.5)
    machine.host.freeze(30_000_000)
    machine.pass_s(30)
    assert times == [1, 30, 31]


def test_a_program_that_never_waits_uses_up_time(machine: Machine) -> None:
    async def spin() -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < 0.01:
            await asyncio.sleep(0)

    machine.run(spin())
    assert machine.scheduler.now_us >= 10_000


def test_a_blocking_call_runs_without_a_thread_at_some_moment_soon(machine: Machine) -> None:
    async def work() -> tuple[int, float]:
        result = await asyncio.to_thread(sum, (1, 2, 3))
        return result, asyncio.get_running_loop().time()

    result, at_s = machine.run(work())
    assert result == 6
    assert 0 <= at_s < 0.02


def test_a_blocking_call_that_fails_raises_in_who_waits_for_it(machine: Machine) -> None:
    async def work() -> None:
        await asyncio.to_thread(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        machine.run(work())


def test_a_world_in_which_nothing_is_left_to_happen_reports_it(machine: Machine) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="nothing is left to happen"):
        machine.run(wait())


def test_a_signal_reaches_the_programs_own_function(machine: Machine) -> None:
    async def serve() -> str:
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stopped.set)
        loop.call_later(5, machine.loop.receive, signal.SIGTERM)
        await stopped.wait()
        return f"stopped at {loop.time():.0f} s"

    assert machine.run(serve()) == "stopped at 5 s"
    assert machine.loop.remove_signal_handler(signal.SIGTERM)
    assert not machine.loop.receive(signal.SIGTERM)


@pytest.mark.parametrize(
    "reach_out",
    [
        lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
        lambda loop: loop.create_server(asyncio.Protocol, "app", 80),
        lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
        lambda loop: loop.add_reader(0, print),
    ],
)
def test_what_is_real_is_refused_with_a_sentence(machine: Machine, reach_out: Any) -> None:
    with pytest.raises(NotSimulated, match="in a simulated world: "):
        reach_out(machine.loop)


def test_the_loop_runs_under_asyncios_own_runner() -> None:
    machine = Machine()

    async def generate() -> Any:
        for number in range(3):
            await asyncio.sleep(1)
            yield number

    async def work() -> list[int]:
        return [number async for number in generate()]

    with asyncio.Runner(loop_factory=lambda: machine.loop) as runner:
        assert runner.run(work()) == [0, 1, 2]
    assert machine.loop.is_closed()


def test_a_loop_leaves_the_one_around_it_as_it_was(machine: Machine) -> None:
    async def outer() -> float:
        around = asyncio.get_running_loop()
        machine.loop.create_task(asyncio.sleep(5))
        machine.pass_s(10)
        assert asyncio.get_running_loop() is around
        return machine.loop.time()

    assert asyncio.run(outer()) == 10


def test_random_numbers_and_wall_time_come_from_the_loop(machine: Machine) -> None:
    async def look() -> tuple[float, bytes, int]:
        await asyncio.sleep(2)
        return environment.random(), environment.randbytes(4), environment.wall_clock()()

    random = Random(2)
    assert machine.run(look()) == (random.random(), random.randbytes(4), WALL_MS + 2000)


def test_threads_are_refused_where_the_loop_has_none(machine: Machine) -> None:
    async def start() -> None:
        environment.require("threads")

    with pytest.raises(NotSimulated, match="no threads"):
        machine.run(start())
    environment.require("threads")
