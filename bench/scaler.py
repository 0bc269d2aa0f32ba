"""Autoscaling of a group under recorded loads, in virtual time: our scaler beside KEDA's Kafka scaler.

Both stand behind one horizontal pod autoscaler, with the same pods, members and loads. KEDA's scaler reports the
group's lag, at most `lagThreshold` for each partition; that is what a member consumes in the lag that ours aims at, so
that both know as much. What a rebalance leaves unread is what `kohort what-if` forecasts for the group on Apache Kafka.
No clock is read: the figures are the same in each run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from bench.result import Aim, Outcome, Result
from kohort.group.autoscaling.group_load import GroupSample, LoadHistory
from kohort.group.autoscaling.scaling_decision import ScalingSettings, ScalingState, decide
from kohort.group.migration.migration_plan import LiveGroup, LiveMember
from kohort.model.ids import TopicPartition
from kohort.what_if.change import PlannedChange
from kohort.what_if.forecast import Forecast
from kohort.what_if.group_facts import GroupFacts, Times, roster_of
from kohort.what_if.simulation import simulate

PARTITIONS = 24
MEMBER_RATE = 500.0
"""Records per second that a member consumes at most."""
LAG_SECONDS = 10.0
START_S = 30
COMMIT_S = 5
SYNC_S = 15
SAMPLE_S = 5
STABILIZATION_S = 300
TOLERANCE = 0.1
TOPIC = "orders"
PLACES = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
HOUR = 3600
ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}
NO_WORSE = Aim(1, of_ratio=True, at_most=True)

Rates = Sequence[float]
"""Records that are written in each second."""


# -- loads


def day(seconds: int, lowest: float, highest: float) -> list[float]:
    """Return a day curve, as long as it is to be: least in the beginning, most in the middle."""
    middle, reach = (lowest + highest) / 2, (highest - lowest) / 2
    return [middle - reach * math.cos(2 * math.pi * at / seconds) for at in range(seconds)]


def with_noise(rates: Rates, seed: int, share: float = 0.1) -> list[float]:
    """Return a load whose rate varies by a share of itself from second to second."""
    rng = random.Random(seed)
    return [rate * (1 + rng.uniform(-share, share)) for rate in rates]


def with_bursts(rates: Rates, seed: int, each_s: int, times: float) -> list[float]:
    """Return a load with bursts of one to five minutes, one in about `each_s` seconds."""
    rng, found = random.Random(seed), list(rates)
    at = rng.randrange(each_s)
    while at < len(found):
        until = min(len(found), at + rng.randrange(60, 300))
        found[at:until] = [rate * times for rate in found[at:until]]
        at = until + rng.randrange(each_s // 2, each_s * 3 // 2)
    return found


def batches() -> list[float]:
    """Return a load that is small but for ten minutes of each hour."""
    return [6000.0 if at % HOUR < 600 and at >= HOUR else 400.0 for at in range(8 * HOUR)]


LOADS: dict[str, Callable[[], list[float]]] = {
    "step": lambda: with_noise([500.0] * 1200 + [4000.0] * 3600 + [500.0] * 2400, 1),
    "flat": lambda: with_noise([2200.0] * 4 * HOUR, 2),
    "day": lambda: with_noise(day(12 * HOUR, 300, 7000), 3),
    "day with bursts": lambda: with_noise(with_bursts(day(12 * HOUR, 300, 3500), 4, HOUR, 2.5), 4),
    "hourly batches": lambda: with_noise(batches(), 5),
}


# -- rebalances


@cache
def rebalance(assignor: str, before: int, after: int) -> Forecast:
    """Return what a change of the number of members does to a group on Apache Kafka."""
    owned = [frozenset(PLACES[number::before]) for number in range(before)]
    members = tuple(
        LiveMember(f"m-{number:02}-id", f"m-{number:02}", False, frozenset({TOPIC}), owned[number])
        for number in range(before)
    )
    group = LiveGroup("g", "classic", "Stable", "consumer", assignor, members, {TOPIC: (b"o" * 16, PARTITIONS)})
    stopped = tuple(member.member_id for member in members[after:])
    change = PlannedChange(add=max(0, after - before), stop=stopped)
    times = Times(network_ms=1.0, revoked_ms=200.0, assigned_ms=200.0)
    return simulate(GroupFacts(group, is_ours=False), roster_of(group), times, change, "", lambda _: None)


# -- what is compared


class KafkaScaler:
    """KEDA's Kafka scaler, by its documentation: the lag, and at most `lagThreshold` for each partition."""

    window_s = STABILIZATION_S

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold

    def sample(self, at: int, simulation: Simulation) -> None:
        """It looks when it is asked."""

    def wanted(self, _at: int, simulation: Simulation) -> float:
        """Return the metric in parts of its target."""
        lag = sum(math.floor(each) for each in simulation.visible_lags())
        return min(lag, PARTITIONS * self.threshold) / self.threshold


