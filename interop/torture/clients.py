"""The clients of a run: who writes, copies and reads what, each a process with a history file of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from interop.process import OWN_CODE, Child

PARTITIONS = 3
PLAIN, ONCE, MOVED = "plain", "once", "moved"
TOPICS = (PLAIN, ONCE, MOVED)
"""Topics of producers without idempotence, of idempotent ones, and of transactions."""

WRITERS = ("librdkafka", "kafka_python", "aiokafka", "kohort")
TRANSACTIONAL = ("librdkafka", "kohort")
COPIERS = ("librdkafka", "kohort")
SERVICES = ("classic", "consumer")
"""The protocols of the groups whose members are services, two members each."""


class GroupPlan(NamedTuple):
    """A group's topic, and its members: library and settings."""

    topic: str
    members: tuple[tuple[str, dict[str, str]], ...]


GROUPS = {
    "range": GroupPlan(
        PLAIN,
        tuple((library, {"assignor": "range"}) for library in ("librdkafka", "kafka_python", "aiokafka")),
    ),
    "cooperative": GroupPlan(
        ONCE,
        tuple((library, {"assignor": "cooperative-sticky"}) for library in ("librdkafka", "kohort", "kafka_python")),
    ),
    "consumer": GroupPlan(PLAIN, tuple((library, {"protocol": "consumer"}) for library in ("librdkafka", "kohort"))),
    "committed": GroupPlan(
        MOVED,
        tuple(
            (library, {"protocol": "consumer", "isolation": "read_committed"}) for library in ("librdkafka", "kohort")
        ),
    ),
}
JAVA = ("java", {"protocol": "consumer", "property.isolation.level": "read_committed"})


@dataclass(slots=True)
class Program:
    """A writer or copier; started again where its library brought it down."""

    name: str
    library: str
    command: list[str]
    folder: Path
    starts: int = 0
    children: list[Child] = field(default_factory=list)

    def start(self) -> None:
        """Start it, with a history of its own."""
        self.starts += 1
        output = self.folder / f"{self.name}-{self.starts}.jsonl"
        command = [each.replace("NAME", f"{self.name}-{self.starts}") for each in self.command]
        environment = {**os.environ, **OWN_CODE}
        self.children.append(Child(command, output, environment=environment, separate=True))

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.child.kill()

    def replace(self, *, is_killed: bool) -> None:
        """Start it again beside what runs, which is killed, or asked to end."""
        self.child.kill() if is_killed else self.child.signal(signal.SIGTERM)
        self.start()

    def stop(self, timeout_s: float) -> None:
        """Ask all that run to end, and wait until they have."""
        for child in self.children:
            child.stop(timeout_s)

    @property
    def child(self) -> Child:
        """The process that runs now."""
        return self.children[-1]

    def complaint(self) -> str:
        """Return the end of what it wrote on stderr."""
        return self.child.output.with_suffix(".err").read_text(errors="replace")[-2000:]


def _module(kind: str, library: str) -> list[str]:
    return [sys.executable, "-m", f"interop.torture.{kind}.{library}"]


def writers(bootstraps: Sequence[str], seed: int, folder: Path) -> list[tuple[Program, str, bool, bool]]:
    """Return the writers, each with its topic, whether it writes exactly once, and whether in transactions.

    They use the addresses in turn.
    """
    kinds = [(library, PLAIN, False, False) for library in WRITERS]
    kinds += [(library, ONCE, True, False) for library in WRITERS]
    kinds += [(library, MOVED, True, True) for library in TRANSACTIONAL]
    found = []
    for number, (library, topic, is_exact, is_transactional) in enumerate(kinds):
        name = f"{library}-{topic}"
        command = [*_module("writers", library), bootstraps[number % len(bootstraps)], "NAME", topic]
        command += ["--partitions", str(PARTITIONS), "--seed", str(seed + number)]
        command += ["--idempotent"] * is_exact + ["--transactional-id", name] * is_transactional
        found.append((Program(name, library, command, folder), topic, is_exact, is_transactional))
    return found


def copiers(bootstraps: Sequence[str], folder: Path) -> list[Program]:
    """Return the copiers; the name of each is its group, and `copied` returns the topic that it writes."""
    return [
        Program(
            f"copier-{library}",
            library,
            [*_module("copiers", library), bootstraps[number % 2], f"copier-{library}", ONCE, copied(library)],
            folder,
        )
        for number, library in enumerate(COPIERS)
    ]


def services(bootstraps: Sequence[str], folder: Path) -> dict[str, list[Program]]:
    """Return the services by their groups."""
    found: dict[str, list[Program]] = {}
    for protocol in SERVICES:
        group = f"service-{protocol}"
        for number in range(2):
            command = [sys.executable, "-m", "interop.torture.service"]
            command += [bootstraps[number % 2], group, ONCE, letters(group), protocol]
            found.setdefault(group, []).append(Program(f"{group}-{number}", "kohort", command, folder))
    return found


def letters(group: str) -> str:
    """Return the topic of the dead letters of a group of services."""
    return f"letters-{group}"


def copied(library: str) -> str:
    """Return the topic that a copier writes."""
    return f"copied-{library}"


def errors_of(children: Sequence[Child]) -> dict[str, int]:
    """Return the errors that libraries reported to programs that have ended, and how often each."""
    errors: dict[str, int] = {}
    for child in children:
        last = child.text().rstrip().rpartition("\n")[2]
        if last.startswith('{"event": "left"'):
            for error, count in json.loads(last)["errors"].items():
                errors[error] = errors.get(error, 0) + count
    return errors
