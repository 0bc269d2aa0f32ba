"""`kohort groups list|describe|delete|reset-offsets`: members of groups and their committed offsets.

A reset is planned before anything is written. It never leaves the log: an offset before the first record or after the
last is moved to the nearest end, and the plan marks it. Orders to groups are in `kohort.cli.gateway.group_orders`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.cli.cluster import ends_of, require_group, require_partitions, with_admin
from kohort.cli.gateway import group_orders
from kohort.cli.group_state.group_events import now_ms, recent_histories, recent_history
from kohort.cli.group_state.repeated_looks import add_watch, watching
from kohort.cli.terminal import output
from kohort.cli.terminal.confirmation import add_yes, asking, confirm
from kohort.cli.terminal.failure import CommandFailed, unknown
from kohort.cli.terminal.options import (
    Named,
    add_cluster,
    add_json,
    add_option,
    moment_ms,
    number,
    topic_or_partitions,
    verb,
    verb_of_verbs,
)
from kohort.cli.terminal.output import Cell
from kohort.cli.terminal.record_lines import iso_time
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.drawing.display_text import duration
from kohort.group.explain.explain_text import Names, clause_of, refusal, sentence, title
from kohort.group.explain.rebalance_report import cause_json
from kohort.model.assignment import by_topic
from kohort.model.errors import KafkaError
from kohort.model.ids import EVENT_TOPIC, TopicPartition
from kohort.model.lag import GroupLag, group_lag
from kohort.wire.embedded_protocols import (
    CONNECTOR,
    RUNNING,
    UNKNOWN,
    ConnectAssignment,
    ConnectWorker,
    StreamsAssignment,
    StreamsSubscription,
    StreamsTask,
    Tasks,
    task_names,
)

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupListing
    from kohort.group.explain.rebalance_report import GroupReport
    from kohort.model.lag import Lag
    from kohort.model.topology_description import TopologyDescription


RESET_EXAMPLES = """
kohort groups reset-offsets readers --topic flights --to-earliest
kohort groups reset-offsets readers --topic flights:0,3 --to-datetime 2026-01-31T12:00:00Z --execute
kohort groups reset-offsets readers --all-topics --shift-by -100 --execute
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `groups` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "groups", "list, describe and delete groups, and reset their offsets")
    example = "kohort groups list --type consumer\nkohort groups list --state stable --json\nkohort groups list --watch"
    listing = verb(inner, "list", "list groups", run=with_admin(watching(show_groups)), examples=example)
    add_option(listing, "--type TYPE", "classic, consumer, …; may repeat", action="append", default=[])
    add_option(listing, "--state STATE", "stable, empty, …; may repeat", action="append", default=[])
    add_option(listing, "--no-lag", "neither members, lag nor causes: one request for each broker")
    example = "kohort groups describe readers\nkohort groups describe readers --members"
    describing = verb(
        inner, "describe", "show a group's offsets and members", run=with_admin(watching(describe)), examples=example
    )
    for each in (listing, describing):
        add_watch(each)
    add_option(describing, "--offsets", "committed offsets and lag (the default)")
    add_option(describing, "--members", "members and what they are assigned")
    add_option(describing, "--topology", "the program of a streams group, as Topology.describe() of Kafka Streams")
    describing.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="that of the group's members: with read_committed, records of open and aborted transactions are no lag",
    )
    example = "kohort groups delete readers\nkohort groups delete readers --yes"
    run = asking(with_admin(delete_group))
    delete = verb(inner, "delete", "delete a group and its offsets", run=run, examples=example)
    add_yes(delete)
    resetting = verb(
        inner,
        "reset-offsets",
        "move the committed offsets of a group without members",
        run=with_admin(reset),
        examples=RESET_EXAMPLES,
    )
    add_reset_options(resetting)
    group_orders.register(inner)
    for each in (describing, delete, resetting):
        each.add_argument("group", metavar="GROUP")
    for each in (listing, describing, delete, resetting):
        add_json(each)
        add_cluster(each)


