"""A writer by our own Producer."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from interop.torture.writers.report import DELIVERY_TIMEOUT_S, PAUSE_S, Numbered, Options, Report, options
from kohort import Producer
from kohort.client.errors import TransactionAbortable, TransactionAborted, TransactionRetriable
from kohort.model.errors import KafkaError


def _producer(chosen: Options) -> Producer:
    more: dict[str, Any] = {}
    if chosen.transactional_id:
        more = {"transactional_id": chosen.transactional_id, "transaction_timeout_ms": DELIVERY_TIMEOUT_S * 1000}
    return Producer(
        chosen.bootstrap,
        client_id=chosen.name,
        linger_ms=5,
        enable_idempotence=chosen.is_idempotent,
        max_in_flight_requests_per_connection=5 if chosen.is_idempotent else 1,
        delivery_timeout_ms=chosen.delivery_timeout_s * 1000,
        request_timeout_ms=5000,
        **more,
    )


async def _send(producer: Producer, chosen: Options, report: Report, records: list[Numbered]) -> None:
    for each in records:
        delivery = await producer.send(chosen.topic, each.value, each.key, partition=each.partition)
        asyncio.ensure_future(delivery).add_done_callback(partial(_delivered, report, each))


def _delivered(report: Report, record: Numbered, done: asyncio.Future[Any]) -> None:
    if done.cancelled() or (error := done.exception()) is not None:
        report.unknown("cancelled" if done.cancelled() else error)
    else:
        report.appended(record, done.result().offset)


async def _write(chosen: Options, report: Report) -> None:
    async with _producer(chosen) as producer:
        while not report.is_over:
            if not report.is_full:
                await _send(producer, chosen, report, report.round())
            await asyncio.sleep(PAUSE_S)


async def _write_transactions(chosen: Options, report: Report) -> None:
    async with _producer(chosen) as producer:
        while not report.is_over:
            records, is_aborting = report.round(), report.is_aborting()
            report.begun(records)
            transaction = producer.transaction()
            await transaction.begin()
            try:
                await _send(producer, chosen, report, records)
                await _until_answered(transaction.abort if is_aborting else transaction.commit)
            except (TransactionAbortable, TransactionAborted) as error:
                report.troubled(error)
                await _until_answered(transaction.abort)
                is_aborting = True
            report.ended("aborted" if is_aborting else "committed")
            await asyncio.sleep(PAUSE_S)


async def _until_answered(end: Any) -> None:
    while True:
        try:
            await end()
            return
        except TransactionRetriable:
            continue


async def main() -> None:
    """Write until asked to end."""
    logging.basicConfig(level=logging.WARNING)
    chosen = options()
    report = Report(chosen)
    while not report.is_over:
        try:
            await (_write_transactions if chosen.transactional_id else _write)(chosen, report)
        except (KafkaError, OSError) as error:
            report.troubled(error)
            await asyncio.sleep(PAUSE_S)
    report.close()


if __name__ == "__main__":
    asyncio.run(main())
