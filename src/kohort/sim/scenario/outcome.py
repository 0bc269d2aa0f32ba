"""The result of one world: what broke it, if anything did, and what happened in it."""

from __future__ import annotations

from typing import NamedTuple

NO_DEFECT = "NoDefect"
"""The invariant that production code raises and logs no error of its own."""


class Broken(NamedTuple):
    """What broke: the invariant's name, a sentence, and when."""

    invariant: str
    sentence: str
    at_us: int
    event: int


class Outcome(NamedTuple):
    """The result of one world. Counts are by name; `coverage` is how often each invariant was checked."""

    seed: int
    broken: Broken | None
    events: int
    virtual_us: int
    rest_us: int
    """How long after the healing the world had converged; -1 where it did not."""
    chunks: int
    """Pieces of messages that the network carried."""
    drawn: dict[str, int]
    met: dict[str, int]
    """Steps that had an effect."""
    coverage: dict[str, int]
    failures: dict[str, int]
    """Members that failed, by error."""
    unowned_us: int = 0
    """How long partitions were without an owner, summed over all of them."""

    @property
    def passed(self) -> bool:
        """Whether nothing was broken."""
        return self.broken is None
