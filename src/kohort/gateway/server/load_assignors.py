"""Assignors that share partitions out by what the cluster measures: `by-lag` and `by-throughput`.

`by-lag` counts the records that a group has not consumed yet, `by-throughput` the records a second that come in. Both
look the figures up before a round, and every ten seconds for the groups that have them: where a member has too much,
the group begins a round, at most once in an interval. Of several instances the one does so that its leader's requests
pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kohort.assign.by_load import TOLERANCE, Loads, by_load, share_out
from kohort.assign.server.adapter import AdaptedAssignor
from kohort.assign.server.spec import ServerAssignor
from kohort.assign.spec import GroupSpec
from kohort.client import Admin
from kohort.gateway.gateway import Gateway
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.model.assignment import Partitions
from kohort.model.bounded_dict import BoundedDict
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.printable import printable
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

BY_LAG, BY_THROUGHPUT = "by-lag", "by-throughput"

WATCH_SECONDS = 10.0
"""How often loads are measured between rounds."""

INTERVAL_MS = 60_000
"""How long after partitions have moved they stay where they are, whatever their loads."""

TOO_MUCH = 1.5
"""A member with this many times its fair part of the load has a round begin."""

IDLE_LAG = 500.0
"""What a partition counts besides its lag: one poll's records (`max.poll.records`) are not behind."""

IDLE_RATE = 1.0
"""What a partition counts besides its records a second."""

MOST_GROUPS = 1_000
"""Of how many groups it is remembered when partitions moved last."""

MEASURE_SECONDS = 5.0
"""How long a measurement may take between rounds: a partition without a leader delays one."""

RATE_FORGOTTEN_MS = 600_000
"""After so long without a measurement the rate of a partition is forgotten."""

LEAST_RATE_MS = 1_000
"""Two measurements that are closer give no rate."""


class LagMeasure:
    """Records that a group has not consumed; all of a partition where it has committed nothing."""

    def __init__(self, admin: Admin) -> None:
        self.idle = IDLE_LAG
        """What every partition counts besides its load."""
        self._admin = admin

    async def loads(self, group_id: str, partitions: Iterable[TopicPartition], now_ms: int) -> Loads:
        """Return the lag of each partition. Raises KafkaError."""
        del now_ms
        wanted = list(partitions)
        ends = await _offsets(self._admin, wanted, "latest")
        begins = await _offsets(self._admin, wanted, "earliest")
        committed = await self._admin.group_offsets(group_id, wanted)
        return {
            each: max(0, end - (committed[each].offset if each in committed else begins.get(each, 0)))
            for each, end in ends.items()
        }


class RateMeasure:
    """Records a second that come into a partition, between two measurements."""

    def __init__(self, admin: Admin) -> None:
        self.idle = IDLE_RATE
        self._admin = admin
        self._samples: OrderedDict[TopicPartition, tuple[int, int, float]] = OrderedDict()
        """The time, the end offset and the rate at the last measurement, the oldest first."""

    async def loads(self, group_id: str, partitions: Iterable[TopicPartition], now_ms: int) -> Loads:
        """Return the rate of each partition; 0 at the first measurement. Raises KafkaError."""
        del group_id
        rates: dict[TopicPartition, float] = {}
        for each, end in (await _offsets(self._admin, list(partitions), "latest")).items():
            at_ms, before, rate = self._samples.get(each, (now_ms, end, 0.0))
            if now_ms - at_ms >= LEAST_RATE_MS:
                rate = max(0, end - before) * 1000 / (now_ms - at_ms)
                at_ms, before = now_ms, end
            self._samples[each] = at_ms, before, rate
            self._samples.move_to_end(each)
            rates[each] = rate
        while self._samples and now_ms - next(iter(self._samples.values()))[0] >= RATE_FORGOTTEN_MS:
            self._samples.popitem(last=False)
        return rates

    def __len__(self) -> int:
        """Return of how many partitions the rate is remembered."""
        return len(self._samples)


async def _offsets(admin: Admin, partitions: list[TopicPartition], at: str) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    found = await admin.list_offsets(dict.fromkeys(partitions, at))
    return {each: entry.offset for each, entry in found.items() if entry is not None}


@dataclass(slots=True)
class _Moved:
    """When partitions of a group moved last, and among which members."""

    at_ms: int
    members: frozenset[str]


