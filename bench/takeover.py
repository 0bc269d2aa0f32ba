"""How long the partitions of a Spark job that is killed lie idle, beside the session timeout, which none can go below.

Two jobs share a topic that is written to all the time. One is killed with everything that it has started; the time ends
when the other has read from each of its partitions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from interop.group import Group, Member
from interop.kohort_broker import KohortBroker
from interop.producers import Load

from bench.result import Aim, Outcome, Result
from kohort.sync import Admin

SESSION_MS = 6000
BROKER = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}
PARTITIONS = 6
START_S = 400
PROTOCOLS = {"cooperative": {"assignor": "cooperative-sticky"}, "consumer": {"protocol": "consumer"}}
JOBS = {"group_stream": "GroupStream", "structured_streaming": "Structured Streaming"}
AIM = Aim(1.25, of_ratio=True, at_most=True)


def takeover(quick: bool) -> Iterator[Outcome]:
    """Kill one of two jobs, by each API and protocol."""
    with KohortBroker(BROKER) as broker, tempfile.TemporaryDirectory() as folder:
        for job, api in JOBS.items():
            for protocol, settings in PROTOCOLS.items():
                topic = f"{job}-{protocol}"
                with Admin(broker.bootstrap) as admin:
                    admin.create_topic(topic, partitions=PARTITIONS)
                with (
                    Group(broker.bootstrap, topic, topic, PARTITIONS, Path(folder)) as group,
                    Load(broker.bootstrap, topic),
                ):
                    samples = takeovers(group, job, settings, 1 if quick else 5)
                yield Result(
                    f"takeover, {api}, {protocol}",
                    "ms",
                    samples,
                    [SESSION_MS] * len(samples),
                    "the session timeout",
                    AIM,
                    "from SIGKILL until the other job has read from every partition of the dead one",
                )
                if quick:
                    break


def takeovers(group: Group, job: str, settings: dict[str, str], times: int) -> list[float]:
    """Return the milliseconds of each takeover; the dead job is replaced before the next one dies."""
    survivor = group.start(job, **settings)
    return [one_takeover(group, survivor, group.start(job, **settings)) for _ in range(times)]


def one_takeover(group: Group, survivor: Member, victim: Member) -> float:
    """Kill a job when both read, and return the milliseconds until the other has read all that was its."""
    group.calm(3, START_S)
    group.await_(lambda: bool(survivor.rows) and bool(victim.rows), "both jobs read", START_S)
    left = set(victim.owned)
    group.kill(victim)
    since_s = victim.ended_s
    assert since_s is not None, "who was killed has ended"
    group.await_(lambda: left <= taken(survivor, since_s).keys(), "the other job reads what is left", 60)
    return 1000 * (max(taken(survivor, since_s)[each] for each in left) - since_s)


def taken(survivor: Member, since_s: float) -> dict[int, float]:
    """Return when a member first read from each partition after a time."""
    found: dict[int, float] = {}
    for at_s, partitions in survivor.reads:
        if at_s > since_s:
            for partition in partitions:
                found.setdefault(partition, at_s)
    return found
