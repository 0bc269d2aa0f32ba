"""`kohort migrate plan GROUP`: which restarts move a group to another protocol without a stop; `watch` follows them.

Both poll the description of the live group, on our broker or on Apache Kafka, and change nothing. A plan that is not
safe is refused.
"""

from __future__ import annotations

import argparse
import asyncio
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import require_group, with_admin
from kohort.cli.group_state.group_events import now_ms
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED
from kohort.cli.terminal.options import add_cluster, add_json, add_option, duration_ms, number, verb, verb_of_verbs
from kohort.cli.terminal.record_lines import iso_time
from kohort.group.classic.group import COOPERATIVE
from kohort.group.explain.explain_text import Names, refusal
from kohort.group.explain.rebalance_report import GroupReport, Identity
from kohort.group.migration.migration_plan import (
    REFUSED_WITH,
    Cost,
    Goal,
    Limits,
    LiveGroup,
    LiveMember,
    MigrationPlan,
    Restart,
    make_plan,
)
from kohort.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription


PLAN_EXAMPLES = """
kohort migrate plan readers --to consumer
kohort migrate plan readers --to cooperative --bounce 30s
kohort migrate plan readers --to classic --json | jq .refusals
"""
WATCH_EXAMPLES = """
kohort migrate watch readers --to consumer
kohort migrate watch readers --to classic --members 5 --json
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `migrate` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "migrate", "plan and watch the migration of a live group to another protocol")
    summary = "list the restarts that take a group to another protocol, and their cost, or why it is not safe"
    plan = verb(inner, "plan", summary, run=with_admin(show_plan), examples=PLAN_EXAMPLES)
    add_option(plan, "--assignor NAME", "the assignor to go to: server-side for consumer, else client-side")
    add_option(plan, "--bounce TIME", "how long a restart takes (default: 10s)", duration_ms, default=10_000)
    add_option(
        plan,
        "--callback TIME",
        "how long each callback of a member's listener runs (default: 0s)",
        duration_ms,
        default=0,
    )
    summary = "follow the restarts of a group until every member has migrated"
    watch = verb(inner, "watch", summary, run=with_admin(watch_migration), examples=WATCH_EXAMPLES)
    add_option(
        watch,
        "--members N",
        "how many members there are to be in the end (default: as many as there were at most)",
        number(1, "a number of members"),
    )
    add_option(watch, "--interval TIME", "how often to look (default: 500ms)", duration_ms, default=500)
    for each, is_required in ((plan, True), (watch, False)):
        each.add_argument("group", metavar="GROUP")
        add_option(
            each,
            "--to PROTOCOL",
            "consumer, classic, or cooperative (classic, with a cooperative assignor)"
            + ("" if is_required else " (default: consumer)"),
            goal,
            dest="goal",
            required=is_required,
            default=Goal.CONSUMER,
        )
    add_json(plan)
    add_json(watch, "a JSON object for each change, a line each")
    add_cluster(plan)
    add_cluster(watch)


def goal(text: str) -> Goal:
    """Return the goal that a text names."""
    try:
        return Goal(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(Goal)}") from None


async def show_plan(args: argparse.Namespace, admin: Admin) -> int:
    """Read the group, make the plan and print it; return 0 where it is safe, else 1."""
    from kohort.cli.group_state.live_group import read_facts

    group, limits, settings, doubts, history = await read_facts(args, admin)
    with output.Meter("simulating the restarts", unit="events") as meter:
        plan = planned(args, group, limits, settings, meter.advance)
    if args.json:
        output.put_json(plan_json(plan, doubts, history))
    else:
        put_plan(plan, doubts)
        put_refused(history)
    for each in plan.refusals:
        names = [member.name for member in group.members if member.member_id in each.member_ids]
        who = f"{', '.join(names)}: " if names else ""
        error = REFUSED_WITH.get(each.rule)
        then = f"; until then a restarted member is refused with {error.name}" if error else ""
        output.remark(f"{args.group} cannot go to {args.goal} safely, rule {each.rule}: {who}{each.text}{then}")
    return 0 if plan.is_safe else FAILED


def planned(
    args: argparse.Namespace,
    group: LiveGroup,
    limits: Limits,
    settings: Mapping[str, str],
    advanced: Callable[[int], object],
) -> MigrationPlan:
    """Make the plan; the cost of its restarts is simulated on a copy of the group."""
    from kohort.what_if.group_facts import GroupFacts, Times
    from kohort.what_if.simulation import costs_of

    times = Times(away_ms=args.bounce, revoked_ms=args.callback, assigned_ms=args.callback)
    vote = args.assignor if args.goal is Goal.CONSUMER else None

    def costs(group: LiveGroup, restarts: Sequence[Restart]) -> list[Cost]:
        facts = GroupFacts(group, settings, limits.is_ours)
        return costs_of(facts, times, restarts, vote, advanced)

    assumed = [
        f"a restarting member is away for {times.away_ms / 1000:g} s; the next one restarts once the group has settled",
        f"callbacks run for {args.callback / 1000:g} s, and a message is {times.network_ms:g} ms on its way",
    ]
    if any(not each.is_native for each in group.members) or args.goal is not Goal.CONSUMER:
        assumed.append(f"classic members send a heartbeat every {times.heartbeat_interval_ms / 1000:g} s")
    client_assignor = None if args.goal is Goal.CONSUMER else args.assignor
    return make_plan(group, limits, args.goal, client_assignor, costs=costs, assumed=assumed)


def put_plan(plan: MigrationPlan, doubts: list[str]) -> None:
    """Print a plan for people."""
    group = plan.group
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    members = output.counted(len(group.members), "member")
    output.put(f"{group.group_id}: {group.group_type}, {group.state}, {members}{assignor} → {plan.goal}")
    if plan.remark:
        output.put(f"nothing to do: {plan.remark}")
        return
    rows = [member_cells(plan, each) for each in sorted(group.members, key=lambda each: (each.name, each.member_id))]
    output.put("\n" + output.table(["member", "protocol", "metadata", "offers", "owns", "can go"], rows))
    if plan.restarts:
        output.put(f"\n{output.counted(len(plan.restarts), 'restart')}, one after another{totals_text(plan)}:")
        names = {each.member_id: each.name for each in group.members}
        cells: list[dict[str, output.Cell]] = [
            {
                "restart": each.number,
                "member": names[each.member_id],
                "with": each.settings,
                "moves": None if cost is None else cost.moves,
                "unowned partition-s": None if cost is None else f"{cost.unowned_partition_s:.1f}",
                "unread partition-s": None if cost is None else f"{cost.unread_partition_s:.1f}",
                "then": each.effect or None,
            }
            for each, cost in zip_longest(plan.restarts, plan.costs)
        ]
        output.put(output.table_of(cells))
    if plan.assumptions or doubts:
        output.put("\nassumed:\n" + "\n".join(f"- {each}" for each in (*plan.assumptions, *doubts)))


def put_refused(history: GroupReport | None) -> None:
    """Print the joins that the group refused recently; their clients are not members and not in the plan."""
    if history is not None and history.refused:
        names = Names(history.identities)
        lines = [f"- {iso_time(each.first_ms)}, {refusal(each, names, iso_time)}" for each in history.refused]
        output.put("\nrecently refused, and no members:\n" + "\n".join(lines))


def member_cells(plan: MigrationPlan, member: LiveMember) -> list[output.Cell]:
    """Return a member's row."""
    blocked = plan.blocked(member.member_id)
    offers = ",".join(member.offers) if member.offers else None
    is_free = not any(not each.member_ids for each in plan.refusals)
    verdict = f"no: {blocked.rule}" if blocked is not None else "yes" if is_free else "no"
    if plan.is_safe and member.member_id not in {each.member_id for each in plan.restarts}:
        verdict = "done"
    protocol = "consumer" if member.is_native else "classic"
    return [member.name, protocol, member.version, offers, len(member.owned), verdict]


