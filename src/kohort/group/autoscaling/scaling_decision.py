"""Decision how many members a group shall have: a pure function of its load, its state, and the price of a rebalance.

| phase | what is awaited | ends |
|---|---|---|
| STABLE | nothing | the group is to have more members (STARTING) or fewer (DRAINING, or LEAVING at once) |
| STARTING | new members that join; there may be still more of them | all are there, or they are late |
| DRAINING | members that will leave own nothing; the number is the old one | they own nothing, or are late: LEAVING |
| LEAVING | members that leave | they are gone, or are late |

While a rebalance runs nothing changes. Numbers of members are multiples of those of one pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, replace
from enum import StrEnum

from kohort.group.autoscaling.group_load import GroupLoad
from kohort.model.setting import SettingKind, setting

HEADROOM = 1.2
"""A group is given members for so much more than the forecast; with less it does not give any up."""

TOLERANCE = 0.1
"""Kubernetes ignores a smaller change of the number (`horizontal-pod-autoscaler-tolerance`)."""

HORIZON_S = 300.0
"""In what time lag above the target is to be consumed, and how long the lag with and without a change is compared."""

MARGIN = 2.0
"""A change must save this many times what its rebalance costs."""

LONGEST_COOLDOWN_S = 3600.0
LATE_S = 300.0
"""How long members may take to start or to leave."""

DRAIN_S = 60.0
CONFIRMED_S = 10.0
"""For how long more members must have been needed: then the rate is that of one load, and not the mean of two."""

PriceOf = Callable[[int, int], float | None]
"""Partition-seconds without a reader of a change from one number of members to another; None: not known yet."""


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """What a user sets for one group: the metadata of a trigger, named as for KEDA's Kafka scaler where it has them."""

    group_id: str = setting(MISSING, "the group", 1, name="consumerGroup", kind=SettingKind.STRING)
    lag_seconds: float = setting(
        10.0, "the lag that is aimed at, more than the interval of commits", 0.1, name="lagSeconds"
    )
    start_seconds: float = setting(
        30.0, "from a new number of pods to members that join", 0, HORIZON_S, name="startSeconds"
    )
    cooldown_seconds: float = setting(
        300.0, "for how long fewer members must have been enough before some leave", 0, name="cooldownSeconds"
    )
    records_per_second: float | None = setting(
        None,
        "what one member consumes at most; measured where it is not given",
        0.001,
        name="recordsPerSecond",
        kind=SettingKind.DOUBLE,
    )
    members_per_pod: int = setting(1, "members of the group in each pod", 1, name="membersPerPod")
    min_replicas: int = setting(0, "as in the ScaledObject", 0, name="minReplicaCount")
    max_replicas: int | None = setting(None, "as in the ScaledObject", 1, name="maxReplicaCount", kind=SettingKind.INT)
    activation_lag: int = setting(
        0, "the lag up to which a group without members stays without", 0, name="activationLagThreshold"
    )
    drain: str = setting(
        "none",
        "statefulset: members of the highest ordinals are drained before they leave",
        choices=("none", "statefulset"),
    )


class ScalingPhase(StrEnum):
    """What the group is doing."""

    STABLE = "stable"
    STARTING = "starting"
    DRAINING = "draining"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class ScalingState:
    """The number of members in force, and what led to it. `needs` are times and numbers that were needed then."""

    members: int
    since_ms: int
    """When the phase began."""
    phase: ScalingPhase = ScalingPhase.STABLE
    target: int = 0
    """In DRAINING, the number that follows."""
    needs: tuple[tuple[int, int], ...] = ()
    """Falling: of what was needed since, and is still the most."""
    short_since_ms: int | None = None
    """Since when more members have been needed."""
    decreased_ms: int | None = None
    """When members left last, until there are more again."""
    cooldown_s: float = 0.0
    """Of a scale-in, longer than that of the settings after one that came too early."""