def add_reset_options(parser: argparse.ArgumentParser) -> None:
    """Add what reset-offsets aims at, and whether it writes."""
    which = parser.add_mutually_exclusive_group(required=True)
    add_option(which, "--topic TOPIC[:P,P]", "which partitions; may repeat", topic_or_partitions, action="append")
    add_option(which, "--all-topics", "every partition that has a committed offset")
    aim = parser.add_mutually_exclusive_group(required=True)
    add = aim.add_argument
    add("--to-earliest", dest="aim", action="store_const", const=(ResetTo.EARLIEST, 0))
    add("--to-latest", dest="aim", action="store_const", const=(ResetTo.LATEST, 0))
    add("--to-offset", dest="aim", metavar="N", type=lambda text: (ResetTo.OFFSET, number(0, "an offset")(text)))
    add("--to-datetime", dest="aim", metavar="ISO", type=lambda text: (ResetTo.TIME, moment_ms(text)))
    add("--shift-by", dest="aim", metavar="N", type=lambda text: (ResetTo.SHIFT, number(-1 << 63, "a distance")(text)))
    what = parser.add_mutually_exclusive_group()
    add_option(what, "--dry-run", "only show what would be written (the default)")
    add_option(what, "--execute", "write the offsets")


async def show_groups(args: argparse.Namespace, admin: Admin) -> None:
    """Print the groups by name, with members, lag and the cause of the last rebalance."""
    groups = await admin.list_groups(types=args.type, states=args.state)
    rows: list[dict[str, Any]] = [
        {
            "group": each.group_id,
            "type": each.group_type,
            "state": each.state,
            "protocol_type": each.protocol_type or None,
        }
        for each in groups
    ]
    known: dict[str, GroupReport] = {}
    if not args.no_lag and groups:
        if EVENT_TOPIC in {topic.name for topic in await admin.list_topics()}:
            try:
                known = await recent_histories(args.bootstrap_server, args.security)
            except KafkaError as error:
                output.remark(f"last causes are left out, {EVENT_TOPIC} cannot be read: {error.text}")
        at_a_time = asyncio.Semaphore(LOOKED_AT)
        looks = await asyncio.gather(*[_numbers(admin, each, at_a_time) for each in groups])
        for row, numbers in zip(rows, looks, strict=True):
            row |= numbers | {"last_rebalance": course_json(known.get(row["group"]))["last_rebalance"]}
    shown = [cells(row) for row in rows]
    for row in shown if not args.no_lag else ():
        row["last cause"] = _last_cause(known.get(str(row["group"])))
    output.put_result(args, rows, output.table_of(shown))
    if not rows and not args.type and not args.state and not args.json:
        output.remark("there are no groups: a group begins when its first member joins")


LOOKED_AT = 20
"""Of how many groups members and lag are requested at the same time."""


async def _numbers(admin: Admin, group: GroupListing, at_a_time: asyncio.Semaphore) -> dict[str, int | float | None]:
    """Return how many members a group has and how far it is behind; None is unknown, or refused."""
    members: int | None = None
    lag: GroupLag | None = None
    async with at_a_time:
        try:
            described = (await admin.describe_groups([group.group_id]))[group.group_id]
            members = len(described.members)
            lag = group_lag((await group_lags(admin, described)).values())
        except KafkaError:
            pass  # a group of a type that cannot be described, one that is gone by now, one that may not be read
    return {
        "members": members,
        "lag": None if lag is None else lag.records,
        "lag_seconds": None if lag is None else lag.seconds,
        "lag_unknown_partitions": None if lag is None else lag.unknown,
    }


def _last_cause(known: GroupReport | None) -> str | None:
    if known is None or not known.rebalances:
        return None
    return clause_of(known.rebalances[-1].cause, Names(known.identities))


_IN_JSON_ONLY = ("last_rebalance", "lag_is_bound", "lag_reason", "lag_unknown_partitions")


def cells(row: Mapping[str, Any]) -> dict[str, output.Cell]:
    """Return a row of a document as a table shows it: headings in words, seconds as "2 h 5 min", "≥" for at least."""
    least = "≥ " if row.get("lag_unknown_partitions") else ""
    shown = {name: value for name, value in row.items() if name not in _IN_JSON_ONLY}
    for name in ("lag", "lag_seconds"):
        if (value := shown.get(name)) is not None:
            shown[name] = f"{least}{duration(value) if name == 'lag_seconds' else value}"
    return {name.replace("_", " "): value for name, value in shown.items()}


async def described_group(admin: Admin, group_id: str) -> GroupDescription:
    """Return a group's description. Raises CommandFailed, with the nearest name, where there is none."""
    await require_group(admin, group_id)
    return (await admin.describe_groups([group_id]))[group_id]


