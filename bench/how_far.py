"""Writes docs/how-far.md: what a member, a connection, a group and an event cost, and what a million members take.

python -m bench.how_far [--members COUNT]

Members of the generator (`bench.gateway_held`) come to our broker at default settings, then to a gateway in front of
one. What a group costs follows from what its members cost by groups of two sizes.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from interop.kohort_broker import KohortBroker
from interop.kohort_gateway import KohortGateway
from interop.process import Child

from bench.gateway_held import CALM_S, UNPARKED, Crowd
from kohort.net.blocking_connection import BlockingConnection
from kohort.wire.codec import encode
from kohort.wire.frames import encode_request
from kohort.wire.message import Message
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-far.md"
SMALL, LARGE = 2, 10
"""Members in a group."""
REST_S = 12.0
CONNECTIONS = 500
WAYS = ("broker", "gateway")
PROTOCOLS = {"classic": "held", "consumer": "cgheld"}
GROUPS, MEMBERS = 100_000, 1_000_000
BUSY = 0.6
"""The share of a core that is used at rest: the other part is for rounds, and for a second process that fails."""
INTERVAL_S = {
    ("broker", "classic"): 3.0,
    ("gateway", "classic"): 3.0,
    ("broker", "consumer"): 3.05,
    ("gateway", "consumer"): 2.55,
}
"""Between two heartbeats of a member at rest."""
PACKETS, HEADER_BYTES = 4, 52
"""Of a heartbeat, its answer, and their acknowledgements; the headers of TCP, with time stamps, and IP."""
DEPLOYS = 10
"""How often a day each member restarts: a leave and a join of its group."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What members of one protocol cost one process."""

    kib: float
    """Resident memory for each, its connections and its part of the group included."""
    cpu_us_per_s: float
    """CPU time at rest for each."""
    join_ms: float
    """CPU time until one has joined and its group has settled."""
    group_events: float
    """Bytes that the broker appends to the topic of events for each member's join."""
    offsets: float
    """The same for the topic of offsets and members."""


def measured(way: str, protocol: str, members: int, per_group: int) -> Cost:
    """Let members come to a new broker, or to a gateway before it."""
    mode = PROTOCOLS[protocol]
    with ExitStack() as stack:
        broker = stack.enter_context(KohortBroker(UNPARKED if way == "gateway" else None))
        child, bootstrap = broker.child, broker.bootstrap
        if way == "gateway":
            gateway = stack.enter_context(KohortGateway(broker.bootstrap, "--park", "*", "--quiet"))
            child, bootstrap = gateway.child, gateway.bootstrap
        empty_mib, started_s = child.rss_mib(), child.cpu_s()
        crowd = Crowd(stack, bootstrap, mode, members, per_group)
        crowd.joined()
        join_s = child.cpu_s() - started_s
        time.sleep(CALM_S[mode])
        used_s, began_s = child.cpu_s(), time.monotonic()
        time.sleep(REST_S)
        share = (child.cpu_s() - used_s) / (time.monotonic() - began_s)
        cost = Cost(
            kib=1024 * (child.rss_mib() - empty_mib) / members,
            cpu_us_per_s=1e6 * share / members,
            join_ms=1000 * join_s / members,
            group_events=stored(broker.logs, "__kohort_group_events") / members,
            offsets=stored(broker.logs, "__consumer_offsets") / members,
        )
        crowd.end()
        return cost


def heartbeat_bytes(protocol: str) -> int:
    """Return the bytes on the wire for a heartbeat and its answer."""
    group, member = "a-group-of-ten-members", f"consumer-a-group-of-ten-members-1-{uuid.UUID(int=1)}"
    if protocol == "classic":
        request: Message = HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
        sizes = len(encode_request(request, 4, 1, "consumer-1")), len(encode(HeartbeatResponse(), 4)) + 9
    else:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=1)
        answer = ConsumerGroupHeartbeatResponse(member_id=member, member_epoch=1, heartbeat_interval_ms=1)
        sizes = len(encode_request(request, 1, 1, "consumer-1")), len(encode(answer, 1)) + 9
    return sum(sizes) + PACKETS * HEADER_BYTES


