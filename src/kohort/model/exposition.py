"""Metrics as Prometheus reads them: families of samples, in Prometheus' text format or in OpenMetrics'.

Labels have what clients chose, such as names of groups: they are escaped and cut here, and bounded in number where they
are counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from kohort.model.printable import printable

LABEL_LENGTH = 255

BOUNDS_S = (0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 1.0)
"""Upper bounds of a histogram's buckets."""

Labels = Mapping[str, object]
Samples = Iterable[tuple[Labels, float]]


@dataclass(slots=True)
class Histogram:
    """How many durations fell into each bucket, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, other: Histogram) -> None:
        """Count what another one has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s

    def observe(self, duration_s: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.total_s += duration_s


class MetricFamily(NamedTuple):
    """One metric: its samples by the end of their name and by labels."""

    name: str
    kind: str
    text: str
    samples: list[tuple[str, Labels, float]]


def gauge(name: str, text: str, samples: Samples | float) -> MetricFamily:
    """Return a value that rises and falls: its samples by labels, or its only one."""
    return MetricFamily(name, "gauge", text, _plain(samples))


def counter(name: str, text: str, samples: Samples | float) -> MetricFamily:
    """Return a value that only grows; its name ends in `_total`."""
    assert name.endswith("_total"), name
    return MetricFamily(name, "counter", text, _plain(samples))


def histogram(name: str, text: str, samples: Iterable[tuple[Labels, Histogram]]) -> MetricFamily:
    """Return durations by buckets."""
    found: list[tuple[str, Labels, float]] = []
    for labels, each in samples:
        sums = list(accumulate(each.counts))
        bounds = (*map(str, BOUNDS_S), "+Inf")
        found += [("_bucket", {**labels, "le": bound}, count) for bound, count in zip(bounds, sums, strict=True)]
        found += [("_sum", labels, each.total_s), ("_count", labels, sums[-1])]
    return MetricFamily(name, "histogram", text, found)


def _plain(samples: Samples | float) -> list[tuple[str, Labels, float]]:
    if isinstance(samples, int | float):
        return [("", {}, samples)]
    return [("", labels, value) for labels, value in samples]


def exposition(families: Iterable[MetricFamily], *, is_open: bool = False) -> str:
    """Return all metrics as text, with `is_open` as OpenMetrics has it: families of counters without `_total`."""
    lines: list[str] = []
    for family in families:
        lines += _lines(family, family.name.removesuffix("_total") if is_open else family.name)
    return "\n".join([*lines, "# EOF" if is_open else ""]) + ("\n" if is_open else "")


def _lines(family: MetricFamily, named: str) -> Iterator[str]:
    yield f"# HELP {named} {family.text}"
    yield f"# TYPE {named} {family.kind}"
    for end, labels, value in family.samples:
        yield f"{family.name}{end}{_labels(labels)} {value:.15g}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_label_value(str(value))}"' for name, value in labels.items()) + "}"


def _label_value(text: str) -> str:
    return printable(text)[:LABEL_LENGTH].replace("\\", r"\\").replace('"', r"\"")
