"""Groups that KEDA asks about: each is sampled every five seconds, and its number of members decided then.

Calls are answered from memory. A group is forgotten when no call has come for ten minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.cli.cluster import ends_of, no_answer
from kohort.cli.keda_scaler.drain_orders import DrainOrders, leaving
from kohort.cli.keda_scaler.rebalance_prices import RebalancePrices
from kohort.cli.terminal.failure import unknown_group
from kohort.group.autoscaling.group_load import GroupLoad, GroupSample, LoadHistory
from kohort.group.autoscaling.scaling_decision import ScalingPhase, ScalingSettings, ScalingState, decide
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.printable import printable

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription

log = logging.getLogger(__name__)

SAMPLE_S = 5.0
SAMPLE_TIMEOUT_S = 10.0
AT_ONCE = 16
"""How many groups are sampled at a time."""

VALID_S = 30.0
"""How long the last number is given while the cluster does not answer."""

FORGOTTEN_S = 600.0
MOST_GROUPS = 1_000
FIRST_S = 2.0
"""How long a call waits for the first sample."""

SHOWN = 10
NO_ORDINALS = "their names do not end with ordinals: set group.instance.id or client.id to the name of the pod"


class Unanswered(Exception):
    """A call has no answer now; `code` is the name of gRPC's status, and the text is one sentence for the user."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(slots=True)
