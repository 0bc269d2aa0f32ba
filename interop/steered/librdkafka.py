"""A steered member by librdkafka (confluent-kafka). It has no call that enforces a rebalance, and no own assignors."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer

from interop.steered.orders import Orders


def main() -> None:
    """Take part until asked to leave."""
    orders = Orders()
    configuration: dict[str, str | int | bool] = {
        "bootstrap.servers": orders.bootstrap,
        "group.id": orders.group,
        "client.id": orders.client,
        "enable.auto.commit": False,
        "max.poll.interval.ms": orders.poll_ms,
        "topic.metadata.refresh.interval.ms": 500,
        "metadata.max.age.ms": 1000,
    }
    if orders.instance:
        configuration["group.instance.id"] = orders.instance
    if orders.is_native:
        configuration["group.protocol"] = "consumer"
    else:
        configuration |= {
            "session.timeout.ms": orders.session_ms,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": ",".join(orders.assignors),
        }
    consumer = Consumer(configuration)
    consumer.subscribe([f"^{orders.pattern}"] if orders.pattern else orders.topics)
    while not orders.is_over:
        for verb, rest in orders.new():
            if verb == "subscribe":
                consumer.subscribe(rest.split(","))
            elif verb == "stall":
                orders.stall()
        message = consumer.poll(0.1)
        if message is not None and (error := message.error()) is not None:
            sys.stderr.write(f"{error}\n")
        orders.owns((each.topic, each.partition) for each in consumer.assignment())
    consumer.close()


if __name__ == "__main__":
    main()
