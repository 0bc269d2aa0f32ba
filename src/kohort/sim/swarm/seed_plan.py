"""The plan of a seed, in swarm style: each seed draws which faults exist at all and how strong, and who is there.

A world with every fault finds less than many worlds with a few each: one fault hides what another would show. What is
drawn is legal: no step asks for what a real cluster could not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

from kohort.sim.checks.checker import Checker
from kohort.sim.checks.convergence_checks import StandstillChecker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.gateway_checks import GatewayChecker
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.ownership_checks import OwnershipChecker
from kohort.sim.kernel.rng import Rng
from kohort.sim.peers.client_kinds import KINDS, Commit, PeerConfig
from kohort.sim.peers.streams_application import PROGRAMS
from kohort.sim.peers.transactional_producer import ProducerPlan
from kohort.sim.scenario.fault_menu import COOPERATIVE, Sketch, draw_steps
from kohort.sim.scenario.world_plan import (
    SECOND_US,
    MemberPlan,
    StreamsPlan,
    TopicPlan,
    WorldPlan,
    WorldStep,
    draw_settings,
    draw_streams_settings,
)
from kohort.transaction.transaction import LARGEST_EPOCH

EAGER = (
    ("eager-range", "eager-java", "eager-v2", "eager-hesitant"),
    ("eager-roundrobin", "eager-aiokafka", "eager-roundrobin"),
    ("eager-sticky", "eager-v1"),
    ("eager-range", "eager-librdkafka", "eager-kafka-python", "eager-oldest"),
)
"""Kinds that can be in one group."""
MAKES = ("eager-range", "eager-java", "eager-librdkafka", "eager-kgo", "eager-kafka-python")
"""Others that can: one kind of each make whose heartbeats are parked."""
_COMMITS: tuple[Commit | None, ...] = ("auto", "sync", None)
CLEAN = frozenset({"start", "close", "close within", "bounce", "roll", "subscribe", "burst", "grow topic", "compact"})
"""Steps around which rounds are calm."""
FAMILIES = {
    "rolling": ("rolling", "rolling", "rolling-java"),
    "cooperative": COOPERATIVE,
    "consumer": (
        "consumer",
        "consumer",
        "consumer-uniform",
        "consumer-range",
        "consumer-java",
        "consumer-librdkafka",
        "consumer-4.0",
    ),
}


class Mix(NamedTuple):
    """Whose members make a group: what they begin as, what bounces make of them (in order, or drawn), how often."""

    name: str
    kinds: tuple[str, ...]
    bounces: tuple[str, ...]
    weight: int
    is_in_order: bool = False


MIXES = (
    Mix("eager", ("eager",), ("eager",), 3),
    Mix("cooperative", ("cooperative",), ("cooperative",), 4),
    Mix("eager to cooperative", ("eager",), ("rolling", "cooperative"), 2, is_in_order=True),
    Mix("consumer", ("consumer",), ("consumer",), 5),
    Mix("to the consumer protocol", ("cooperative", "rolling", "consumer"), ("consumer",), 4),
    Mix("from the consumer protocol", ("consumer", "consumer", "cooperative"), ("cooperative", "rolling"), 3),
    Mix("back and forth", ("rolling", "cooperative", "consumer"), ("rolling", "cooperative", "consumer"), 3),
)
"""`rolling` members offer what cooperative ones do and an eager assignor, and revoke everything before a round."""


LIKE_KAFKA = {
    "kohort.group.heartbeat.park": "false",
    "kohort.group.sync.hold.ms": "0",
    "kohort.group.consumer.heartbeat.park.ms": "0",
}
"""Settings of a broker that does as Apache Kafka does what a gateway does for it."""


EDGE_ASSIGNORS = ("", "uniform", "range")
"""Assignors by which gateways replace those of leaders; without one, leaders' own assignments pass."""


STREAMS_SHARE = 0.15
"""In so many worlds the members of the first group are processes of Kafka Streams."""