class ScaledGroup:
    """One group as one ScaledObject scales it."""

    settings: ScalingSettings
    asked_s: float
    history: LoadHistory
    load: GroupLoad | None = None
    state: ScalingState | None = None
    failure: Unanswered | None = None
    sampled_s: float = 0.0
    """When the group was sampled last without a failure."""
    drained: frozenset[str] = frozenset()
    """The ids of the members that are drained to leave."""
    unhelped: Partitions = frozenset()
    change: asyncio.Event = field(default_factory=asyncio.Event)

    async def sampled(self) -> None:
        """Wait until the group was sampled again, or that failed."""
        await self.change.wait()

    def mark_sampled(self) -> None:
        """Wake up the calls that wait."""
        self.change.set()
        self.change = asyncio.Event()

    def check(self, now_s: float) -> None:
        """Raise Unanswered where nothing is known, or has not been for long."""
        if self.load is None or now_s - self.sampled_s > VALID_S:
            text = (
                f"group {self.settings.group_id!r} is not sampled yet, or not for {VALID_S:g} s: ask again in a moment"
            )
            raise self.failure or Unanswered("UNAVAILABLE", text)

    @property
    def is_active(self) -> bool:
        """Whether the group shall have members: there is lag above the threshold, or, without one, records come in."""
        assert self.load is not None, "it was sampled"
        threshold = self.settings.activation_lag
        return self.load.whole_lag > threshold or (not threshold and self.load.rate > 0)

    @property
    def replicas(self) -> int:
        """The pods that the group shall have. Raises Unanswered."""
        if self.state is None:
            text = f"the load of group {self.settings.group_id!r} is measured for 15 s: ask again then"
            raise Unanswered("UNAVAILABLE", text)
        return -(-self.state.members // self.settings.members_per_pod)


class ScaledGroups:
    """All groups that are scaled."""

    def __init__(self, admin: Admin, bootstrap_servers: str, prices: RebalancePrices, drains: DrainOrders) -> None:
        self._admin, self._bootstrap_servers, self._prices, self._drains = admin, bootstrap_servers, prices, drains
        self._groups: dict[tuple[str, str, ScalingSettings], ScaledGroup] = {}
        self._permits = asyncio.Semaphore(AT_ONCE)
        self._sampled_s = 0.0

    @property
    def is_reachable(self) -> bool:
        """Whether the cluster answered a moment ago, or was not asked."""
        return not self._groups or asyncio.get_running_loop().time() - self._sampled_s <= VALID_S

    async def group(self, namespace: str, name: str, settings: ScalingSettings) -> ScaledGroup:
        """Return the group of a ScaledObject, once it was sampled. Raises Unanswered."""
        now_s = asyncio.get_running_loop().time()
        key = (namespace, name, settings)
        if (found := self._groups.get(key)) is None:
            if len(self._groups) >= MOST_GROUPS:
                text = f"{MOST_GROUPS} ScaledObjects are served already: run another scaler for {namespace}/{name}"
                raise Unanswered("RESOURCE_EXHAUSTED", text)
            found = self._groups[key] = ScaledGroup(settings, now_s, LoadHistory(settings.lag_seconds))
            first = asyncio.create_task(self._refresh(found))
            await asyncio.wait([first], timeout=FIRST_S)
        found.asked_s = now_s
        found.check(asyncio.get_running_loop().time())
        return found

    async def run(self) -> None:
        """Sample all groups again and again, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            for key in [key for key, group in self._groups.items() if began_s - group.asked_s > FORGOTTEN_S]:
                del self._groups[key]
            begun = [group for group in self._groups.values() if group.load is not None or group.failure is not None]
            await asyncio.gather(*map(self._refresh, begun))
            await asyncio.sleep(max(0.0, SAMPLE_S - (loop.time() - began_s)))

    async def _refresh(self, group: ScaledGroup) -> None:
        async with self._permits:
            before = group.failure
            try:
                async with asyncio.timeout(SAMPLE_TIMEOUT_S):
                    await self._sample(group)
                group.failure = None
                self._sampled_s = group.sampled_s = asyncio.get_running_loop().time()
            except (KafkaError, OSError, TimeoutError) as error:
                group.failure = await self._failure(group, error)
            except Exception as error:  # one group must not cost the others
                log.exception("group %s", printable(group.settings.group_id))
                group.failure = Unanswered("INTERNAL", f"a fault of kohort itself: {type(error).__name__}: {error}")
        if group.failure is not None and str(group.failure) != str(before):
            log.warning("group %s: %s", printable(group.settings.group_id), group.failure)
        group.mark_sampled()

    async def _failure(self, group: ScaledGroup, error: KafkaError | OSError) -> Unanswered:
        group_id = group.settings.group_id
        match getattr(error, "code", ErrorCode.BROKER_NOT_AVAILABLE):
            case ErrorCode.GROUP_ID_NOT_FOUND:
                group.load, known = None, []
                with suppress(KafkaError, OSError):
                    known = [each.group_id for each in await self._admin.list_groups()]
                return Unanswered("NOT_FOUND", unknown_group(group_id, known).sentence)
            case ErrorCode.GROUP_AUTHORIZATION_FAILED | ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                text = f"group {group_id!r} needs Describe on it and on its topics: {error}"
                return Unanswered("PERMISSION_DENIED", text)
            case ErrorCode.BROKER_NOT_AVAILABLE:
                return Unanswered("UNAVAILABLE", no_answer(self._bootstrap_servers, error))
        return Unanswered("UNAVAILABLE", f"group {group_id!r} cannot be sampled: {error}")

    async def _sample(self, group: ScaledGroup) -> None:
        """Sample one group, and decide. Raises KafkaError."""
        group_id, loop = group.settings.group_id, asyncio.get_running_loop()
        described = (await self._admin.describe_groups([group_id]))[group_id]
        committed = {each: entry.offset for each, entry in (await self._admin.group_offsets(group_id)).items()}
        owned = tuple(member.assignment for member in described.members)
        partitions = frozenset[TopicPartition]().union(*owned) or frozenset(committed)
        ends = await ends_of(self._admin, partitions, "latest") if partitions else {}
        now_ms = round(loop.time() * 1000)
        group.history.add(GroupSample(now_ms, ends, committed, owned, not described.is_rebalancing))
        group.load = group.history.load(group.settings.start_seconds, group.settings.records_per_second)
        if group.history.is_known and (group.state is not None or group.load.is_stable):
            await self._decide(group, described, now_ms)

    async def _decide(self, group: ScaledGroup, described: GroupDescription, now_ms: int) -> None:
        settings, load, shown = group.settings, group.load, printable(group.settings.group_id)
        assert load is not None, "the group was sampled"
        if group.state is None:
            if settings.drain != "none":  # an earlier process may have ended in the middle of a scale-in
                await self._order(group, await self._drains.left_behind(settings.group_id), is_over=True)
            group.state = ScalingState(load.members, now_ms)
            log.info("group %s: %d members are there", shown, load.members)
        owners = {member.member_id for member in described.members if member.assignment}
        before = group.state
        group.state, cause = decide(
            before,
            load,
            settings,
            lambda now, then: self._prices.price(settings.group_id, now, then, load.partitions),
            now_ms,
            is_drained=not owners & group.drained,
        )
        if cause:
            log.info("group %s: %s", shown, cause)
        if load.unhelped - group.unhelped:
            listed = ", ".join(map(str, sorted(load.unhelped)[:SHOWN]))
            log.warning("group %s: more members do not help %d partitions: %s", shown, len(load.unhelped), listed)
        group.unhelped = load.unhelped
        if group.state.phase is ScalingPhase.DRAINING and before.phase is not ScalingPhase.DRAINING:
            replicas = group.state.target // settings.members_per_pod
            found = leaving(described.members, replicas, settings.members_per_pod)
            if found is None:
                log.warning("group %s: no member is drained, since %s", shown, NO_ORDINALS)
            elif await self._order(group, found):
                group.drained = found
        elif group.drained and group.state.phase in (ScalingPhase.STABLE, ScalingPhase.STARTING):
            there = {member.member_id for member in described.members}
            await self._order(group, group.drained & there, is_over=True)
            group.drained = frozenset()

    async def _order(self, group: ScaledGroup, member_ids: Collection[str], *, is_over: bool = False) -> bool:
        """Order drains or their ends, and return whether that was possible."""
        if not member_ids:
            return True
        what, shown = "undrain" if is_over else "drain", ", ".join(sorted(map(printable, member_ids)))
        try:
            await self._drains.order(group.settings.group_id, member_ids, is_over=is_over)
        except KafkaError as error:
            log.warning("group %s: cannot %s %s: %s", printable(group.settings.group_id), what, shown, error)
            return False
        log.info("group %s: %s %s", printable(group.settings.group_id), what, shown)
        return True
