"""What groups, connections and transactions leave behind in a node once they are gone: nothing."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from types import CellType, FunctionType, GeneratorType, MethodType
from typing import Any

from interop.leaks import TOPIC, live_and_die
from tests.unit.node.desk import Desk, batch, fetch, produce

FIRST, MORE = 70, 20
"""The first fill the caches, such as that of where reads ended."""

CONTAINERS = (dict, list, set, frozenset, tuple, deque)


def census(desk: Desk) -> Counter[str]:
    """Count the objects of our classes that a node reaches, and the entries of each one's containers, without disk."""
    found: Counter[str] = Counter()
    seen, left = {id(desk.disk)}, list[tuple[Any, str]]([(desk.node, "Node")])
    while left:
        each, owner = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            if isinstance(each, CONTAINERS):
                found[f"entries of {owner}"] += len(each)
            elif type(each).__module__.startswith("kohort."):
                owner = type(each).__qualname__
                found[owner] += 1
            left += ((behind, owner) for behind in _behind(each))
    return found


def _behind(each: Any) -> Iterator[Any]:
    """Yield what an object refers to, but no modules and classes."""
    if isinstance(each, FunctionType):
        yield from each.__closure__ or ()
        yield from each.__defaults__ or ()
    elif isinstance(each, MethodType):
        yield each.__self__
    elif isinstance(each, (*CONTAINERS, partial, CellType, GeneratorType)) or (
        type(each).__module__.startswith("kohort.") and not isinstance(each, type)
    ):
        yield from gc.get_referents(each)


class Waiting:
    """A client whose answers come a little later."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.peer = desk.connect()

    def call(self, message: Any, version: int) -> Any:
        self.peer.send(message, version)
        self._desk.advance(5)
        [answer] = self.peer.answers()
        return answer


def live(desk: Desk, number: int) -> None:
    """Let clients come, produce, fetch, be in groups, send half a frame, and go."""
    client = Waiting(desk)
    live_and_die(client, f"group-{number}")
    client.call(produce(TOPIC, batch(b"x")), 9)
    client.call(fetch(TOPIC, 0), 11)
    client.peer.leave()
    hostile = desk.connect(host=f"192.0.2.{number % 200}")
    hostile.feed(b"\0\0\1\0half a frame")
    hostile.leave()
    desk.advance(10)


def test_groups_and_connections_that_are_gone_leave_nothing() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2)
    desk.create(TOPIC, 2)
    for number in range(FIRST):
        live(desk, number)
    desk.advance(120_000)
    before = census(desk)
    for number in range(FIRST, FIRST + MORE):
        live(desk, number)
    desk.advance(120_000)
    assert census(desk) - before == {}