class LoadAssignor:
    """One of the two, as the gateway runs it."""

    def __init__(self, name: str, measure: LagMeasure | RateMeasure, now_ms: Callable[[], int]) -> None:
        self.name = name
        self._measure = measure
        self._now_ms = now_ms
        self._moved: BoundedDict[str, _Moved] = BoundedDict(MOST_GROUPS)

    async def prepared(self, group_id: str, spec: GroupSpec) -> ServerAssignor:
        """Return the assignor of one round; soon after the last one, with the same members, nothing moves."""
        now_ms = self._now_ms()
        loads = await self._measure.loads(group_id, _partitions(spec), now_ms)
        is_resting = self._is_resting(group_id, frozenset(spec.members), now_ms)
        tolerance = float("inf") if is_resting else TOLERANCE

        def intend(given: GroupSpec) -> Mapping[str, Partitions]:
            return by_load(given, loads, tolerance=tolerance, idle=self._measure.idle)

        return AdaptedAssignor(self.name, intend)

    def _is_resting(self, group_id: str, members: frozenset[str], now_ms: int) -> bool:
        moved = self._moved.get(group_id)
        if moved is not None and moved.members == members and now_ms - moved.at_ms < INTERVAL_MS:
            return True
        self._moved[group_id] = _Moved(now_ms, members)
        return False

    async def too_much(
        self, group_id: str, wanted: Mapping[str, frozenset[str]], owned: Mapping[str, Partitions]
    ) -> str:
        """Return which member has too much, in a sentence, or an empty text: then the group needs no round.

        `wanted` are the topics of each member that may get partitions, and `owned` what they own.
        """
        now_ms = self._now_ms()
        loads = await self._measure.loads(group_id, {each for mine in owned.values() for each in mine}, now_ms)
        moved = self._moved.get(group_id)
        if len(owned) < 2 or (moved is not None and now_ms - moved.at_ms < INTERVAL_MS):
            return ""
        return await asyncio.to_thread(overloaded, wanted, owned, loads, self.name, self._measure.idle)


def by_load_assignors(admin: Admin, now_ms: Callable[[], int]) -> dict[str, LoadAssignor]:
    """Return both assignors by name."""
    measures: dict[str, LagMeasure | RateMeasure] = {BY_LAG: LagMeasure(admin), BY_THROUGHPUT: RateMeasure(admin)}
    return {name: LoadAssignor(name, measure, now_ms) for name, measure in measures.items()}


def overloaded(
    wanted: Mapping[str, frozenset[str]], owned: Mapping[str, Partitions], loads: Loads, name: str, idle: float
) -> str:
    """Return the member that has too much of the load, in a sentence; an empty text where a round moves nothing."""
    sums = {member: sum(loads.get(each, 0.0) + idle for each in mine) for member, mine in owned.items()}
    total = sum(sums.values())
    fair = total / len(sums)
    member, most = max(sums.items(), key=lambda entry: (entry[1], entry[0]))
    largest = max((loads.get(each, 0.0) + idle for each in owned[member]), default=0.0)
    if most <= fair * TOO_MUCH or most - largest < fair * (1 - TOLERANCE) * (TOO_MUCH - 1):
        return ""  # what it has beside its largest partition would even out little
    every = sorted({each for mine in owned.values() for each in mine})
    if share_out(wanted, owned, every, loads, idle=idle) == owned:
        return ""
    return f"{name}: {member} has {most / total:.0%} of the load"


def _partitions(spec: GroupSpec) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, each in spec.topics.items() for number in range(each.partitions)]


@dataclass(slots=True)
class LoadWatch:
    """Has groups with such an assignor begin a round when a member has too much; `run` is its task."""

    assignors: Mapping[str, LoadAssignor]
    assignor_of: Callable[[str], str | None]
    now_ms: Callable[[], int]
    changed: Callable[[], None]
    _failure: str = ""

    async def run(self, gateway: Gateway) -> None:
        """Measure again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self.look(gateway)

    async def look(self, gateway: Gateway) -> None:
        """Measure each group once whose leader's requests pass here."""
        locations = gateway.instances.locations
        for group_id, group in list(gateway.groups.shard.groups.items()):
            assignor = self.assignors.get(self.assignor_of(group_id) or "")
            if assignor is None or not isinstance(group, ClassicGroup) or group.phase is not Phase.STABLE:
                continue
            if not locations.is_here(group.leader or ""):
                continue
            try:
                wanted, owned = _wanted_and_owned(group, gateway.edge.orders.drained(group))
                async with asyncio.timeout(MEASURE_SECONDS):
                    why = await assignor.too_much(group_id, wanted, owned)
            except MalformedMessage:
                continue  # the edge leaves it alone too
            except (KafkaError, OSError, TimeoutError) as error:
                text = str(error) or f"the brokers did not answer within {MEASURE_SECONDS:g} s"
                if text != self._failure:
                    self._failure = text
                    log.warning("the load of group %s cannot be measured: %s", printable(group_id), printable(text))
                continue
            if why:
                log.info("group %s rebalances, %s", printable(group_id), printable(why))
                gateway.edge.rebalance(group_id, why, self.now_ms())
                self.changed()


def _wanted_and_owned(
    group: ClassicGroup, drained: frozenset[str]
) -> tuple[dict[str, frozenset[str]], dict[str, Partitions]]:
    """Return the topics of each member that is not drained, and what it owns. Raises MalformedMessage."""
    members = {name: each for name, each in sorted(group.members.items()) if name not in drained}
    subscriptions = {name: decode_subscription(each.metadata(group.protocol_name)) for name, each in members.items()}
    return (
        {name: frozenset(each.topics) for name, each in subscriptions.items()},
        {name: decode_assignment(each.assignment).partitions for name, each in members.items()},
    )
