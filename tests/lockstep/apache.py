"""Apache Kafka's own group coordinator in a Java process of its own, in virtual time: a JSON object a line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from interop.java_lines import JavaLines
from tests.lockstep.records import Records, Stored

HEAP = "1g"


class Answered(NamedTuple):
    """What came of a request: a response as Kafka's own converter writes it, or the code of a thrown error."""

    response: Any
    error: int | None


class Outcome(NamedTuple):
    """What one line led to."""

    answers: dict[int, Answered]
    records: Records
    made: str | None
    """The member id that was generated for the sender, None when there was none."""
    failure: str | None = None
    """Why a log could not be taken up."""


class Apache:
    """One shard of Kafka's coordinator."""

    def __init__(self, pom: str = "pom.xml", program: str = "Lockstep") -> None:
        self._lines = JavaLines(program, pom=pom, heap=HEAP)
        self.timers: dict[str, int] = {}
        self.tasks = 0

    @property
    def next_ms(self) -> int | None:
        """When the next timer is due."""
        return min(self.timers.values(), default=None)

    def close(self) -> None:
        """End the process."""
        self._lines.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._lines.is_alive

    def ask(self, **line: Any) -> Outcome:
        """Send one line and return what it led to."""
        self.send(**line)
        return self.receive()

    def send(self, **line: Any) -> None:
        """Send one line; `receive` then returns what it led to."""
        self._lines.send(json.dumps(line))

    def receive(self) -> Outcome:
        """Return what the line led to that was sent."""
        found = json.loads(self._lines.receive())
        self.timers, self.tasks = found["timers"], found["tasks"]
        answers = {ticket: Answered(response, error) for ticket, response, error in found["answers"]}
        records = [(base64.b64decode(key), value and base64.b64decode(value)) for key, value in found["records"]]
        return Outcome(answers, records, found.get("made"), found.get("failure"))

    # -- a shard's life

    def open(self, now_ms: int, seed: int, config: dict[str, str]) -> Outcome:
        """Begin anew, without groups and topics."""
        return self.ask(op="open", now=now_ms, seed=seed, config=config)

    def load(self, log: Iterable[Stored]) -> Outcome:
        """Lose everything but the topics, and take up what a log holds."""
        return self.ask(op="load", records=[(text(key), None if value is None else text(value)) for key, value in log])


def text(octets: bytes) -> str:
    """Return bytes as JSON carries them."""
    return base64.b64encode(octets).decode()
