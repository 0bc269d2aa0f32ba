"""A member by aiokafka, which rebalances in a task of its own: a lock keeps a commit and a revocation apart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from interop.members.report import Options, Report, options


class _OldCooperativeSticky(StickyPartitionAssignor):  # type: ignore[misc]
    """What an old client is in an upgraded group: it knows the name, and writes version 0 of the subscription."""

    name = "cooperative-sticky"


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": _OldCooperativeSticky,
}


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, chosen: Options, report: Report) -> None:
        extra: dict[str, object] = {}
        if chosen.assignors:
            extra["partition_assignment_strategy"] = [ASSIGNORS[name] for name in chosen.assignors]
        if not chosen.is_automatic:
            extra |= {"session_timeout_ms": chosen.session_ms, "heartbeat_interval_ms": chosen.heartbeat_ms}
        self.chosen = chosen
        self.report = report
        self.owned: set[int] = set()
        self.positions: dict[int, int] = {}
        self.turn = asyncio.Lock()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=chosen.bootstrap,
            group_id=chosen.group,
            group_instance_id=chosen.instance,
            client_id="aiokafka",
            enable_auto_commit=chosen.is_automatic,
            auto_offset_reset="earliest",
            isolation_level=chosen.isolation,
            fetch_max_wait_ms=100,
            **extra,
        )
        self.consumer.subscribe([chosen.topic], listener=self)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        async with self.turn:
            await self.commit()
            self.owned.difference_update(each.partition for each in revoked)
            self.report.owns(self.owned, "revoked")

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.owned = {each.partition for each in assigned}
        self.report.owns(self.owned, "assigned")

    async def commit(self) -> None:
        if not self.positions:
            return
        self.report.committing(self.positions)
        offsets = {TopicPartition(self.chosen.topic, partition): o for partition, o in self.positions.items()}
        try:
            await self.consumer.commit(offsets)
        except KafkaError as error:
            self.report.refused(repr(error))
        else:
            self.report.committed(self.positions)
        self.positions.clear()

    async def run(self) -> None:
        await self.consumer.start()
        while not self.report.is_over:
            try:
                # Not in the lock: this waits for an assignment, which comes after a revocation.
                polled = await self.consumer.getmany(timeout_ms=100, max_records=500)
            except KafkaError as error:
                self.report.troubled(error)
                await asyncio.sleep(0.1)
                continue
            rows = [(r.partition, r.offset, r.key.decode(), r.value.decode()) for rs in polled.values() for r in rs]
            if rows and self.chosen.is_reported:
                self.report.read(rows)
                if not self.chosen.is_automatic:
                    self.positions.update({partition: offset + 1 for partition, offset, *_ in rows})
            async with self.turn:
                await self.commit()
        self.report.line("leaving")
        await self.consumer.stop()
        self.report.line("left")


async def _main() -> None:
    await _Member(options(), Report()).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)  # on stderr, for the message of a failing test
    asyncio.run(_main())