class OurScaler:
    """Ours: it decides by itself, and the autoscaler passes its number on at once."""

    window_s = 0

    def __init__(self, assignor: str) -> None:
        self.assignor = assignor
        self.settings = ScalingSettings("g", LAG_SECONDS, START_S, records_per_second=MEMBER_RATE)
        self.history = LoadHistory(LAG_SECONDS)
        self.state: ScalingState | None = None

    def sample(self, at: int, simulation: Simulation) -> None:
        """Sample the group, and decide."""
        now_ms = at * 1000
        ends = {place: math.floor(end) for place, end in zip(PLACES, simulation.written, strict=True)}
        committed = {place: math.floor(offset) for place, offset in zip(PLACES, simulation.committed, strict=True)}
        owned = tuple(frozenset(PLACES[number] for number in each) for each in simulation.owned())
        self.history.add(GroupSample(now_ms, ends, committed, owned, at >= simulation.stable_at))
        if not self.history.is_known:
            return
        if self.state is None:
            self.state = ScalingState(simulation.members, now_ms)
        load = self.history.load(self.settings.start_seconds, MEMBER_RATE)
        self.state, _ = decide(self.state, load, self.settings, self._price, now_ms)

    def _price(self, before: int, after: int) -> float:
        return rebalance(self.assignor, before, after).unread_partition_s

    def wanted(self, _at: int, simulation: Simulation) -> float:
        """Return the metric in parts of its target."""
        return simulation.replicas if self.state is None else self.state.members


@dataclass(slots=True)
class Autoscaler:
    """Kubernetes' horizontal pod autoscaler with its default behaviour, but for the window of a scale-in."""

    window_s: int
    wishes: list[tuple[int, int]] = field(default_factory=list)

    def replicas(self, at: int, now: int, wanted: float) -> int:
        """Return the number of pods after one of its looks."""
        wish = now if abs(wanted / now - 1) <= TOLERANCE else math.ceil(wanted)
        self.wishes = [each for each in self.wishes if at - each[0] < self.window_s] + [(at, wish)]
        if wish < now:
            wish = min(now, max(number for _, number in self.wishes))
        return max(1, min(wish, PARTITIONS, max(2 * now, now + 4)))


# -- the group


