"""Plays a change on a stage, from a group at rest to the same group at rest again.

The law: what happens is decided by the production state machines alone; here is only who is started and ended when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import Rebalance
from kohort.group.member_kinds import Kind
from kohort.model.ids import TopicPartition
from kohort.what_if.change import Change, Pace, Restarts
from kohort.what_if.copied_member import Actor
from kohort.what_if.forecast import Forecast, balance_of, growth_of
from kohort.what_if.group_facts import Cast, Facts, Role, Times
from kohort.what_if.restoring import restore
from kohort.what_if.virtual_broker import Stage

WARM_UP_INTERVALS = 4
"""How many heartbeats of each member come before the change: by then a broker of ours knows their pace."""

PATIENCE_MS = 30 * 60_000
"""Whoever waits longer than this for a group to come to rest waits for ever."""

_REPORTED = 1_000

Advanced = Callable[[int], object]
"""Hears how many more events were played."""


def play(facts: Facts, cast: Cast, times: Times, change: Change, label: str, advanced: Advanced) -> Forecast:
    """Return what a change leads to."""
    return Play(facts, cast, times, change, advanced).forecast(label)


class Play:
    """One performance."""

    def __init__(self, facts: Facts, cast: Cast, times: Times, change: Change, advanced: Advanced) -> None:
        self.stage = Stage(facts, cast, times)
        self.facts, self.cast, self.times, self.change = facts, cast, times, change
        self.actors: dict[str, Actor] = {}
        """Those of the cast by the ids they began with, and newcomers by their names."""
        self._advanced = advanced
        self._is_lost = self._is_restarting = False
        self._played = 0

    def forecast(self, label: str) -> Forecast:
        """Play it, and return what came of it."""
        self.open()
        stage = self.stage
        before = balance_of(len(actor.member.owned) for actor in self.actors.values())
        began_us, began_ms = stage.scheduler.now_us, stage.now_ms
        self._carry_out()
        ended_us, ended_ms = stage.scheduler.now_us, stage.now_ms
        rebalances = [each for each in self.rebalances() if each.started_ms >= began_ms]
        unread = tuple(stage.reading.all_unread(began_us, ended_us))
        return Forecast(
            label,
            not self._is_lost,
            ended_ms - began_ms,
            len(rebalances),
            sum(map(rounds_of, rebalances)),
            sum(len(each.moved()) for each in rebalances),
            sum(each.unowned_partition_s for each in rebalances),
            before,
            balance_of(len(actor.member.owned) for actor in self.actors.values() if not actor.is_dead),
            began_us,
            unread,
            growth_of(unread, self.facts.rates),
            tuple(actor.failure for actor in self.actors.values() if actor.failure),
        )

    def rebalances(self) -> list[Rebalance]:
        """Return the group's rebalances so far, as `kohort explain` would tell them."""
        ended_ms = self.stage.now_ms
        explanation = Explanation(self.stage.group_id, keeps_events=False)
        for event in self.stage.told():
            explanation.fold(event)
        told = explanation.told(ended_ms)
        return told.rebalances + ([] if told.running is None else [told.running])

    # -- before

    def open(self) -> None:
        """Bring everybody to where they are, heartbeats evenly spread, and let some time pass."""
        stage, config = self.stage, self.stage.node.config
        interval_ms = self.times.heartbeat_interval_ms
        if self.cast.is_consumer:
            interval_ms = max(interval_ms, config.group_consumer_heartbeat_interval_ms)
        for topic in {topic for role in self.cast.roles.values() for topic in role.topics}:
            stage.reading.know(_partitions(topic, 0, stage.partitions.get(topic, 0)), 0)
        for place, member_id in enumerate(sorted(self.cast.roles)):
            actor = self.actors[member_id] = Actor(stage, self.cast.roles[member_id])
            stage.after_ms(interval_ms * place / len(self.cast.roles), restore, actor, member_id, self.cast)
        self._let_pass((WARM_UP_INTERVALS + 1) * interval_ms)
        self._wait_until(lambda: self._is_at_rest)

    # -- the change

    def _carry_out(self) -> None:
        change, stage = self.change, self.stage
        gone = [self.actors[member_id] for member_id in (*change.kill, *change.stop)]
        silent = {actor.member_id for actor in gone}
        for topic, count in sorted(change.partitions.items()):
            stage.reading.know(_partitions(topic, stage.partitions[topic], count), stage.scheduler.now_us)
            stage.grow(topic, count)
            for actor in self.actors.values():
                # Somewhere between two looks at the topics.
                stage.after_ms(self.times.metadata_ms / 2, actor.look_around)
        for member_id in change.kill:
            self.actors[member_id].kill()
        for member_id in change.stop:
            self.actors[member_id].stop()
        for number in range(1, change.add + 1):
            name = f"new-{number}"
            actor = self.actors[name] = Actor(stage, self._newcomer(name))
            actor.begin()
        if change.kill or change.stop or change.add or change.partitions:
            seen: tuple[int, int] | None = None

            def is_over() -> bool:
                nonlocal seen
                if not self._is_at_rest or seen == stage.version:
                    return False
                seen = stage.version
                return not (silent & stage.member_ids()) and self._is_all_assigned

            self._wait_until(is_over)
        for restarts in change.restarts:
            if restarts.pace is Pace.ALL:
                self.restart(self._order(), restarts)
                continue
            for key in self._order():
                if self._is_restarting:
                    self._let_pass(self.times.pause_ms)
                self.restart([key], restarts)

    def _newcomer(self, name: str) -> Role:
        """Return a member like those that there are."""
        likes = sorted(self.cast.roles.items())
        role = next((role for _, role in likes if role.kind is Kind.CONSUMER), likes[0][1])
        instance_id = None if role.instance_id is None else name
        return replace(role, name=name, instance_id=instance_id)

    def _order(self) -> list[str]:
        there = [(actor.role.name, key) for key, actor in self.actors.items() if not actor.is_dead]
        return [key for _, key in sorted(there)]

    def restart(self, keys: list[str], restarts: Restarts) -> None:
        """End some members in good order, and start them again when they have been away."""
        self._is_restarting = True
        for key in keys:
            self.actors[key].stop()
        self._wait_until(lambda: all(self.actors[key].is_dead for key in keys))
        self._let_pass(self.times.away_ms)
        for key in keys:
            self.actors[key] = Actor(self.stage, restarts.renewed(self.actors[key].role))
            self.actors[key].begin()
        self._wait_until(lambda: self._is_at_rest)

    # -- time

    @property
    def _is_at_rest(self) -> bool:
        return not self.stage.unsettled and self.stage.state in ("Stable", "Empty", "Dead")

    @property
    def _is_all_assigned(self) -> bool:
        owned = sum(len(actor.member.owned) for actor in self.actors.values() if not actor.is_dead)
        wanted = {topic for actor in self.actors.values() if not actor.is_dead for topic in actor.role.topics}
        return owned >= sum(self.stage.partitions.get(topic, 0) for topic in wanted)

    def _let_pass(self, delay_ms: float) -> None:
        until_us = self.stage.scheduler.now_us + round(delay_ms * 1000)
        self._pump(lambda: False, until_us)
        self.stage.scheduler.run_until(until_us)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        if self._is_lost:
            return
        self._is_lost = not self._pump(is_so, self.stage.scheduler.now_us + PATIENCE_MS * 1000)

    def _pump(self, is_so: Callable[[], bool], until_us: int) -> bool:
        scheduler = self.stage.scheduler
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
