"""Rolling restarts of groups, on our broker, as Kafka does it, and behind a gateway: how long partitions stand still.

A swarm's worlds are too rough for this: how long one stands still says more about its faults than about its broker. So
these have members that are started, closed in good order and started again, one after the other, at default times.

    python -m tests.sim.rolling_restarts [SEEDS]     prints what each kind of group costs, summed over some seeds
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kohort.sim.kernel.rng import Rng
from kohort.sim.peers.client_kinds import KINDS, Commit, PeerConfig
from kohort.sim.scenario.fault_menu import COOPERATIVE
from kohort.sim.scenario.world_plan import SECOND_US, Broken, MemberPlan, TopicPlan, WorldPlan, WorldStep
from kohort.sim.swarm.seed_plan import MAKES
from kohort.sim.swarm.world_run import run

CLIENTS = (
    ("eager-java", "eager-librdkafka", "eager-kafka-python", "eager-v2", "eager-range"),
    ("eager-roundrobin", "eager-aiokafka", "eager-librdkafka", "eager-kafka-python"),
)
"""Kinds that can be in one group: each client's own pace of heartbeats, and its own connections."""

GROUPS = {
    "Java": ("eager-java",),
    "librdkafka": ("eager-librdkafka",),
    "kgo": ("eager-kgo",),
    "ours": ("eager-range",),
    "kafka-python": ("eager-kafka-python",),
    "all of these": MAKES,
    "Java, cooperative": ("cooperative-java",),
    "librdkafka, cooperative": ("cooperative-v1",),
    "kgo, cooperative": ("cooperative-v2",),
    "ours, cooperative": ("cooperative",),
    "all of these, cooperative": COOPERATIVE[1:],
}
"""Kinds of groups, each of one make or of all that are parked."""

LIKE_KAFKA = ("kohort.compatible", "kafka-4.3")


class Standstill(NamedTuple):
    """What one seed costs, in microseconds of partitions without an owner: by our broker, and as Kafka does it."""

    seed: int
    improved_us: int
    plain_us: int
    broken: Broken | None
    gateway_us: int = 0
    """The same through a gateway, before a broker that does as Kafka does."""


def draw_restarts(seed: int, group: Sequence[str] = (), commit: Commit = "auto") -> WorldPlan:
    """Return a group of four to six members in which each is restarted once, at Kafka's default times.

    They are of the kinds of `group`, or of those of `CLIENTS`.
    """
    random = Rng(seed).stream("restarts")
    clients = random.choice(CLIENTS)
    clients = tuple(group) or clients
    members: list[MemberPlan] = []
    steps: list[tuple[int, str, str, tuple[tuple[str, int], ...]]] = []
    count = random.randint(4, 6)
    for number in range(1, count + 1):
        config = PeerConfig(
            "g",
            ("t",),
            session_timeout_ms=45_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=300_000,
            request_timeout_ms=30_000,
            commit=commit,
            auto_commit_ms=5_000,
            work_us=5_000,
        )
        members.append(MemberPlan(f"m{number}", KINDS[random.choice(clients)], config))
        steps.append((random.randrange(SECOND_US), "start", f"m{number}", ()))
        at_us = (10 + 12 * number) * SECOND_US + random.randrange(3 * SECOND_US)
        down = ("down_us", random.randrange(200_000, 800_000))
        steps.append((at_us, "close", f"m{number}", (down,)))
    steps.sort(key=lambda step: step[0])
    settings = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}
    return WorldPlan(
        seed,
        tuple(sorted(settings.items())),
        (TopicPlan("t", 12),),
        ("n1",),
        tuple(members),
        tuple((member,) for member in members),
        tuple(WorldStep(number, *step) for number, step in enumerate(steps, 1)),
        (30 + 12 * count) * SECOND_US,
    )


def like_kafka(plan: WorldPlan) -> WorldPlan:
    """Return the same world on a broker with every improvement off."""
    return plan._replace(settings=tuple(sorted({*plan.settings, LIKE_KAFKA})))


def behind_gateway(plan: WorldPlan) -> WorldPlan:
    """Return the same world on such a broker, behind a gateway that parks all groups."""
    return like_kafka(plan)._replace(gateways=("gw1",))


def compare(seeds: Iterable[int], group: Sequence[str] = (), commit: Commit = "auto") -> Iterator[Standstill]:
    """Yield how long partitions stand still in the restarts of each seed, with and without the improvements."""
    for seed in seeds:
        plan = draw_restarts(seed, group, commit)
        ours, plain, behind = (run(each) for each in (plan, like_kafka(plan), behind_gateway(plan)))
        broken = ours.broken or plain.broken or behind.broken
        yield Standstill(seed, ours.unowned_us, plain.unowned_us, broken, behind.unowned_us)


def total(seeds: Iterable[int], group: Sequence[str], commit: Commit) -> Standstill:
    """Return the sums of some seeds, with the first of their worlds that broke."""
    found = list(compare(seeds, group, commit))
    broken = next((each.broken for each in found if each.broken is not None), None)
    improved_us, plain_us, gateway_us = (
        sum(us) for us in zip(*((each.improved_us, each.plain_us, each.gateway_us) for each in found), strict=True)
    )
    return Standstill(len(found), improved_us, plain_us, broken, gateway_us)


def main() -> None:
    """Print the table."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 12))
    for name, group in GROUPS.items():
        for commit in ("auto", "sync"):
            found = total(seeds, group, commit)
            plain_s = found.plain_us / 1e6
            sides = (f"{us / 1e6:7.1f} {us / 1e6 / plain_s:5.2f}" for us in (found.improved_us, found.gateway_us))
            broken = f"  {found.broken}" if found.broken else ""
            print(f"{name:28} {commit:5} {plain_s:7.1f} {' '.join(sides)}{broken}", flush=True)


if __name__ == "__main__":
    main()