def totals_text(plan: MigrationPlan) -> str:
    """Return what all restarts together move and cost, where that is predicted."""
    total = total_of(plan)
    if total is None:
        return ""
    return (
        f", {output.counted(total.moves, 'move')}, {total.unowned_partition_s:.1f} partition-seconds unowned, "
        f"{total.unread_partition_s:.1f} unread"
    )


def total_of(plan: MigrationPlan) -> Cost | None:
    """Return what all restarts together cost, or None where that cannot be predicted."""
    if len(plan.costs) < len(plan.restarts):
        return None
    moves, unowned, unread = map(sum, zip(*plan.costs, strict=True)) if plan.costs else (0, 0.0, 0.0)
    return Cost(int(moves), round(unowned, 3), round(unread, 3))


def plan_json(plan: MigrationPlan, doubts: list[str], history: GroupReport | None = None) -> dict[str, Any]:
    """Return a plan's documented fields."""
    group = plan.group
    names = {each.member_id: each.name for each in group.members}
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocol": group.assignor,
        "to": plan.goal,
        "is_safe": plan.is_safe,
        "remark": plan.remark or None,
        "refusals": [
            {
                "rule": each.rule,
                "text": each.text,
                "members": list(each.member_ids),
                "refused_with": error.name if (error := REFUSED_WITH.get(each.rule)) else None,
            }
            for each in plan.refusals
        ],
        "members": [member_json(plan, each) for each in group.members],
        "restarts": [
            {
                "number": each.number,
                "round": each.round,
                "member": each.member_id,
                "name": names[each.member_id],
                "settings": each.settings,
                **cost_json(cost),
                "effect": each.effect or None,
            }
            for each, cost in zip_longest(plan.restarts, plan.costs)
        ],
        **cost_json(total_of(plan)),
        "assumptions": [*plan.assumptions, *doubts],
        "refused": None if history is None else [each.to_json() for each in history.refused],
    }


