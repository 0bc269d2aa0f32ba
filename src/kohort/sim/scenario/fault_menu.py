"""The faults and events that a world may have: how likely each is there at all, how often, and how strong.

One entry for each; `fault_injector` carries them out by name. A table, so that it can be read, counted in the
summary of a swarm, and grow by a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from kohort.sim.kernel.rng import Rng
from kohort.sim.peers.transactional_producer import ProducerPlan
from kohort.sim.scenario.world_plan import SECOND_US, How, MemberPlan, TopicPlan, WorldStep

Drawn = tuple[str, str, How]
"""What, subject, arguments."""
Argument = Callable[[Random], tuple[str, int | str]]


COOPERATIVE = ("cooperative", "cooperative", "cooperative-java", "cooperative-v1", "cooperative-v2")
"""Kinds of an upgraded cooperative group: all their members report what they own."""


class Sketch(NamedTuple):
    """What of a plan is known when its steps are drawn."""

    random: Random
    end_us: int
    topics: tuple[TopicPlan, ...]
    nodes: tuple[str, ...]
    members: tuple[MemberPlan, ...]
    gateways: tuple[str, ...] = ()
    producers: tuple[ProducerPlan, ...] = ()


def always(_: Sketch) -> bool:
    """Every world may have it."""
    return True


class FaultKind(NamedTuple):
    """One kind of step: how likely a world has it at all, how often at most, and what it is."""

    name: str
    presence: float
    draw: Callable[[Sketch], Drawn]
    most: int = 6
    is_lasting: bool = False
    """It lasts from the beginning until the world is healed."""
    fits: Callable[[Sketch], bool] = always


# What a step acts on, and its arguments. They are drawn in this order.


def _of(subject: Callable[[Sketch], str], what: str, *arguments: Argument) -> Callable[[Sketch], Drawn]:
    def draw(sketch: Sketch) -> Drawn:
        return what, subject(sketch), tuple(argument(sketch.random) for argument in arguments)

    return draw


def _member(sketch: Sketch) -> str:
    return sketch.random.choice(sketch.members).name


def _group(sketch: Sketch) -> str:
    return sketch.random.choice(sketch.members).group


def _topic(sketch: Sketch) -> str:
    return sketch.random.choice(sketch.topics).name


def _host(sketch: Sketch) -> str:
    return sketch.random.choice((*sketch.nodes, *(member.name for member in sketch.members)))


def _node(_: Sketch) -> str:
    return "node"


def _gateway(sketch: Sketch) -> str:
    return sketch.random.choice(sketch.gateways)


def _producer(sketch: Sketch) -> str:
    return sketch.random.choice(sketch.producers).name


def _network(_: Sketch) -> str:
    return "network"


def _one_of(name: str, *values: int | str) -> Argument:
    return lambda random: (name, random.choice(values))


def _down(random: Random) -> tuple[str, int]:
    return "down_us", random.choice((0, 200_000, 2_000_000, 7_000_000, 12_000_000)) + random.randrange(500_000)


def _lasts(random: Random) -> tuple[str, int]:
    return "for_us", random.choice((300_000, 2_000_000, 5_000_000, 9_000_000, 15_000_000)) + random.randrange(500_000)


_PACKETS = (
    _one_of("latency_us", 100, 250, 2_000, 30_000),
    _one_of("jitter_us", 0, 200, 5_000, 50_000),
    _one_of("loss_ppm", 0, 1_000, 10_000, 50_000),
    _one_of("cut_ppm", 0, 0, 20_000, 300_000),
)
_DRIFT = (_one_of("ppm", -500, -200, 200, 500, 20_000, -20_000), _one_of("ahead_ms", 0, 0, 5_000, -5_000))
_BOUNCE = (_one_of("how", "close", "close", "kill"), _down)
_ROLL = (_one_of("pause_us", 500_000, 2_000_000, 4_000_000), _down)
"""A deployment: every member of a group is bounced, one after the other."""
_STORM = (_one_of("odds_ppm", 30_000, 100_000, 400_000), _one_of("for_us", 1_000_000, 4_000_000, 9_000_000))
_FAILING_DISK = (_one_of("odds_ppm", 1_000_000, 300_000, 50_000), _lasts)
_FAILING_OPERATION = (_one_of("of", "append", "read", "flush", "open", "list", "rename", "truncate"), *_FAILING_DISK)


def _subscribe(sketch: Sketch) -> Drawn:
    random = sketch.random
    member = random.choice(sketch.members)
    names = [topic.name for topic in sketch.topics]
    wanted = [name for name in names if random.random() < 0.6] or [random.choice(names)]
    return "subscribe", member.name, (("topics", ",".join(wanted)),)


def _configure(sketch: Sketch) -> Drawn:
    random = sketch.random
    name, values = random.choice(
        (
            ("consumer.session.timeout.ms", ("5000", "8000", "12000")),
            ("consumer.heartbeat.interval.ms", ("500", "1500", "3000")),
            ("consumer.assignment.interval.ms", ("0", "2000")),
        )
    )
    return "configure group", _group(sketch), (("name", name), ("value", random.choice(values)))


def _configure_streams(sketch: Sketch) -> Drawn:
    random = sketch.random
    name, values = random.choice(
        (
            ("streams.num.standby.replicas", ("0", "1", "2")),
            ("streams.num.warmup.replicas", ("0", "1", "3")),
            ("streams.session.timeout.ms", ("5000", "8000", "12000")),
            ("streams.heartbeat.interval.ms", ("500", "1500", "3000")),
            ("streams.acceptable.recovery.lag", ("0", "1000", "100000")),
        )
    )
    group = next(member.group for member in sketch.members if member.kind.protocol == "streams")
    return "configure streams", group, (("name", name), ("value", random.choice(values)))


def _close_within(sketch: Sketch) -> Drawn:
    random = sketch.random
    state = random.choice(("joining", "joining", "syncing", "revoking"))
    wait = "wait_us", random.choice((0, 1_000, 50_000, 400_000))
    return "close within", _member(sketch), (("state", state), wait, _down(random))


# Which worlds may have it.


def _is_cooperative(sketch: Sketch) -> bool:
    return all(member.kind.name in COOPERATIVE for member in sketch.members)


def _has_two_nodes(sketch: Sketch) -> bool:
    return len(sketch.nodes) > 1


def _has_gateway(sketch: Sketch) -> bool:
    return bool(sketch.gateways)


def _has_producer(sketch: Sketch) -> bool:
    return bool(sketch.producers)


def _has_native(sketch: Sketch) -> bool:
    return any(member.kind.protocol == "consumer" for member in sketch.members)


def _has_streams(sketch: Sketch) -> bool:
    return any(member.kind.protocol == "streams" for member in sketch.members)


MENU = (
    FaultKind("burst", 1.0, _of(_topic, "burst", _one_of("count", 1, 20, 100, 400)), 6),
    FaultKind("packets", 0.4, _of(_network, "packets", *_PACKETS), is_lasting=True),
    FaultKind("drift", 0.3, _of(_host, "drift", *_DRIFT), is_lasting=True),
    FaultKind("kill member", 0.35, _of(_member, "kill", _down)),
    FaultKind("close member", 0.35, _of(_member, "close", _down)),
    FaultKind("close within", 0.3, _close_within, 3),
    FaultKind("old client", 0.2, _of(_member, "old client", _down), 2, fits=_is_cooperative),
    FaultKind("freeze member", 0.3, _of(_member, "freeze", _lasts)),
    FaultKind("bounce", 0.35, _of(_member, "bounce", *_BOUNCE)),
    FaultKind("roll", 0.3, _of(_group, "roll", *_ROLL), 2),
    FaultKind("subscribe", 0.25, _subscribe),
    FaultKind("expel", 0.1, _of(_member, "expel"), 2),
    FaultKind("kill node", 0.25, _of(_node, "kill node", _down), 3),
    FaultKind("power loss", 0.25, _of(_node, "power loss", _down), 3),
    FaultKind("stop node", 0.15, _of(_node, "stop node", _down), 2),
    FaultKind("move node", 0.6, _of(_node, "move node", _down), 3, fits=_has_two_nodes),
    FaultKind("freeze node", 0.15, _of(_node, "freeze node", _lasts), 2),
    FaultKind("partition", 0.2, _of(_member, "partition", _lasts), 3),
    FaultKind("one way", 0.2, _of(_member, "one way", _lasts), 3),
    FaultKind("vanish", 0.2, _of(_member, "vanish"), 3),
    FaultKind("break", 0.3, _of(_member, "break")),
    FaultKind("slow disk", 0.15, _of(_node, "slow disk", _one_of("flush_us", 20_000, 200_000, 1_500_000), _lasts), 3),
    FaultKind("full disk", 0.12, _of(_node, "full disk", _one_of("spare", 0, 200, 3_000), _lasts), 2),
    FaultKind("failing disk", 0.12, _of(_node, "failing disk", *_FAILING_DISK), 2),
    FaultKind("failing operation", 0.12, _of(_node, "failing operation", *_FAILING_OPERATION), 2),
    FaultKind("read only disk", 0.1, _of(_node, "read only disk", _lasts), 2),
    FaultKind("hanging disk", 0.1, _of(_node, "hanging disk", _lasts), 2),
    FaultKind("compact", 0.3, _of(_node, "compact")),
    FaultKind("grow topic", 0.2, _of(_topic, "grow topic", _one_of("by", 1, 1, 2, 4)), 2),
    FaultKind("delete topic", 0.1, _of(_topic, "delete topic"), 1),
    FaultKind("recreate topic", 0.12, _of(_topic, "recreate topic", _down), 2),
    FaultKind("delete offsets", 0.1, _of(_topic, "delete offsets"), 2),
    FaultKind("delete group", 0.1, _of(_group, "delete group"), 2),
    FaultKind("reset offsets", 0.1, _of(_group, "reset offsets"), 2),
    FaultKind("configure group", 0.15, _configure, 2, fits=_has_native),
    FaultKind("configure streams", 0.4, _configure_streams, 2, fits=_has_streams),
    FaultKind("storm", 0.25, _of(_network, "storm", *_STORM), 3),
    FaultKind("kill gateway", 0.7, _of(_gateway, "kill gateway", _down), 4, fits=_has_gateway),
    FaultKind("freeze gateway", 0.3, _of(_gateway, "freeze gateway", _lasts), 2, fits=_has_gateway),
    FaultKind("kill producer", 0.5, _of(_producer, "kill producer", _down), 4, fits=_has_producer),
    FaultKind("second producer", 0.4, _of(_producer, "second producer"), 3, fits=_has_producer),
    FaultKind("freeze producer", 0.4, _of(_producer, "freeze producer", _lasts), 4, fits=_has_producer),
    FaultKind("cut off producer", 0.3, _of(_producer, "cut off producer", _lasts), 3, fits=_has_producer),
    FaultKind("break producer", 0.5, _of(_producer, "break producer"), fits=_has_producer),
    FaultKind("break end", 0.4, _of(_producer, "break end"), fits=_has_producer),
    FaultKind("stragglers", 0.4, _of(_network, "stragglers", _one_of("late_us", 300_000, 3_000_000)),
              is_lasting=True, fits=_has_producer),
    FaultKind("impersonate", 0.1, _of(_member, "impersonate"), 2),
)  # fmt: skip


def draw_steps(rng: Rng, sketch: Sketch, menu: Iterable[FaultKind] = MENU) -> tuple[WorldStep, ...]:
    """Return what happens: members come, records come, and the faults that this world has.

    Each kind has a random stream of its own, so that a new line of the menu leaves the other steps of a seed as they
    were.
    """
    random = sketch.random
    drawn: list[tuple[int | None, str, str, How]] = []
    for member in sketch.members:
        late_us = random.choice((0, 0, random.randrange(2 * SECOND_US), random.randrange(sketch.end_us * 2 // 3)))
        drawn.append((late_us, "start", member.name, ()))
    for fault in menu:
        random = rng.stream(f"plan/{fault.name}")
        sketch = sketch._replace(random=random)
        if not fault.fits(sketch) or random.random() >= fault.presence:
            continue
        for _ in range(_times(random, fault)):
            at_us = None if fault.is_lasting else random.randrange(SECOND_US, sketch.end_us)
            drawn.append((at_us, *fault.draw(sketch)))
    drawn.sort(key=lambda step: -1 if step[0] is None else step[0])
    return tuple(WorldStep(number, *step) for number, step in enumerate(drawn, 1))


def _times(random: Random, fault: FaultKind) -> int:
    """Return how often a fault that this world has happens in it: mostly once or twice, at times very often."""
    return 1 if fault.is_lasting else min(fault.most, random.choices((1, 2, 3, 6), (5, 4, 3, 1))[0])
