"""`kohort gateway measure`: how long one join and one leave take, directly and through a gateway."""

from __future__ import annotations

import argparse
from statistics import median
from typing import TYPE_CHECKING

from kohort.cli.cluster import run_against
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, bootstrap, duration_ms, number, verb

if TYPE_CHECKING:
    from kohort.gateway.measure import MeasurePlan

_EXAMPLES = """
kohort gateway measure --bootstrap-server kafka-1:9092 --gateway gateway.example:9191
kohort gateway measure --bootstrap-server kafka-1:9092 --gateway gateway.example:9191 --members 5 --runs 5 --json
"""
REMOVAL_S = 15.0
"""How long the removal of groups and topic may take after Ctrl-C; a second one ends it."""
KINDS = ("eager", "cooperative", "consumer")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `measure` to the verbs of the gateway."""
    summary = "join and leave a throwaway group directly and through a gateway, and print both"
    parser = verb(verbs, "measure", summary, run=run, examples=_EXAMPLES)
    add_cluster(parser, "--bootstrap-servers")
    add_option(parser, "--gateway HOST:PORT", "a port of the gateway, as clients use it", bootstrap, required=True)
    add_option(parser, "--members COUNT", "in each group (default: 3)", number(1, "a number of members"), default=3)
    add_option(parser, "--runs COUNT", "joins and leaves (default: 3)", number(1, "a number of runs"), default=3)
    add_option(parser, "--settle TIME", "the pause before each (default: 8s)", duration_ms, default=8_000)
    add_option(parser, "--protocol", "measure only this kind of group; may be repeated", choices=KINDS, action="append")
    add_option(parser, "--group-prefix TEXT", "how the groups' names begin (default: kohort-measure); policies see it")
    add_json(parser, "the figures as one JSON document")


def run(args: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    from kohort.gateway.measure import PREFIX, MeasuredKind, MeasureFailed, MeasurePlan

    plan = MeasurePlan(
        bootstrap_servers=args.bootstrap_server,
        gateway=args.gateway,
        members=args.members,
        partitions=max(12, args.members + 1),
        settle_s=args.settle / 1000,
        runs=args.runs,
        kinds=tuple(map(MeasuredKind, args.protocol or KINDS)),
        group_prefix=args.group_prefix or PREFIX,
    )
    try:
        return run_against(args.bootstrap_server, lambda: _measure(plan, args), grace_s=REMOVAL_S)
    except MeasureFailed as error:
        raise CommandFailed(str(error)) from error


async def _measure(plan: MeasurePlan, args: argparse.Namespace) -> int:
    from kohort.gateway.measure import duration_s, measure, steps

    output.remark(f"this takes about {max(1, round(duration_s(plan) / 60))} min; it removes its groups and its topic")
    with output.Meter("measuring", total=steps(plan), unit="rebalances") as meter:
        results = [measured async for measured in measure(plan, args.security, meter.advance)]
    if args.json:
        output.put_json(
            {"members": plan.members, "runs": plan.runs, "results": [measured.to_json() for measured in results]}
        )
        return 0
    rows = [
        [
            str(each.kind),
            f"one {each.what}s",
            f"{median(each.direct_ms):,.0f}",
            f"{median(each.gateway_ms):,.0f}",
            f"{each.ratio:.1f}×",
        ]
        for each in results
    ]
    output.put(output.table(["protocol", "what", "direct ms", "gateway ms", "faster"], rows))
    output.remark(
        f"medians of {output.counted(plan.runs, 'run')}, {output.counted(plan.members, 'member')}; a rebalance is over"
        " when every partition has one owner again"
    )
    if all(each.ratio < 1.5 for each in results):
        output.remark(
            f"no gain: does the gateway park groups named {plan.group_prefix}-*? Start it with"
            f" --park '{plan.group_prefix}-*'"
        )
    return 0
