"""A steered member by kafka-python. It has no call that enforces a rebalance, and not the consumer protocol."""

from __future__ import annotations

import logging
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from interop.steered.orders import Orders


def main() -> None:
    """Take part until asked to leave."""
    logging.basicConfig(level=logging.INFO)
    orders = Orders()

    class Failing(RangePartitionAssignor):  # type: ignore[misc]
        name = "failing"

        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            if orders.is_failing:
                raise RuntimeError("no rack for it")
            return super().assign(cluster, members)

    known = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "failing": Failing}
    extra = {"group_instance_id": orders.instance} if orders.instance else {}
    consumer = KafkaConsumer(
        bootstrap_servers=orders.bootstrap,
        group_id=orders.group,
        client_id=orders.client,
        enable_auto_commit=False,
        session_timeout_ms=orders.session_ms,
        heartbeat_interval_ms=500,
        max_poll_interval_ms=orders.poll_ms,
        metadata_max_age_ms=500,
        partition_assignment_strategy=[known[name] for name in orders.assignors],
        **extra,
    )
    if orders.pattern:
        consumer.subscribe(pattern=orders.pattern)
    else:
        consumer.subscribe(orders.topics)
    consumer.topics()
    while not orders.is_over:
        for verb, rest in orders.new():
            if verb == "subscribe":
                consumer.subscribe(rest.split(","))
            elif verb == "stall":
                orders.stall()
        try:
            consumer.poll(timeout_ms=300)
        except Exception as error:  # as an application would that logs its errors and goes on
            logging.warning("%r", error)
        orders.owns((each.topic, each.partition) for each in consumer.assignment())
    consumer.close(autocommit=False)


if __name__ == "__main__":
    main()