def levels(partitions: int, settings: ScalingSettings) -> list[int]:
    """Return the numbers of members that make a difference: the least for each number of partitions of the busiest."""
    pods = -(-partitions // settings.members_per_pod)
    shares = {-(-partitions // (number * settings.members_per_pod)): number for number in range(pods, 0, -1)}
    lowest, highest = max(1, settings.min_replicas), settings.max_replicas or max(pods, settings.min_replicas)
    return sorted({min(max(number, lowest), highest) * settings.members_per_pod for number in shares.values()})


def capacity(load: GroupLoad, members: int) -> float:
    """Return the produce rate, shared by partitions as now, at which the busiest of so many members is saturated."""
    if not members or not load.partitions:
        return 0.0
    if not load.rate:
        return load.member_rate * min(members, load.partitions)
    share = -(-load.partitions // members)
    busiest = load.hottest + (share - 1) * load.rate / load.partitions
    return load.rate * load.member_rate / busiest


def needed(load: GroupLoad, state: ScalingState, settings: ScalingSettings) -> int:
    """Return the least number of members that read the forecast rate, and the lag above the target in a while."""
    choices = levels(load.partitions, settings)
    if not choices:
        return state.members
    late = lag_above_target(load, settings)
    if not load.is_measured:
        # Without a saturated member nothing shows how many are too few: try with fewer, step by step.
        fewer = [each for each in choices if each < state.members and not late]
        return fewer[-1] if fewer else state.members or choices[0]
    wanted = load.forecast * HEADROOM + late / HORIZON_S
    return next((each for each in choices if capacity(load, each) >= wanted), choices[-1])


def lag_above_target(load: GroupLoad, settings: ScalingSettings) -> float:
    """Return the records of lag beyond the seconds that are aimed at."""
    return max(0.0, load.lag - load.rate * settings.lag_seconds)


def lag_area(lag: float, growth: float, seconds: float) -> float:
    """Return the integral, in record-seconds, of a lag that grows or falls evenly and is never negative."""
    if growth < 0:
        seconds = min(seconds, lag / -growth)
    return lag * seconds + growth * seconds * seconds / 2


def lag_saved(
    load: GroupLoad, settings: ScalingSettings, present: int, members: int, price: float
) -> tuple[float, float]:
    """Return the record-seconds of lag that a change to more members saves, and those that its rebalance costs."""
    rate = load.forecast
    before, after = (rate - capacity(load, number) for number in (present, members))
    started = max(0.0, lag_above_target(load, settings) + before * settings.start_seconds)
    free = lag_area(started, after, HORIZON_S)
    built_up = price * rate / max(1, load.partitions)
    return lag_area(started, before, HORIZON_S) - free, lag_area(started + built_up, after, HORIZON_S) - free


def decide(
    state: ScalingState,
    load: GroupLoad,
    settings: ScalingSettings,
    price_of: PriceOf,
    now_ms: int,
    *,
    is_drained: bool = False,
) -> tuple[ScalingState, str]:
    """Return the state that follows, and why the number or the phase changed, or may not; empty where nothing is to do.

    `is_drained`: whether the members that will leave own nothing.
    """
    waited_s = (now_ms - state.since_ms) / 1000
    stable = replace(state, phase=ScalingPhase.STABLE, since_ms=now_ms)
    match state.phase:
        case ScalingPhase.STARTING if load.is_stable and load.members >= state.members:
            state = stable
        case ScalingPhase.STARTING if waited_s > settings.start_seconds + LATE_S:
            state = stable
        case ScalingPhase.LEAVING if load.is_stable and load.members <= state.members:
            state = stable
        case ScalingPhase.LEAVING if waited_s > LATE_S:
            cause = f"{load.members} members are still there, which is taken for the least that there may be"
            return replace(stable, members=load.members), cause
        case ScalingPhase.DRAINING if is_drained or waited_s > DRAIN_S:
            how = "own nothing" if is_drained else f"still own partitions after {DRAIN_S:g} s"
            cause = f"{state.members} → {state.target} members: those that leave {how}"
            return replace(state, members=state.target, phase=ScalingPhase.LEAVING, since_ms=now_ms), cause
    if not load.is_stable:
        return state, ""
    need = needed(load, state, settings)
    # What was needed before counts as long as no later need is as large.
    since_ms = now_ms - LONGEST_COOLDOWN_S * 1000
    larger = [each for each in state.needs if each[1] > need and each[0] >= since_ms]
    state = replace(state, needs=(*larger, (now_ms, need)))
    if state.phase in (ScalingPhase.STABLE, ScalingPhase.STARTING) and need > state.members:
        state = replace(state, short_since_ms=state.short_since_ms or now_ms)
        return _scaled_out(state, load, settings, price_of, need, now_ms)
    state = replace(state, short_since_ms=None)
    if state.phase is ScalingPhase.STABLE:
        return _scaled_in(state, load, settings, price_of, now_ms)
    return state, ""


def _scaled_out(
    state: ScalingState, load: GroupLoad, settings: ScalingSettings, price_of: PriceOf, need: int, now_ms: int
) -> tuple[ScalingState, str]:
    ignored = state.members * (1 + TOLERANCE)
    need = next((each for each in levels(load.partitions, settings) if each >= need and each > ignored), 0)
    price: float | None = 0.0
    if load.members:
        is_confirmed = now_ms - (state.short_since_ms or now_ms) >= 1000 * CONFIRMED_S
        # The price is looked up last, as a forecast takes its time.
        saves = need and is_confirmed and lag_saved(load, settings, state.members, need, 0.0)[0] > 0
        price = price_of(state.members, need) if saves else None
    if price is None:
        return state, ""
    saved, cost = lag_saved(load, settings, state.members, need, price)
    if load.members and saved <= MARGIN * cost:
        return state, ""
    cause = (
        f"{state.members} → {need} members: {load.forecast:,.0f} records/s are expected and {load.lag:,} are waiting;"
        f" saves {saved:,.0f} record-seconds of lag, costs {cost:,.0f} ({price:.1f} partition-seconds)"
    )
    cooldown_s = state.cooldown_s or settings.cooldown_seconds
    if state.decreased_ms is not None:
        # After members left too early they leave later the next time.
        is_regretted = now_ms - state.decreased_ms < 3000 * cooldown_s
        longest = max(LONGEST_COOLDOWN_S, settings.cooldown_seconds)
        cooldown_s = min(longest, 2 * cooldown_s) if is_regretted else max(settings.cooldown_seconds, cooldown_s / 2)
    started = replace(state, members=need, phase=ScalingPhase.STARTING, since_ms=now_ms)
    return replace(started, short_since_ms=None, decreased_ms=None, cooldown_s=cooldown_s), cause


def _scaled_in(
    state: ScalingState, load: GroupLoad, settings: ScalingSettings, price_of: PriceOf, now_ms: int
) -> tuple[ScalingState, str]:
    cooldown_ms = 1000 * (state.cooldown_s or settings.cooldown_seconds)
    target = max(need for at_ms, need in state.needs if now_ms - at_ms <= cooldown_ms)
    if target >= state.members * (1 - TOLERANCE) or now_ms - state.since_ms < cooldown_ms:
        return state, ""
    price = price_of(state.members, target)
    enough_since_ms = max([state.since_ms, *(at_ms for at_ms, need in state.needs if need > target)])
    enough_s = (now_ms - enough_since_ms) / 1000
    # Away and back. A member reads its share of the partitions; what was enough for a time will be for as long.
    if price is None or (state.members - target) * enough_s <= MARGIN * 2 * price * state.members / load.partitions:
        return state, ""
    cause = (
        f"{state.members} → {target} members: these have been enough for {enough_s:.0f} s;"
        f" each way costs {price:.1f} partition-seconds"
    )
    changed = replace(state, since_ms=now_ms, decreased_ms=now_ms)
    if settings.drain == "none":
        return replace(changed, members=target, phase=ScalingPhase.LEAVING), cause
    return replace(changed, phase=ScalingPhase.DRAINING, target=target), f"{cause}; they are drained first"
