"""The last samples of a group's lag and committed offsets, in a ring of fixed size."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

SAMPLES = 60
"""Of each group: an hour where it is looked at each minute."""

_FIELDS = 3


class LagSample(NamedTuple):
    """Lag in records of all partitions together, and the sum of the committed offsets."""

    at_ms: int
    lag: int
    committed: int


class LagSamples:
    """A ring of samples: 24 bytes each, since there is one ring for each of ten thousand groups."""

    def __init__(self) -> None:
        self._ring = array("q")
        self._next = 0

    def add(self, sample: LagSample) -> None:
        """Add a sample; the oldest one gives way."""
        if len(self._ring) < SAMPLES * _FIELDS:
            self._ring.extend(sample)
            return
        self._ring[self._next : self._next + _FIELDS] = array("q", sample)
        self._next = (self._next + _FIELDS) % len(self._ring)

    def __iter__(self) -> Iterator[LagSample]:
        """Yield the samples, the oldest first."""
        for place in range(0, len(self._ring), _FIELDS):
            start = (self._next + place) % len(self._ring)
            yield LagSample(*self._ring[start : start + _FIELDS])

    def commit_rate(self) -> float | None:
        """Return how many offsets a second were committed between the last two samples, None where that is unknown."""
        samples = list(self)[-2:]
        if len(samples) < 2 or samples[1].at_ms <= samples[0].at_ms:
            return None
        return max(0, samples[1].committed - samples[0].committed) / (samples[1].at_ms - samples[0].at_ms) * 1000
