"""Rolling restarts of eager groups, with what we do better than Kafka and without it: how long partitions stand still.

A swarm's worlds are too rough for this: how long one stands still says more about its faults than about its broker. So
these have members that are started, closed in good order and started again, one after the other, at default times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kohort.sim.kernel.rng import Rng
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.scenario.world_plan import SECOND_US, Broken, MemberPlan, TopicPlan, WorldPlan, WorldStep
from kohort.sim.swarm.world_run import run

CLIENTS = (
    ("eager-java", "eager-librdkafka", "eager-kafka-python", "eager-v2", "eager-range"),
    ("eager-roundrobin", "eager-aiokafka", "eager-librdkafka", "eager-kafka-python"),
)
"""Kinds that can be in one group: each client's own pace of heartbeats, and its own connections."""

LIKE_KAFKA = ("kohort.compatible", "kafka-4.3")


class Standstill(NamedTuple):
    """What one seed costs, in microseconds of partitions without an owner: by our broker, and as Kafka does it."""

    seed: int
    improved_us: int
    plain_us: int
    broken: Broken | None


def draw_restarts(seed: int) -> WorldPlan:
    """Return a group of four to six members in which each is restarted once, at Kafka's default times."""
    random = Rng(seed).stream("restarts")
    clients = random.choice(CLIENTS)
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


def compare(seeds: Iterable[int]) -> Iterator[Standstill]:
    """Yield how long partitions stand still in the restarts of each seed, with and without the improvements."""
    for seed in seeds:
        plan = draw_restarts(seed)
        ours, plain = run(plan), run(like_kafka(plan))
        yield Standstill(seed, ours.unowned_us, plain.unowned_us, ours.broken or plain.broken)
