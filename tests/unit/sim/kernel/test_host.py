"""A machine of a world: what comes up while its process is frozen happens when it thaws, in the order it came."""

from __future__ import annotations

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.scheduler import Scheduler


def test_what_comes_up_while_a_process_is_frozen_is_in_order_however_often_the_pause_is_made_longer() -> None:
    scheduler = Scheduler()
    host = Host("n1", scheduler)
    done: list[str] = []
    host.at_us(20, done.append, "first")
    host.at_us(60, done.append, "second")
    host.freeze(50)
    scheduler.run_until(40)
    host.freeze(100)
    scheduler.run_until(99)
    assert done == []
    scheduler.run_until(100)
    assert done == ["first", "second"]


def test_what_comes_up_at_the_moment_of_the_thaw_waits_for_what_was_postponed() -> None:
    scheduler = Scheduler()
    host = Host("n1", scheduler)
    done: list[str] = []
    host.at_us(20, done.append, "kept")
    host.at_us(50, done.append, "then")
    host.freeze(50)
    scheduler.run_until(50)
    assert done == ["kept", "then"]


def test_what_was_postponed_dies_with_its_process() -> None:
    scheduler = Scheduler()
    host = Host("n1", scheduler)
    done: list[str] = []
    host.at_us(20, done.append, "old")
    host.freeze(50)
    scheduler.run_until(30)
    host.kill()
    host.boot()
    host.at_us(40, done.append, "new")
    scheduler.run_until(60)
    assert done == ["new"]
