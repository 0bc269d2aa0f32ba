"""At which pace a classic member commits, and so for which of its commits a program may be waiting.

A member that commits by itself does so at an interval (`auto.commit.interval.ms`), and once more before it leaves,
whenever that is. If the answer to that last commit were held, its partitions would have no owner meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

EARLY = 0.9
"""A commit that comes before this share of the last gap is not one of the pace: timers of clients are a little late."""


@dataclass(slots=True, eq=False)
class CommitPace:
    """The commits of one member."""

    committed_ms: int
    """When the last one came, at first when the member got its assignment: timers of clients begin there."""
    gap_ms: int = 0
    """How long after the one before."""

    def is_kept(self, now_ms: int) -> bool:
        """Whether a commit that comes now comes no sooner than the last one did, as far as is known."""
        return now_ms - self.committed_ms >= EARLY * self.gap_ms

    def committed(self, now_ms: int) -> None:
        """Note a commit."""
        self.gap_ms = now_ms - self.committed_ms
        self.committed_ms = now_ms
