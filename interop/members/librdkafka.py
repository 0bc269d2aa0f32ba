"""A member by librdkafka (confluent-kafka); `assignor` may be any it knows, such as cooperative-sticky."""

from __future__ import annotations

import json

from confluent_kafka import Consumer, KafkaException, TopicPartition

from interop.members.report import Options, Report, options

STATISTICS_MS = 2_000
"""How often it says how many of its requests have timed out."""


def _configuration(chosen: Options) -> dict[str, str | int | bool]:
    configuration: dict[str, str | int | bool] = {
        "statistics.interval.ms": STATISTICS_MS,
        "bootstrap.servers": chosen.bootstrap,
        "group.id": chosen.group,
        "client.id": chosen.more.get("client", "librdkafka"),
        "enable.auto.commit": chosen.is_automatic,
        "auto.offset.reset": "earliest",
        "isolation.level": chosen.isolation,
        "fetch.wait.max.ms": 100,
    }
    if chosen.instance:
        configuration["group.instance.id"] = chosen.instance
    if chosen.is_native:
        configuration["group.protocol"] = "consumer"
        if chosen.remote_assignor:
            configuration["group.remote.assignor"] = chosen.remote_assignor
        return configuration
    if not chosen.is_automatic:
        configuration |= {"session.timeout.ms": chosen.session_ms, "heartbeat.interval.ms": chosen.heartbeat_ms}
    if chosen.assignors:
        configuration["partition.assignment.strategy"] = ",".join(chosen.assignors)
    return configuration


def run(chosen: Options, report: Report) -> None:
    """Read and commit until asked to close the consumer."""
    owned: set[int] = set()
    positions: dict[int, int] = {}
    timeouts = 0

    def on_statistics(text: str) -> None:
        nonlocal timeouts
        total = sum(broker["req_timeouts"] for broker in json.loads(text)["brokers"].values())
        for _ in range(timeouts, total):
            report.line("timed_out")
        timeouts = total

    consumer = Consumer(_configuration(chosen) | {"stats_cb": on_statistics})

    def commit() -> None:
        if not positions:
            return
        report.committing(positions)
        offsets = [TopicPartition(chosen.topic, partition, offset) for partition, offset in positions.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            report.refused(error)
        else:
            report.committed(positions)
            positions.clear()

    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        owned.update(each.partition for each in partitions)
        report.owns(owned, "assigned")

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit()
        owned.difference_update(each.partition for each in partitions)
        report.owns(owned, "revoked")

    def on_lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        positions.clear()
        owned.difference_update(each.partition for each in partitions)
        report.owns(owned, "lost")

    wanted = f"^{chosen.regex.removeprefix('^')}" if chosen.regex else chosen.topic  # a name with ^ is an expression
    consumer.subscribe([wanted], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while report.is_reading:
        try:
            polled = consumer.consume(200, 0.1)
        except KafkaException as failure:
            report.troubled(failure)
            continue
        for each in polled:
            if (error := each.error()) is not None:
                report.troubled(error)
        messages = [each for each in polled if each.error() is None]
        if messages and chosen.is_reported:
            rows = [(m.partition(), m.offset(), m.key().decode(), m.value().decode()) for m in messages]
            report.read(rows)
            if not chosen.is_automatic:
                positions.update({partition: offset + 1 for partition, offset, *_ in rows})
        commit()
    report.closing()
    consumer.close()


def main() -> None:
    """Take part until asked to leave."""
    chosen, report = options(), Report()
    for life in report.lives(chosen):
        run(life, report)


if __name__ == "__main__":
    main()
