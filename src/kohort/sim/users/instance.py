"""The instances of a user's program: each a host of the world, and the program's process on it while there is one.

As under an orchestrator, a crashed program is started again: after a `KafkaError`, a timeout or a lost connection a new
process begins a little later. Any other exception is the program's defect and ends the world. A healed world has
converged when every instance is up, every member is in its group, every partition of the subscribed topics has an
owner, and every record was delivered and, where the program reports effects, took effect.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.sim.programs.observed_members import ObservedMember
from kohort.sim.programs.program import Program
from kohort.sim.scenario.member_census import MemberCensus
from kohort.sim.scenario.simulated_cluster import MemberSlot, SimulatedCluster
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan
from kohort.sim.trace import show_partitions
from kohort.sim.users.effect_checks import EffectChecker
from kohort.sim.users.world_driver import WorldDriver

Main = Callable[["Instance"], Coroutine[Any, Any, object]]

PASSING = (KafkaError, TimeoutError, OSError)
"""Exceptions that the world may cause; any other is the program's defect."""


class Instance(MemberSlot):
    """One instance. `name` is `app-1`, `app-2` and so on; `number` the same as a number."""

    def __init__(
        self, cluster: SimulatedCluster, plan: MemberPlan, failed: Callable[[str, BaseException], None]
    ) -> None:
        super().__init__(cluster, plan)
        self.number = int(plan.name.rpartition("-")[2])
        self.program: Program | None = None
        self.crashes = 0
        self.last_crash: BaseException | None = None
        self.main: Main | None = None
        self.is_finished = False
        """Whether its work is done, so that it does not come back."""
        self._past: list[Program] = []
        self._failed = failed
        self._random = cluster.rng.stream(f"{plan.name}/crashes")

    @property
    def is_running(self) -> bool:
        return self.program is not None and not self.program.is_over

    @property
    def is_up(self) -> bool:
        """Whether a process exists that is not being closed."""
        return self.program is not None and not self.program.is_over and not self.program.is_stopping

    @property
    def programs(self) -> list[Program]:
        """Every process so far, the oldest first."""
        return [*self._past, *([self.program] if self.program is not None else [])]

    @property
    def members(self) -> list[ObservedMember]:
        """The group members of its newest process."""
        return [] if self.program is None else list(self.program.client.members.values())

    def start(self) -> None:
        main = self.main
        if self.is_running or main is None:
            return
        if self.program is not None:
            self._past.append(self.program)
        random, cluster = self._begin(), self._cluster
        self.program = Program(
            self.name, self.host, cluster.network, random, cluster.observer, lambda: main(self), self._ended
        )

    def close(self) -> None:
        if self.program is not None and not self.program.is_over:
            self.is_closing = True
            self.program.stop()

    def kill(self) -> None:
        if self.program is not None:
            self.program.kill()

    def come_back(self) -> None:
        """Be there when the world is healed, for however long a fault had it stay away."""
        if not self.is_finished:
            self.stays_away = False

    def _ended(self, error: BaseException | None) -> None:
        if error is None:
            if not self.is_closing:
                self.is_finished = self.stays_away = True
            elif self._cluster.is_healed and not self.is_finished:
                self.start()
            return
        self.crashes += 1
        self.last_crash = error
        if isinstance(error, PASSING):
            delay_us = SECOND_US + self._random.randrange(2 * SECOND_US)
            self._cluster.scheduler.after(delay_us, self._start_again)
        else:
            self._failed(self.name, error)

    def _start_again(self) -> None:
        if not self.stays_away:
            self.start()


START_US = 10 * SECOND_US
"""How long a client may look for the cluster before it fails or has begun."""

Owners = dict[tuple[str, TopicPartition], str]
"""By group and partition, the name of the member that owns it."""


