"""What a test does to its world by hand: one thing at a time, and wait for what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kohort.group.invariants import CONVERGES_AFTER_HEALING
from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.sim.kernel.world_observer import Observer, SeenMember
from kohort.sim.programs.observed_members import ObservedMember
from kohort.sim.scenario.world_plan import SECOND_US, Plan
from kohort.sim.users.instance import Instance
from kohort.sim.users.program_convergence import members_of
from kohort.sim.users.world_driver import Driven
from kohort.sim.users.world_options import Wishes


class _Losses(Observer):
    """Counts, by member, how often it was told that partitions are lost."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        if callback is Callback.LOST:
            self.count[member.name] = self.count.get(member.name, 0) + 1


class ByHand(Driven):
    """A world to be led. Instances are chosen by the caller, or the first that is up."""

    def __init__(self, plan: Plan, wishes: Wishes, observers: Iterable[Observer]) -> None:
        super().__init__(plan, wishes, observers)
        self._losses = _Losses()
        self._watch.add(self._losses)

    def kill(self, instance: Instance | None = None) -> Instance:
        """Kill an instance, by default the first that is up, as `kill -9` does. `start()` brings it back."""
        return self._told("kill", instance, Instance.kill)

    def stop(self, instance: Instance | None = None) -> Instance:
        """Tell an instance to stop, as a deployment does."""
        return self._told("stop", instance, Instance.close)

    def freeze(self, seconds: float, instance: Instance | None = None) -> Instance:
        """Freeze an instance: nothing happens in it, and it does not know."""
        until_us = self._scheduler.now_us + round(seconds * SECOND_US)
        return self._told("freeze", instance, lambda each: each.host.freeze(until_us))

    def cut_off(self, seconds: float, instance: Instance | None = None) -> Instance:
        """Let nothing through between an instance and the broker."""
        network, broker = self._stage.network, self._stage.place

        def cut(each: Instance) -> None:
            for path in ((each.name, broker), (broker, each.name)):
                network.block(*path)
                self._scheduler.after(round(seconds * SECOND_US), network.unblock, *path)

        return self._told("partition", instance, cut)

    def restart_broker(self, *, seconds: float = 1.0, how: str = "kill") -> None:
        """Take the broker down ("kill", "stop" or "power loss") and bring it back after a while."""
        node = self._stage.node_host
        ways: dict[str, Callable[[], None]] = {"kill": node.kill, "stop": node.stop, "power loss": node.lose_power}
        if how not in ways:
            raise ValueError(f"how={how!r} is not one of {', '.join(ways)}")
        self._watch.fault("restart broker", self._stage.place, how)
        ways[how]()
        self._scheduler.after(round(seconds * SECOND_US), lambda: node.node is None and node.start())

    def rebalance(self) -> None:
        """Have another instance come and go again, and wait each time until the group has come to rest."""
        instance = self.revoke()
        self.stop(instance)
        self._pass_while(lambda: instance.is_running)
        instance.is_finished = instance.stays_away = True
        self.wait_stable()

    def revoke(self) -> Instance:
        """Have another instance come, so that the others must give up partitions, and wait for that; return it."""
        instance = self._stage.another()
        instance.main = self._main
        self._watch.fault("start", instance.name, "by hand")
        instance.start()
        self._pass_while(lambda: not self._members_of(instance))
        self.wait_stable()
        return instance

    def lose(self, instance: Instance | None = None) -> Instance:
        """Freeze an instance until its group has put it out, and wait until it knows that it lost its partitions."""
        chosen = self._chosen(instance)
        members = self._members_of(chosen)
        if not any(member.owned for member in members):
            raise RuntimeError(f"{chosen.name} owns nothing that it could lose")
        names = [member.name for member in members if member.owned]
        before = [self._losses.count.get(name, 0) for name in names]
        self.freeze(self._session_s(members) + 3, chosen)
        self._pass_while(lambda: [self._losses.count.get(name, 0) for name in names] == before)
        self.wait_stable()
        return chosen

    def wait_stable(self, seconds: float = 60.0) -> None:
        """Let time pass until every member is in its group and owns what it shall."""
        until_us = self._scheduler.now_us + round(seconds * SECOND_US)
        since_us: int | None = None
        while self._scheduler.now_us < until_us:
            self.pass_until(self._scheduler.now_us + SECOND_US // 10)
            if any(self._census.states.get(member.name) != "stable" for member in members_of(self._stage)):
                since_us = None
            elif since_us is None:
                since_us = self._scheduler.now_us
            elif self._scheduler.now_us - since_us >= SECOND_US:
                return
        raise self._broken(CONVERGES_AFTER_HEALING.name, f"no rest in {seconds:g} s: {self._lack()}")

    # -- the inside

    def _session_s(self, members: list[ObservedMember]) -> float:
        classic = max(
            (each.membership.config.session_timeout_ms for each in members if each.kind != "consumer"), default=0
        )
        native = int(dict(self._plan.settings).get("group.consumer.session.timeout.ms", "45000"))
        return max(classic, native if any(each.kind == "consumer" for each in members) else 0) / 1000

    def _members_of(self, instance: Instance) -> list[ObservedMember]:
        return [] if instance.program is None else list(instance.program.client.members.values())

    def _chosen(self, instance: Instance | None) -> Instance:
        chosen = instance or next((each for each in self._stage.instances if each.is_up), None)
        if chosen is None:
            raise RuntimeError("no instance is up: start(app) first, and run() for a moment")
        return chosen

    def _told(self, what: str, instance: Instance | None, act: Callable[[Instance], object]) -> Instance:
        chosen = self._chosen(instance)
        self._watch.fault(what, chosen.name, "by hand")
        act(chosen)
        return chosen
