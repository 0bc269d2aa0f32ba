"""A group of real members whose callbacks take their time, with a ledger of who reads what when.

One of them may live in a process of its own, to be killed. What takes time here is what happens: a callback runs, a
restarted process is away, a session times out.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from kohort import Consumer
from kohort.client import RebalanceListener
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition

_PROCESS = """
import asyncio, json, sys
from kohort import Consumer

async def main(topic, settings):
    async with Consumer(topic, **settings) as member:
        while True:
            await member.poll(timeout_ms=50)

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


def now_ms() -> float:
    """Return the time of the clock that the broker has, too."""
    return time.time() * 1000


async def pass_time(delay_ms: float) -> None:
    """Let time pass where that it passes is what happens."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(delay_ms / 1000, over.set_result, None)
    await over


class Ledger:
    """Since when a partition has no reader, and for how long in all, in milliseconds."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.unread_ms = 0.0
        self.read: set[TopicPartition] = set()
        self._since_ms = {TopicPartition(topic, number): now_ms() for number in range(partitions)}

    def begin(self) -> None:
        """Count from now on."""
        self.unread_ms = 0.0

    def start(self, partitions: Partitions) -> None:
        for each in partitions:
            self.unread_ms += now_ms() - self._since_ms.pop(each, now_ms())
            self.read.add(each)

    def stop(self, partitions: Partitions) -> None:
        for each in partitions & self.read:
            self._since_ms[each] = now_ms()
            self.read.remove(each)


class Slow(RebalanceListener):
    """Callbacks that take their time, and say when they were over."""

    def __init__(self, ledger: Ledger, callback_ms: float) -> None:
        self.ended_ms = 0.0
        self.running = 0
        self._ledger = ledger
        self._callback_ms = callback_ms

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._ledger.stop(partitions)
        await self._run()

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self._run()
        self._ledger.start(partitions)

    async def _run(self) -> None:
        self.running += 1
        await pass_time(self._callback_ms)
        self.running -= 1
        self.ended_ms = now_ms()


@dataclass
class LiveGroup:
    """The members of a group that reads a topic of its own name. `settings` are those of every member."""

    address: str
    name: str
    partitions: int
    callback_ms: float
    settings: dict[str, Any] = field(default_factory=dict)
    members: dict[str, Consumer] = field(default_factory=dict)
    listeners: dict[str, Slow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.name, self.partitions)

    def _settings(self, name: str) -> dict[str, Any]:
        return {"bootstrap_servers": self.address, "group_id": self.name, "client_id": name, **self.settings}

    async def start(self, name: str) -> None:
        """Start a member here."""
        listener = self.listeners[name] = Slow(self.ledger, self.callback_ms)
        self.members[name] = Consumer(self.name, listener=listener, **self._settings(name))
        await self.members[name].start()

    def start_apart(self, name: str) -> subprocess.Popen[bytes]:
        """Start a member in a process of its own, whose callbacks take no time."""
        return subprocess.Popen([sys.executable, "-c", _PROCESS, self.name, json.dumps(self._settings(name))])

    async def stop(self, name: str) -> None:
        """Stop a member in good order."""
        await self.members.pop(name).stop()
        del self.listeners[name]

    async def settle(self, *, apart: int = 0) -> None:
        """Wait until all partitions but `apart` are read here, shared evenly, and every callback has returned."""
        async with asyncio.timeout(60):
            while not self._is_settled(apart):
                await asyncio.gather(*[member.poll(timeout_ms=20) for member in self.members.values()])

    def _is_settled(self, apart: int) -> bool:
        counts = [len(member.assignment()) for member in self.members.values()]
        is_quiet = not any(each.running for each in self.listeners.values())
        return is_quiet and max(counts) - min(counts) <= 1 and sum(counts) == self.partitions - apart

    def elsewhere(self) -> Partitions:
        """Return the partitions that no member here reads."""
        return frozenset(TopicPartition(self.name, number) for number in range(self.partitions)) - self.ledger.read

    @property
    def ended_ms(self) -> float:
        """When the last callback returned."""
        return max(each.ended_ms for each in self.listeners.values())

    async def end(self) -> None:
        """Stop every member."""
        await asyncio.gather(*[member.stop() for member in self.members.values()])
