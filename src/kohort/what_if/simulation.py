"""Simulation of a change to a copied group, from a stable group to the same group stable again.

The law: what happens is decided by the production state machines alone; here is only which members start and end when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import Rebalance
from kohort.group.migration.migration_plan import Cost, MemberKind, Restart
from kohort.model.ids import TopicPartition
from kohort.what_if.change import Pace, PlannedChange, Restarts
from kohort.what_if.copied_member import CopiedMember
from kohort.what_if.forecast import Forecast, balance_of, growth_of
from kohort.what_if.group_facts import GroupFacts, MemberProfile, Roster, Times, roster_of
from kohort.what_if.virtual_broker import VirtualBroker

WARM_UP_INTERVALS = 4
"""How many heartbeats of each member come before the change: by then a broker of ours knows their pace."""

PATIENCE_MS = 30 * 60_000
"""A group that takes longer than this to become stable never will."""

_REPORTED = 1_000
_LEAD = 12
"""Readers are reported from a twelfth of the duration before a change."""

Advanced = Callable[[int], object]
"""Called with how many more events were simulated."""


def simulate(
    facts: GroupFacts, roster: Roster, times: Times, change: PlannedChange, label: str, advanced: Advanced
) -> Forecast:
    """Return what a change leads to."""
    return Simulation(facts, roster, times, change, advanced).forecast(label)


class Simulation:
    """One change to one copy of a group."""

    def __init__(
        self, facts: GroupFacts, roster: Roster, times: Times, change: PlannedChange, advanced: Advanced
    ) -> None:
        self.broker = VirtualBroker(facts, roster, times)
        self.facts, self.roster, self.times, self.change = facts, roster, times, change
        self.members: dict[str, CopiedMember] = {}
        """Those of the roster by their first ids, and new ones by their names."""
        self._advanced = advanced
        self._is_lost = self._is_restarting = False
        self._played = 0

    def forecast(self, label: str) -> Forecast:
        """Run the simulation, and return what the change led to."""
        self.open()
        broker = self.broker
        before = balance_of(len(member.machine.owned) for member in self.members.values())
        began_us, began_ms = broker.scheduler.now_us, broker.now_ms
        self._carry_out()
        ended_us, ended_ms = broker.scheduler.now_us, broker.now_ms
        rebalances = [each for each in self.rebalances() if each.started_ms >= began_ms]
        unread = tuple(broker.readers.all_unread(began_us, ended_us))
        return Forecast(
            label,
            not self._is_lost,
            ended_ms - began_ms,
            len(rebalances),
            sum(map(rounds_of, rebalances)),
            sum(len(each.moved()) for each in rebalances),
            sum(each.unowned_partition_s for each in rebalances),
            before,
            balance_of(len(member.machine.owned) for member in self._living),
            began_us,
            unread,
            growth_of(unread, self.facts.rates),
            tuple(member.failure for member in self.members.values() if member.failure),
            tuple(broker.readers.all_read(max(0, began_us - (ended_us - began_us) // _LEAD), ended_us)),
        )

    def rebalances(self) -> list[Rebalance]:
        """Return the group's rebalances so far, as `kohort explain` shows them."""
        ended_ms = self.broker.now_ms
        explanation = Explanation(self.broker.group_id, keeps_events=False)
        for event in self.broker.events():
            explanation.fold(event)
        report = explanation.report(ended_ms)
        return report.rebalances + ([] if report.running is None else [report.running])

    # -- before

    def open(self) -> None:
        """Restore every member, heartbeats evenly spread, and let some time pass."""
        broker, config = self.broker, self.broker.node.config
        interval_ms = self.times.heartbeat_interval_ms
        if self.roster.is_consumer:
            interval_ms = max(interval_ms, config.group_consumer_heartbeat_interval_ms)
        profiles = self.roster.profiles
        for topic in {topic for profile in profiles.values() for topic in profile.topics}:
            broker.readers.add(_partitions(topic, 0, broker.partitions.get(topic, 0)), 0)
        for place, (member_id, profile) in enumerate(sorted(profiles.items())):
            member = self.members[member_id] = CopiedMember(broker, profile, (member_id, self.roster))
            broker.after_ms(interval_ms * place / len(profiles), member.begin)
        self._advance((WARM_UP_INTERVALS + 1) * interval_ms)
        self._wait_until(lambda: self._is_stable)

    # -- the change

    def _carry_out(self) -> None:
        change, broker = self.change, self.broker
        gone = [self.members[member_id] for member_id in (*change.kill, *change.stop)]
        silent = {member.member_id for member in gone}
        for topic, count in sorted(change.partitions.items()):
            broker.readers.add(_partitions(topic, broker.partitions[topic], count), broker.scheduler.now_us)
            broker.grow(topic, count)
            for member in self.members.values():
                # On average half a refresh of the metadata later.
                broker.after_ms(self.times.metadata_ms / 2, member.refresh_topics)
        for member_id in change.kill:
            self.members[member_id].kill()
        for member_id in change.stop:
            self.members[member_id].stop()
        for number in range(1, change.add + 1):
            name = f"new-{number}"
            member = self.members[name] = CopiedMember(broker, self._new_profile(name))
            member.begin()
        if change.kill or change.stop or change.add or change.partitions:
            seen: tuple[int, int] | None = None

            def is_over() -> bool:
                nonlocal seen
                if not self._is_stable or seen == broker.version:
                    return False
                seen = broker.version
                return not (silent & broker.member_ids()) and self._is_all_assigned

            self._wait_until(is_over)
        for restarts in change.restarts:
            if restarts.pace is Pace.ALL:
                self.restart(self._order(), restarts)
                continue
            for key in self._order():
                if self._is_restarting:
                    self._advance(self.times.pause_ms)
                self.restart([key], restarts)

    def _new_profile(self, name: str) -> MemberProfile:
        """Return a member like the present ones."""
        likes = sorted(self.roster.profiles.items())
        profile = next((profile for _, profile in likes if profile.kind is MemberKind.CONSUMER), likes[0][1])
        instance_id = None if profile.instance_id is None else name
        return replace(profile, name=name, instance_id=instance_id)

    def _order(self) -> list[str]:
        present = [(member.profile.name, key) for key, member in self.members.items() if not member.is_dead]
        return [key for _, key in sorted(present)]

    def restart(self, keys: list[str], restarts: Restarts) -> None:
        """Close some members, and start them again after the time for a restart."""
        self._is_restarting = True
        for key in keys:
            self.members[key].stop()
        self._wait_until(lambda: all(self.members[key].is_dead for key in keys))
        self._advance(self.times.away_ms)
        for key in keys:
            self.members[key] = CopiedMember(self.broker, restarts.renewed(self.members[key].profile))
            self.members[key].begin()
        self._wait_until(lambda: self._is_stable)

    # -- time

    @property
    def _is_stable(self) -> bool:
        return not self.broker.unsettled and self.broker.state in ("Stable", "Empty", "Dead")

    @property
    def _living(self) -> list[CopiedMember]:
        return [member for member in self.members.values() if not member.is_dead]

    @property
    def _is_all_assigned(self) -> bool:
        owned = sum(len(member.machine.owned) for member in self._living)
        topics = {topic for member in self._living for topic in member.profile.topics}
        return owned >= sum(self.broker.partitions.get(topic, 0) for topic in topics)

    def _advance(self, delay_ms: float) -> None:
        until_us = self.broker.scheduler.now_us + round(delay_ms * 1000)
        self._pump(lambda: False, until_us)
        self.broker.scheduler.run_until(until_us)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        if self._is_lost:
            return
        self._is_lost = not self._pump(is_so, self.broker.scheduler.now_us + PATIENCE_MS * 1000)

    def _pump(self, is_so: Callable[[], bool], until_us: int) -> bool:
        scheduler = self.broker.scheduler
        while not is_so():
            next_us = scheduler.next_us()
            if next_us is None or next_us > until_us:
                return False
            scheduler.step()
            self._played += 1
            if self._played % _REPORTED == 0:
                self._advanced(_REPORTED)
        return True


