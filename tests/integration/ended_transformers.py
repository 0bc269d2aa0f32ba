"""The examples `invoices.py` and `copies.py`, killed or frozen while their transaction is open."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.scenario_book import create
from tests.integration.transaction_scenarios import committed

from kohort.client import Admin, Consumer, Producer
from kohort.model.ids import TopicPartition

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_HAND, BY_PROCESS = EXAMPLES / "invoices.py", EXAMPLES / "copies.py"
ORDERS = 3000


@contextmanager
def transformer(bootstrap: str, example: Path = BY_HAND, name: str = "one") -> Iterator[subprocess.Popen[str]]:
    """Run the example on a broker; it is ended with the block."""
    command = [sys.executable, str(example), bootstrap, name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def write_orders(bootstrap: str, first: int = 0) -> int:
    """Write `ORDERS` orders, numbered from `first`; return how many there are in all."""
    if not first:
        await create(bootstrap, "orders", 3)
        await create(bootstrap, "invoices", 2)
    async with Producer(bootstrap) as producer:
        for number in range(first, first + ORDERS):
            await producer.send("orders", b"%d" % number, partition=number % 3)
    return first + ORDERS


async def freeze_in_a_transaction(bootstrap: str, process: subprocess.Popen[str], orders: int) -> int:
    """Stop the process, by SIGSTOP, while records of its transaction are written and not committed.

    Orders are written for it until it is caught at work. Return how many there are in all.
    """
    partitions = [TopicPartition("invoices", number) for number in range(2)]
    async with Admin(bootstrap) as admin, reader_of_the_group(bootstrap) as reader:

        async def is_open() -> bool:
            stable = await reader.end_offsets(partitions)
            ends = await admin.list_offsets(dict.fromkeys(partitions, "latest"))
            return any((end := ends[each]) is not None and end.offset > stable[each] for each in partitions)

        writing = asyncio.create_task(write_orders(bootstrap, orders))
        while process.poll() is None:
            if await is_open():
                process.send_signal(signal.SIGSTOP)
                if await is_open() and await is_open():  # the second answer is of a moment after it stopped
                    return await writing
                process.send_signal(signal.SIGCONT)
            elif writing.done() and await count_done(reader) == writing.result():
                writing = asyncio.create_task(write_orders(bootstrap, writing.result()))
    raise AssertionError(f"the example ended: {process.communicate()}")


def reader_of_the_group(bootstrap: str) -> Consumer:
    """Return a consumer that reads what the example's group has committed, and is no member of it."""
    return Consumer(
        bootstrap_servers=bootstrap,
        group_id="invoicing",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )


async def count_done(reader: Consumer) -> int:
    partitions = [TopicPartition("orders", number) for number in range(3)]
    return sum(entry.offset for entry in (await reader.committed(partitions)).values())


async def work_done(bootstrap: str, orders: int) -> None:
    """Wait until every order is committed."""
    async with reader_of_the_group(bootstrap) as reader:
        while await count_done(reader) < orders:
            await reader.poll(20)


async def check_invoices(bootstrap: str, orders: int) -> None:
    invoices = await committed(bootstrap, "invoices")
    assert sorted(invoices.elements()) == sorted(b"invoice for %d" % number for number in range(orders))


async def survive_kills(bootstrap: str, kills: int, example: Path = BY_HAND) -> int:
    """Kill the example `kills` times in the middle of a transaction; each order has one invoice in the end.

    Return how many orders there are.
    """
    orders = await write_orders(bootstrap)
    for _ in range(kills):
        with transformer(bootstrap, example) as process:
            orders = await freeze_in_a_transaction(bootstrap, process, orders)
    with transformer(bootstrap, example):
        await work_done(bootstrap, orders)
    await check_invoices(bootstrap, orders)
    return orders


async def survive_a_frozen_one(bootstrap: str, orders: int, example: Path = BY_HAND) -> None:
    """Freeze the example in a transaction, after `survive_kills`, until another process has done its work.

    The one that goes on then is fenced, and leaves nothing.
    """
    with transformer(bootstrap, example) as frozen:
        orders = await freeze_in_a_transaction(bootstrap, frozen, orders)
        with transformer(bootstrap, example):
            await work_done(bootstrap, orders)
        frozen.send_signal(signal.SIGCONT)
        _, errors = await asyncio.to_thread(frozen.communicate)
        assert "ProducerFenced" in errors or "FENCED_INSTANCE_ID" in errors
    await check_invoices(bootstrap, orders)
