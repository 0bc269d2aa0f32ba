"""What a command costs follows what it changes: only a target walks the members of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from tests.unit.group.consumer_world import REBALANCE_MS, ConsumerWorld

from kohort.group.commands import Command, ConsumerHeartbeat, TargetMeasured, TimerFired
from kohort.group.decisions import decide
from kohort.group.effects import Append, Note, Reply, Then
from kohort.group.shard import apply


class Unwalkable(dict[str, Any]):
    """Members that can be looked up, counted and changed, but not walked."""

    def _refuse(self) -> NoReturn:
        raise AssertionError("this command walks the members")

    def __iter__(self) -> Iterator[str]:
        self._refuse()

    def keys(self) -> Any:
        self._refuse()

    def values(self) -> Any:
        self._refuse()

    def items(self) -> Any:
        self._refuse()


def large() -> ConsumerWorld:
    """A group whose next targets wait, and whose members cannot be walked meanwhile."""
    world = ConsumerWorld()
    world.stable_with("A", "B", "C")
    world.submit(TargetMeasured("g", 10**9))
    group = world.consumer_group()
    group.members = Unwalkable(group.members)
    return world


JOIN = {"subscribed_topic_names": ("foo", "bar"), "rebalance_timeout_ms": REBALANCE_MS, "owned": ()}


@pytest.mark.parametrize(
    "heartbeat",
    [
        ConsumerHeartbeat("g", "A", 4),
        ConsumerHeartbeat("g", "D", 0, **JOIN),
        ConsumerHeartbeat("g", "D", 0, instance_id="d", **JOIN),
        ConsumerHeartbeat("g", "A", 0, **JOIN),
        ConsumerHeartbeat("g", "A", 4, subscribed_topic_names=("foo",)),
        ConsumerHeartbeat("g", "A", 4, subscribed_topic_regex="f.*"),
        ConsumerHeartbeat("g", "A", 4, server_assignor="scripted"),
        ConsumerHeartbeat("g", "A", -1),
    ],
)
def test_heartbeats_joins_and_leaves_do_not_walk_the_members(heartbeat: ConsumerHeartbeat) -> None:
    (result,) = carried_out(large(), heartbeat)
    assert not result.error


def test_evictions_do_not_walk_the_members() -> None:
    world = large()
    carried_out(world, TimerFired(world.member("A").session))
    assert len(world.consumer_group().members) == 2


def carried_out(world: ConsumerWorld, command: Command) -> list[Any]:
    """Carry a command out, look at nothing else, and return what it is answered."""
    commands, results = [command], []
    while commands:
        for effect in list(decide(world.shard, commands.pop(0), world.now_ms)):
            match effect:
                case Append(event) | Note(event):
                    apply(world.shard, event)
                case Reply(result, _):
                    results.append(result)
                case Then(follower):
                    commands.append(follower)
    return results