async def describe(args: argparse.Namespace, admin: Admin) -> None:
    """Print a group's state, its offsets, its members, as asked."""
    group = await described_group(admin, args.group)
    has_epochs = group.epoch >= 0
    shows_offsets = args.offsets or not (args.members or args.topology)
    lags = await group_lags(admin, group, args.isolation_level) if shows_offsets else {}
    offsets = offset_rows(group, lags)
    topology = await _topology(admin, group) if args.topology else None
    coordinator = (await admin.group_coordinator(args.group)).address
    known = None
    topics = {topic.name for topic in await admin.list_topics()}
    drained = await group_orders.drained_members(args, group, topics)
    if EVENT_TOPIC in topics:
        known = await recent_history(args.bootstrap_server, args.security, args.group)
    if args.json:
        document: dict[str, Any] = {
            "group": group.group_id,
            "type": group.group_type,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "coordinator": coordinator,
            **course_json(known),
            **({"epoch": group.epoch, "target_epoch": group.assignment_epoch} if has_epochs else {}),
            "members": [
                member_json(group, member) | {"drained": member.member_id in drained} for member in group.members
            ],
        }
        if shows_offsets:
            document["offsets"] = offsets
        if args.topology:
            document["topology"] = None if topology is None else topology_json(topology)
        output.put_json(document)
        return
    assignor = f", assignor {group.protocol}" if group.protocol else ""
    members = output.counted(len(group.members), "member") + assignor
    at = f", generation {known.generation}" if known is not None and known.is_seen else ""
    if has_epochs:
        at = f", group epoch {group.epoch}, target epoch {group.assignment_epoch}"
    output.put(f"{group.group_id}: {group.group_type}, {group.state}, {members}{at}, coordinator {coordinator}")
    output.put("\n".join(course_lines(known)))
    for line in embedded_lines(group):
        output.put(line)
    if drained:
        output.put(f"drained: {', '.join(sorted(drained))}")
    if shows_offsets:
        empty = "nothing is committed and nothing assigned"
        output.put("\n" + output.table_of([cells(row) for row in offsets], empty=empty))
        for line in doubts(lags):
            output.remark(line)
    if args.members:
        output.put("\n" + output.table_of([member_row(group, each) for each in group.members], empty="no members"))
    if topology is not None:
        output.put(f"\n{topology}")
    elif args.topology:
        output.remark("no member has described the topology: Kafka Streams does from 4.4 on")


async def _topology(admin: Admin, group: GroupDescription) -> TopologyDescription | None:
    """Return the program of a streams group, None where its broker has none. Raises CommandFailed."""
    if group.group_type != "streams":
        raise CommandFailed(f"{group.group_id!r} is a {group.group_type} group: only streams groups have a topology")
    return await admin.describe_topology(group.group_id)


def topology_json(topology: TopologyDescription) -> dict[str, Any]:
    """Return the documented fields of a program."""
    return {
        "subtopologies": {key: [node._asdict() for node in nodes] for key, nodes in topology.subtopologies},
        "global_stores": [[node._asdict() for node in pair] for pair in topology.global_stores],
    }


def member_row(group: GroupDescription, member: MemberDescription) -> dict[str, output.Cell]:
    """Return a member's columns."""
    row: dict[str, output.Cell] = {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
    }
    if (columns := embedded_columns(member)) is not None:
        return row | columns
    assigned = listed(member.assignment)
    if group.group_type != "consumer":
        return row | {"assigned": assigned}
    target = "the same" if member.target == member.assignment else listed(member.target)
    row |= {"type": protocol_of(member), "phase": member.phase, "epoch": member.epoch}
    return row | {"assigned": assigned, "target": target}


def protocol_of(member: MemberDescription) -> str:
    """Return the protocol of a member of a consumer group."""
    return "consumer" if member.is_native else "classic"


def course_json(known: GroupReport | None) -> dict[str, Any]:
    """Return the documented fields of a group's past; null where the cluster writes no events."""
    last = known.rebalances[-1] if known is not None and known.rebalances else None
    if known is None or not known.is_seen:
        return {"generation": None, "last_rebalance": None, "rebalances_avoided": None, "refused": None}
    return {
        "generation": known.generation,
        "last_rebalance": None if last is None else {"ended_ms": last.ended_ms, "cause": cause_json(last.cause)},
        "rebalances_avoided": known.avoided,
        "refused": [each.to_json() for each in known.refused],
    }


REFUSED_SHOWN = 3
"""How many of the last refused joins are shown."""


