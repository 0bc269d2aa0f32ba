"""How long a group takes to settle, as Apache Kafka's own consumers see it at default settings, beside Apache Kafka.

One member joins, one leaves, all but one start together; the clock runs until every partition is held once and shares
are even. After a calm of four seconds, and after one of half a second, when no member has sent a heartbeat yet.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping

from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from interop import jars

KINDS = {"eager": "RangeAssignor", "cooperative": "CooperativeStickyAssignor", "consumer": "consumer"}
"""What `Settle` calls them: an assignor of the classic protocol, or the consumer protocol (KIP-848)."""
CLASSIC = ("eager", "cooperative")
LIMITS_MS = {
    "eager": {"join_ms": 100, "leave_ms": 100, "cold_ms": 500},
    "cooperative": {"join_ms": 150, "leave_ms": 150, "cold_ms": 500},
    "consumer": {"join_ms": 400, "leave_ms": 300, "cold_ms": 400},
}
RATIOS = {
    "eager": {"join_ms": 0.05, "leave_ms": 0.05},
    "cooperative": {"join_ms": 0.05, "leave_ms": 0.05},
    "consumer": {"join_ms": 0.1, "leave_ms": 0.1, "cold_ms": 0.05},
}
"""Beside Kafka at its defaults; a cold start of the classic protocol has no peer with the same initial delay."""
WORDS = {"join_ms": "one joins", "leave_ms": "one leaves", "cold_ms": "all start"}
DEFAULT_DELAY = {"group.initial.rebalance.delay.ms": "3000"}
"""Ours ends by itself when joins stop. Kafka runs without any, which is its best for all but the cold start."""
WARM_MS = 500
CALM_MS, EARLY_MS = 4_000, 500


def settle_times(
    where: Mapping[str, str], kind: str, members: int, turns: int, pause_ms: int
) -> dict[str, dict[str, list[float]]]:
    """Let brokers take turns, given by address and name; return the milliseconds by name and what happened."""
    arguments = (",".join(where), str(members), KINDS[kind], str(turns), str(pause_ms))
    command = jars.command("Settle", *arguments, heap="1g", classes=jars.compiled("Settle"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 120 * turns, check=False)
    if done.returncode:
        raise RuntimeError(f"Settle {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    found: dict[str, dict[str, list[float]]] = {name: {what: [] for what in WORDS} for name in where.values()}
    for line in map(json.loads, filter(None, done.stdout.splitlines())):
        for what in WORDS:
            found[where[line["broker"]]][what].append(line[what])
    return found


def rows(found: dict[str, dict[str, list[float]]], kind: str, members: int) -> Iterator[Outcome]:
    """Yield a line for each thing that happened to a calm group: the ratio, and what the user waits."""
    for what, words in WORDS.items():
        ours, theirs = found["kohort"][what], found["apache"][what]
        name = f"{words}, {kind}, {members} members"
        limit_ms = LIMITS_MS[kind][what]
        yield Result(name, "ms", ours, theirs, "Apache Kafka", Aim(limit_ms, of_ratio=False, at_most=True))
        if what in RATIOS[kind]:
            aim = Aim(RATIOS[kind][what], of_ratio=True, at_most=True)
            yield Result(f"  of Kafka's: {name}", "ms", ours, theirs, "Apache Kafka", aim)


def settle(quick: bool) -> Iterator[Outcome]:
    """Measure all kinds with 5, 20 and 100 members; five with --quick."""
    turns = 1 if quick else 3
    with KohortBroker(DEFAULT_DELAY) as ours, ApacheKafka() as theirs:
        both = {broker.bootstrap: broker.name for broker in (ours, theirs)}
        for kind in ("eager", "consumer"):
            settle_times(both, kind, 5, 1, WARM_MS)
        for kind in KINDS:
            for members in (5,) if quick else (5, 20, 100):
                yield from rows(settle_times(both, kind, members, turns, CALM_MS), kind, members)
        for kind in CLASSIC:
            members = 5 if quick else 20
            found = settle_times(both, kind, members, turns, EARLY_MS)
            for what in ("join_ms", "leave_ms"):
                name = f"{WORDS[what]} early, {kind}, {members} members"
                # Both wait for the same heartbeat: what differs is noise, of some tens of two thousand milliseconds.
                aim = Aim(1.05, of_ratio=True, at_most=True)
                yield Result(name, "ms", found["kohort"][what], found["apache"][what], "Apache Kafka", aim)