@dataclass(slots=True)
class Simulation:
    """One group of members that each consume at most `MEMBER_RATE`, under one load."""

    assignor: str
    members: int = 1
    replicas: int = 1
    written: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    consumed: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    committed: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    unread_until: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    unread_from: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    starting: list[tuple[int, int]] = field(default_factory=list)
    stable_at: float = 0.0
    lost: float = 0.0
    lag_area: float = 0.0
    changes: int = 0
    member_seconds: int = 0

    def owned(self) -> list[range]:
        """Return the partitions of each member."""
        return [range(number, PARTITIONS, self.members) for number in range(self.members)]

    def visible_lags(self) -> Iterator[float]:
        """Yield the lag of each partition as the group's offsets show it."""
        return (end - offset for end, offset in zip(self.written, self.committed, strict=True))

    def run(self, load: Rates, scaler: KafkaScaler | OurScaler) -> None:
        """Play the load."""
        autoscaler = Autoscaler(scaler.window_s)
        rng = random.Random(0)
        weights = [rng.uniform(0.9, 1.1) for _ in PLACES]
        weights = [weight / sum(weights) for weight in weights]
        for at, rate in enumerate(load):
            self._start_and_stop(at)
            self._work(at, rate, weights)
            if at % SAMPLE_S == 0:
                scaler.sample(at, self)
            if at % SYNC_S == 0:
                self._scale(at, autoscaler.replicas(at, self.replicas, scaler.wanted(at, self)))
            self.member_seconds += self.replicas

    def _scale(self, at: int, replicas: int) -> None:
        if replicas == self.replicas:
            return
        self.changes += 1
        if replicas > self.replicas:
            self.starting.append((at + START_S, replicas))
        else:
            self.starting = [(due, min(count, replicas)) for due, count in self.starting]
            self._rebalance(at, min(self.members, replicas))
        self.replicas = replicas

    def _start_and_stop(self, at: int) -> None:
        while self.starting and self.starting[0][0] <= at:
            _, count = self.starting.pop(0)
            self._rebalance(at, max(self.members, count))

    def _rebalance(self, at: int, members: int) -> None:
        if members == self.members:
            return
        forecast = rebalance(self.assignor, self.members, members)
        for each in forecast.unread:
            number = each.partition.partition
            self.unread_from[number] = at + (each.from_us - forecast.began_us) / 1_000_000
            self.unread_until[number] = at + (each.until_us - forecast.began_us) / 1_000_000
        self.lost += forecast.unread_partition_s
        self.stable_at = at + forecast.duration_ms / 1000
        self.members = members

    def _work(self, at: int, rate: float, weights: Sequence[float]) -> None:
        """Play one second: what is written, what each member consumes, and its commits."""
        written, consumed, committed = self.written, self.consumed, self.committed
        for number, weight in enumerate(weights):
            written[number] += rate * weight
        for member, owned in enumerate(self.owned()):
            shares = [self._share(number, at) for number in owned]
            backlogs = [
                (written[number] - consumed[number]) * share for number, share in zip(owned, shares, strict=True)
            ]
            waiting = sum(backlogs)
            part = min(1.0, MEMBER_RATE / waiting) if waiting else 0.0
            for number, backlog in zip(owned, backlogs, strict=True):
                consumed[number] += backlog * part
                if (at + member) % COMMIT_S == 0:
                    committed[number] = consumed[number]
        self.lag_area += sum(written) - sum(consumed)

    def _share(self, number: int, at: int) -> float:
        """Return for which part of a second a partition has a reader."""
        until = self.unread_until[number]
        return 1.0 if until <= at else 1.0 - max(0.0, min(at + 1, until) - max(at, self.unread_from[number]))


MEASURES: tuple[tuple[str, str, Callable[[Simulation], float]], ...] = (
    ("partition-seconds lost", "partition-s", lambda each: each.lost),
    ("lag over time", "M record-s", lambda each: each.lag_area / 1e6),
    ("changes of the number", "changes", lambda each: each.changes),
)


def play(load: Rates, assignor: str, scaler: KafkaScaler | OurScaler) -> Simulation:
    """Return what one scaler makes of a load."""
    simulation = Simulation(assignor)
    simulation.run(load, scaler)
    return simulation


def scaler(quick: bool) -> Iterator[Outcome]:
    """Compare both scalers under each load and protocol."""
    threshold = round(LAG_SECONDS * MEMBER_RATE)
    for name, make in LOADS.items():
        load = make()[: HOUR if quick else None]
        for protocol, assignor in ASSIGNORS.items():
            run = partial(play, load, assignor)
            ours, theirs, untuned = run(OurScaler(assignor)), run(KafkaScaler(threshold)), run(KafkaScaler(10))
            hours = ", ".join(f"{each.member_seconds / HOUR:.1f}" for each in (ours, theirs, untuned))
            note = (
                f"member-hours {hours} (ours, KEDA's, KEDA's with its default lagThreshold of 10); the last one:"
                f" {untuned.lost:,.1f} partition-s, {untuned.lag_area / 1e6:.3g} M record-s, {untuned.changes} changes"
            )
            peer = f"KEDA's Kafka scaler, lagThreshold {threshold}"
            for what, unit, value in MEASURES:
                title = f"{name}, {protocol}: {what}"
                text = note if value is MEASURES[0][2] else ""
                yield Result(title, unit, [value(ours)], [value(theirs)], peer, NO_WORSE, text)
