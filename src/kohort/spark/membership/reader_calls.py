"""Times of Spark's calls of one reader of a streaming query, by which readers of one query are recognized."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Calls:
    """Spark's calls of one reader; times are those of the monotonic clock, which all processes of a machine share."""

    made_ns: int = field(default_factory=time.monotonic_ns)
    called_ns: int = 0
    is_planned: bool = False
    """Whether the last call planned a batch, and Spark has not read it yet."""

    def called(self) -> None:
        """Record a call by Spark."""
        self.called_ns = self.called_ns or time.monotonic_ns()
        self.is_planned = False
