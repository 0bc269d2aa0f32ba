"""A member by kafka-python, with its default assignors or a given one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

from interop.members.report import Options, Report, options

TROUBLE = (KafkaError, OSError)
"""What a call raises while the broker cannot be reached: errors of connections come as Python's own."""

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, chosen: Options, report: Report) -> None:
        extra: dict[str, object] = {}
        if chosen.assignors:
            extra["partition_assignment_strategy"] = [ASSIGNORS[name] for name in chosen.assignors]
        if chosen.instance:
            extra["group_instance_id"] = chosen.instance
        if not chosen.is_automatic:
            extra |= {"session_timeout_ms": chosen.session_ms, "heartbeat_interval_ms": chosen.heartbeat_ms}
        self.chosen = chosen
        self.report = report
        self.owned: set[int] = set()
        self.positions: dict[int, int] = {}
        self.consumer = KafkaConsumer(
            bootstrap_servers=chosen.bootstrap,
            group_id=chosen.group,
            client_id="kafka-python",
            enable_auto_commit=chosen.is_automatic,
            auto_offset_reset="earliest",
            isolation_level=chosen.isolation,
            fetch_max_wait_ms=100,
            **extra,
        )
        self.consumer.subscribe([chosen.topic], listener=self)
        # A leader that learns its topic while it assigns joins again for that; when its metadata then come while it
        # waits, and its poll has returned, it needs to join no longer and never looks at the assignment that it got.
        # So it learns its topic before.
        self.consumer.topics()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.owned.update(each.partition for each in assigned)
        self.report.owns(self.owned, "assigned")

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.commit()
        self.owned.difference_update(each.partition for each in revoked)
        self.report.owns(self.owned, "revoked")

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.positions.clear()
        self.owned.difference_update(each.partition for each in lost)
        self.report.owns(self.owned, "lost")

    def commit(self) -> None:
        if not self.positions:
            return
        self.report.committing(self.positions)
        offsets = {
            TopicPartition(self.chosen.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in self.positions.items()
        }
        try:
            self.consumer.commit(offsets)
        except TROUBLE as error:
            self.report.refused(repr(error))
        else:
            self.report.committed(self.positions)
            self.positions.clear()

    def run(self) -> None:
        while not self.report.is_over:
            try:
                # Long enough for a round to end within one poll, for the reason above.
                polled = self.consumer.poll(timeout_ms=1000)
            except TROUBLE as error:
                self.report.troubled(error)
                continue
            rows = [(r.partition, r.offset, r.key.decode(), r.value.decode()) for rs in polled.values() for r in rs]
            if rows and self.chosen.is_reported:
                self.report.read(rows)
                if not self.chosen.is_automatic:
                    self.positions.update({partition: offset + 1 for partition, offset, *_ in rows})
            self.commit()
        self.report.line("leaving")
        self.consumer.close(autocommit=self.chosen.is_automatic)
        self.report.line("left")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)  # on stderr, for the message of a failing test
    _Member(options(), Report()).run()
