"""Groups whose heartbeats are parked for a long time: their request time-outs and rebalances, which ought to be none.

    python -m interop.endurance [--minutes 60]

Three members each of Java, librdkafka and kgo, in classic groups and groups of the consumer protocol, commit by
themselves, at default settings, under a small load: behind `kohort gateway --park '*'` in front of a real Apache Kafka,
and on our broker. Each minute prints a line; the exit code is 0 if nothing timed out and nothing moved.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from interop.group import Group
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.kohort_gateway import KohortGateway
from interop.producers import Load
from kohort.sync import Admin

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "java-eager": ("java", {"assignor": "range"}),
    "java-consumer": ("java", {"protocol": "consumer"}),
    "librdkafka-eager": ("librdkafka", {"assignor": "range"}),
    "librdkafka-consumer": ("librdkafka", {"protocol": "consumer"}),
    "kgo-cooperative": ("kgo", {"assignor": "cooperative-sticky"}),
    "kgo-consumer": ("kgo", {"protocol": "consumer"}),
}
"""By name: who the members are, and their settings."""

JAVA_TIMED_OUT = re.compile(r"due to request timeout|session timed out|timeout has expired")
"""What Java logs of a request or a session of which it waited too long."""

TOPIC = "endurance"
PARTITIONS = 6
MEMBERS = 3
SETTLED_S = 30
"""How long a group must have been at rest before the time begins."""


class Watched:
    """One group, and how often its members had changed when the time began."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._changes_before = self._changes()
        self._timeouts_before = self._timeouts()

    @property
    def changes(self) -> int:
        """How often a member's partitions have changed since."""
        return self._changes() - self._changes_before

    @property
    def timeouts(self) -> int:
        """How many requests of its members have timed out since."""
        return self._timeouts() - self._timeouts_before

    @property
    def troubles(self) -> list[str]:
        """What polls have raised."""
        return [trouble for member in self.group.members for trouble in member.troubles]

    def read(self) -> None:
        """Take in what the members have reported."""
        for member in self.group.members:
            member.read()
            assert member.child.is_running, f"{member.name} ended by itself: {member.complaint()}"

    def _changes(self) -> int:
        return sum(len(member.changes) for member in self.group.members)

    def _timeouts(self) -> int:
        members = self.group.members
        return sum(member.timeouts + len(JAVA_TIMED_OUT.findall(member.log())) for member in members)


def endure(minutes: float) -> bool:
    """Run the groups for so long; return whether nothing happened to them."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-endurance.")))
        kafka = stack.enter_context(ApacheKafka(heap="512m"))
        gateway = stack.enter_context(KohortGateway(kafka.bootstrap, "--park", "*", "--events", str(folder / "events")))
        broker = stack.enter_context(KohortBroker())
        os.environ["JAVA_TOOL_OPTIONS"] = "-Dlog.level=INFO"  # of members: the Java broker above has started
        for bootstrap in (kafka.bootstrap, broker.bootstrap):
            with Admin(bootstrap) as admin:
                admin.create_topic(TOPIC, partitions=PARTITIONS)
            stack.enter_context(Load(bootstrap, TOPIC, keys=PARTITIONS, pause_s=1))
        groups = []
        for place, bootstrap in (("gateway", gateway.bootstrap), ("broker", broker.bootstrap)):
            for kind, (make, settings) in GROUPS.items():
                group = stack.enter_context(Group(bootstrap, f"{place}-{kind}", TOPIC, PARTITIONS, folder))
                group.are_troubles_expected = True
                for _ in range(MEMBERS):
                    group.start(make, auto="1", **settings)
                groups.append(group)
        for group in groups:
            group.calm(SETTLED_S, 180)
        watched = [Watched(group) for group in groups]
        observed = _rebalances(gateway)
        print(f"the groups are at rest; {minutes:g} minutes begin", flush=True)
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < 60 * minutes:
            time.sleep(min(60.0, 60 * minutes - passed_s))
            report(watched, gateway, observed, time.monotonic() - began_s)
        print(f"log of the gateway:\n{gateway.child.text()[-2000:]}", flush=True)
        for member in (member for group in groups for member in group.members):
            print(f"{member.name}, on stderr: {member.complaint()[-500:] or 'nothing'}", flush=True)
        is_quiet = not any(each.changes or each.timeouts or each.troubles for each in watched)
        return is_quiet and _rebalances(gateway) == observed and not gateway.metric("fallbacks_total")


def report(watched: list[Watched], gateway: KohortGateway, observed: float, passed_s: float) -> None:
    """Print one line about all groups, and what has gone wrong."""
    for each in watched:
        each.read()
    moved = [each for each in watched if each.timeouts or each.changes]
    counts = ", ".join(f"{each.group.name} {each.timeouts} time-outs {each.changes} changes" for each in moved)
    counts = counts or f"{len(watched)} groups without time-outs and changes"
    seen = f"rebalances seen {_rebalances(gateway) - observed:g}, fallbacks {gateway.metric('fallbacks_total'):g}"
    held = f"held now {gateway.metric('heartbeats_held'):g}, in all {gateway.metric('heartbeats_held_total'):g}"
    print(f"{passed_s / 60:.0f} min: {counts}; {seen}, {held}", flush=True)
    for each in watched:
        for trouble in each.troubles[:3]:
            print(f"    {each.group.name}: {trouble}", flush=True)


def _rebalances(gateway: KohortGateway) -> float:
    return gateway.metric("rebalances_total")


def main(arguments: list[str]) -> int:
    """Run for the time that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m interop.endurance", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60, help="how long, once the groups are at rest")
    return 0 if endure(parser.parse_args(arguments).minutes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
