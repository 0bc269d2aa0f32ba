"""Worlds that a test leads by hand: one thing happens at a time, in every protocol."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import kohort.sim
from kohort import CooperativeStickyAssignor, RebalanceListener, TopicPartition
from kohort.model.assignment import Partitions
from kohort.sim import Instance, World

SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "eager": dict,
    "cooperative": lambda: {"assignors": (CooperativeStickyAssignor(),)},
    "consumer": lambda: {"group_protocol": "consumer"},
}
every_protocol = pytest.mark.parametrize("kind", list(SETTINGS))

Calls = list[tuple[str, str, list[int]]]


class Listening(RebalanceListener):
    """Records its callbacks."""

    def __init__(self, name: str, calls: Calls) -> None:
        self.name = name
        self.calls = calls

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.calls.append((self.name, "assigned", [number for _, number in partitions]))

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.calls.append((self.name, "revoked", [number for _, number in partitions]))

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self.calls.append((self.name, "lost", [number for _, number in partitions]))


def reader(world: World, kind: str, calls: Calls) -> Callable[[Instance], Coroutine[Any, Any, None]]:
    async def app(instance: Instance) -> None:
        settings = SETTINGS[kind]()
        async with world.consumer("orders", listener=Listening(instance.name, calls), **settings) as consumer:
            async for record in consumer:
                world.done(record)

    return app


@every_protocol
@kohort.sim.world(faults=None, instances=2)
def test_records_that_are_sent_are_read_and_committed(world: World, kind: str) -> None:
    world.start(reader(world, kind, []))
    world.wait_stable()
    world.send("orders", b"a", b"b", partition=1)
    world.settle()
    world.run(10)
    assert world.processed == {TopicPartition("orders", 1): [0, 1]}
    assert world.committed[TopicPartition("orders", 1)] == 2


@every_protocol
@kohort.sim.world(faults=None, instances=1)
def test_another_instance_takes_partitions_that_are_revoked_before(world: World, kind: str) -> None:
    calls: Calls = []
    world.start(reader(world, kind, calls))
    world.wait_stable()
    came = world.revoke()
    assert came.name == "app-2"
    revoked = [numbers for name, what, numbers in calls if (name, what) == ("app-1", "revoked")]
    assert len(revoked[-1]) == (4 if kind == "eager" else 2)
    assert ("app-2", "lost", []) not in calls


@every_protocol
@kohort.sim.world(faults=None, instances=2)
def test_a_rebalance_leaves_the_group_as_it_was(world: World, kind: str) -> None:
    calls: Calls = []
    world.start(reader(world, kind, calls))
    world.wait_stable()
    before = len(calls)
    world.rebalance()
    assert len(calls) > before
    assert [each.is_up for each in world.instances] == [True, True, False]


@every_protocol
@kohort.sim.world(faults=None, instances=2)
def test_an_instance_loses_its_partitions_and_knows_it(world: World, kind: str) -> None:
    calls: Calls = []
    world.start(reader(world, kind, calls))
    world.wait_stable()
    loser = world.lose()
    assert any(name == loser.name and what == "lost" for name, what, _ in calls)
    world.settle()


@every_protocol
@kohort.sim.world(faults=None, instances=2)
def test_a_killed_instance_sends_no_leave_and_its_partitions_move_to_the_others(world: World, kind: str) -> None:
    calls: Calls = []
    world.start(reader(world, kind, calls))
    world.wait_stable()
    killed = world.kill()
    before = [entry for entry in calls if entry[0] == killed.name]
    world.run(30)
    assert [entry for entry in calls if entry[0] == killed.name] == before
    granted = [numbers for name, what, numbers in calls if name != killed.name and what == "assigned"]
    owned = {number for numbers in granted for number in numbers}
    assert owned == {0, 1, 2, 3}
    killed.start()
    world.settle()


@every_protocol
@kohort.sim.world(faults=None, instances=2)
def test_a_broker_that_comes_back_finds_its_group(world: World, kind: str) -> None:
    world.start(reader(world, kind, []))
    world.wait_stable()
    for how in ("kill", "stop", "power loss"):
        world.restart_broker(seconds=2, how=how)
        world.run(5)
        world.send("orders", how.encode())
    world.settle()
    assert world.processed[TopicPartition("orders", 0)] == [0, 1, 2]
    with pytest.raises(ValueError, match="how='gently' is not one of kill, stop, power loss"):
        world.restart_broker(how="gently")


@every_protocol
@kohort.sim.world(faults=None, instances=2)
def test_an_instance_that_is_frozen_or_cut_off_for_a_moment_loses_nothing(world: World, kind: str) -> None:
    calls: Calls = []
    world.start(reader(world, kind, calls))
    world.wait_stable()
    world.freeze(2)
    world.run(5)
    world.cut_off(2)
    world.run(5)
    world.settle()
    assert not any(what == "lost" for _, what, _ in calls)


@kohort.sim.world(faults=None, instances=1)
def test_a_program_that_is_stopped_gives_its_partitions_back(world: World) -> None:
    calls: Calls = []
    world.start(reader(world, "eager", calls))
    world.wait_stable()
    instance = world.stop()
    world.run(5)
    assert not instance.is_running
    assert calls[-1] == ("app-1", "revoked", [0, 1, 2, 3])
    with pytest.raises(RuntimeError, match="no instance is up"):
        world.kill()


@kohort.sim.world(faults=None, instances=1)
def test_who_owns_nothing_has_nothing_to_lose(world: World) -> None:
    world.start(reader(world, "eager", []))
    with pytest.raises(RuntimeError, match="app-1 owns nothing that it could lose"):
        world.lose()
