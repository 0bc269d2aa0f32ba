"""What every member program shares: its arguments, its JSON lines, and the wish to end."""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Row = tuple[int, int, str, str]  # partition, offset, key, value


@dataclass(frozen=True, slots=True)
class Options:
    """Address, group and identity of the member."""

    bootstrap: str
    group: str
    topic: str
    assignors: tuple[str, ...]
    instance: str | None
    session_ms: int
    heartbeat_ms: int
    is_native: bool = False  # of the consumer protocol
    remote_assignor: str | None = None
    regex: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)  # what only some programs know

    @property
    def is_automatic(self) -> bool:
        """Whether the library commits by itself, at its own times."""
        return self.more.get("auto") == "1"

    @property
    def is_reported(self) -> bool:
        """Whether what is read is reported; of a library that commits by itself, where that is asked for."""
        return not self.is_automatic or self.more.get("report") == "1"

    @property
    def isolation(self) -> Literal["read_uncommitted", "read_committed"]:
        """Its `isolation.level`: whether it reads what transactions have not committed."""
        return "read_committed" if self.more.get("isolation") == "read_committed" else "read_uncommitted"

    def turned(self) -> Options:
        """Return the same with the other protocol."""
        return replace(self, is_native=not self.is_native)


class Report:
    """The lines of one member. `is_over` turns true when it is asked to leave, `is_turning` to change its protocol."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_turning = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGHUP, self._turn)
        faulthandler.register(signal.SIGUSR1)  # a test that times out requests the stacks of all members
        self.line("starting")

    def _end(self, *_: object) -> None:
        self.is_over = True

    def _turn(self, *_: object) -> None:
        self.is_turning = True

    @property
    def is_reading(self) -> bool:
        """Whether the member is still to run: it has not been asked to close its consumer."""
        return not self.is_over and not self.is_turning

    def closing(self) -> None:
        """Print that the member closes its consumer."""
        self.line("leaving" if self.is_over else "turning")

    def lives(self, chosen: Options) -> Iterator[Options]:
        """Yield how to take part, and again after each turn to the other protocol; print when a consumer is closed."""
        yield chosen
        while True:
            self.line("left" if self.is_over else "turned")
            self.is_turning = False
            if self.is_over:
                return
            chosen = chosen.turned()
            yield chosen

    def line(self, event: str, **fields: object) -> None:
        """Print one event and when it was: by the machine's monotonic clock, which all processes share."""
        sys.stdout.write(json.dumps({"event": event, "at_s": time.monotonic(), **fields}) + "\n")
        sys.stdout.flush()

    def owns(self, partitions: Iterable[int], why: str) -> None:
        """Print the whole assignment after a change."""
        self.line("owns", partitions=sorted(partitions), why=why)

    def read(self, rows: list[Row]) -> None:
        """Print what one poll brought."""
        self.line("read", records=rows)

    def committing(self, positions: Mapping[int, int]) -> None:
        """Print what a commit will ask for: whether it took effect is unknown until the next of `committed`."""
        self.line("committing", offsets={str(partition): offset for partition, offset in positions.items()})

    def committed(self, positions: Mapping[int, int]) -> None:
        """Print what a commit has confirmed."""
        self.line("committed", offsets={str(partition): offset for partition, offset in positions.items()})

    def refused(self, error: object) -> None:
        """Print why a commit was refused."""
        self.line("refused", error=str(error))

    def troubled(self, error: object) -> None:
        """Print what a poll raised; the member goes on polling, as an application would that logs its errors."""
        self.line("troubled", error=repr(error))


def options() -> Options:
    """Read the arguments that every member program takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in given.settings)
    session_ms = int(settings.get("session_ms", "6000"))
    return Options(
        given.bootstrap,
        given.group,
        given.topic,
        tuple(settings["assignor"].split(",")) if "assignor" in settings else (),
        settings.get("instance"),
        session_ms,
        int(settings.get("heartbeat_ms", min(1000, session_ms // 3))),
        settings.get("protocol", "classic") == "consumer",
        settings.get("remote_assignor"),
        settings.get("regex"),
        settings,
    )