def course_lines(known: GroupReport | None) -> list[str]:
    """Return a group's recent history as lines: running and last rebalance, avoided ones, refused joins."""
    if known is None or not known.is_seen:
        return []
    names = Names(known.identities)
    lines = []
    if known.running is not None:
        lines.append(f"rebalancing: {sentence(known.running, names, now_ms())}")
    if known.rebalances:
        last = known.rebalances[-1]
        lines.append(f"last rebalance {iso_time(last.ended_ms or 0)}, {title(last, names)}")
    if known.avoided:
        lines.append(f"{output.counted(known.avoided, 'rebalance')} avoided")
    lines += [f"{iso_time(each.first_ms)}, {refusal(each, names, iso_time)}" for each in known.refused[-REFUSED_SHOWN:]]
    return lines


async def group_lags(
    admin: Admin, group: GroupDescription, isolation_level: str = "read_uncommitted"
) -> dict[TopicPartition, Lag]:
    """Return the lag of each partition that is committed or assigned, sorted."""
    return await admin.lag(group.group_id, isolation_level=isolation_level, assigned=group.owners)


def offset_rows(group: GroupDescription, lags: Mapping[TopicPartition, Lag]) -> list[dict[str, Any]]:
    """Return a row for each partition."""
    owners = group.owners
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": lag.offset,
            "end": lag.end,
            "lag": lag.records,
            "lag_seconds": lag.seconds,
            "lag_is_bound": lag.is_bound,
            "lag_reason": lag.reason,
            "member": owners[partition].member_id if partition in owners else None,
        }
        for partition, lag in lags.items()
    ]


def doubts(lags: Mapping[TopicPartition, Lag]) -> list[str]:
    """Return why lags are unknown, and which offsets were deleted before they were read, in sentences."""
    reasons: dict[str, list[TopicPartition]] = {}
    for partition, lag in lags.items():
        if lag.reason is not None:
            reasons.setdefault(lag.reason.text, []).append(partition)
    return [f"lag of {listed(each)}: {text}" for text, each in reasons.items()] + [
        f"{partition}: {output.counted(lag.deleted, 'offset')} from {lag.offset} on were deleted before they were read"
        for partition, lag in lags.items()
        if lag.deleted
    ]


def listed(partitions: Iterable[TopicPartition]) -> str | None:
    """Return partitions as `topic:0,1 other:3`."""
    return (
        " ".join(f"{topic}:{','.join(map(str, partition))}" for topic, partition in by_topic(partitions).items())
        or None
    )


def member_json(group: GroupDescription, member: MemberDescription) -> dict[str, Any]:
    """Return a member's documented fields."""
    document: dict[str, Any] = {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "assigned": by_topic(member.assignment),
    }
    document |= embedded_json(member)
    if group.group_type == "consumer":
        document |= {
            "type": protocol_of(member),
            "phase": member.phase,
            "epoch": member.epoch,
            "target": by_topic(member.target),
            "topics": list(member.topics),
            "regex": member.regex or None,
            "rack": member.rack,
        }
    return document


async def delete_group(args: argparse.Namespace, admin: Admin) -> None:
    """Delete a group that has no members."""
    group = await described_group(admin, args.group)
    require_no_members(group, "deleted")
    committed = output.counted(len(await admin.group_offsets(args.group)), "partition")
    confirm(args, f"deletes group {args.group} and its committed offsets of {committed}")
    await admin.delete_group(args.group)
    output.put_result(args, {"group": args.group, "deleted": True}, f"deleted {args.group}")


def require_no_members(group: GroupDescription, what: str) -> None:
    """Raise CommandFailed for a group that has members."""
    if count := len(group.members):
        who = "a member" if count == 1 else f"{count} members"
        raise CommandFailed(f"group {group.group_id} has {who} and cannot be {what}: stop them first")


