"""Whether the programs of a healed world have come to rest: what is still missing, in a sentence, or nothing.

They have when every instance is up, every member of theirs is in its group, every partition of the topics they want
has an owner, and every record was handed out and, where the program says so, took effect. Commits are its own business.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.model.ids import TopicPartition
from kohort.sim.programs.observed_members import ObservedMember
from kohort.sim.scenario.world_plan import SECOND_US
from kohort.sim.swarm.convergence import Census
from kohort.sim.trace import show_partitions
from kohort.sim.users.effect_checks import EffectChecker
from kohort.sim.users.instance import Instance
from kohort.sim.users.program_cluster import UserStage

START_US = 10 * SECOND_US
"""How long a client may look for the cluster before it gives up or has begun."""


def members_of(stage: UserStage) -> Iterator[ObservedMember]:
    """Yield the members that live."""
    for instance in stage.instances:
        if instance.program is not None and instance.is_running:
            yield from instance.program.client.members.values()


def lack(stage: UserStage, census: Census, effects: EffectChecker) -> str | None:
    """Return what is missing, or None."""
    node = stage.node_host.node
    if node is None:
        return f"{stage.place} does not run: {stage.node_host.failure}"
    if not stage.feeder.is_idle:
        return "not everything that is to be written is acknowledged"
    for instance in stage.instances:
        if instance.has_started and not instance.is_up and not instance.stays_away:
            crash = f", it crashed last of {instance.last_crash!r}" if instance.last_crash is not None else ""
            return f"{instance.name} is not up{crash}"
        if instance.is_up and _is_about_to_join(stage, instance):
            return f"{instance.name} has not joined its group yet"
    owners: dict[tuple[str, TopicPartition], str] = {}
    topics: dict[str, dict[str, None]] = {}
    for member in members_of(stage):
        state = census.states.get(member.name, "")
        if state != "stable":
            return f"{member.name} is {state or 'not in its group'}"
        topics.setdefault(member.group_id, {}).update(dict.fromkeys(member.membership.topics))
        for partition in sorted(member.owned):
            owners[member.group_id, partition] = member.name
    for group, wanted in topics.items():
        described = node.coordinator.describe(group) or node.coordinator.describe_consumer(group)
        state = "unknown to its coordinator" if described is None else described.state.value
        if state.lower() != "stable":
            return f"{group} is {state}"
        there = [partition for partition in stage.partitions() if partition.topic in wanted]
        unowned = [partition for partition in there if (group, partition) not in owners]
        if unowned:
            return f"nobody in {group} owns {show_partitions(unowned)}"
    return _unread(stage, census, owners) or _without_effect(stage, effects, owners)


def _is_about_to_join(stage: UserStage, instance: Instance) -> bool:
    """Return whether a process that has no member yet can be expected to have one."""
    program = instance.program
    if program is None or program.client.has_begun:
        return False
    is_young = stage.scheduler.now_us - program.began_us < START_US
    return is_young or any(each.client.has_begun for other in stage.instances for each in other.programs)


def _unread(stage: UserStage, census: Census, owners: dict[tuple[str, TopicPartition], str]) -> str | None:
    for (_, partition), name in sorted(owners.items()):
        end = _end(stage, partition)
        read = census.read.get((name, partition))
        if end and (read is None or read < end):
            return f"{name} has read {partition} up to {read or 0}, and it ends at {end}"
    return None


def _without_effect(
    stage: UserStage, effects: EffectChecker, owners: dict[tuple[str, TopicPartition], str]
) -> str | None:
    missing = effects.missing({partition: _end(stage, partition) for _, partition in owners})
    return None if missing is None else effects.tell_missing(*missing)


def _end(stage: UserStage, partition: TopicPartition) -> int:
    node = stage.node_host.node
    hosted = None if node is None else node.topics.partition(*partition)
    return 0 if hosted is None else hosted.log.log_end_offset
