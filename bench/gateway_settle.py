"""How long a group takes to settle through a gateway, beside the direct connection to the same Apache Kafka.

Unmodified clients at default settings: Java's by `Settle`, as in `bench.settle`, and librdkafka's of the consumer
protocol. The gateway is one of mode `rewrite` that parks every group.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway

from bench.result import Aim, Outcome, Result
from bench.settle import CALM_MS, WARM_MS, settle_times
from kohort.client import ResourceType
from kohort.sync import Admin

LIMITS_MS = {
    "eager": {"join_ms": 80, "leave_ms": 60},
    "cooperative": {"join_ms": 120, "leave_ms": 80},
    "consumer": {"join_ms": 300, "leave_ms": 200},
}
WORDS = {"join_ms": "one joins", "leave_ms": "one leaves"}
INTERVAL = "group.consumer.assignment.interval.ms"
CALM_S = 0.3
"""A group that stays settled for so long has settled."""


def gateway_settle(quick: bool) -> Iterator[Outcome]:
    """Measure directly and through the gateway in turn."""
    turns = 1 if quick else 5
    with ApacheKafka() as kafka, KohortGateway(kafka.bootstrap, "--park", "*", "--quiet") as gateway:
        both = {kafka.bootstrap: "directly", gateway.bootstrap: "gateway"}
        interval = f"{INTERVAL}={setting(kafka, INTERVAL)}"
        for kind in ("eager", "consumer"):
            settle_times(both, kind, 5, 1, WARM_MS)
        for kind, members in (("eager", 5), ("eager", 20), ("cooperative", 5), ("consumer", 5)):
            found = settle_times(both, kind, members, 1 if quick else 3 if members > 5 else turns, CALM_MS)
            yield from rows(found, kind, f"Java {kind}, {members} members", interval)
        settle_librdkafka(gateway.bootstrap, 1)
        found = {name: {what: [] for what in WORDS} for name in both.values()}
        for turn in range(turns):
            for bootstrap, name in both.items():
                for what, took_ms in settle_librdkafka(bootstrap, turn).items():
                    found[name][what].append(took_ms)
        yield from rows(found, "consumer", "librdkafka consumer, 5 members", interval)


def setting(kafka: ApacheKafka, name: str) -> str:
    """Return what a broker has as one of its settings."""
    with Admin(kafka.bootstrap) as admin:
        return str(admin.describe_configs(ResourceType.BROKER, "1")[name].value)


def rows(found: dict[str, dict[str, list[float]]], kind: str, who: str, interval: str) -> Iterator[Outcome]:
    """Yield a line for each thing that happened."""
    for what, words in WORDS.items():
        through, direct = found["gateway"][what], found["directly"][what]
        aim = Aim(LIMITS_MS[kind][what], of_ratio=False, at_most=True)
        note = f"the slowest {max(through):,.0f} beside {max(direct):,.0f} ms"
        if kind == "consumer":
            note += f"; {interval}"
        yield Result(f"gateway, {words}, {who}", "ms", through, direct, "directly", aim, note)


class Shares:
    """What each member holds, and since when the group has been settled."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._lock = threading.Lock()
        self._held: dict[int, set[int]] = {}
        self._settled_s = 0.0

    def change(self, member: int, held: set[int] | None) -> None:
        """Note what a member holds now; None where it is none of the group any more."""
        with self._lock:
            self._held.pop(member, None)
            if held is not None:
                self._held[member] = held
            sizes = [len(each) for each in self._held.values()]
            is_each_held = sum(sizes) == self._partitions == len(set().union(*self._held.values()))
            if not (is_each_held and max(sizes) - min(sizes) <= 1):
                self._settled_s = 0.0
            elif not self._settled_s:
                self._settled_s = time.monotonic()

    def settled_s(self) -> float:
        """Wait until the group stays settled, and return since when it has been."""
        deadline_s = time.monotonic() + 120
        while time.monotonic() < deadline_s:
            with self._lock:
                if self._settled_s and time.monotonic() - self._settled_s > CALM_S:
                    return self._settled_s
            time.sleep(0.01)
        raise RuntimeError(f"not settled after two minutes: {self._held}")


class Member(threading.Thread):
    """A consumer of librdkafka in a thread of its own."""

    def __init__(self, number: int, bootstrap: str, group: str, topic: str, shares: Shares) -> None:
        super().__init__()
        self._number, self._shares = number, shares
        self._held: set[int] = set()
        self._is_closing = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._topic = topic
        shares.change(number, set())
        self.start()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._change(self._held | {each.partition for each in partitions})

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._change(self._held - {each.partition for each in partitions})

    def _change(self, held: set[int]) -> None:
        self._held = held
        if not self._is_closing.is_set():
            self._shares.change(self._number, held)

    def run(self) -> None:
        """Poll until it closes."""
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._is_closing.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def close(self) -> None:
        """Leave the group."""
        self._is_closing.set()
        self._shares.change(self._number, None)


def settle_librdkafka(bootstrap: str, turn: int, members: int = 5) -> dict[str, float]:
    """Let one member join a calm group and another one leave it; return the milliseconds of both."""
    topic, group, partitions = f"librdkafka-{uuid.uuid4()}", f"settle-{uuid.uuid4()}", 2 * members
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions)
    shares = Shares(partitions)
    everyone = [Member(number, bootstrap, group, topic, shares) for number in range(1, members)]
    pause_s = CALM_MS / 1000 + 0.1 * (turn % 5)  # the same for both ways, at several phases of the heartbeats
    try:
        shares.settled_s()
        time.sleep(pause_s)
        began_s = time.monotonic()
        everyone.append(Member(members, bootstrap, group, topic, shares))
        joined_ms = 1000 * (shares.settled_s() - began_s)
        time.sleep(pause_s)
        began_s = time.monotonic()
        everyone[0].close()
        left_ms = 1000 * (shares.settled_s() - began_s)
    finally:
        for member in everyone:
            member.close()
        for member in everyone:
            member.join()
    return {"join_ms": joined_ms, "leave_ms": left_ms}
