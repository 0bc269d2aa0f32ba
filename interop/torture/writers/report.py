"""What every writer shares: its arguments, its rounds of records, and its lines."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from random import Random

from interop.torture.history import key_of

OUTSTANDING = 400
"""A writer waits while so many of its records are neither acknowledged nor failed."""

PAUSE_S = 0.15
"""Between two rounds."""

LONGEST_ROUND = 4
"""Records of one partition in a round, at most."""

DELIVERY_TIMEOUT_S = 25
NEVER_S = 600
"""For how long an idempotent writer tries: one that gives a record up takes a new epoch, under which no broker can
recognise what it sends again (librdkafka does that), so such a writer promises nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """Address, topic and kind of the writer; a writer with a transactional id writes a transaction a round."""

    bootstrap: str
    name: str
    topic: str
    partitions: int
    seed: int
    is_idempotent: bool
    transactional_id: str | None

    @property
    def delivery_timeout_s(self) -> int:
        """For how long a record is tried before it is given up."""
        return NEVER_S if self.is_idempotent and self.transactional_id is None else DELIVERY_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Numbered:
    """One record to write."""

    partition: int
    number: int
    value: bytes

    @property
    def key(self) -> bytes:
        """Its key, one of a few."""
        return key_of(self.value.decode()).encode()


class Report:
    """Draws the rounds of a writer and prints its lines; any thread may report an outcome."""

    def __init__(self, chosen: Options) -> None:
        self.is_over = False
        self._chosen = chosen
        self._random = Random(chosen.seed)
        self._next = [0] * chosen.partitions
        self._lock = threading.Lock()
        self._outstanding = 0
        self.errors: Counter[str] = Counter()
        signal.signal(signal.SIGTERM, self._end)
        self.line("starting")

    def _end(self, *_: object) -> None:
        self.is_over = True

    def line(self, event: str, **fields: object) -> None:
        """Print one event and when it was, by the clock that all processes of the machine share."""
        with self._lock:
            sys.stdout.write(json.dumps({"event": event, "at_s": time.monotonic(), **fields}) + "\n")
            sys.stdout.flush()

    @property
    def is_full(self) -> bool:
        """Whether too many records have no outcome yet."""
        return self._outstanding >= OUTSTANDING

    def round(self) -> list[Numbered]:
        """Draw the records of a round and print that they are about to be sent."""
        counts = [self._random.randint(0, LONGEST_ROUND) for _ in self._next]
        if not any(counts):
            counts[0] = 1
        records: list[Numbered] = []
        for partition, count in enumerate(counts):
            if count:
                self.line("append", partition=partition, first=self._next[partition], count=count)
            for number in range(self._next[partition], self._next[partition] + count):
                value = f"{self._chosen.name}:{partition}:{number}".encode()
                records.append(Numbered(partition, number, value))
            self._next[partition] += count
        with self._lock:
            self._outstanding += len(records)
        return records

    def is_aborting(self) -> bool:
        """Draw whether the next transaction shall be aborted."""
        return self._random.random() < 0.3

    def appended(self, record: Numbered, offset: int) -> None:
        """Print that a record was acknowledged, and at which offset; a negative one says nothing."""
        self.line("appended", partition=record.partition, number=record.number, offset=offset)
        with self._lock:
            self._outstanding -= 1

    def unknown(self, error: object) -> None:
        """Note that the library has given up a record: it may be written, or not."""
        with self._lock:
            self._outstanding -= 1
            self.errors[_short(error)] += 1

    def begun(self, records: list[Numbered]) -> None:
        """Print which records the transaction that begins will hold."""
        self.line("begin", records=[[each.partition, each.number] for each in records])

    def ended(self, outcome: str) -> None:
        """Print how the transaction ended: committed or aborted. One that has no such line ended in some way."""
        self.line("end", outcome=outcome)

    def troubled(self, error: object) -> None:
        """Note what the library raised."""
        self.errors[_short(error)] += 1

    def close(self) -> None:
        """Print the errors that there were; the writer ends."""
        self.line("left", errors=self.errors)


def _short(error: object) -> str:
    return repr(error)[:200]


def options() -> Options:
    """Read the arguments that every writer takes."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "name", "topic"):
        parser.add_argument(name)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--idempotent", action="store_true")
    parser.add_argument("--transactional-id")
    given = parser.parse_args()
    return Options(
        given.bootstrap,
        given.name,
        given.topic,
        given.partitions,
        given.seed,
        given.idempotent,
        given.transactional_id,
    )