def rounds_of(rebalance: Rebalance) -> int:
    """Return how many generations formed and targets were computed in a rebalance."""
    formed = sum(each.formed_ms is not None for each in rebalance.rounds)
    return formed + sum(each.computed_ms is not None for each in rebalance.epochs)


def _partitions(topic: str, first: int, end: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(first, end)]


def costs_of(
    facts: GroupFacts, times: Times, restarts: Sequence[Restart], vote: str | None, advanced: Advanced
) -> list[Cost]:
    """Return what each restart moves and costs; `vote` is the server-side assignor that native members ask for."""
    simulation = Simulation(facts, roster_of(facts.group), times, PlannedChange(), advanced)
    simulation.open()
    began: list[tuple[int, int]] = []
    for each in restarts:
        began.append((simulation.broker.now_ms, simulation.broker.scheduler.now_us))
        simulation.restart([each.member_id], Restarts(kind=each.kind, offers=each.offers, vote=vote))
    ends = [*began[1:], (simulation.broker.now_ms + 1, simulation.broker.scheduler.now_us)]
    rebalances = simulation.rebalances()
    costs = []
    for (from_ms, from_us), (until_ms, until_us) in zip(began, ends, strict=True):
        found = [each for each in rebalances if from_ms <= each.started_ms < until_ms]
        unread = simulation.broker.readers.all_unread(from_us, until_us)
        costs.append(
            Cost(
                sum(len(each.moved()) for each in found),
                round(sum(each.unowned_partition_s for each in found), 3),
                round(sum(gap.duration_s for gap in unread), 3),
            )
        )
    return costs