def draw_plan(seed: int, gateways: int = 0, producers: int = 0, *, streams: bool | None = None) -> WorldPlan:
    """Return the world of a seed, with so many gateways before its brokers, and so many transactional producers.

    `streams` is whether the members of its first group are processes of Kafka Streams, None where the seed decides.
    """
    random = Rng(seed).stream("plan")
    topics = draw_topics(random)
    nodes = ("n1", "n2") if random.random() < 0.3 else ("n1",)
    settings = draw_settings(random)
    members: list[MemberPlan] = []
    mixes: dict[str, Mix] = {}
    for group in ("g", "h") if random.random() < 0.15 else ("g",):
        mix = mixes[group] = random.choices(MIXES, [mix.weight for mix in MIXES])[0]
        members += draw_members(random, group, mix, topics, first=len(members) + 1)
    end_us = random.choice((12, 20, 25, 30, 45)) * SECOND_US
    variants = []
    for member in members:
        mix = mixes[member.group]
        families = mix.bounces if mix.is_in_order else random.choices(mix.bounces, k=2)
        eager = next((kinds for kinds in EAGER if member.kind.name in kinds), EAGER[0])
        variants.append(tuple(draw_member(random, member, family, topics, eager) for family in families))
    commits = Rng(seed).stream("plan/auto-commit")
    members = [_committing(commits, member) for member in members]
    variants = [tuple(_committing(commits, member) for member in each) for each in variants]
    makes = Rng(seed).stream("plan/makes")
    of_eager = [group for group, mix in mixes.items() if "eager" in mix.kinds]
    mixed = {group: makes.choice(_COMMITS) for group in of_eager if makes.random() < 0.4}
    members = [_mixed(makes, member, mixed) for member in members]
    variants = [tuple(_mixed(makes, member, mixed) for member in each) for each in variants]
    applications = Rng(seed).stream("plan/streams")
    is_drawn = applications.random() < STREAMS_SHARE
    running: tuple[StreamsPlan, ...] = ()
    if is_drawn if streams is None else streams:
        of_group = members[0].group
        mixed.pop(of_group, None)
        program = applications.choice(PROGRAMS)
        running = (StreamsPlan(of_group, program, applications.choice((0, 0, 50, 500))),)
        settings = tuple(sorted({**dict(settings), **draw_streams_settings(applications)}.items()))
        members = [_streaming(applications, each, of_group, topics) for each in members]
        variants = [tuple(_streaming(applications, each, of_group, topics) for each in after) for after in variants]
    names = tuple(f"gw{number}" for number in range(1, gateways + 1))
    if names and Rng(seed).stream("plan/gateways").random() < 0.8:
        settings = tuple(sorted({**dict(settings), **LIKE_KAFKA}.items()))
    writers = draw_producers(Rng(seed).stream("plan/producers"), producers)
    if writers:
        settings = tuple(sorted({**dict(settings), **draw_transaction_settings(seed)}.items()))
    steps = draw_steps(Rng(seed), Sketch(random, end_us, topics, nodes, tuple(members), names, writers))
    if mixed and makes.random() < 0.3:  # else nearly every round is near a fault, and how long it takes is not judged
        clean = (step for step in steps if step.what in CLEAN)
        steps = tuple(step._replace(number=number) for number, step in enumerate(clean, 1))
    edge = Rng(seed).stream("plan/edge").choice(EDGE_ASSIGNORS) if names else ""
    return WorldPlan(
        seed, settings, topics, nodes, tuple(members), tuple(variants), steps, end_us, names, edge, writers, running
    )


def draw_producers(random: Random, count: int) -> tuple[ProducerPlan, ...]:
    """Return transactional producers of both versions; the epochs of some ids have nearly run out (KIP-890)."""
    return tuple(
        ProducerPlan(
            f"x{number}",
            version=random.choice((1, 2, 2)),
            timeout_ms=random.choice((1_000, 3_000, 8_000)),
            pause_ms=random.choice((200, 500, 1_500)),
            aborts=random.choice((0.0, 0.2, 0.5)),
            dawdles=random.choice((0.0, 0.1, 0.4)),
            delivery_ms=random.choice((0, 1_000, 5_000)),
            first_epoch=LARGEST_EPOCH - random.randrange(1, 6) if random.random() < 0.3 else -1,
        )
        for number in range(1, count + 1)
    )


