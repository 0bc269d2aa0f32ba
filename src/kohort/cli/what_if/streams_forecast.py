"""`kohort what-if` of a streams group (KIP-1071): which tasks move at once, and which wait for their copies."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import ends_of
from kohort.cli.group_state.live_group import coordinator_settings
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.what_if.what_if_inputs import member_id_of, own_settings
from kohort.cli.what_if.what_if_report import description
from kohort.group.coordinator_settings import GroupSettings, StreamsConfig
from kohort.group.explain.explain_text import Names
from kohort.group.explain.rebalance_report import Identity
from kohort.group.streams.topology import InternalTopic, StreamsTopology, Subtopology
from kohort.model.ids import TopicPartition
from kohort.model.streams_tasks import Task, TasksByRole
from kohort.what_if.change import Impossible, PlannedChange, check_members
from kohort.what_if.streams_steps import Step, StreamsFacts, StreamsMemberFacts, TaskMove, steps_of

if TYPE_CHECKING:
    from kohort.client import Admin, GroupDescription, MemberDescription
    from kohort.wire.embedded_protocols import StreamsTask

_OF_THE_GROUP = {
    "standby_replicas": "num.standby.replicas",
    "warmup_replicas": "num.warmup.replicas",
    "acceptable_recovery_lag": "acceptable.recovery.lag",
}


async def forecast_streams(args: argparse.Namespace, admin: Admin) -> int:
    """Print what follows a change to a streams group. Raises CommandFailed."""
    if args.partitions or args.bounce or args.goal or args.assignor or args.compare or args.html:
        raise CommandFailed(f"{args.group} is a streams group: --add, --kill and --stop can be forecast", USAGE)
    group = (await admin.describe_groups([args.group]))[args.group]
    if group.state != "Stable":
        raise CommandFailed(f"{group.group_id} is {group.state}: owners are known once it is Stable; try again then")
    names = Names({each.member_id: Identity(each.client_id, each.instance_id) for each in group.members})
    members = {each.member_id: member_facts(each, names(each.member_id)) for each in group.members}
    kill, stop = (
        tuple(member_id_of(name, args.group, members) for name in dict.fromkeys(given))
        for given in (args.kill, args.stop)
    )
    change = PlannedChange(args.add, kill, stop)
    try:
        check_members(change, args.group, len(members))
    except Impossible as error:
        raise CommandFailed(str(error), USAGE) from None
    topics = {topic.name: len(topic.partitions) for topic in await admin.list_topics()}
    settings = await coordinator_settings(admin, args.group)
    is_ours = any(name.startswith("kohort.") for name in settings)
    config = await streams_config(admin, args.group, settings)
    facts = StreamsFacts(
        group.group_id,
        topology_of(group, topics),
        topics,
        config,
        members,
        reports_lags=is_ours,
    )
    steps = steps_of(facts, change)
    records = await copied_records(admin, group, {task for step in steps for task, _ in step.warmups})
    if args.json:
        output.put_json(document(args, facts, steps, records))
    else:
        put_steps(args, change, facts, steps, records)
    return 0


def topology_of(group: GroupDescription, topics: Mapping[str, int]) -> StreamsTopology:
    """Return the program of a group, whose internal topics have the partitions that they have."""

    def internal(names: Iterable[str]) -> tuple[InternalTopic, ...]:
        return tuple(InternalTopic(name, topics.get(name, 0)) for name in names)

    return StreamsTopology(
        0,
        tuple(
            Subtopology(
                each.subtopology_id,
                each.source_topics,
                changelogs=tuple(map(InternalTopic, each.changelogs)),
                repartition_sinks=each.repartition_sinks,
                repartition_sources=internal(each.repartition_sources),
            )
            for each in group.subtopologies
        ),
    )


async def streams_config(admin: Admin, group_id: str, settings: Mapping[str, str]) -> StreamsConfig:
    """Return what is set for a group: by itself, else by its coordinator, else by default."""
    settings = {**settings, **await own_settings(admin, group_id, "streams")}
    found = {field: settings.get(f"group.streams.{name}", "") for field, name in _OF_THE_GROUP.items()}
    given: dict[str, Any] = {field: int(text) for field, text in found.items() if text.isdecimal()}
    return GroupSettings().streams_config_of(group_id)._replace(**given)


def member_facts(member: MemberDescription, name: str) -> StreamsMemberFacts:
    """Return a member as the forecast needs it. Raises CommandFailed where its tasks cannot be read."""
    sent, assigned = member.streams or (None, None)
    if sent is None or assigned is None:
        raise CommandFailed(f"the tasks of {name} cannot be read: no copy can be made of the group")

    def tasks(several: Iterable[StreamsTask]) -> frozenset[Task]:
        return frozenset(map(task_of, several))

    by_role = TasksByRole(tasks(assigned.active), tasks(assigned.standby), tasks(member.warmups))
    lags = {task_of(task): lag for task, lag in member.task_lags.items()}
    return StreamsMemberFacts(name, sent.process_id, by_role, lags, member.instance_id)


def task_of(task: StreamsTask) -> Task:
    """Return a task as groups have it."""
    return str(task.subtopology), task.partition


async def copied_records(admin: Admin, group: GroupDescription, tasks: Iterable[Task]) -> dict[Task, int]:
    """Return how many records a new copy of each task reads at most: those of its changelogs."""
    changelogs = {each.subtopology_id: each.changelogs for each in group.subtopologies}
    wanted = {task: [TopicPartition(name, task[1]) for name in changelogs.get(task[0], ())] for task in tasks}
    partitions = [partition for several in wanted.values() for partition in several]
    firsts, ends = [await ends_of(admin, partitions, which) for which in ("earliest", "latest")]
    return {task: sum(ends.get(each, 0) - firsts.get(each, 0) for each in several) for task, several in wanted.items()}


def put_steps(
    args: argparse.Namespace,
    change: PlannedChange,
    facts: StreamsFacts,
    steps: list[Step],
    records: Mapping[Task, int],
) -> None:
    """Print the steps for people."""
    tasks = len({task for member in facts.members.values() for task in member.tasks.active})
    members = output.counted(len(facts.members), "member")
    output.put(f"{facts.group_id}: streams, Stable, {members}, {output.counted(tasks, 'task')}")
    output.put(f"what if {description(args, change)}:\n")
    for number, step in enumerate(steps):
        lag = facts.config.acceptable_recovery_lag
        when = "at once" if number == 0 else f"once these copies are at most {lag:,} records behind"
        lines = [f"{number + 1}. {when}: " + (moves_text(step.moves) if step.moves else "no task moves")]
        for name, several in by_member(step.warmups).items():
            count = sum(records.get(task, 0) for task in several)
            lines.append(f"   then {name} warms up {shown(several)}, {count:,} records at most")
        output.put("\n".join(lines))
    if facts.reports_lags:
        assumed = "its clients report how far their copies are, as Kafka Streams does from 4.4 on"
    else:
        assumed = "its coordinator moves tasks at once, as Apache Kafka 4.4 does: no task waits for a copy"
    output.put(f"\nassumed:\n- {assumed}")


def moves_text(moves: Iterable[TaskMove]) -> str:
    """Return which tasks go from which member to which."""
    grouped: dict[tuple[str | None, str | None], list[Task]] = {}
    for task, before, after in moves:
        grouped.setdefault((before, after), []).append(task)
    return "; ".join(
        f"{shown(tasks)} from {before or 'no member'} to {after or 'no member'}"
        for (before, after), tasks in grouped.items()
    )


def by_member(copies: Iterable[tuple[Task, str]]) -> dict[str, list[Task]]:
    """Return the tasks of each member."""
    found: dict[str, list[Task]] = {}
    for task, name in copies:
        found.setdefault(name, []).append(task)
    return found


def shown(tasks: Iterable[Task]) -> str:
    """Return tasks as Kafka Streams writes them."""
    return ", ".join(f"{subtopology}_{number}" for subtopology, number in tasks)


def document(
    args: argparse.Namespace, facts: StreamsFacts, steps: list[Step], records: Mapping[Task, int]
) -> dict[str, Any]:
    """Return the forecast as JSON."""
    return {
        "group": facts.group_id,
        "type": "streams",
        "change": {"add": args.add, "kill": args.kill, "stop": args.stop},
        "reports_lags": facts.reports_lags,
        "acceptable_recovery_lag": facts.config.acceptable_recovery_lag,
        "steps": [
            {
                "moves": [{"task": shown([each.task]), "from": each.before, "to": each.after} for each in step.moves],
                "warmups": [
                    {"task": shown([task]), "member": name, "records": records.get(task)} for task, name in step.warmups
                ],
                "standbys": [{"task": shown([task]), "member": name} for task, name in step.standbys],
            }
            for step in steps
        ],
    }
