"""`kohort migrate plan|watch GROUP`: from one protocol to another, one restart at a time, without a stop.

`plan` reads the group as it is, on a broker of ours or on Apache Kafka, changes nothing, and refuses what is not safe.
`watch` follows the restarts until they are done (`migrate_watch.py`).
"""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any

from kohort.cli import output
from kohort.cli.failure import FAILED
from kohort.cli.options import add_cluster, add_json, number, verb
from kohort.cli.topics import with_admin
from kohort.group.migration.forecast import Assumptions
from kohort.group.migration.plan import Goal, LiveMember, Plan, make_plan

if TYPE_CHECKING:
    from kohort.client import Admin

PLAN_EXAMPLES = """
kohort migrate plan readers --to consumer
kohort migrate plan readers --to cooperative --bounce 30s
kohort migrate plan readers --to classic --json | jq .refusals
"""
WATCH_EXAMPLES = """
kohort migrate watch readers --to consumer
kohort migrate watch readers --to classic --members 5 --json
"""

STEP_MS = 100
KAFKAS_HEARTBEAT_MS = {Goal.COOPERATIVE: 3_000, Goal.CONSUMER: 5_000, Goal.CLASSIC: 5_000}
"""On Apache Kafka a member hears of a change with its next heartbeat; these are the default intervals."""

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `migrate` and its verbs to the command line."""
    parser = verbs.add_parser("migrate", help="plan and watch how a live group goes to another protocol")
    inner = parser.add_subparsers(metavar="VERB", required=True)
    summary = "say which restarts take a group to another protocol, what they cost, or why it is not safe"
    plan = verb(inner, "plan", summary, run=run_plan, examples=PLAN_EXAMPLES)
    plan.add_argument(
        "--assignor", metavar="NAME", help="the assignor to go to: server-side for consumer, else client-side"
    )
    plan.add_argument(
        "--bounce", metavar="TIME", type=duration_ms, default=10_000, help="how long a restart takes (default: 10s)"
    )
    plan.add_argument(
        "--step",
        metavar="TIME",
        type=duration_ms,
        help="how long a step of a rebalance takes (default: 100ms; on Apache Kafka the heartbeat interval, 3s or 5s)",
    )
    summary = "follow the restarts of a group until every member is there"
    watch = verb(inner, "watch", summary, run=run_watch, examples=WATCH_EXAMPLES)
    watch.add_argument(
        "--members",
        metavar="N",
        type=number(1, "a number of members"),
        help="how many members there are to be in the end (default: as many as there were at most)",
    )
    watch.add_argument(
        "--interval", metavar="TIME", type=duration_ms, default=500, help="how often to look (default: 500ms)"
    )
    for each, is_required in ((plan, True), (watch, False)):
        each.add_argument("group", metavar="GROUP")
        each.add_argument(
            "--to",
            dest="goal",
            metavar="PROTOCOL",
            type=goal,
            required=is_required,
            default=Goal.CONSUMER,
            help="consumer, classic, or cooperative (classic, with a cooperative assignor)"
            + ("" if is_required else " (default: consumer)"),
        )
    add_json(plan)
    add_json(watch, "a JSON object for each change, a line each")
    add_cluster(plan)
    add_cluster(watch)


def goal(text: str) -> Goal:
    """Return where to go."""
    try:
        return Goal(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(Goal)}") from None


def duration_ms(text: str) -> int:
    """Return the milliseconds of `500ms`, `10s` or `2m`."""
    for unit in ("ms", "s", "m"):
        amount = text.removesuffix(unit)
        if amount != text and amount.replace(".", "", 1).isdigit():
            return round(float(amount) * _UNITS[unit])
    raise ArgumentTypeError(f"{text!r} is no duration such as 500ms, 10s or 2m")


def run_plan(args: argparse.Namespace) -> int:
    """Print the plan; the status says whether it is safe."""
    return with_admin(args, show_plan)


def run_watch(args: argparse.Namespace) -> int:
    """Follow the restarts."""
    from kohort.cli.migrate_watch import watch

    return with_admin(args, watch)


async def show_plan(args: argparse.Namespace, admin: Admin) -> int:
    """Read the group, make the plan, print it."""
    from kohort.cli.migrate_facts import read_facts

    group, limits, doubts = await read_facts(args, admin)
    step_ms = args.step
    if step_ms is None:
        step_ms = STEP_MS if limits.is_ours else KAFKAS_HEARTBEAT_MS[args.goal]
    client_assignor = None if args.goal is Goal.CONSUMER else args.assignor
    plan = make_plan(group, limits, args.goal, Assumptions(args.bounce, step_ms), client_assignor)
    if args.json:
        output.put_json(plan_json(plan, doubts))
    else:
        put_plan(plan, doubts)
    for each in plan.refusals:
        names = [member.name for member in group.members if member.member_id in each.member_ids]
        who = f"{', '.join(names)}: " if names else ""
        output.remark(f"{args.group} cannot go to {args.goal} safely, rule {each.rule}: {who}{each.text}")
    return 0 if plan.is_safe else FAILED


def put_plan(plan: Plan, doubts: list[str]) -> None:
    """Print a plan for people."""
    group = plan.group
    count = len(group.members)
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    members = f"{count} member{'s' * (count != 1)}"
    output.put(f"{group.group_id}: {group.group_type}, {group.state}, {members}{assignor} → {plan.goal}")
    if plan.remark:
        output.put(f"nothing to do: {plan.remark}")
        return
    rows = [member_cells(plan, each) for each in sorted(group.members, key=lambda each: (each.name, each.member_id))]
    output.put("\n" + output.table(["member", "protocol", "metadata", "offers", "owns", "can go"], rows))
    if plan.bounces:
        many = len(plan.bounces) != 1
        output.put(f"\n{len(plan.bounces)} restart{'s' * many}, one after another{totals_text(plan)}:")
        names = {each.member_id: each.name for each in group.members}
        cells: list[list[output.Cell]] = [
            [
                each.number,
                names[each.member_id],
                each.settings,
                None if each.forecast is None else each.forecast.moves,
                None if each.forecast is None else f"{each.forecast.unowned_partition_s:.1f}",
                each.effect or None,
            ]
            for each in plan.bounces
        ]
        output.put(output.table(["restart", "member", "with", "moves", "unowned partition-s", "then"], cells))
    if plan.assumptions or doubts:
        output.put("\nassumed:\n" + "\n".join(f"- {each}" for each in (*plan.assumptions, *doubts)))


def member_cells(plan: Plan, member: LiveMember) -> list[output.Cell]:
    """Return a member's row."""
    blocked = plan.blocked(member.member_id)
    offers = ",".join(member.offers) if member.offers else None
    is_free = not any(not each.member_ids for each in plan.refusals)
    verdict = f"no: {blocked.rule}" if blocked is not None else "yes" if is_free else "no"
    if plan.is_safe and member.member_id not in {each.member_id for each in plan.bounces}:
        verdict = "is there"
    protocol = "consumer" if member.is_native else "classic"
    return [member.name, protocol, member.version, offers, len(member.owned), verdict]