def draw_transaction_settings(seed: int) -> dict[str, str]:
    """Return the brokers' settings of transactions."""
    random = Rng(seed).stream("plan/transactions")
    return {
        "transaction.state.log.num.partitions": random.choice(("1", "3")),
        "transaction.state.log.segment.bytes": random.choice(("4096", "1048576")),
    }


def draw_topics(random: Random) -> tuple[TopicPlan, ...]:
    """Return one topic, or up to three; more than a dozen partitions in all would only cost time."""
    names = ("t", "u", "v")[: random.choices((1, 2, 3), (6, 3, 1))[0]]
    return tuple(
        TopicPlan(name, random.choice((1, 2, 3, 4, 6, 12) if len(names) == 1 else (1, 2, 4))) for name in names
    )


def draw_members(random: Random, group: str, mix: Mix, topics: tuple[TopicPlan, ...], first: int) -> list[MemberPlan]:
    """Return the members of one group; instance ids are for all of them, some or none."""
    count = random.choices((1, 2, 3, 4, 5, 6), (1, 3, 4, 3, 2, 1))[0]
    static = random.choice((0.0, 0.0, 0.5, 1.0))
    eager = random.choice(EAGER)
    members = []
    for number in range(first, first + count):
        slot = f"i{number}" if random.random() < static else None
        config = PeerConfig(group, (topics[0].name,), instance_id=slot)
        basis = MemberPlan(f"m{number}", KINDS[random.choice(eager)], config)
        members.append(draw_member(random, basis, random.choice(mix.kinds), topics, eager))
    return members


def draw_member(
    random: Random, basis: MemberPlan, family: str, topics: tuple[TopicPlan, ...], eager: tuple[str, ...]
) -> MemberPlan:
    """Return a member of a family, in the place and group of `basis`, as another user would configure it."""
    kind = KINDS[random.choice(eager if family == "eager" else FAMILIES[family])]
    wanted = tuple(topic.name for topic in topics if random.random() < 0.8) or (topics[0].name,)
    pattern = random.choice(("[tuv].*", "[tuv].*", "t|v", "u")) if random.random() < 0.1 else None
    is_busy = random.random() < 0.15
    config = replace(
        basis.config,
        topics=wanted if pattern is None or random.random() < 0.2 else (),
        pattern=pattern,
        instance_id=basis.config.instance_id if kind.may_be_static else None,
        session_timeout_ms=random.choice((6_000, 8_000, 10_000)),
        heartbeat_interval_ms=random.choice((1_000, 2_000, 3_000)),
        max_poll_interval_ms=random.choice((5_000, 10_000, 15_000)),
        work_us=random.choice((1_000, 20_000, 100_000, 500_000)),
        callback_us=random.choices((1_000, 100_000, 2_000_000), (8, 3, 1))[0],
        commit=random.choice(("auto", "auto", "sync", "async", "revoked")),
        max_poll_records=random.choice((10, 50, 500)),
        overrun=random.choice((0.005, 0.05)) if is_busy else 0.0,
        raising=random.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.02, 0.3)),
        rejoins=0.02 if random.random() < 0.1 else 0.0,
    )
    return MemberPlan(basis.name, kind, config)


def _committing(random: Random, member: MemberPlan) -> MemberPlan:
    """Return a member with an interval of automatic commits: often within each heartbeat interval, or seldom."""
    return member._replace(config=replace(member.config, auto_commit_ms=random.choice((1_000, 2_000, 3_500))))


def _streaming(random: Random, member: MemberPlan, group: str, topics: tuple[TopicPlan, ...]) -> MemberPlan:
    """Return a process of Kafka Streams in the place of a member, if it is in this group: most of Kafka 4.4."""
    if member.group != group:
        return member
    config = replace(
        member.config,
        topics=(max(topics, key=lambda topic: topic.partitions).name,),
        pattern=None,
        threads=random.choice((1, 1, 2, 3)),
        restores_per_s=random.choice((20, 1_000, 5_000, 20_000)),
        is_state_kept=random.random() < 0.8,
    )
    return MemberPlan(member.name, KINDS[random.choice(("streams", "streams", "streams", "streams-4.3"))], config)