async def reset(args: argparse.Namespace, admin: Admin) -> None:
    """Plan a reset, print the plan, and write it with --execute."""
    known = {group.group_id for group in await admin.list_groups()}
    if args.group in known:
        require_no_members(await described_group(admin, args.group), "reset")
    committed = {partition: entry.offset for partition, entry in (await admin.group_offsets(args.group)).items()}
    partitions = await partitions_meant(args, admin, committed)
    rule, value = args.aim
    earliest, latest = await ends_of(admin, partitions, "earliest"), await ends_of(admin, partitions, "latest")
    at_time: dict[TopicPartition, int | None] = {}
    if rule is ResetTo.TIME:
        found = await admin.list_offsets(dict.fromkeys(partitions, value))
        at_time = {partition: None if entry is None else entry.offset for partition, entry in found.items()}
    moves = plan(rule, value, earliest, latest, committed, at_time)
    if args.execute and (writes := changes(moves)):
        await admin.reset_offsets(args.group, {move.partition: move.offset for move in writes})
    columns = ["topic", "partition", "committed", "new", "bounded"]
    rows = [(*move.partition, move.committed, move.offset, move.bounded) for move in moves]
    offsets = [dict(zip(columns, row, strict=True)) for row in rows]
    document = {"group": args.group, "executed": args.execute, "offsets": offsets}
    output.put_result(args, document, output.table(columns[:-1], [row[:-1] for row in rows]))
    if args.json:
        return
    if bounded := [str(move.partition) for move in moves if move.bounded]:
        output.remark(f"limited to the log: {', '.join(bounded)}")
    if not args.execute:
        output.remark("nothing was changed: add --execute to write these offsets")


