"""Load of one group: rates and lag from samples of its offsets. Samples carry their time.

- The produce rate is that of the last 15 seconds; its forecast adds the trend of the last minutes where it rises.
- The rate of a member is measured while it is saturated: its lag was above the target at both ends of a window in which
  it owned the same partitions. Of a member that is not saturated only a lower bound is known.
- More members help no partition whose committed offset has not moved for minutes, and not the few into which more is
  written than one member reads: neither their rate nor their lag counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import NamedTuple

from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition

RATE_MS = 15_000
EACH_SAMPLE_MS = 60_000
PAST_MS = 300_000
PAST_STEP_MS = 30_000
"""How long samples are stored: each of the last minute, and one of each half minute before."""

MEASURED_MS = 25_000
BOUND_MS = 45_000
"""How long the rate of a member is measured, saturated and not: several commits, so that one more counts little."""

TREND_MS = 120_000
STUCK_MS = 120_000
MOST_LAG_S = 300.0
"""The lag of one partition counts as far as one member can consume it in this time."""

MEASUREMENTS = 12
MOST_RISE = 0.5
"""By what part of the rate its trend may raise the forecast."""


class GroupSample(NamedTuple):
    """Offsets and owners of a group at one moment. `owned` has the partitions of each member."""

    at_ms: int
    ends: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]
    owned: tuple[Partitions, ...]
    is_stable: bool = True
    """Whether no rebalance runs."""

    def lag(self, partition: TopicPartition) -> int:
        """Return the records that are not consumed; none where no offset is committed."""
        end = self.ends.get(partition, 0)
        return max(0, end - self.committed.get(partition, end))


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """What is written to a group's partitions, and what its members consume, in records and records per second."""

    members: int
    partitions: int
    is_stable: bool
    rate: float = 0.0
    forecast: float = 0.0
    hottest: float = 0.0
    """The produce rate of the partition with the highest one."""
    lag: int = 0
    """As far as more members help."""
    whole_lag: int = 0
    unhelped: frozenset[TopicPartition] = frozenset()
    """Partitions that more members do not help, which do not count in the fields before."""
    member_rate: float = 0.0
    is_measured: bool = False
    """Whether `member_rate` is given, or what a saturated member consumes; else a member consumes that much or more."""


def _rate(changes: Iterable[int], took_ms: int) -> float:
    return sum(changes) * 1000 / took_ms


@dataclass(slots=True)
class LoadHistory:
    """The samples of one group. `lag_seconds` is the lag that a member may have and not count as saturated."""

    lag_seconds: float
    recent: deque[GroupSample] = field(default_factory=deque)
    past: deque[GroupSample] = field(default_factory=deque)
    measured: deque[float] = field(default_factory=lambda: deque(maxlen=MEASUREMENTS))
    lower_bound: float = 0.0

    def add(self, sample: GroupSample) -> None:
        """Add the newest sample."""
        self.recent.append(sample)
        while sample.at_ms - self.recent[0].at_ms > EACH_SAMPLE_MS:
            oldest = self.recent.popleft()
            if not self.past or oldest.at_ms - self.past[-1].at_ms >= PAST_STEP_MS:
                self.past.append(oldest)
        while self.past and sample.at_ms - self.past[0].at_ms > PAST_MS:
            self.past.popleft()
        self._measure(sample)

    @property
    def is_known(self) -> bool:
        """Whether there are rates: two samples of the time for one, or more."""
        return bool(self.recent) and self.recent[-1].at_ms - self.recent[0].at_ms >= RATE_MS

    def load(self, horizon_s: float, given_rate: float | None = None) -> GroupLoad:
        """Return the load now, with the produce rate that is expected after `horizon_s`.

        `given_rate` is what a member consumes at most, where that is known and not to be measured.
        """
        now = self.recent[-1]
        rates = _produced(self._since(RATE_MS), now)
        member_rate = given_rate or max(median(self.measured) if self.measured else 0.0, self.lower_bound)
        is_measured = bool(given_rate or self.measured)
        most = member_rate if is_measured else inf
        overloaded = {each for each, rate in rates.items() if rate > most}
        # Of few partitions it is skew; of most of them a peak, in which each needs a member of its own.
        unhelped = self._stuck(now) | (overloaded if 2 * len(overloaded) < len(rates) else set())
        lags = {each: now.lag(each) for each in now.ends}
        helped = rates.keys() - unhelped
        rate = sum(rates[each] for each in helped)
        return GroupLoad(
            len(now.owned),
            len(now.ends),
            now.is_stable,
            rate,
            min(rate + self._rise(rate) * horizon_s, rate * (1 + MOST_RISE)),
            max((rates[each] for each in helped), default=0.0),
            round(sum(min(lags[each], most * MOST_LAG_S) for each in helped)),
            sum(lags.values()),
            frozenset(unhelped),
            member_rate,
            is_measured,
        )

    def _since(self, age_ms: int) -> GroupSample:
        """Return the newest sample that is so old, or the oldest."""
        now_ms = self.recent[-1].at_ms
        old = (each for each in reversed(self.recent) if now_ms - each.at_ms >= age_ms)
        return next(old, self.recent[0])

    def _rise(self, rate: float) -> float:
        """Return by how much the rate rises each second, 0 where it falls or is too short known."""
        stored = [*self.past, self.recent[0]]
        first, second = stored[0], stored[min(1, len(stored) - 1)]
        took_ms = self.recent[-1].at_ms - (first.at_ms + second.at_ms) // 2
        if first is second or took_ms < TREND_MS:
            return 0.0
        return max(0.0, rate - sum(_produced(first, second).values())) * 1000 / took_ms

    def _stuck(self, now: GroupSample) -> frozenset[TopicPartition]:
        """Return the partitions with lag that no member has read on for minutes, although they have owners."""
        stored = [*self.past, *self.recent]
        then = next((each for each in reversed(stored) if now.at_ms - each.at_ms >= STUCK_MS), None)
        if then is None or not now.owned or not then.owned:
            return frozenset()
        return frozenset(
            each for each, offset in now.committed.items() if then.committed.get(each) == offset and then.lag(each)
        )

    def _measure(self, now: GroupSample) -> None:
        """Measure the rates of members over the longest window in which the owners are the same."""
        window = None
        for each in reversed(self.recent):
            if not each.is_stable or each.owned != now.owned:
                break
            window = each
        if window is None or now.at_ms - window.at_ms < MEASURED_MS:
            return
        produced = _produced(window, now)
        took_ms = now.at_ms - window.at_ms
        saturated = []
        for owned in now.owned:
            consumed = [max(0, now.committed.get(each, 0) - window.committed.get(each, 1 << 62)) for each in owned]
            rate = _rate(consumed, took_ms)
            target = self.lag_seconds * sum(produced.get(each, 0.0) for each in owned)
            lags = (sum(sample.lag(each) for each in owned) for sample in (window, now))
            if rate and min(lags) > target:
                saturated.append(rate)
            if took_ms >= BOUND_MS:
                self.lower_bound = max(self.lower_bound, rate)
        if saturated:
            self.measured.append(median(saturated))
            self.lower_bound = 0.0


def _produced(before: GroupSample, now: GroupSample) -> dict[TopicPartition, float]:
    """Return the records per second that were written to each partition."""
    took_ms = max(1, now.at_ms - before.at_ms)
    return {each: _rate([max(0, end - before.ends.get(each, end))], took_ms) for each, end in now.ends.items()}