def _mixed(random: Random, member: MemberPlan, mixed: Mapping[str, Commit | None]) -> MemberPlan:
    """Return a classic member of any make, if its group is one of these: all commit as given, or each as it did.

    Where sessions are as long as here, clients that can are made to send heartbeats again.
    """
    kind, config = member.kind, member.config
    if member.group not in mixed or kind.protocol != "classic":
        return member
    if any(kind.name in kinds for kinds in EAGER):
        kind = KINDS[random.choice(MAKES)]
    config = replace(
        config,
        instance_id=config.instance_id if kind.may_be_static else None,
        session_timeout_ms=14_000,
        heartbeat_interval_ms=random.choice((1_500, 2_000)),
        commit=mixed[member.group] or config.commit,
    )
    return MemberPlan(member.name, kind, config)


_GROUP_MEMBERS = 10
"""Members of each group, and partitions of its topic."""

_RESTARTED = ("eager-java", "cooperative-java", "consumer-java")

_START_US = 10 * SECOND_US
"""Within this time the members start."""

_PAUSE_US = 2 * SECOND_US
"""How long after one member of a group the next one leaves."""

_DOWN_US = SECOND_US // 2
_SETTLE_US = 15 * SECOND_US

_RESTART_SETTINGS = {
    **LIKE_KAFKA,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "3000",
    "log.flush.interval.messages": "1",
    "offsets.topic.num.partitions": "1",
}


def restart_checkers() -> list[Checker]:
    """Return checkers whose cost does not grow with the number of groups: who owns what, and what gateways derive."""
    ledgers, faults = Ledgers(), FaultsSeen()
    others = [OwnershipChecker(ledgers), StandstillChecker(faults), GatewayChecker(ledgers)]
    return [ledgers, faults, *others]


def rolling_restart(members: int, gateways: int) -> WorldPlan:
    """Return a rolling restart of many members behind several gateways, of which one is killed meanwhile.

    A third of the groups each is eager, cooperative and of the consumer protocol. All groups are deployed at once: in
    each, one member after the other leaves and comes back. The number of members is rounded up to whole groups.
    """
    groups = -(-members // _GROUP_MEMBERS)
    plans: list[MemberPlan] = []
    steps: list[WorldStep] = []
    for number in range(groups):
        kind = KINDS[_RESTARTED[number % len(_RESTARTED)]]
        config = PeerConfig(
            f"g{number}",
            (f"t{number}",),
            session_timeout_ms=45_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=300_000,
            request_timeout_ms=30_000,
            metadata_ms=300_000,
            fetch_wait_ms=5_000,
        )
        plans += [
            MemberPlan(f"m{number * _GROUP_MEMBERS + each}", kind, config) for each in range(1, _GROUP_MEMBERS + 1)
        ]
    for place, member in enumerate(plans):
        steps.append(WorldStep(len(steps) + 1, _START_US * place // len(plans), "start", member.name))
    began_us = _START_US + _SETTLE_US
    how = (("pause_us", _PAUSE_US), ("down_us", _DOWN_US))
    steps += [WorldStep(len(steps) + 1 + number, began_us, "roll", f"g{number}", how) for number in range(groups)]
    names = tuple(f"gw{number}" for number in range(1, gateways + 1))
    if names:
        middle_us = began_us + _GROUP_MEMBERS * _PAUSE_US // 2
        steps.append(WorldStep(len(steps) + 1, middle_us, "kill gateway", names[0], (("down_us", 5 * SECOND_US),)))
    return WorldPlan(
        0,
        tuple(sorted(_RESTART_SETTINGS.items())),
        tuple(TopicPlan(f"t{number}", _GROUP_MEMBERS) for number in range(groups)),
        ("n1",),
        tuple(plans),
        tuple((each,) for each in plans),
        tuple(steps),
        began_us + _GROUP_MEMBERS * _PAUSE_US + _SETTLE_US,
        names,
    )
