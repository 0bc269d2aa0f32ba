"""A member by our own Consumer, so that it can stand in one group with the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from interop.members.report import Report, options
from kohort import Consumer
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition


class _Listener:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.owned: set[int] = set()

    async def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.owned.update(each.partition for each in partitions)
        self.report.owns(self.owned, "assigned")

    async def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self.owned.difference_update(each.partition for each in partitions)
        self.report.owns(self.owned, "revoked")

    async def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self.owned.difference_update(each.partition for each in partitions)
        self.report.owns(self.owned, "lost")


async def _main() -> None:
    chosen, report = options(), Report()
    consumer = Consumer(
        chosen.topic,
        bootstrap_servers=chosen.bootstrap,
        group_id=chosen.group,
        group_instance_id=chosen.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=chosen.session_ms,
        heartbeat_interval_ms=min(1000, chosen.session_ms // 3),
        fetch_max_wait_ms=100,
        listener=_Listener(report),
    )
    async with consumer:
        while not report.is_over:
            positions = {}
            rows = []
            for batch in await consumer.poll(100):
                rows += [
                    (batch.partition.partition, r.offset, bytes(r.key or b"").decode(), bytes(r.value or b"").decode())
                    for r in batch.records
                ]
                positions[batch.partition] = batch.next_offset
            if rows:
                report.read(rows)
                try:
                    await consumer.commit(positions)
                except KafkaError as error:
                    report.refused(error)
                else:
                    report.committed({each.partition: offset for each, offset in positions.items()})
    report.line("left")


if __name__ == "__main__":
    asyncio.run(_main())
