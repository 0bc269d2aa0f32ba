"""Quarantined input: place, reason and first bytes of what could not be read.

One broken file must not fill a table: of each reason a reader stores the first few and counts the rest; the number of
reasons is bounded too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

SAMPLE_BYTES: Final = 64
MOST_OF_A_REASON: Final = 100
MOST_REASONS: Final = 50
_OTHERS: Final = "other reasons"


@dataclass(frozen=True, slots=True)
class Fault:
    """Bytes that cannot be read. `position` is their position in the file, None where there is none."""

    reason: str
    position: int | None = None
    offset: int | None = None
    sample: bytes = b""
    partition: int | None = None
    """The partition, where a text file contains several."""


@dataclass(slots=True)
class Quarantine:
    """The faults of one reader, until they are taken."""

    _stored: list[Fault] = field(default_factory=list)
    _seen: Counter[str] = field(default_factory=Counter)
    _last: dict[str, Fault] = field(default_factory=dict)

    def add(self, fault: Fault, kind: str = "") -> None:
        """Store a fault, or count it beyond the limit of its kind, which is its reason unless given."""
        kind = kind or fault.reason
        if kind not in self._seen and len(self._seen) >= MOST_REASONS:
            kind = _OTHERS
        self._seen[kind] += 1
        if self._seen[kind] <= MOST_OF_A_REASON:
            sample = bytes(fault.sample[:SAMPLE_BYTES])
            self._stored.append(Fault(fault.reason, fault.position, fault.offset, sample))
        else:
            self._last[kind] = fault

    def count(self, kind: str, more: int) -> None:
        """Count more faults of a kind that reached its limit."""
        self._seen[kind] += more

    def take(self) -> list[Fault]:
        """Return the faults that were stored since the last time."""
        stored, self._stored = self._stored, []
        return stored

    def finish(self) -> list[Fault]:
        """Return the stored faults, and for each kind beyond its limit one fault with the count of the rest."""
        for kind, last in sorted(self._last.items()):
            more = self._seen[kind] - MOST_OF_A_REASON
            self._stored.append(Fault(f"and {more} more: {last.reason}", last.position, last.offset))
        self._last.clear()
        return self.take()