def cost_json(cost: Cost | None) -> dict[str, Any]:
    """Return the predicted cost as fields, null where there is none."""
    return dict.fromkeys(Cost._fields) if cost is None else cost._asdict()


def member_json(plan: MigrationPlan, member: LiveMember) -> dict[str, Any]:
    """Return a member's documented fields."""
    blocked = plan.blocked(member.member_id)
    return {
        "member": member.member_id,
        "name": member.name,
        "instance": member.instance_id,
        "protocol": "consumer" if member.is_native else "classic",
        "metadata_version": member.version,
        "offers": None if member.offers is None else list(member.offers),
        "owned": len(member.owned),
        "rule": None if blocked is None else blocked.rule,
    }


@dataclass(slots=True)
class MigrationProgress:
    """Progress of a group's migration between two descriptions. `wanted` is the final number of members, if given."""

    goal: Goal
    wanted: int | None = None
    most: int = 0
    """The highest number of members so far."""
    group: GroupDescription | None = None
    """The latest description, with the last known assignor; of a deleted group, what it was, without members."""
    identities: dict[str, Identity] = field(default_factory=dict)

    def update(self, described: GroupDescription | None) -> list[str]:
        """Take the current description, None for a deleted group; return the changes as sentences."""
        before, known, was_migrated = self.group, self.members, self.migrated
        if described is not None:
            assignor = described.protocol or ("" if before is None else before.protocol)
            self.group = replace(described, protocol=assignor)
        elif before is not None:
            self.group = replace(before, state="Dead", members=(), epoch=-1)
        members = self.members
        self.identities |= {each.member_id: Identity(each.client_id, each.instance_id) for each in members.values()}
        self.most = max(self.most, len(members))
        if before is None or self.group is None:
            return []
        changes = []
        if self.group.group_type != before.group_type:
            changes.append(f"the group became a {self.group.group_type} group")
        if before.protocol and self.group.protocol != before.protocol:
            changes.append(f"assignor {self.group.protocol} in place of {before.protocol}")
        if self.group.state != before.state:
            changes.append(self.group.state)
        names = Names(self.identities)
        changes += [f"{names(each)} left the group" for each in sorted(known.keys() - members.keys())]
        joined = members.keys() - known.keys()
        changed = (self.migrated - was_migrated) & known.keys()
        for what, member_ids in (("joined", joined), ("migrated", changed)):
            for member_id in sorted(member_ids):
                protocol = "consumer" if members[member_id].is_native else "classic"
                changes.append(f"{names(member_id)} {what}, {protocol} protocol")
        return changes

    @property
    def members(self) -> dict[str, MemberDescription]:
        """The members by their ids."""
        return {} if self.group is None else {each.member_id: each for each in self.group.members}

    @property
    def expected(self) -> int:
        """How many members there are to be in the end."""
        return self.most if self.wanted is None else self.wanted

    @property
    def migrated(self) -> frozenset[str]:
        """The members that have migrated."""
        group = self.group
        if group is None:
            return frozenset()
        if self.goal is Goal.COOPERATIVE:
            is_there = group.group_type == "classic" and group.protocol in COOPERATIVE
            return frozenset(self.members if is_there else ())
        is_native = self.goal is Goal.CONSUMER
        is_there = group.group_type == "consumer" or not is_native
        return frozenset(each for each, member in self.members.items() if is_there and member.is_native is is_native)

    @property
    def is_done(self) -> bool:
        """Whether all expected members have migrated and the group is stable and of the final type."""
        if self.group is None:
            return False
        kind = "consumer" if self.goal is Goal.CONSUMER else "classic"
        is_whole = len(self.migrated) == len(self.members) >= max(1, self.expected)
        return is_whole and self.group.group_type == kind and self.group.state == "Stable"

    def left(self) -> list[str]:
        """Return the names of the members that have not migrated yet."""
        names = Names(self.identities)
        return [names(each) for each in sorted(self.members.keys() - self.migrated)]

    def summary(self) -> str:
        """Return the progress as a clause."""
        if self.group is None:
            return "the group was not described yet"
        epoch = f", group epoch {self.group.epoch}" if self.group.epoch >= 0 else ""
        text = f"{self.group.group_type}, {self.group.state}{epoch}: "
        text += f"{len(self.migrated)} of {self.expected} members {WORDS[self.goal]}"
        if (away := self.expected - len(self.members)) > 0:
            text += f", {away} away"
        if left := self.left():
            text += f", left {', '.join(left[:NAMED])}" + (f" and {len(left) - NAMED} more" * (len(left) > NAMED))
        return text

    def to_json(self, group: GroupDescription, changes: list[str]) -> dict[str, Any]:
        """Return the documented fields."""
        return {
            "at_ms": now_ms(),
            "group": group.group_id,
            "to": self.goal,
            "type": group.group_type,
            "state": group.state,
            "protocol": group.protocol,
            "epoch": None if group.epoch < 0 else group.epoch,
            "members": len(self.members),
            "there": len(self.migrated),
            "expected": self.expected,
            "left": self.left(),
            "changes": changes,
            "is_done": self.is_done,
        }