async def partitions_meant(
    args: argparse.Namespace, admin: Admin, committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """Return the partitions that the options name. Raises CommandFailed for one that does not exist."""
    named: list[Named] = args.topic
    if args.all_topics:
        if not committed:
            raise CommandFailed(f"group {args.group} has committed nothing: name the partitions with --topic")
        named = [(topic, frozenset(partitions)) for topic, partitions in by_topic(committed).items()]
    counts = {topic.name: len(topic.partitions) for topic in await admin.list_topics()}
    meant: set[TopicPartition] = set()
    for topic, partitions in named:
        if topic not in counts:
            raise unknown("topic", topic, counts)
        require_partitions(topic, counts[topic], partitions or ())
        numbers = range(counts[topic]) if partitions is None else partitions
        meant.update(TopicPartition(topic, number) for number in numbers)
    return sorted(meant)


class ResetTo(Enum):
    """The target of a reset; the value is its option."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    TIME = "--to-datetime"
    SHIFT = "--shift-by"


class OffsetMove(NamedTuple):
    """One partition's step of a plan. `committed` is None where nothing was; `bounded` is true at a log's end."""

    partition: TopicPartition
    committed: int | None
    offset: int
    bounded: bool


Offsets = Mapping[TopicPartition, int]


def plan(
    rule: ResetTo,
    number: int,
    earliest: Offsets,
    latest: Offsets,
    committed: Offsets,
    at_time: Mapping[TopicPartition, int | None],
) -> list[OffsetMove]:
    """Return a move for each partition, sorted, to an offset between its first and its end.

    `number` is the offset of OFFSET or the distance of SHIFT. `at_time` has, for TIME, the first offset at or
    after the time, or None where every record is older. Raises CommandFailed where a SHIFT has nothing to start from.
    """
    moves = []
    for partition, first in sorted(earliest.items()):
        end = latest[partition]
        match rule:
            case ResetTo.EARLIEST:
                offset = first
            case ResetTo.LATEST:
                offset = end
            case ResetTo.OFFSET:
                offset = number
            case ResetTo.TIME:
                found = at_time.get(partition)
                offset = end if found is None else found
            case ResetTo.SHIFT:
                if partition not in committed:
                    advice = "use --to-offset or --to-earliest"
                    raise CommandFailed(f"{partition} has no committed offset to shift: {advice}")
                offset = committed[partition] + number
        inside = min(max(offset, first), end)
        moves.append(OffsetMove(partition, committed.get(partition), inside, inside != offset))
    return moves


def changes(moves: Iterable[OffsetMove]) -> list[OffsetMove]:
    """Return the moves that would change a committed offset."""
    return [move for move in moves if move.offset != move.committed]


def embedded_lines(group: GroupDescription) -> list[str]:
    """Return what all members share."""
    return [line for line in (_connect_line(group), _streams_line(group)) if line is not None]


def embedded_columns(member: MemberDescription) -> dict[str, Cell] | None:
    """Return a member's embedded_columns besides those that every member has; None of a consumer."""
    if member.connect is not None:
        worker, runs = member.connect
        role = "leads" if runs.leader == member.member_id else None
        return {"url": worker.url, "role": role, "runs": _tasks_text(worker.running(runs))}
    if member.streams is None:
        return None
    sent, given = member.streams
    columns: dict[str, Cell] = {
        "process": (sent.process_id[:8] if sent is not None else "") or None,
        "endpoint": (sent.endpoint if sent is not None else "") or None,
        "active": _names(given.active) if given is not None else None,
        "standby": _names(given.standby, member.task_lags) if given is not None else None,
    }
    if member.is_native:
        columns["warmup"] = _names(member.warmups, member.task_lags)
    return columns


def embedded_json(member: MemberDescription) -> dict[str, Any]:
    """Return a member's documented fields besides those that every member has."""
    if member.connect is not None:
        return {"connect": _connect_json(*member.connect)}
    if member.streams is None:
        return {}
    found = _streams_json(*member.streams)
    if member.is_native:
        found["warmup"] = list(map(str, sorted(member.warmups)))
        found["lags"] = {str(task): lag for task, lag in sorted(member.task_lags.items())}
    return {"streams": found}


def _connect_line(group: GroupDescription) -> str | None:
    """Return what all workers of a Connect cluster share: the newest configuration that they run, and the delay."""
    runs = [member.connect[1] for member in group.members if member.connect is not None]
    if not runs:
        return None
    newest = max(runs, key=lambda each: each.config_offset)
    waits = max(each.delay_ms for each in runs)
    delay = f", tasks of a worker that is gone wait {waits / 1000:g} s for its return" if waits else ""
    return f"Kafka Connect: leader {newest.leader_url}, configuration up to offset {newest.config_offset}{delay}"


def _tasks_text(tasks: Tasks) -> str | None:
    return ", ".join(task_names(tasks)) or None


def _connect_json(worker: ConnectWorker, runs: ConnectAssignment) -> dict[str, Any]:
    return {
        "url": worker.url,
        "config_offset": worker.config_offset,
        "leader": runs.leader,
        "leader_url": runs.leader_url,
        "delay_ms": runs.delay_ms,
        **{
            name: {
                "connectors": sorted(connector for connector, number in tasks if number == CONNECTOR),
                "tasks": [f"{connector}-{number}" for connector, number in sorted(tasks) if number != CONNECTOR],
            }
            for name, tasks in (("running", worker.running(runs)), ("revoked", runs.revoked))
        },
    }


def _streams_line(group: GroupDescription) -> str | None:
    """Return how many processes an application has, in which version, and which rebalance its leader has scheduled."""
    known = [member.streams for member in group.members if member.streams is not None]
    if not known:
        return None
    processes = {sent.process_id for sent, _ in known if sent is not None and sent.process_id}
    newest = {sent.latest_version for sent, _ in known if sent is not None and sent.version}
    versions = f", metadata up to version {' and '.join(map(str, sorted(newest)))}" if newest else ""
    due = [given.next_rebalance_ms for _, given in known if given is not None and given.next_rebalance_ms is not None]
    follows = ""
    if due:
        at = iso_time(min(due)) if min(due) > 0 else "now"
        follows = f", next probing rebalance {at}"
    return f"Kafka Streams: {len(processes)} process{'es' * (len(processes) != 1)}{versions}{follows}"


def _streams_json(sent: StreamsSubscription | None, given: StreamsAssignment | None) -> dict[str, Any]:
    document: dict[str, Any] = {"process": None, "endpoint": None, "latest_version": None, "tags": {}}
    if sent is not None:
        document = {
            "process": sent.process_id or None,
            "endpoint": sent.endpoint or None,
            "latest_version": sent.latest_version,
            "tags": dict(sent.tags),
        }
    copies = [] if sent is None else [(task, offset) for task, offset in sent.offset_sums if offset != RUNNING]
    return {
        **document,
        "active": [] if given is None else list(map(str, sorted(given.active))),
        "standby": [] if given is None else list(map(str, sorted(given.standby))),
        "running_at_join": [] if sent is None else list(map(str, sorted(sent.running))),
        "offsets_at_join": {str(task): None if offset == UNKNOWN else offset for task, offset in sorted(copies)},
        "next_rebalance_ms": None if given is None else given.next_rebalance_ms,
        "error": 0 if given is None else given.error,
    }


def _names(tasks: tuple[StreamsTask, ...], lags: Mapping[StreamsTask, int] | None = None) -> str | None:
    """Return tasks in words, with how many records behind copies are, where that is known."""
    behind = {task: f" ({lag:,} behind)" for task, lag in (lags or {}).items()}
    return ", ".join(f"{task}{behind.get(task, '')}" for task in sorted(tasks)) or None
