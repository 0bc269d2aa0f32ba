"""The instances of a user's program on their simulated cluster, and what a healed world still lacks.

Such a world has converged when every instance is up, every member is in its group, every partition of the subscribed
topics has an owner, and every record was delivered and, where the program reports effects, took effect.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.model.ids import TopicPartition
from kohort.sim.programs.observed_members import ObservedMember
from kohort.sim.scenario.member_census import MemberCensus
from kohort.sim.scenario.simulated_cluster import SimulatedCluster
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan
from kohort.sim.trace import show_partitions
from kohort.sim.users.effect_checks import EffectChecker
from kohort.sim.users.instance import Instance, Main
from kohort.sim.users.world_driver import WorldDriver

START_US = 10 * SECOND_US
"""How long a client may look for the cluster before it gives up or has begun."""

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
        self._cluster.seats[instance.name] = instance
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
        for member in self.members():
            topics.setdefault(member.group_id, {}).update(dict.fromkeys(member.membership.topics))
            for partition in sorted(member.owned):
                owners[member.group_id, partition] = member.name
        for group, wanted in topics.items():
            described = node.coordinator.describe(group) or node.coordinator.describe_consumer(group)
            state = "unknown to its coordinator" if described is None else described.state.value
            if state.lower() != "stable":
                return f"{group} is {state}"
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
        missing = effects.missing({partition: self._cluster.log_end(partition) for _, partition in owners})
        return None if missing is None else effects.describe_missing(*missing)