NAMED = 5
WORDS = {
    Goal.CONSUMER: "use the consumer protocol",
    Goal.CLASSIC: "use the classic protocol",
    Goal.COOPERATIVE: "are in a cooperative group",
}


async def watch_migration(args: argparse.Namespace, admin: Admin) -> int:
    """Follow the group until its migration is done or a signal ends the command."""
    await require_group(admin, args.group)
    progress = MigrationProgress(args.goal, args.members)
    try:
        await follow(args, admin, progress)
    except asyncio.CancelledError:
        output.remark(f"not over yet, {progress.summary()}")
        raise
    return 0


async def follow(args: argparse.Namespace, admin: Admin, progress: MigrationProgress) -> None:
    """Print changes until the migration is done."""
    is_first, complaint = True, ""
    while True:
        try:
            changes = progress.update(await describe(admin, args.group))
            complaint = ""
        except (KafkaError, OSError) as error:
            # Brokers may restart, too, while a group is migrated.
            if str(error) != complaint:
                complaint = str(error)
                output.remark(f"no answer: {complaint}")
            changes = []
        if (changes or is_first) and progress.group is not None:
            is_first = False
            at = iso_time(now_ms())
            lines = [f"{at}  {each}" for each in (*changes, progress.summary())]
            output.put_result(args, progress.to_json(progress.group, changes), "\n".join(lines))
            output.flush()
        if progress.is_done:
            if not args.json:
                output.put(f"done: {progress.summary()}")
                if args.goal is Goal.COOPERATIVE:
                    output.remark("whether a member still offers an eager assignor is not described: see the plan")
            return
        await asyncio.sleep(args.interval / 1000)


async def describe(admin: Admin, group_id: str) -> GroupDescription | None:
    """Return the group's description, or None when it is deleted."""
    try:
        return (await admin.describe_groups([group_id]))[group_id]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None
