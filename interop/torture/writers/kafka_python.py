"""A writer by kafka-python."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from interop.torture.writers.report import DELIVERY_TIMEOUT_S, PAUSE_S, Numbered, Options, Report, options


def _producer(chosen: Options) -> Any:
    return KafkaProducer(
        bootstrap_servers=chosen.bootstrap,
        client_id=chosen.name,
        acks="all",
        linger_ms=5,
        enable_idempotence=chosen.is_idempotent,
        max_in_flight_requests_per_connection=5 if chosen.is_idempotent else 1,
        request_timeout_ms=5000,
        delivery_timeout_ms=chosen.delivery_timeout_s * 1000,
        max_block_ms=DELIVERY_TIMEOUT_S * 1000,
    )


def _delivered(report: Report, record: Numbered, place: Any) -> None:
    report.appended(record, place.offset)


def _write(chosen: Options, report: Report) -> None:
    producer = _producer(chosen)
    try:
        while not report.is_over:
            if not report.is_full:
                for each in report.round():
                    sent = producer.send(chosen.topic, each.value, each.key, partition=each.partition)
                    sent.add_callback(partial(_delivered, report, each))
                    sent.add_errback(report.unknown)
            time.sleep(PAUSE_S)
    finally:
        producer.close(timeout=DELIVERY_TIMEOUT_S + 5)


def main() -> None:
    """Write until asked to end."""
    chosen = options()
    report = Report(chosen)
    while not report.is_over:
        try:
            _write(chosen, report)
        except (KafkaError, OSError) as error:
            report.troubled(error)
            time.sleep(PAUSE_S)
    report.close()


if __name__ == "__main__":
    main()
