"""How long a group takes to settle, as Apache Kafka's own consumers see it at default settings, beside Apache Kafka.

One member joins, one leaves, all but one start together; the clock runs until every partition is held once and shares
are even. After a calm of four seconds, and after one of half a second, when no member has sent a heartbeat yet.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence

from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from interop import jars

ASSIGNORS = {"eager": "RangeAssignor", "cooperative": "CooperativeStickyAssignor"}
LIMITS_MS = {"eager": 100, "cooperative": 150}
WORDS = {"join_ms": "one joins", "leave_ms": "one leaves", "cold_ms": "all start"}
DEFAULT_DELAY = {"group.initial.rebalance.delay.ms": "3000"}
"""Ours ends by itself when joins stop. Kafka runs without any, which is its best for all but the cold start."""
WARM_MS = 500
CALM_MS, EARLY_MS = 4_000, 500


def settle_times(
    brokers: Sequence[KohortBroker | ApacheKafka], assignor: str, members: int, turns: int, pause_ms: int
) -> dict[str, dict[str, list[float]]]:
    """Let the brokers take turns; return the milliseconds by the broker's name and what happened."""
    where = {broker.bootstrap: broker.name for broker in brokers}
    arguments = (",".join(where), str(members), ASSIGNORS[assignor], str(turns), str(pause_ms))
    command = jars.command("Settle", *arguments, heap="1g", classes=jars.compiled("Settle"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 120 * turns, check=False)
    if done.returncode:
        raise RuntimeError(f"Settle {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    found: dict[str, dict[str, list[float]]] = {name: {what: [] for what in WORDS} for name in where.values()}
    for line in map(json.loads, filter(None, done.stdout.splitlines())):
        for what in WORDS:
            found[where[line["broker"]]][what].append(line[what])
    return found


def rows(found: dict[str, dict[str, list[float]]], assignor: str, members: int) -> Iterator[Outcome]:
    """Yield a line for each thing that happened to a calm group: the ratio, and what the user waits."""
    for what, words in WORDS.items():
        ours, theirs = found["kohort"][what], found["apache"][what]
        limit_ms = 500 if what == "cold_ms" else LIMITS_MS[assignor]
        name = f"{words}, {assignor}, {members} members"
        yield Result(name, "ms", ours, theirs, "Apache Kafka", Aim(limit_ms, of_ratio=False, at_most=True))
        if what != "cold_ms":
            aim = Aim(0.05, of_ratio=True, at_most=True)
            yield Result(f"  of Kafka's: {name}", "ms", ours, theirs, "Apache Kafka", aim)


def settle(quick: bool) -> Iterator[Outcome]:
    """Measure both assignors with 5, 20 and 100 members; five when in a hurry."""
    turns = 1 if quick else 3
    with KohortBroker(DEFAULT_DELAY) as ours, ApacheKafka() as theirs:
        settle_times((ours, theirs), "eager", 5, 1, WARM_MS)
        for assignor in ASSIGNORS:
            for members in (5,) if quick else (5, 20, 100):
                yield from rows(settle_times((ours, theirs), assignor, members, turns, CALM_MS), assignor, members)
            members = 5 if quick else 20
            found = settle_times((ours, theirs), assignor, members, turns, EARLY_MS)
            for what in ("join_ms", "leave_ms"):
                name = f"{WORDS[what]} early, {assignor}, {members} members"
                # Both wait for the same heartbeat: what differs is noise, of some tens of two thousand milliseconds.
                aim = Aim(1.05, of_ratio=True, at_most=True)
                yield Result(name, "ms", found["kohort"][what], found["apache"][what], "Apache Kafka", aim)
