"""`kohort gateway plan`: the broker settings and commands that bring a cluster to a gateway, and the way back.

It looks at the cluster and changes nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from kohort.cli.cluster import with_admin
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, verb

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.gateway.plan import GatewayPlan, GatewayStep

_EXAMPLES = """
kohort gateway plan --bootstrap-server kafka-1:9092 --mode listener --advertised gateway.example
kohort gateway plan --bootstrap-server kafka-1:9093 --mode coordinators --advertised gateway.example --coordinators 4,5
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plan` to the verbs of the gateway."""
    summary = "look at a cluster, and write the steps that bring it to a gateway, and the way back"
    parser = verb(verbs, "plan", summary, run=with_admin(show_plan), examples=_EXAMPLES)
    add_cluster(parser, "--bootstrap-servers")
    add_option(
        parser, "--mode", "(default: listener)", choices=("listener", "coordinators", "rewrite"), default="listener"
    )
    add_option(
        parser,
        "--advertised HOST[:PORT]",
        "the gateway's name, as clients know it; a port is that of --first-port",
        required=True,
    )
    add_option(
        parser,
        "--first-port PORT",
        "the gateway's port for the first node, or in mode rewrite for clients to begin at (default: 9191)",
        number(1, "a port"),
        default=9191,
    )
    add_option(parser, "--coordinators NODES", "the brokers for __consumer_offsets alone", _node_ids, default=())
    add_json(parser, "the plan as one JSON document")


async def show_plan(args: argparse.Namespace, admin: Admin) -> int:
    """Print the plan, and return the exit status."""
    from kohort.gateway.plan import PlanError
    from kohort.gateway.server.cluster_topology import TopologyError

    try:
        plan = await _plan(args, admin)
    except (PlanError, TopologyError) as error:
        raise CommandFailed(str(error)) from error
    for remark in plan.remarks:
        output.remark(remark)
    if args.json:
        output.put_json(plan.to_json())
        return 0
    _put_steps("To the gateway", plan.steps)
    output.put("\n")
    _put_steps("The way back", plan.way_back)
    return 0


async def _plan(args: argparse.Namespace, admin: Admin) -> GatewayPlan:
    from kohort.gateway.plan import Wishes, coordinators_plan, listener_plan, rewrite_plan
    from kohort.gateway.server.cluster_topology import cluster_facts

    host, _, port = args.advertised.rpartition(":")
    if host.count(":") or not port.isdecimal():
        host, port = args.advertised, args.first_port
    wishes = Wishes(host, int(port), args.coordinators)
    if args.mode == "rewrite":  # a cluster whose settings cannot be looked at either
        view = await admin.describe_cluster()
        return rewrite_plan(args.bootstrap_server, view.brokers, wishes)
    is_listener = args.mode == "listener"
    facts = await cluster_facts(admin, args.bootstrap_server, (host,), needs_topics=not is_listener)
    plan = listener_plan(facts, wishes) if is_listener else coordinators_plan(facts, wishes)
    return replace(plan, remarks=facts.unseen + plan.remarks)


def _put_steps(title: str, steps: tuple[GatewayStep, ...]) -> None:
    output.put(output.coloured(title, output.BOLD))
    for number_of_step, step in enumerate(steps, 1):
        output.put(f"\n{number_of_step}. {step.title}{':' if step.lines else '.'}")
        for line in step.lines:
            output.put(line if line in ("END",) or line.startswith("{") else f"   {line}")


def _node_ids(text: str) -> tuple[int, ...]:
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of node ids, such as 4,5")
    return tuple(int(part) for part in text.split(","))
