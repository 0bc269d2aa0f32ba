"""Partition-seconds without an owner in a rolling restart: on our broker, through a gateway, and on Apache Kafka.

Each cell of the table is one kind of group: six clients, a protocol, how they commit, and the pace of the deploy. 12
partitions, 500 records a second, every time at its default. Three such groups run beside each other, so that what else
the machine does is the same for all: one on our broker, one on Apache Kafka, and one on that Kafka through
`kohort gateway --park '*'`. Each member is closed and started again, after pauses that are the same in all three; the
groups take turns, since three programs that start at once need both cores for some seconds. Every record that is read
is reported, and those read twice and never are counted.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from interop.group import Group, Member
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.kohort_gateway import KohortGateway
from interop.parked_share import parked_shares
from interop.producers import Load, Written

from bench.result import Aim, Outcome, Result
from interop import ownership
from kohort.broker.embedded import EmbeddedBroker
from kohort.sync import Admin

PARTITIONS = 12
MAKES: Mapping[str, Sequence[str]] = {
    "eager": ("java", "librdkafka", "kafka_python", "aiokafka", "kgo", "kohort"),
    "cooperative": ("java", "librdkafka", "kafka_python", "kgo", "kohort", "java"),
    "consumer": ("java", "librdkafka", "kgo", "kohort", "java", "librdkafka"),
}
"""Six makes that know the protocol; aiokafka is eager only, and kafka-python knows no consumer protocol."""
SETTINGS = {
    "eager": {"assignor": "range"},
    "cooperative": {"assignor": "cooperative-sticky"},
    "consumer": {"protocol": "consumer"},
}
MIXED = "six"
TWO = "java+librdkafka"
ALONE = ("java", "librdkafka", "kgo", "kohort", "aiokafka", "kafka_python")
STRICT = frozenset({"aiokafka", "kafka_python"})
"""Clients that demand the order of answers, and repeat no heartbeat."""
COMMITS: Mapping[str, Mapping[str, str]] = {
    "auto": {"auto": "1", "report": "1"},
    "sync": {"session_ms": "45000", "heartbeat_ms": "3000"},
}
"""By a timer of five seconds, and by the program after each batch; the times are what clients have by default."""
SHORT_SESSION = {"aiokafka": {"session_ms": "10000"}}
"""Whose default session is another one."""
PAUSES_S: Mapping[int, Sequence[float]] = {
    12: (10.0, 12.7, 11.2, 13.9, 10.6, 11.4),
    5: (4.0, 6.7, 5.2, 7.9, 4.6, 5.4),
}
"""By pace, from a settled group to the next close: phases of a heartbeat of three seconds, and of a commit of five.

