"""A member by our own Consumer, so that it can stand in one group with the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from interop.members.report import Options, Report, options
from kohort import (
    Consumer,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    SubscriptionPattern,
)
from kohort.assign import Assignor, GroupSpec
from kohort.assign.custom import assignor
from kohort.client.errors import CommitFailed
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition


def _range_for_two() -> Assignor:
    """Return an assignor that goes by the name of range, and fails when the group has more than two members."""

    def assign(spec: GroupSpec) -> dict[str, Assignment]:
        if len(spec.members) > 2:
            raise RuntimeError(f"{len(spec.members)} members are too many")
        return RangeAssignor().assign(spec)

    return assignor(assign, name="range")


ASSIGNORS: dict[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "range-for-two": _range_for_two,
}


def _protocol(chosen: Options) -> dict[str, Any]:
    if chosen.is_native:
        return {"group_protocol": "consumer", "group_remote_assignor": chosen.remote_assignor}
    timing = {"session_timeout_ms": chosen.session_ms, "heartbeat_interval_ms": chosen.heartbeat_ms}
    timing = {} if chosen.is_automatic else timing
    return timing | ({"assignors": [ASSIGNORS[name]() for name in chosen.assignors]} if chosen.assignors else {})


class _Member(RebalanceListener):
    def __init__(self, chosen: Options, report: Report) -> None:
        self.chosen = chosen
        self.report = report
        self.owned: set[int] = set()
        self.positions: dict[TopicPartition, int] = {}
        self.consumer = Consumer(
            SubscriptionPattern(chosen.regex) if chosen.regex else chosen.topic,
            bootstrap_servers=chosen.bootstrap,
            group_id=chosen.group,
            group_instance_id=chosen.instance,
            client_id="kohort",
            enable_auto_commit=chosen.is_automatic,
            auto_offset_reset="earliest",
            isolation_level=chosen.isolation,
            fetch_max_wait_ms=100,
            listener=self,
            **_protocol(chosen),
        )

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.owned.update(each.partition for each in partitions)
        self.report.owns(self.owned, "assigned")

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await self.commit()
        self.owned.difference_update(each.partition for each in partitions)
        self.report.owns(self.owned, "revoked")

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        self.positions.clear()
        self.owned.difference_update(each.partition for each in partitions)
        self.report.owns(self.owned, "lost")

    async def commit(self) -> None:
        if not self.positions:
            return
        committing = dict(self.positions)
        self.report.committing({each.partition: offset for each, offset in committing.items()})
        try:
            await self.consumer.commit(committing)
        except (KafkaError, CommitFailed) as error:
            self.report.refused(error)
        else:
            self.report.committed({each.partition: offset for each, offset in committing.items()})
            self.positions = {each: o for each, o in self.positions.items() if committing.get(each) != o}

    async def run(self) -> None:
        async with self.consumer:
            while self.report.is_reading:
                try:
                    polled = await self.consumer.poll(100)
                except KafkaError as error:
                    self.report.troubled(error)
                    await asyncio.sleep(0.1)
                    continue
                for batch in polled if self.chosen.is_reported else ():
                    place = batch.partition.partition
                    self.report.read(
                        [(place, r.offset, bytes(r.key or b"").decode(), bytes(r.value or b"").decode()) for r in batch]
                    )
                    if not self.chosen.is_automatic:
                        self.positions[batch.partition] = batch.next_offset
                await self.commit()
            self.report.closing()


async def _main() -> None:
    logging.basicConfig(level=logging.INFO)  # on stderr, for the message of a failing test
    chosen, report = options(), Report()
    for life in report.lives(chosen):
        await _Member(life, report).run()


if __name__ == "__main__":
    asyncio.run(_main())
