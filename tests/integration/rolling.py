"""A group of members of ours that is restarted one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kohort import Admin, Consumer


class Roll:
    """Members by name, each with an equal share of the partitions of one topic."""

    def __init__(self, address: str, topic: str, names: Sequence[str], partitions: int) -> None:
        self.topic = topic
        self.names = names
        self.share = partitions // len(names)
        self.partitions = partitions
        self.members: dict[str, Consumer] = {}
        self._settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": topic}

    async def begin(self, protocol: str = "classic", **settings: Any) -> None:
        """Make the topic, start every member, and wait until all have their shares."""
        async with Admin(self._settings["bootstrap_servers"]) as admin:
            await admin.create_topic(self.topic, partitions=self.partitions)
        for name in self.names:
            await self.start(name, protocol, **settings)
        await self.settle()

    async def start(self, name: str, protocol: Any, **settings: Any) -> None:
        """Start one member; a classic one sends heartbeats often, unless the settings differ."""
        if protocol == "classic":
            settings = {"heartbeat_interval_ms": 100} | settings
        member = Consumer(self.topic, client_id=name, group_protocol=protocol, **self._settings, **settings)
        self.members[name] = member
        await member.start()

    async def restart(self, name: str, protocol: str, **settings: Any) -> None:
        """Stop one member, start it again once the others have all, and wait until all have their shares."""
        await self.members.pop(name).stop()
        async with asyncio.timeout(40):
            while self.members and sum(len(each.assignment()) for each in self.members.values()) < self.partitions:
                await asyncio.gather(*[member.poll(timeout_ms=10) for member in self.members.values()])
        await self.start(name, protocol, **settings)
        await self.settle()

    async def settle(self) -> None:
        """Poll until every member has its share."""
        async with asyncio.timeout(40):
            while not all(len(member.assignment()) == self.share for member in self.members.values()):
                await asyncio.gather(*[member.poll(timeout_ms=10) for member in self.members.values()])

    async def end(self) -> None:
        """Stop every member."""
        for member in self.members.values():
            await member.stop()
