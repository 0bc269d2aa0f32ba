"""A writer by librdkafka (confluent-kafka)."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from interop.torture.writers.report import DELIVERY_TIMEOUT_S, PAUSE_S, Numbered, Options, Report, options


def _producer(chosen: Options) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": chosen.bootstrap,
        "client.id": chosen.name,
        "acks": "all",
        "linger.ms": 5,
        "enable.idempotence": chosen.is_idempotent,
        # Without idempotence several requests on their way may change places when one is sent again.
        "max.in.flight": 5 if chosen.is_idempotent else 1,
        "message.timeout.ms": chosen.delivery_timeout_s * 1000,
        "request.timeout.ms": 5000,
        "reconnect.backoff.max.ms": 500,
        "log_level": 2,
    }
    if chosen.transactional_id:
        settings |= {"transactional.id": chosen.transactional_id, "transaction.timeout.ms": DELIVERY_TIMEOUT_S * 1000}
    return Producer(settings)


def _delivered(report: Report, record: Numbered, error: KafkaError | None, message: Any) -> None:
    if error is not None:
        report.unknown(error)
    else:
        report.appended(record, message.offset())


def _send(producer: Producer, chosen: Options, report: Report, records: list[Numbered]) -> None:
    for each in records:
        delivered = partial(_delivered, report, each)
        producer.produce(chosen.topic, each.value, each.key, partition=each.partition, on_delivery=delivered)


def _write(chosen: Options, report: Report) -> None:
    """Write with one producer until the writer is to end, or the producer has failed for good."""
    producer = _producer(chosen)
    while not report.is_over:
        if not report.is_full:
            try:
                _send(producer, chosen, report, report.round())
            except KafkaException as error:  # fatal: what it has not handed over is unknown, as the rest is
                report.troubled(error)
                producer.flush(1)
                return
        deadline = time.monotonic() + PAUSE_S
        while (left_s := deadline - time.monotonic()) > 0:
            producer.poll(left_s)
    producer.flush(DELIVERY_TIMEOUT_S + 5)


def _write_transactions(chosen: Options, report: Report) -> None:
    producer = _producer(chosen)
    try:
        producer.init_transactions(DELIVERY_TIMEOUT_S)
        while not report.is_over:
            records, is_aborting = report.round(), report.is_aborting()
            report.begun(records)
            producer.begin_transaction()
            try:
                _send(producer, chosen, report, records)
                if is_aborting:
                    producer.flush(DELIVERY_TIMEOUT_S)
                    _end(producer.abort_transaction)
                else:
                    _end(producer.commit_transaction)
            except KafkaException as error:
                report.troubled(error)
                if not error.args[0].txn_requires_abort():
                    return
                _end(producer.abort_transaction)
                is_aborting = True
            report.ended("aborted" if is_aborting else "committed")
            producer.poll(PAUSE_S)
    except KafkaException as error:
        report.troubled(error)


def _end(call: Any) -> None:
    """Commit or abort; ask again while the answer may still come."""
    deadline = time.monotonic() + 2 * DELIVERY_TIMEOUT_S
    while True:
        try:
            call(10)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def main() -> None:
    """Write until asked to end."""
    chosen = options()
    report = Report(chosen)
    while not report.is_over:
        (_write_transactions if chosen.transactional_id else _write)(chosen, report)
    report.close()


if __name__ == "__main__":
    main()
