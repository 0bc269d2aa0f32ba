"""A streaming query without Spark: a member that gets requests for batches as by Spark, and reads no rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.spark.cluster import Topic

from kohort.spark.membership.stream_member import StreamMember
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.options.source_options import SourceOptions


class Job:
    """A query that reads nothing: it takes the ends of batches, as Spark does, and keeps the last as its checkpoint."""

    def __init__(
        self,
        topic: Topic,
        checkpoint: StreamOffset | None = None,
        operators: frozenset[str] | None = frozenset(),
        **options: str,
    ) -> None:
        given = {
            "kafka.bootstrap.servers": topic.bootstrap_servers,
            "subscribe": topic.name,
            "group.id": topic.group_id,
            "startingOffsets": "earliest",
            "kafka.heartbeat.interval.ms": "100",
        }
        if options.get("protocol") == "consumer":
            del given["kafka.heartbeat.interval.ms"]
        self.options = SourceOptions.parse({name: value for name, value in (given | options).items() if value})
        self.operators = operators
        self.member: StreamMember
        self.checkpoint = checkpoint or StreamOffset(topic.group_id)
        self.read: list[tuple[int, int, int]] = []

    async def __aenter__(self) -> Job:
        self.member = await StreamMember.join(self.options, 2, last=self.checkpoint, operators=self.operators)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.member.leave("the test is over")

    async def batch(self) -> dict[int, tuple[int, int]]:
        """Ask until there is a batch; return what it reads by partition, and nothing where that takes too long."""
        async with asyncio.timeout(60):
            while not await self.look():
                assert not self.member.is_over, "a member that has left gets no batches"
        return {each.partition.partition: (each.start, each.stop) for each in self.checkpoint.ranges}

    async def look(self) -> bool:
        """Ask once, which commits the last batch; return whether there is another one."""
        end = await self.member.next(self.checkpoint, self.options.limits)
        found, self.checkpoint = end != self.checkpoint, end
        return found

    async def until(self, condition: Callable[[], bool]) -> None:
        """Go on asking, as Spark does where nothing is new, until something holds."""
        async with asyncio.timeout(60):
            while not condition():
                assert not self.member.is_over, "a member that has left is given nothing"
                await self.look()

    @property
    def owned(self) -> int:
        return len(self.member.gate.owned.partitions)


async def committed(topic: Topic) -> dict[int, int]:
    return await topic._committed()
