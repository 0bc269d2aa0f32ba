"""What the copiers share: their arguments, their lines, and when to end."""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass

TRANSACTION_TIMEOUT_MS = 25_000


@dataclass(frozen=True, slots=True)
class Options:
    """Address, group, and the two topics."""

    bootstrap: str
    group: str
    source: str
    target: str


class Copier:
    """One copier program: whether it is to end, and how many transactions it committed and gave up."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        for name in ("bootstrap", "group", "source", "target"):
            parser.add_argument(name)
        self.options = Options(**vars(parser.parse_args()))
        self.is_over = False
        self.copied = 0
        self._errors: Counter[str] = Counter()
        signal.signal(signal.SIGTERM, self._end)
        faulthandler.register(signal.SIGUSR1)  # in which call a library hangs

    def _end(self, *_: object) -> None:
        self.is_over = True

    def troubled(self, error: object) -> None:
        """Note an error, and wait a little."""
        self._errors[repr(error)[:200]] += 1
        time.sleep(0.2)

    def close(self) -> None:
        """Print what was done."""
        sys.stdout.write(json.dumps({"event": "left", "copied": self.copied, "errors": self._errors}) + "\n")
