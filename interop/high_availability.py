"""Two gateways before one Apache Kafka, and one of them fails: what each client does, by how clients find them.

    python -m interop.high_availability [--way WAY]… [--fault FAULT]… [--client CLIENT]… [--json FILE]

Each way has a cluster of its own with two members of each client in a group, auto-commit, sessions of 45 s, an
interval of 3 s. Of the two gateways the one with most connections fails. One group is on Kafka itself: its row shows
for how long the machine was too busy. Machines are network namespaces of this one (Linux, iproute2), with a file of
hosts of their own: no root, no packet leaves them. The load balancer is HAProxy.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from interop import go_program, jars, java_member
from interop.gateway_lab import KAFKA, OWN_WORLD, PORT, WAYS, GatewayHost, furnish, haproxy, lab
from interop.group import IN_GO, Group
from interop.process import ROOT
from interop.producers import Load, Written
from interop.unavailable import Unavailable
from kohort.model.ids import TopicPartition
from kohort.sync import Admin

PARTITIONS = 6
INSIDE = "KOHORT_INTEROP_NAMESPACE"
"""Set in the environment of the program that runs inside the namespaces."""

DIRECTLY = "librdkafka, directly"
CLIENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    DIRECTLY: ("librdkafka", {}),
    "Java": ("java", {}),
    "Java, KIP-848": ("java", {"protocol": "consumer"}),
    "librdkafka": ("librdkafka", {}),
    "kgo": ("kgo", {}),
    "aiokafka": ("aiokafka", {}),
    "kafka-python": ("kafka_python", {}),
    "kohort": ("kohort", {}),
}
TIMING = {"session_ms": "45000", "heartbeat_ms": "3000", "auto": "1", "report": "1"}

FAULTS = {"kill": 30, "drain": 30, "freeze": 75, "vanish": 75}
"""What happens to a gateway, and for how many seconds clients are watched: `kill -9`, SIGTERM, SIGSTOP, its machine has
no network any more."""

HEAL_S = 12.0
"""How long committed offsets are watched after a fault: two intervals of auto-commit."""

AT_REST_S = 5.0
"""A partition that was not read for so long is still away."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one client did. `pause_s`: the longest time in which one of its partitions was not read."""

    way: str
    fault: str
    client: str
    pause_s: float
    is_over: bool
    """Whether every partition was read again while the fault lasted."""
    rebalances: int
    """How often a member was assigned partitions, the one where it was most."""
    lost: int
    """How often a member was reported as evicted by its client."""
    twice: int
    """Records that were read again."""
    back: int = 0
    """Partitions whose committed offset moved back after the fault."""

    def cells(self) -> list[str]:
        """Return the row of the table."""
        pause = f"{self.pause_s:.1f} s" if self.is_over else f"over {self.pause_s:.0f} s"
        return [
            self.way,
            self.fault,
            self.client,
            pause,
            *map(str, (self.rebalances, self.lost, self.twice, self.back)),
        ]


def watched(groups: Mapping[str, Group], seconds: float) -> float:
    """Let clients run for a while, and take in what they have reported; return when that ended."""
    time.sleep(seconds)  # to read meanwhile takes the processor from what is measured
    end_s = time.monotonic()
    for group in groups.values():
        for member in group.members:
            member.read()
    return end_s


def row_of(way: str, fault: str, client: str, group: Group, start_s: float, end_s: float) -> Row:
    """Return what a client's group did while a fault lasted."""
    pauses, is_over = [], True
    for partition in group.partitions:
        times = sorted(at_s for each in group.members for at_s, read in each.reads if partition in read)
        last_s = max((at_s for at_s in times if at_s <= start_s), default=start_s)
        after = [at_s for at_s in times if start_s < at_s < end_s]
        pauses.append(max(later - earlier for earlier, later in zip([last_s, *after], [*after, end_s], strict=True)))
        is_over &= bool(after) and end_s - after[-1] < AT_REST_S
    changes = [
        [why for at_s, (why, _) in zip(each.changed_s, each.changes, strict=True) if start_s < at_s < end_s]
        for each in group.members
    ]
    late = {
        (row[0], row[1])
        for each in group.members
        for at_s, row in zip(each.read_s, each.rows, strict=True)
        if start_s < at_s < end_s
    }
    counts = group.positions_read()
    return Row(
        way=way,
        fault=fault,
        client=client,
        pause_s=max(pauses),
        is_over=is_over,
        rebalances=max(whys.count("assigned") for whys in changes),
        lost=sum(whys.count("lost") for whys in changes),
        twice=sum(counts[position] > 1 for position in late),
    )


