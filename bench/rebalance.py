"""One classic round without any client in the way: N sockets send JoinGroup, the leader SyncGroup, as fast as they can.

The time is that of the broker's work for a round, from the last JoinGroup sent to the last SyncGroup answered.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from interop.brokers import Broker
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.coordinator import loadgen
from bench.result import Aim, Outcome, Result, interleave

MEMBERS = (1, 5, 20, 100)
AIM = Aim(1, of_ratio=True, at_most=True)


def round_ms(program: Path, broker: Broker, members: int, runs: int) -> float:
    """Let the members of one group rebalance ten times a run, and return the median."""
    options = {"mode": "rebalance", "members": str(members), "conns": "1", "runs": str(runs)}
    arguments = [word for name, value in options.items() for word in (f"-{name}", value)]
    command = [str(program), "-bootstrap", broker.bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        raise RuntimeError(f"loadgen on {broker.name}: {done.stderr.strip()}")
    return float(json.loads(done.stdout)["last_join_to_synced_ms"][1])


def rebalance(quick: bool) -> Iterator[Outcome]:
    """Measure groups of each size on both brokers in turn."""
    program = loadgen()
    rounds, runs = (2, 1) if quick else (5, 2)
    with KohortBroker() as ours, ApacheKafka() as theirs:
        for members in MEMBERS:
            for broker in (ours, theirs):  # a JVM compiles what is hot, before anything counts
                round_ms(program, broker, members, runs)
            our_ms, their_ms = interleave(
                lambda members=members: round_ms(program, ours, members, runs),  # type: ignore[misc]
                lambda members=members: round_ms(program, theirs, members, runs),  # type: ignore[misc]
                rounds,
            )
            note = f"best {min(our_ms):.2f} beside {min(their_ms):.2f} ms"
            yield Result(f"raw round of {members}", "ms", our_ms, their_ms, "Apache Kafka", AIM, note)
