"""What the steered members have in common: arguments, commands, output."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path


class Orders:
    """The arguments of a member, and the commands that have come since the last look."""

    def __init__(self) -> None:
        self.bootstrap, self.group, commands, *settings = sys.argv[1:]
        self.settings = dict(setting.split("=", 1) for setting in settings)
        self.is_over = False
        self._commands = Path(commands)
        self._done = 0
        self._owned: list[str] | None = None
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self.is_over = True

    @property
    def client(self) -> str:
        return self.settings["client"]

    @property
    def topics(self) -> list[str]:
        return self.settings.get("topics", "").split(",")

    @property
    def pattern(self) -> str | None:
        return self.settings.get("pattern")

    @property
    def assignors(self) -> list[str]:
        return self.settings.get("assignor", "range").split(",")

    @property
    def instance(self) -> str | None:
        return self.settings.get("instance")

    @property
    def is_native(self) -> bool:
        return self.settings.get("protocol") == "consumer"

    @property
    def session_ms(self) -> int:
        return int(self.settings.get("session_ms", "6000"))

    @property
    def poll_ms(self) -> int:
        return int(self.settings.get("poll_ms", "60000"))

    @property
    def is_failing(self) -> bool:
        """Whether the assignor shall raise."""
        return "failing" in self.settings and Path(self.settings["failing"]).exists()

    def new(self) -> Iterator[tuple[str, str]]:
        """Yield the commands that have come, each as a verb and the rest of its line."""
        lines = self._commands.read_text().splitlines()
        for line in lines[self._done :]:
            self._done += 1
            verb, _, rest = line.partition(" ")
            yield verb, rest

    def stall(self) -> None:
        """Do nothing until asked to leave."""
        while not self.is_over:
            time.sleep(0.05)

    def owns(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Print what the member owns if that has changed."""
        owned = sorted(f"{topic}-{number}" for topic, number in partitions)
        if owned != self._owned:
            self._owned = owned
            sys.stdout.write(json.dumps({"at_s": time.monotonic(), "owns": owned}) + "\n")
            sys.stdout.flush()