class ProgramCluster:
    """The instances, in the order in which they were made."""

    def __init__(self, cluster: SimulatedCluster, driver: WorldDriver) -> None:
        self.instances: list[Instance] = []
        self._cluster = cluster
        self._driver = driver
        for member in cluster.plan.members:
            self._add(member)

    def _add(self, plan: MemberPlan) -> Instance:
        instance = Instance(self._cluster, plan, self._driver.fail)
        self.instances.append(instance)
        self._cluster.slots[instance.name] = instance
        return instance

    def another(self, main: Main | None) -> Instance:
        """Add an instance that is not in the plan, with its program."""
        last = self._cluster.plan.members[-1]
        instance = self._add(last._replace(name=f"app-{len(self.instances) + 1}"))
        instance.main = main
        return instance

    def members(self) -> Iterator[ObservedMember]:
        """Yield the members of all processes that run."""
        for instance in self.instances:
            if instance.is_running:
                yield from instance.members

    def unstable(self) -> str | None:
        """Return which member is not stable, or None."""
        for member in self.members():
            state = self._census.states.get(member.name, "")
            if state != "stable":
                return f"{member.name} is {state or 'not in its group'}"
        return None

    def missing(self) -> str | None:
        """Return what is missing, or None."""
        cluster = self._cluster
        node = cluster.node_host.node
        if node is None:
            return f"{cluster.place} does not run: {cluster.node_host.failure}"
        if not cluster.feeder.is_idle:
            return "not everything that is to be written is acknowledged"
        for instance in self.instances:
            if instance.has_started and not instance.is_up and not instance.stays_away:
                crash = f", it crashed last of {instance.last_crash!r}" if instance.last_crash is not None else ""
                return f"{instance.name} is not up{crash}"
            if instance.is_up and self._is_about_to_join(instance):
                return f"{instance.name} has not joined its group yet"
        if unstable := self.unstable():
            return unstable
        owners: Owners = {}
        topics: dict[str, dict[str, None]] = {}
        ids = {member.identity.member_id for member in self.members()}
        for member in self.members():
            topics.setdefault(member.group_id, {}).update(dict.fromkeys(member.membership.topics))
            for partition in sorted(member.owned):
                owners[member.group_id, partition] = member.name
        for group, wanted in topics.items():
            described = node.coordinator.describe(group) or node.coordinator.describe_consumer(group)
            state = "unknown to its coordinator" if described is None else described.state.value
            if described is None or state.lower() != "stable":
                return f"{group} is {state}"
            # Such as one that was killed while it joined: it is evicted when its session ends.
            if gone := [each.member_id for each in described.members if each.member_id not in ids]:
                return f"{gone[0]} is in {group}, and no process has that id any more"
            there = [partition for partition in cluster.partitions() if partition.topic in wanted]
            unowned = [partition for partition in there if (group, partition) not in owners]
            if unowned:
                return f"no member of {group} owns {show_partitions(unowned)}"
        return self._unread(owners) or self._without_effect(owners)

    @property
    def _census(self) -> MemberCensus:
        return self._driver.census

    def _is_about_to_join(self, instance: Instance) -> bool:
        """Return whether a process without a member can be expected to have one."""
        program = instance.program
        if program is None or program.client.has_begun:
            return False
        is_young = self._cluster.scheduler.now_us - program.began_us < START_US
        return is_young or any(each.client.has_begun for other in self.instances for each in other.programs)

    def _unread(self, owners: Owners) -> str | None:
        for (_, partition), name in sorted(owners.items()):
            end = self._cluster.log_end(partition)
            read = self._census.read.get((name, partition))
            if end and (read is None or read < end):
                return f"{name} has read {partition} up to {read or 0}, and it ends at {end}"
        return None

    def _without_effect(self, owners: Owners) -> str | None:
        effects: EffectChecker = self._driver.effects
        ends = {partition: self._cluster.log_end(partition) for _, partition in owners}
        without = (each for each in effects.missing(ends) if self._cluster.has_committed_record(*each))
        return next((effects.describe_missing(*each) for each in without), None)