def stored(logs: Path, topic: str) -> int:
    """Return the bytes of a topic's segments."""
    return sum(file.stat().st_size for file in logs.glob(f"{topic}-*/*.log"))


def connection_kib(child: Child, bootstrap: str) -> float:
    """Return what a connection that carries nothing adds to a process."""
    host, _, port = bootstrap.rpartition(":")
    before_mib = child.rss_mib()
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(closing(BlockingConnection(host, int(port), "bench")))
        return 1024 * (child.rss_mib() - before_mib) / CONNECTIONS


def connections() -> dict[str, float]:
    """Measure a connection here and through the gateway."""
    with KohortBroker() as broker:
        here = connection_kib(broker.child, broker.bootstrap)
        with KohortGateway(broker.bootstrap, "--quiet") as gateway:
            return {"broker": here, "gateway": connection_kib(gateway.child, gateway.bootstrap)}


def table(costs: dict[tuple[str, str, int], Cost], idle: dict[str, float]) -> list[str]:
    """Return the table of what was measured."""
    lines = ["| what | " + " | ".join(f"{way}, {protocol}" for protocol in PROTOCOLS for way in WAYS) + " |"]
    lines.append("|---|" + "---|" * 4)

    def line(what: str, cell: object) -> None:
        cells = [cell(way, protocol) for protocol in PROTOCOLS for way in WAYS]  # type: ignore[operator]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")

    def group_kib(way: str, protocol: str) -> float:
        small, large = costs[way, protocol, SMALL].kib, costs[way, protocol, LARGE].kib
        return max(0.0, (small - large) / (1 / SMALL - 1 / LARGE))

    line("memory of a connection that carries nothing, KiB", lambda way, _: f"{idle[way]:.1f}")
    line("memory of a member with its connections, group of ten, KiB", lambda *at: f"{costs[*at, LARGE].kib:.1f}")
    line("of it the tenth part of its group: memory of a group, KiB", lambda *at: f"{group_kib(*at):.1f}")
    line("CPU of a member at rest, µs per second", lambda *at: f"{costs[*at, LARGE].cpu_us_per_s:.0f}")
    line("CPU of a join until its group of ten is settled, ms", lambda *at: f"{costs[*at, LARGE].join_ms:.2f}")
    line("events of a join, bytes in `__kohort_group_events`", lambda *at: f"{costs[*at, LARGE].group_events:,.0f}")
    line("a join, bytes in `__consumer_offsets`", lambda *at: f"{costs[*at, LARGE].offsets:,.0f}")
    return lines


def sized(costs: dict[tuple[str, str, int], Cost]) -> list[str]:
    """Return what so many members take, by the formulas of the page."""
    lines = ["| what | " + " | ".join(f"{way}, {protocol}" for protocol in PROTOCOLS for way in WAYS) + " |"]
    lines.append("|---|" + "---|" * 4)
    columns: list[list[str]] = []
    for protocol in PROTOCOLS:
        for way in WAYS:
            cost = costs[way, protocol, LARGE]
            cores = MEMBERS * cost.cpu_us_per_s / 1e6
            processes = math.ceil(cores / BUSY)
            per_s = MEMBERS / INTERVAL_S[way, protocol]
            sides = 2 if way == "gateway" else 1
            rolling = MEMBERS * DEPLOYS / 86_400 * cost.join_ms / 1000
            columns.append(
                [
                    f"{MEMBERS * cost.kib / (1 << 20):,.1f} GiB",
                    f"{cores:,.1f}",
                    f"{processes:,}",
                    f"{math.ceil(MEMBERS / processes * sides):,}",
                    f"{per_s * heartbeat_bytes(protocol) * 8 / 1e6 * sides:,.0f} Mbit/s",
                    f"{rolling:.2f}",
                    f"{MEMBERS * DEPLOYS * cost.group_events / (1 << 30):,.1f} GiB",
                ]
            )
    names = (
        "memory",
        "cores, heartbeats at rest",
        f"processes, each {100 * BUSY:.0f} % of a core",
        "descriptors of each process",
        "traffic of heartbeats",
        f"cores more, each member restarted {DEPLOYS} times a day",
        "events a day",
    )
    for number, name in enumerate(names):
        lines.append(f"| {name} | " + " | ".join(column[number] for column in columns) + " |")
    return lines