None is near a multiple of three seconds, where milliseconds decide whether members learn at once or an interval later.
12 is a deploy that waits until a process is ready: some two heartbeats later all are in reach.
"""
LONGEST_S = 225
"""A cell that is not done by then fails: so many cells can be measured one by one."""
READ_S = 40
"""How long the last records may take to be read."""
BROKER, GATEWAY, KAFKA = "our broker", "gateway", "Apache Kafka"


@dataclass(frozen=True, slots=True)
class Cell:
    """One group of the table. `kills`: one member is killed instead, and none is closed."""

    clients: str
    protocol: str
    commits: str
    pace_s: int
    kills: bool = False

    @property
    def row(self) -> str:
        """The name of its row."""
        if self.kills:
            return f"kill-{self.protocol}"
        return f"roll-{self.clients}-{self.protocol}-{self.commits}-{self.pace_s}"

    @property
    def makes(self) -> Sequence[str]:
        """The programs of its six members."""
        if self.clients == MIXED:
            return MAKES[self.protocol]
        return tuple(self.clients.split("+")) * (6 // len(self.clients.split("+")))

    @property
    def aim(self) -> Aim:
        """What part of the time on Apache Kafka partitions may be without an owner."""
        if self.kills or self.clients in STRICT:
            limit = 1.0
        elif self.protocol == "consumer":
            limit = 0.3
        elif STRICT.intersection(self.makes):
            limit = 0.6
        elif self.commits == "sync" or self.pace_s == min(PAUSES_S):
            limit = 0.3
        else:
            limit = {"eager": 0.15, "cooperative": 0.2}[self.protocol]
        return Aim(limit, of_ratio=True, at_most=True)

    def settings(self, make: str) -> dict[str, str]:
        """Return the arguments of one of its programs."""
        more = SHORT_SESSION.get(make, {}) if self.commits == "sync" else {}
        return {**SETTINGS[self.protocol], **COMMITS[self.commits], **more}


CELLS = [
    Cell(clients, protocol, commits, pace_s)
    for pace_s in PAUSES_S
    for commits in COMMITS
    for protocol, makes in MAKES.items()
    for clients in (*ALONE, TWO, MIXED)
    if clients in makes or clients in (TWO, MIXED)
]
"""In the order in which they are measured."""
KILLS = [Cell(MIXED, protocol, "auto", min(PAUSES_S), kills=True) for protocol in MAKES]
KILLED = 0


@dataclass(slots=True)
class Rolled:
    """What a rolling restart cost one group."""

    unowned_s: list[float] = field(default_factory=list)
    """By close, the partition-seconds without an owner."""
    written: int = 0
    read_twice: int = 0
    never_read: int = 0


def unowned_s(members: Sequence[Member], start_s: float, end_s: float) -> float:
    """Return for how long partitions had no owner between two times, summed over the partitions."""
    owned_s = 0.0
    spans = sorted(span for member in members for span in ownership.spans(member))
    for _, of_one in itertools.groupby(spans, key=lambda span: span.partition):
        reached_s = start_s
        for span in of_one:
            begin_s, finish_s = max(span.start_s, reached_s), min(span.end_s, end_s)
            owned_s += max(0.0, finish_s - begin_s)
            reached_s = max(reached_s, finish_s)
    return PARTITIONS * (end_s - start_s) - owned_s


def roll(group: Group, cell: Cell, turn_s: float, quick: bool, until_s: float) -> list[float]:
    """Close and restart each member, or kill one and restart it; return the partition-seconds of each time."""
    # Before its first round, so that each group is closed at the same phase of its heartbeats.
    group.await_(partial(_is_past, time.monotonic() + turn_s), "the others have their turn", 60)
    members = [group.start(make, **cell.settings(make)) for make in cell.makes]
    group.calm(4, until_s - time.monotonic())

    def replaced(index: int, end: Callable[[Member], None]) -> float:
        start_s, make = time.monotonic(), cell.makes[index]
        end(members[index])
        members[index] = group.start(make, **cell.settings(make))
        group.calm(4, until_s - time.monotonic())
        return unowned_s(group.gone + group.members, start_s, time.monotonic())

    if cell.kills:
        return [replaced(KILLED, group.kill)]
    costs = []
    for index, pause_s in enumerate(PAUSES_S[cell.pace_s][: 2 if quick else None]):
        group.await_(partial(_is_past, time.monotonic() + pause_s - 4), "time goes by", 60)
        costs.append(replaced(index, group.leave))
    return costs


def _is_past(until_s: float) -> bool:
    return time.monotonic() >= until_s


def rolled(name: str, bootstrap: str, cell: Cell, turn_s: float, quick: bool, until_s: float) -> Rolled:
    """Do it, so long after the first group, to a new group on a new topic to which records are written all the time."""
    topic = f"{cell.row.replace('+', '-')}-{name.replace(' ', '-')}"
    with tempfile.TemporaryDirectory() as folder:
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)
        group = Group(bootstrap, f"{cell.row} {name}", topic, PARTITIONS, Path(folder))
        group.are_troubles_expected = True
        with group, Load(bootstrap, topic, keys=100, pause_s=0.2) as load:
            result = Rolled(roll(group, cell, turn_s, quick, until_s))
            written = load.stop()
            await_read(group, written, min(READ_S, until_s - time.monotonic()))
            counts = group.positions_read()
    result.written, result.never_read = len(written), len(written.keys() - counts)
    result.read_twice = counts.total() - len(counts)
    print(f"{'':34} {name}: {each(result.unowned_s)}", flush=True)
    return result


def await_read(group: Group, written: Written, timeout_s: float) -> None:
    """Wait until all records were read, or for so long."""
    until_s = time.monotonic() + timeout_s
    while written.keys() - group.positions_read() and time.monotonic() < until_s:
        group.await_(partial(_is_past, time.monotonic() + 0.5), "time goes by", 60)


def each(costs: Sequence[float]) -> str:
    """Return the figures of each close, for a note."""
    return ", ".join(f"{cost:.1f}" for cost in costs)


def rolls(quick: bool, *, cell: Cell) -> Iterator[Outcome]:
    """Measure one cell."""
    until_s = time.monotonic() + LONGEST_S
    with ExitStack() as stack, ThreadPoolExecutor(3) as threads:
        kafka = stack.enter_context(ApacheKafka())
        gateway = stack.enter_context(KohortGateway(kafka.bootstrap, "--park", "*", "--quiet"))
        broker = stack.enter_context(KohortBroker())
        addresses = {KAFKA: kafka.bootstrap, GATEWAY: gateway.bootstrap, BROKER: broker.bootstrap}
        running = {
            name: threads.submit(rolled, name, bootstrap, cell, turn * cell.pace_s / len(addresses), quick, until_s)
            for turn, (name, bootstrap) in enumerate(addresses.items())
        }
        found = {name: future.result() for name, future in running.items()}
        fallbacks = sum("only observed" in line for line in gateway.child.text().splitlines())
    theirs = found[KAFKA]
    for name in (BROKER, GATEWAY):
        ours, title = found[name], f"{cell.row}, {name}"
        note = f"partition-seconds by {'kill' if cell.kills else 'close'}, {', '.join(cell.makes)}: "
        note += f"{each(ours.unowned_s)}; {KAFKA} {each(theirs.unowned_s)}"
        if name == GATEWAY and fallbacks:
            note += f"; {fallbacks} times the group fell back to being observed"
        yield Result(title, "s", [sum(ours.unowned_s)], [sum(theirs.unowned_s)], KAFKA, cell.aim, note)
        for what, our_count, their_count, limit in (
            # A killed member's records are read again from its last commit, wherever that was.
            ("read twice", ours.read_twice, theirs.read_twice, None if cell.kills else theirs.read_twice),
            ("never read", ours.never_read, theirs.never_read, 0),
        ):
            aim = None if limit is None else Aim(limit, of_ratio=False, at_most=True)
            note = f"of {ours.written:,}"
            yield Result(f"{title}, {what}", "records", [our_count], [their_count], KAFKA, aim, note)


PARKED: Mapping[str, tuple[str, bool]] = {
    "at rest": ("sync", False),
    "auto-commit": ("auto", True),
    "commit after each batch": ("sync", True),
}
"""How members commit, and whether there is something to read and so to commit."""


def parked(quick: bool) -> Iterator[Outcome]:
    """Say for which share of the time a heartbeat of each client is here, in a settled group of one of each."""
    for name, (commits, is_loaded) in PARKED.items():
        cell = Cell(MIXED, "eager", commits, max(PAUSES_S))
        for client_id, share in _parked_in(cell, is_loaded=is_loaded, quick=quick).items():
            yield Result(f"heartbeat parked, {client_id}, {name}", "%", [100 * share], [], "", None, "of the time")


def _parked_in(cell: Cell, *, is_loaded: bool, quick: bool) -> dict[str, float]:
    with ExitStack() as stack:
        embedded = stack.enter_context(EmbeddedBroker(group_initial_rebalance_delay_ms=0))
        bootstrap, folder = embedded.bootstrap_servers, stack.enter_context(tempfile.TemporaryDirectory())
        with Admin(bootstrap) as admin:
            admin.create_topic("rolled", partitions=PARTITIONS)
        group = stack.enter_context(Group(bootstrap, "settled", "rolled", PARTITIONS, Path(folder)))
        if is_loaded:
            stack.enter_context(Load(bootstrap, "rolled", keys=100, pause_s=0.2))
        for make in cell.makes:
            group.start(make, **cell.settings(make))
        group.calm(8 if quick else 30, 120)  # commits of a timer are known after twenty seconds
        return parked_shares(embedded, [group.name], 10 if quick else 60)
