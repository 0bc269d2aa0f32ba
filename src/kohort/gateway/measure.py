"""Rebalances of a throwaway group, measured directly and through a gateway: how long one join and one leave take.

A rebalance counts as over when every partition has one owner again. Both groups settle at the same time and rebalance
one after the other, so that a measurement does not disturb its counterpart. Groups and topic are removed at the end,
also where it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from time import perf_counter
from typing import Any

from kohort.assign import CooperativeStickyAssignor, RangeAssignor
from kohort.client import Admin, Consumer
from kohort.gateway.gateway_settings import ClusterSecurity
from kohort.model.errors import ErrorCode, KafkaError

log = logging.getLogger("kohort.gateway")

PREFIX = "kohort-measure"
"""Names of throwaway groups and topics begin with it; a policy of the gateway decides by the group's name."""

POLL_MS = 100
STEP_SECONDS = 0.002
"""How often the assignment is looked at."""

LONGEST_SECONDS = 60.0
"""How long one rebalance may take."""


class MeasuredKind(StrEnum):
    """How the members of a measured group rebalance."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"


_SETTINGS: dict[MeasuredKind, Callable[[], dict[str, Any]]] = {
    MeasuredKind.EAGER: lambda: {"group_protocol": "classic", "assignors": [RangeAssignor()]},
    MeasuredKind.COOPERATIVE: lambda: {"group_protocol": "classic", "assignors": [CooperativeStickyAssignor()]},
    MeasuredKind.CONSUMER: lambda: {"group_protocol": "consumer"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """What is measured: groups of `members` that settle for `settle_s`, so many times."""

    bootstrap_servers: str
    gateway: str
    members: int = 3
    partitions: int = 12
    settle_s: float = 8.0
    runs: int = 3
    kinds: tuple[MeasuredKind, ...] = tuple(MeasuredKind)
    group_prefix: str = PREFIX


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of group: how many milliseconds each join and leave took, directly and through the gateway."""

    kind: MeasuredKind
    what: str
    direct_ms: tuple[float, ...]
    gateway_ms: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times faster it is through the gateway, by the medians."""
        return median(self.direct_ms) / max(median(self.gateway_ms), 0.001)

    def to_json(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "protocol": str(self.kind),
            "what": self.what,
            "direct_ms": [round(each, 1) for each in self.direct_ms],
            "gateway_ms": [round(each, 1) for each in self.gateway_ms],
            "ratio": round(self.ratio, 2),
        }


class MeasureFailed(Exception):
    """A rebalance did not end, or a group cannot be measured; the text is one sentence."""


@dataclass(slots=True)
class _MeasuredGroup:
    """A group whose members poll without pause, on one way to the cluster."""

    bootstrap: str
    group_id: str
    topic: str
    kind: MeasuredKind
    security: ClusterSecurity
    _members: dict[Consumer, asyncio.Task[None]] = field(default_factory=dict)
    _leaving: asyncio.Task[None] | None = None
    """The last member that was removed, on its way."""

    async def add(self) -> None:
        """Start one more member."""
        member = Consumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group_id,
            client_id=f"{PREFIX}-{len(self._members) + 1}",
            auto_offset_reset="latest",
            enable_auto_commit=False,
            **_SETTINGS[self.kind](),
            **self.security,
        )
        try:
            await member.start()
        except KafkaError as error:
            raise MeasureFailed(f"no member can start at {self.bootstrap}: {error.text}") from error
        except BaseException:
            await member.stop()
            raise
        self._members[member] = asyncio.get_running_loop().create_task(_poll(member))

    async def remove(self) -> None:
        """Stop the member that came last; it leaves."""
        member = next(reversed(self._members))
        leaving = self._leave(member, self._members.pop(member))
        self._leaving = asyncio.get_running_loop().create_task(leaving)
        await asyncio.shield(self._leaving)

    async def _leave(self, member: Consumer, polling: asyncio.Task[None]) -> None:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await member.stop()

    async def remove_all(self) -> None:
        """Stop every member at once, whatever their state; also one whose leaving was interrupted."""
        leaving = [self._leave(*each) for each in self._members.items()]
        self._members.clear()
        interrupted = [] if self._leaving is None else [self._leaving]
        await asyncio.gather(*leaving, *interrupted, return_exceptions=True)

    async def settled(self, partitions: int) -> None:
        """Wait until every member has some of the partitions and each has one owner. Raises MeasureFailed."""
        deadline_s = perf_counter() + LONGEST_SECONDS
        while True:
            owned = [member.assignment() for member in self._members]
            if all(owned) and sum(map(len, owned)) == partitions == len(set().union(*owned)):
                return
            for polling in self._members.values():
                if polling.done() and not polling.cancelled() and (error := polling.exception()) is not None:
                    raise MeasureFailed(f"a member of {self.group_id} at {self.bootstrap} failed: {error}")
            if perf_counter() > deadline_s:
                raise MeasureFailed(
                    f"group {self.group_id} at {self.bootstrap} was not assigned within {LONGEST_SECONDS:.0f} s"
                )
            await asyncio.sleep(STEP_SECONDS)


async def _poll(member: Consumer) -> None:
    while True:
        await member.poll(timeout_ms=POLL_MS)


async def measure(
    plan: MeasurePlan, security: ClusterSecurity, progress: Callable[[], object] = lambda: None
) -> AsyncIterator[Measured]:
    """Measure each kind of group that the cluster offers. `progress` is called after each of `steps`.

    Raises MeasureFailed, KafkaError.
    """
    async with Admin(plan.bootstrap_servers, **security) as admin, _topic(admin, plan) as topic:
        has_consumer_protocol = await admin.has_consumer_protocol(f"{plan.group_prefix}-none")
        for kind in plan.kinds:
            if kind is MeasuredKind.CONSUMER and not has_consumer_protocol:
                continue
            for each in await _measure_kind(plan, admin, topic, kind, security, progress):
                yield each


def duration_s(plan: MeasurePlan) -> float:
    """Return about how long it takes, where every kind is offered."""
    return len(plan.kinds) * (10 + plan.runs * 2 * (plan.settle_s + 4))


def steps(plan: MeasurePlan) -> int:
    """Return how many rebalances are measured in all, where every kind is offered."""
    return 4 * plan.runs * len(plan.kinds)


@asynccontextmanager
async def _topic(admin: Admin, plan: MeasurePlan) -> AsyncIterator[str]:
    topic = f"{PREFIX}-{secrets.token_hex(4)}"
    await admin.create_topic(topic, plan.partitions)
    try:
        yield topic
    finally:
        try:
            await admin.delete_topic(topic)
        except (KafkaError, OSError, TimeoutError) as error:
            left = f"kohort topics delete {topic} --bootstrap-server {plan.bootstrap_servers}"
            log.warning("topic %s is left (%s); to remove it: %s", topic, error, left)


async def _measure_kind(
    plan: MeasurePlan,
    admin: Admin,
    topic: str,
    kind: MeasuredKind,
    security: ClusterSecurity,
    progress: Callable[[], object],
) -> Sequence[Measured]:
    run_id = secrets.token_hex(4)
    ids = [f"{plan.group_prefix}-{kind}-{way}-{run_id}" for way in ("direct", "gateway")]
    ways = (plan.bootstrap_servers, plan.gateway)
    groups = [
        _MeasuredGroup(bootstrap, group_id, topic, kind, security)
        for bootstrap, group_id in zip(ways, ids, strict=True)
    ]
    joins: list[list[float]] = [[], []]
    leaves: list[list[float]] = [[], []]
    try:
        for group in groups:
            for _ in range(plan.members):
                await group.add()
        await asyncio.gather(*[group.settled(plan.partitions) for group in groups])
        for _ in range(plan.runs):
            for change, times in ((_MeasuredGroup.add, joins), (_MeasuredGroup.remove, leaves)):
                await asyncio.sleep(plan.settle_s)
                for group, taken in zip(groups, times, strict=True):
                    began_s = perf_counter()
                    await change(group)
                    await group.settled(plan.partitions)
                    taken.append((perf_counter() - began_s) * 1000)
                    progress()
    except asyncio.CancelledError:
        log.warning("interrupted: groups %s and %s and topic %s are removed; to end now would leave them", *ids, topic)
        raise
    finally:
        await asyncio.gather(*[group.remove_all() for group in groups])
        deletions = await asyncio.gather(*map(admin.delete_group, ids), return_exceptions=True)
        for group_id, failure in zip(ids, deletions, strict=True):
            if failure is None or (isinstance(failure, KafkaError) and failure.code is ErrorCode.GROUP_ID_NOT_FOUND):
                continue
            left = f"kohort groups delete {group_id} --bootstrap-server {plan.bootstrap_servers}"
            log.warning("group %s is left (%s); to remove it: %s", group_id, failure, left)
    return (
        Measured(kind, "join", tuple(joins[0]), tuple(joins[1])),
        Measured(kind, "leave", tuple(leaves[0]), tuple(leaves[1])),
    )
