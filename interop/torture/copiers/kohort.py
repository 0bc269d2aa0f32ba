"""A copier by our own Consumer and Producer."""

from __future__ import annotations

import asyncio
import logging

from interop.torture.copiers.report import TRANSACTION_TIMEOUT_MS, Copier
from kohort import Consumer, Producer
from kohort.model.errors import KafkaError


async def _copy(copier: Copier) -> None:
    chosen = copier.options
    consumer = Consumer(
        chosen.source,
        bootstrap_servers=chosen.bootstrap,
        group_id=chosen.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
    )
    producer = Producer(chosen.bootstrap, transactional_id=chosen.group, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    async with consumer, producer:
        while not copier.is_over:
            polled = await consumer.poll(200, 100)
            if not polled:
                continue
            async with producer.transaction() as transaction:
                for batch in polled:
                    number = batch.partition.partition
                    for record in batch:
                        await producer.send(chosen.target, f"{number}@{record.offset}".encode(), partition=number)
                await transaction.send_offsets(consumer)
            copier.copied += sum(len(batch) for batch in polled)


async def main() -> None:
    """Copy until asked to end."""
    logging.basicConfig(level=logging.WARNING)
    copier = Copier()
    while not copier.is_over:
        try:
            await _copy(copier)
        except (KafkaError, OSError) as error:
            copier.troubled(error)
    copier.close()


if __name__ == "__main__":
    asyncio.run(main())
