"""A writer by aiokafka."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from interop.torture.writers.report import PAUSE_S, Numbered, Options, Report, options


async def _write(chosen: Options, report: Report) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=chosen.bootstrap,
        client_id=chosen.name,
        acks="all",
        linger_ms=5,
        enable_idempotence=chosen.is_idempotent,
        request_timeout_ms=chosen.delivery_timeout_s * 1000,
    )
    await producer.start()
    try:
        while not report.is_over:
            if not report.is_full:
                for each in report.round():
                    sent = await producer.send(chosen.topic, each.value, each.key, partition=each.partition)
                    sent.add_done_callback(partial(_delivered, report, each))
            await asyncio.sleep(PAUSE_S)
    finally:
        await producer.stop()


def _delivered(report: Report, record: Numbered, done: asyncio.Future[Any]) -> None:
    if done.cancelled() or (error := done.exception()) is not None:
        report.unknown("cancelled" if done.cancelled() else error)
    else:
        report.appended(record, done.result().offset)


async def main() -> None:
    """Write until asked to end."""
    chosen = options()
    report = Report(chosen)
    while not report.is_over:
        try:
            await _write(chosen, report)
        except (KafkaError, OSError) as error:
            report.troubled(error)
            await asyncio.sleep(PAUSE_S)
    report.close()


if __name__ == "__main__":
    asyncio.run(main())
