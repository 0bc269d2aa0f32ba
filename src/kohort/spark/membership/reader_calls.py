"""Spark's calls of one reader of a streaming query."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Calls:
    """What Spark has asked of one reader: times in the clock of the machine, which its processes share."""

    made_ns: int = field(default_factory=time.monotonic_ns)
    called_ns: int = 0
    is_planned: bool = False
    """Whether a batch was planned last, and Spark has not come back for it."""

    def called(self) -> None:
        """Note a call of Spark's."""
        self.called_ns = self.called_ns or time.monotonic_ns()
        self.is_planned = False
