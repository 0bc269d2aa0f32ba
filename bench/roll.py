"""Partition-seconds without an owner in a rolling restart, on our broker and on Apache Kafka in turns.

Six clients in one group, 12 partitions, 500 records a second, auto-commit, every time at its default. Each member is
closed and started again, after pauses that are the same on both brokers; then one is killed and started again at once:
the session timeout is the floor of that.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from interop.brokers import Broker
from interop.group import Group, Member
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.producers import Load

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
"""Who knows the protocol; aiokafka is eager only, and kafka-python knows no consumer protocol."""
SETTINGS = {
    "eager": {"assignor": "range"},
    "cooperative": {"assignor": "cooperative-sticky"},
    "consumer": {"protocol": "consumer"},
}
RATIOS = {"eager": 0.6, "cooperative": 0.3, "consumer": 0.3}
HELD = {"kohort.group.commit.hold.ms": "3000"}
"""Ours once more, for members that commit by themselves: their commits have no heartbeat answered early."""
PAUSES_S = (4.0, 6.7, 5.2, 7.9, 4.6, 5.4)
"""From a settled group to the next close: phases of a heartbeat of three seconds, and of a commit of five.

None is near a multiple of three seconds, where milliseconds decide whether members learn at once or an interval later.
"""
MIXES: Mapping[str, Sequence[str]] = {
    "java": ("java",) * 6,
    "librdkafka": ("librdkafka",) * 6,
    "kgo": ("kgo",) * 6,
    "kohort": ("kohort",) * 6,
    "java-librdkafka": ("java", "librdkafka") * 3,
}
"""Clients that stay in reach though they commit, six of one make and two in turns."""
PAUSES_OF_A_DEPLOY_S = (10.0, 12.7, 11.2, 13.9, 10.6, 11.4)
"""As `PAUSES_S`, of a deploy that waits until a process is ready: some two heartbeats later all are in reach."""
MIX_RATIOS = {"eager": 0.15, "cooperative": 0.2}
KILLED = 0
AUTOMATIC = {"auto": "1"}
REPORTED = {"report": "1"}
"""What is read is printed too, so that no record is lost unseen."""


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


def roll(
    group: Group,
    protocol: str,
    quick: bool,
    *,
    kills: bool = True,
    more: Mapping[str, str] = AUTOMATIC,
    makes: Sequence[str] = (),
    pauses_s: Sequence[float] = PAUSES_S,
) -> tuple[list[float], float]:
    """Close and restart each member, then kill one; return the partition-seconds of each close, and of the kill.

    `makes` are the clients, all that know the protocol unless given; `more` are settings of each.
    """
    settings = {**SETTINGS[protocol], **more}
    makes = makes or MAKES[protocol]
    members = [group.start(make, **settings) for make in makes]
    group.calm(4, 90)

    def replace(index: int, end: Callable[[Member], None]) -> float:
        start_s = time.monotonic()
        end(members[index])
        members[index] = group.start(makes[index], **settings)
        group.calm(4, 120)
        return unowned_s(group.gone + group.members, start_s, time.monotonic())

    closes = []
    for index, pause_s in enumerate(pauses_s[:2] if quick else pauses_s):
        group.await_(partial(_is_past, time.monotonic() + pause_s - 4), "time goes by", 60)
        closes.append(replace(index, group.leave))
    killed = replace(KILLED, group.kill) if kills and not quick else 0.0
    print(f"{'':34} {group.name}: closes {each(closes)}; kill {killed:.1f}", flush=True)
    return closes, killed


def _is_past(until_s: float) -> bool:
    return time.monotonic() >= until_s


def rolled(broker: Broker, protocol: str, quick: bool, **choices: Any) -> tuple[list[float], float]:
    """Do it to a new group on a new broker."""
    with broker, rolling(broker.bootstrap, f"{protocol} on {broker.name}") as (group, _):
        return roll(group, protocol, quick, **choices)


@contextmanager
def rolling(bootstrap: str, name: str, *, topic: str = "rolled") -> Iterator[tuple[Group, Load]]:
    """Yield a new group on a new topic to which records are written all the time."""
    with tempfile.TemporaryDirectory() as folder:
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)
        group = Group(bootstrap, name, topic, PARTITIONS, Path(folder))
        group.are_troubles_expected = True
        with group, Load(bootstrap, topic, keys=100, pause_s=0.2) as load:
            yield group, load


def each(closes: Sequence[float]) -> str:
    """Return the figures of each close, for a note."""
    return ", ".join(f"{close:.1f}" for close in closes)


def rolls(quick: bool, *, protocol: str) -> Iterator[Outcome]:
    """Measure one protocol on both brokers."""
    closes, killed = rolled(KohortBroker(), protocol, quick)
    their_closes, their_killed = rolled(ApacheKafka(), protocol, quick)
    aim = Aim(RATIOS[protocol], of_ratio=True, at_most=True)
    makes = ", ".join(MAKES[protocol])
    note = f"partition-seconds without an owner; {makes}: ours {each(closes)}; Kafka's {each(their_closes)}"
    yield Result(f"roll, {protocol}", "s", [sum(closes)], [sum(their_closes)], "Apache Kafka", aim, note)
    if protocol != "consumer":
        held, _ = rolled(KohortBroker(HELD), protocol, quick, kills=False)
        note = f"{', '.join(f'{name}={value}' for name, value in HELD.items())}: {each(held)}"
        yield Result(
            f"roll, {protocol}, commits held", "s", [sum(held)], [sum(their_closes)], "Apache Kafka", aim, note
        )
    if not quick:
        aim = Aim(1, of_ratio=True, at_most=True)
        note = "one member killed and started again at once; its session lasts 45 s"
        yield Result(f"kill, {protocol}", "s", [killed], [their_killed], "Apache Kafka", aim, note)


def rolls_of_a_mix(quick: bool, *, mix: str) -> Iterator[Outcome]:
    """Measure some clients at the pace of a deploy, which commit by a timer, and which commit each batch."""
    for protocol, ratio in MIX_RATIOS.items():
        for commits, more in (("auto-commit", AUTOMATIC), ("commits of each batch", {})):
            choices = {"kills": False, "makes": MIXES[mix], "pauses_s": PAUSES_OF_A_DEPLOY_S, "more": more}
            closes, _ = rolled(KohortBroker(), protocol, quick, **choices)
            their_closes, _ = rolled(ApacheKafka(), protocol, quick, **choices)
            aim = Aim(ratio if more else 0.3, of_ratio=True, at_most=True)
            name, note = f"roll, {mix}, {protocol}, {commits}", f"ours {each(closes)}; Kafka's {each(their_closes)}"
            yield Result(name, "s", [sum(closes)], [sum(their_closes)], "Apache Kafka", aim, note)


def parked(quick: bool) -> Iterator[Outcome]:
    """Say for which share of the time a heartbeat of each client is here, in a group at rest with auto-commit."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as embedded, tempfile.TemporaryDirectory() as folder:
        bootstrap = embedded.bootstrap_servers
        with Admin(bootstrap) as admin:
            admin.create_topic("rolled", partitions=PARTITIONS)
        group = Group(bootstrap, "at rest", "rolled", PARTITIONS, Path(folder))
        with group, Load(bootstrap, "rolled", keys=100, pause_s=0.2):
            for make in MAKES["eager"]:
                group.start(make, **(SETTINGS["eager"] | AUTOMATIC))
            group.calm(8, 90)
            shares = sampled(embedded, group, 10 if quick else 60)
    for make, samples in shares.items():
        share = 100 * statistics.fmean(samples)
        yield Result(f"heartbeat parked, {make}", "%", [share], [], "", None, "of the time, at rest with auto-commit")


def sampled(embedded: EmbeddedBroker, group: Group, duration_s: float) -> dict[str, list[bool]]:
    """Return by client, again and again, whether a heartbeat of it was parked."""
    node = embedded.broker.node
    assert node is not None, "the broker runs"
    coordinator = node.coordinator
    described = coordinator.describe(group.name)
    assert described is not None, "the group is there"
    found: dict[str, list[bool]] = {member.client_id: [] for member in described.members}
    until_s = time.monotonic() + duration_s
    while time.monotonic() < until_s:
        for member in described.members:
            found[member.client_id].append(coordinator.runtime.classic_parking.is_parked(group.name, member.member_id))
        time.sleep(0.02)
    return found