def page(costs: dict[tuple[str, str, int], Cost], idle: dict[str, float], members: int) -> str:
    """Return the page."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    day, at = time.strftime("%Y-%m-%d"), commit.stdout.strip() or "unknown"
    head = f"""# How far it goes

What a member, a connection, a group and an event cost, on `kohort broker` and through `kohort gateway`, and from these
what {GROUPS:,} groups with {MEMBERS:,} members take. Written by `python -m bench.how_far` on {day} at commit
{at}. Each figure is one run with {members:,} members on a busy machine with two cores; a process
with little to do needs more CPU time for each heartbeat than a busy one. Row `gateway-held` of
[the measurements](../bench/README.md) holds 20,000 members.

The members do what Java's consumers do at default settings: each has a connection of its own to the coordinator, and
sends heartbeats every 3 s in the classic protocol, and in the consumer protocol as the answers request. The gateway
stands in mode `rewrite` and parks every group. What members fetch and produce is not in these figures.

## Measured

"""
    middle = """

Memory is that of the process beyond what it has without members. A heartbeat through the gateway is two messages
received and two sent; on our broker it is one of each.

## A hundred thousand groups, a million members

"""
    tail = f"""

- memory = members × memory of a member
- cores = members × CPU of a member at rest; a process uses one core, so processes = cores ÷ {BUSY:g}
- descriptors of a process = members ÷ processes × connections of a member, which are two at a gateway
- traffic = members × heartbeats per second × {heartbeat_bytes("classic")} bytes in the classic protocol, or
  {heartbeat_bytes("consumer")} in the consumer one, on each side of a gateway: request, answer, headers of four packets
- cores of restarts = members × {DEPLOYS} a day × CPU of a join; events a day = members × {DEPLOYS} × events of a join

## What limits it

- **Our broker is one process**: members × CPU of a member must stay below one core. Larger fleets of groups belong on a
  cluster of Apache Kafka, behind gateways.
- **Gateways share what they see** of joins, syncs, leaves and news, and once a second which members live: each one
  knows all groups, so this part of the work does not divide among them. What it costs is not measured here.
  `kohort sim --rolling-restart 10000 --gateways 3` plays a restart of 10,000 members behind three gateways, one of
  which is killed.
- **A group does not divide.** In the classic protocol its leader gets the metadata of all members in one answer, and
  a round ends with its last member. A heartbeat in a consumer group of 10,000 members costs what it does in one of ten:
  row `large-group`.
- **Descriptors**: `ulimit -n` has to be two for each member of a gateway, and some hundred more.
"""
    return head + "\n".join(table(costs, idle)) + middle + "\n".join(sized(costs)) + tail


def main() -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.how_far", description="Measure, and write docs/how-far.md")
    parser.add_argument("--members", metavar="COUNT", type=int, default=1000, help="a multiple of ten (default: 1000)")
    members = parser.parse_args().members
    costs = {}
    for way in WAYS:
        for protocol in PROTOCOLS:
            for per_group in (LARGE, SMALL):
                costs[way, protocol, per_group] = measured(way, protocol, members, per_group)
                print(way, protocol, per_group, costs[way, protocol, per_group], flush=True)
    PAGE.write_text(page(costs, connections(), members))
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
