"""A service by `Consumer.process`: handlers that fail by chance, retries, dead letters; each call in its history.

A handler prints that it begins, and as its last step how it ends: whatever is printed then, the consumer counts in the
same turn of the event loop. So a commit of a later line has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from interop.torture.history import ATTEMPTS, is_poisoned
from kohort import Consumer, DeadLetter, Record, Retry
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.client.observer import Answer, ClientObserver, ObservedMembership
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

DELAYS = ("20ms",) * (ATTEMPTS - 1)
FAILING = 0.1
"""The share of calls that fail and may be tried again."""
TURN_S = 0.1
STOP_MS = 30_000


class _History(RebalanceListener, ClientObserver):
    """The lines of one service."""

    def line(self, event: str, **fields: object) -> None:
        sys.stdout.write(json.dumps({"event": event, "at_s": time.monotonic(), **fields}) + "\n")
        sys.stdout.flush()

    async def handle(self, record: Record[bytes, bytes]) -> None:
        value = (record.value or b"").decode()
        where = {"partition": record.partition, "offset": record.offset}
        self.line("began", **where, value=value)
        try:
            await asyncio.sleep(random.expovariate(1 / 0.02))
            if is_poisoned(value):
                raise ValueError(value)
            if random.random() < FAILING:
                raise ConnectionError(value)
        except Exception:
            self.line("failed", **where)
            raise
        self.line("handled", **where)

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._changed("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._changed("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self._changed("lost", partitions)

    def _changed(self, event: str, partitions: Iterable[TopicPartition]) -> None:
        self.line(event, partitions=sorted(each.partition for each in partitions))

    def commit_sent(self, membership: ObservedMembership, offsets: Mapping[TopicPartition, int]) -> Answer:
        del membership
        self.line("committing", offsets={str(each.partition): offset for each, offset in offsets.items()})
        return self._commit_answered

    def _commit_answered(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        is_written = all(code is ErrorCode.NONE for code in codes.values())
        self.line("committed" if is_written else "refused", codes=sorted(code.name for code in codes.values()))


class _Environment:
    """The environment of the loop: the system's, and an observer."""

    def __init__(self, observer: ClientObserver) -> None:
        self.observer = observer

    random = staticmethod(random.random)
    randbytes = staticmethod(os.urandom)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def refuse(self, what: str) -> None:
        """Allow all."""


async def _turn(history: _History) -> None:
    while True:
        await asyncio.sleep(TURN_S)
        history.line("turn")


async def _serve(chosen: argparse.Namespace, history: _History, is_over: asyncio.Event) -> None:
    native: dict[str, Any] = {"group_protocol": "consumer"}
    classic: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
    consumer = Consumer(
        chosen.source,
        bootstrap_servers=chosen.bootstrap,
        group_id=chosen.group,
        client_id="service",
        auto_offset_reset="earliest",
        listener=history,
        **(native if chosen.protocol == "consumer" else classic),
    )
    policies = (DeadLetter(chosen.letters, on=(ValueError,)), Retry(DELAYS, then=DeadLetter(chosen.letters)))
    async with consumer, asyncio.TaskGroup() as tasks:
        turning = tasks.create_task(_turn(history))
        serving = tasks.create_task(consumer.process(history.handle, on_error=policies))
        asked = tasks.create_task(is_over.wait())
        await asyncio.wait((serving, asked), return_when=asyncio.FIRST_COMPLETED)
        history.line("leaving")
        await consumer.stop(timeout_ms=STOP_MS)
        asked.cancel()
        turning.cancel()


async def _main() -> None:
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "source", "letters", "protocol"):
        parser.add_argument(name)
    history, is_over, loop = _History(), asyncio.Event(), asyncio.get_running_loop()
    loop.environment = _Environment(history)  # type: ignore[attr-defined]
    loop.add_signal_handler(signal.SIGTERM, is_over.set)
    try:
        await _serve(parser.parse_args(), history, is_over)
    except KafkaError as error:
        if not is_over.is_set():
            raise
        history.line("refused", error=str(error))
    history.line("left", errors={})


if __name__ == "__main__":
    asyncio.run(_main())
