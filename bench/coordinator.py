"""Heartbeats of both protocols and OffsetCommit by the generator in bench/loadgen, requests a second beside Kafka.

Requests per second of the broker's own CPU time are what is compared: other programs on the machine take time away
from both, but do not make a request dearer. The rate by the wall clock is in the note.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interop.brokers import Broker
from interop.go_program import built
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from kohort.broker.secured_listener import Authority

HERE = Path(__file__).resolve().parent
AIMS = {
    "heartbeat": Aim(2, of_ratio=True),
    "cgheartbeat": Aim(2, of_ratio=True),
    "offsetcommit": Aim(1, of_ratio=True),
}
NAMES = {
    "heartbeat": "Heartbeat, per broker core",
    "cgheartbeat": "ConsumerGroupHeartbeat, per core",
    "offsetcommit": "OffsetCommit, per broker core",
}
SAMPLES = ("per_core", "per_s", "p50_ms", "p99_ms")


def loadgen() -> Path:
    """Return the generator, built on first use."""
    return built(HERE / "loadgen")


TLS_AIMS = {"heartbeat": Aim(1.5, of_ratio=True), "cgheartbeat": Aim(1.5, of_ratio=True)}


def sample(
    program: Path, broker: Broker, mode: str, warmup_s: float, duration_s: float, authority: Path | None = None
) -> dict[str, Any]:
    """Run the generator once, over TLS with an authority; return its line, with the requests per s of broker CPU."""
    options = {"mode": mode, "runs": "1", "warmup": f"{warmup_s}s", "duration": f"{duration_s}s"}
    options |= {"bootstrap": broker.bootstrap, "broker-pid": str(broker.child.pid)}
    if authority is not None:
        options["ca"] = str(authority)
    arguments = [word for name, value in options.items() for word in (f"-{name}", value)]
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        raise RuntimeError(f"loadgen on {broker.name}: {done.stderr.strip()}")
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if line["errors"]:
        raise RuntimeError(f"loadgen on {broker.name}: requests were answered with errors: {line['errors']}")
    line["per_core"] = line["per_s"] / line["broker_cpus"]
    return line


def coordinator(quick: bool) -> Iterator[Outcome]:
    """Load both brokers in turn, with 100 members of one group on 20 connections."""
    with KohortBroker() as ours, ApacheKafka() as theirs:
        yield from _in_turns(quick, ours, theirs, AIMS)


def coordinator_over_tls(quick: bool) -> Iterator[Outcome]:
    """Do the same over TLS, both brokers with one certificate on the curve P-256."""
    with brokers_over_tls() as (ours, theirs, authority):
        yield from _in_turns(quick, ours, theirs, TLS_AIMS, authority)


@contextmanager
def brokers_over_tls(settings: Mapping[str, str] | None = None) -> Iterator[tuple[KohortBroker, ApacheKafka, Path]]:
    """Run ours and theirs, the latter with settings, and yield both and the certificate of their authority."""
    with tempfile.TemporaryDirectory() as directory:
        authority = Authority(Path(directory))
        keystore = {"ssl.keystore.type": "PEM"}
        keystore["ssl.keystore.location"] = str(authority.sign("broker", ["127.0.0.1"]))
        secured = {**(settings or {}), **keystore, "inter.broker.listener.name": "PLAINTEXT"}
        with (
            KohortBroker({**keystore, "listeners": "SSL://127.0.0.1:0"}) as ours,
            ApacheKafka(secured, listeners=("SSL", "PLAINTEXT")) as theirs,
        ):
            yield ours, theirs, authority.certificate


def _in_turns(
    quick: bool, ours: Broker, theirs: Broker, aims: Mapping[str, Aim], authority: Path | None = None
) -> Iterator[Outcome]:
    program = loadgen()
    rounds, duration_s, warmup_s = (2, 2.0, 1.0) if quick else (5, 4.0, 2.0)
    for mode, aim in aims.items():
        # A JVM compiles what is hot: it gets its warm-up before anything counts.
        for broker in (ours, theirs):
            sample(program, broker, mode, 2 if quick else 6, 0.5, authority)
        lines: dict[str, list[dict[str, Any]]] = {"kohort": [], "apache": []}
        for _ in range(rounds):
            for broker in (ours, theirs):
                lines[broker.name].append(sample(program, broker, mode, warmup_s, duration_s, authority))
        medians = {
            name: {key: statistics.median(line[key] for line in found) for key in SAMPLES}
            for name, found in lines.items()
        }
        note = "by the wall {:,.0f} beside {:,.0f}/s ({:.2f}×), p99 {:.1f} beside {:.1f} ms".format(
            medians["kohort"]["per_s"],
            medians["apache"]["per_s"],
            medians["kohort"]["per_s"] / medians["apache"]["per_s"],
            medians["kohort"]["p99_ms"],
            medians["apache"]["p99_ms"],
        )
        our_samples, their_samples = ([line["per_core"] for line in lines[name]] for name in ("kohort", "apache"))
        name = NAMES[mode] if authority is None else f"{NAMES[mode]}, TLS"
        yield Result(name, "req/s", our_samples, their_samples, "Apache Kafka", aim, note, {"lines": lines})