def totals_text(plan: Plan) -> str:
    """Return what all restarts together move and cost, where that is predicted."""
    totals = totals_of(plan)
    if totals is None:
        return ""
    moves, cost = totals
    return f", {moves} move{'s' * (moves != 1)}, {cost:.1f} partition-seconds unowned"


def totals_of(plan: Plan) -> tuple[int, float] | None:
    """Return the moves and the partition-seconds of all restarts, or None where they cannot be predicted."""
    forecasts = [each.forecast for each in plan.bounces]
    found = [each for each in forecasts if each is not None]
    if len(found) < len(forecasts):
        return None
    return sum(each.moves for each in found), round(sum(each.unowned_partition_s for each in found), 3)


def plan_json(plan: Plan, doubts: list[str]) -> dict[str, Any]:
    """Return a plan's documented fields."""
    group = plan.group
    names = {each.member_id: each.name for each in group.members}
    moves, cost = totals_of(plan) or (None, None)
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocol": group.assignor,
        "to": plan.goal,
        "is_safe": plan.is_safe,
        "remark": plan.remark or None,
        "refusals": [
            {"rule": each.rule, "text": each.text, "members": list(each.member_ids)} for each in plan.refusals
        ],
        "members": [member_json(plan, each) for each in group.members],
        "restarts": [
            {
                "number": each.number,
                "round": each.round,
                "member": each.member_id,
                "name": names[each.member_id],
                "settings": each.settings,
                "moves": None if each.forecast is None else each.forecast.moves,
                "unowned_partition_s": None if each.forecast is None else each.forecast.unowned_partition_s,
                "effect": each.effect or None,
            }
            for each in plan.bounces
        ],
        "moves": moves,
        "unowned_partition_s": cost,
        "assumptions": [*plan.assumptions, *doubts],
    }


def member_json(plan: Plan, member: LiveMember) -> dict[str, Any]:
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