def moved_back(admin: Admin, groups: Mapping[str, Group], heal: Callable[[], None]) -> Counter[str]:
    """End a fault; return by client of how many partitions the committed offset moved back meanwhile."""
    latest: dict[tuple[str, TopicPartition], int] = {}
    back = set[tuple[str, TopicPartition]]()

    def look() -> None:
        for client, group in groups.items():
            for partition, committed in admin.group_offsets(group.name).items():
                back.update([(client, partition)] if committed.offset < latest.get((client, partition), 0) else [])
                latest[client, partition] = committed.offset

    look()
    heal()
    end_s = time.monotonic() + HEAL_S
    while time.monotonic() < end_s:
        look()
    return Counter(client for client, _ in back)


def await_all(group: Group, written: Written) -> None:
    """Wait until a group has read every record, each as it was written."""
    group.await_(lambda: written.keys() <= group.positions_read().keys(), "every record is read", 90)
    group.check_read(written)


def fail_over(
    way: str, fault: str, gateways: Sequence[GatewayHost], groups: Mapping[str, Group], admin: Admin
) -> list[Row]:
    """Let the gateway fail that has most connections, and return what each client did meanwhile."""
    for group in groups.values():
        group.calm(3, 120)
    watched(groups, 6)  # until each has committed by its timer
    failing = max(gateways, key=GatewayHost.connections)
    start_s = time.monotonic()
    failing.fail(fault)
    end_s = watched(groups, FAULTS[fault])
    rows = [row_of(way, fault, client, group, start_s, end_s) for client, group in groups.items()]
    back = moved_back(admin, groups, lambda: failing.heal(fault))
    rows = [replace(row, back=back[row.client]) for row in rows]
    for row in rows:
        print("|", " | ".join(row.cells()), "|", flush=True)
    return rows


def try_way(way: str, faults: Sequence[str], clients: Sequence[str], folder: Path) -> list[Row]:
    """Try faults one after the other; in the end every client must have read every record."""
    folder.mkdir()
    (folder / "secret").write_text(os.urandom(32).hex())
    rows: list[Row] = []
    with ExitStack() as stack:
        gateways = stack.enter_context(lab(way, folder))
        admin = stack.enter_context(Admin(KAFKA))
        admin.create_topic("topic", PARTITIONS)
        load = stack.enter_context(Load(KAFKA, "topic", pause_s=0.3))
        groups: dict[str, Group] = {}
        for client in clients:
            library, settings = CLIENTS[client]
            name = f"group-{library}-{len(groups)}"
            bootstrap = KAFKA if client == DIRECTLY else f"{WAYS[way]}:{PORT}"
            group = groups[client] = Group(bootstrap, name, "topic", PARTITIONS, folder)
            stack.enter_context(group)
            group.are_troubles_expected = True
            for _ in range(2):
                group.start(library, **TIMING, **settings)
        for fault in faults:
            rows += fail_over(way, fault, gateways, groups, admin)
        written = load.stop()
        for group in groups.values():
            await_all(group, written)
    return rows


HEAD = ("way", "fault", "client", "not read for", "rebalances", "lost", "read twice", "committed back")


def prepare(ways: Sequence[str], clients: Sequence[str]) -> None:
    """Build what needs the network. Raises Unavailable."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed: it is in the packages util-linux and iproute2")
    can = subprocess.run(
        ["unshare", *OWN_WORLD, "ip", "link", "add", "lab", "type", "bridge"], capture_output=True, check=False
    )
    if can.returncode:
        raise Unavailable(f"this system lets no user make network namespaces: {can.stderr.decode().strip()}")
    if "balancer" in ways:
        haproxy()
    jars.class_path("pom.xml")
    for library in {CLIENTS[client][0] for client in clients}:
        if library == "java":
            java_member.made()
        elif library in IN_GO:
            go_program.built(ROOT / "interop" / "go" / library)


def main(arguments: list[str]) -> int:
    """Run what is asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m interop.high_availability")
    for name, choices in (("way", WAYS), ("fault", FAULTS), ("client", CLIENTS)):
        parser.add_argument(
            f"--{name}", action="append", choices=choices, metavar=name.upper(), help=", ".join(choices)
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    given = parser.parse_args(arguments)
    ways, faults, clients = given.way or [*WAYS], given.fault or [*FAULTS], given.client or [*CLIENTS]
    if INSIDE not in os.environ:
        try:
            prepare(ways, clients)
        except Unavailable as reason:
            print(f"unavailable: {reason}", file=sys.stderr)
            return 3
        command = ["unshare", *OWN_WORLD, sys.executable, "-m", "interop.high_availability", *arguments]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the first process of a namespace has no other
    rows: list[Row] = []
    print("|", " | ".join(HEAD), "|\n|", " | ".join("---" for _ in HEAD), "|", flush=True)
    with tempfile.TemporaryDirectory(prefix="kohort-high-availability.") as folder:
        furnish(Path(folder))
        for way in ways:
            # Of two addresses clients prefer the first, and some stay with the other one: each fault begins anew.
            together = [[fault] for fault in faults] if way == "dns" else [faults]
            for number, some in enumerate(together):
                rows += try_way(way, some, clients, Path(folder) / f"{way}-{number}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
