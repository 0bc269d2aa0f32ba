"""The plan of a seed and its outcome, as plain values: settings, topics, members, the steps that happen to them.

A step stands for itself: a fault states how long it lasts, so that any subset of the steps is a plan again. Steps have
the same numbers when others are left out, and each has a random stream under its own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from kohort.sim.peers.client_kinds import ClientKind, PeerConfig
from kohort.sim.peers.streams_application import Program
from kohort.sim.peers.transactional_producer import ProducerPlan

SECOND_US = 1_000_000

How = tuple[tuple[str, int | str], ...]
"""The arguments of a step, by name."""


class MemberPlan(NamedTuple):
    """One member: what program it is, and what its user configures."""

    name: str
    kind: ClientKind
    config: PeerConfig

    @property
    def group(self) -> str:
        return self.config.group_id


class StreamsPlan(NamedTuple):
    """The program of a streams group, and by how many records a second each of its changelogs grows."""

    group: str
    program: Program
    records_per_s: int


class TopicPlan(NamedTuple):
    """A topic that exists from the beginning."""

    name: str
    partitions: int


class WorldStep(NamedTuple):
    """One thing that happens to the world. `at_us` is None for what lasts from the beginning to the healing."""

    number: int
    at_us: int | None
    what: str
    subject: str = ""
    how: How = ()

    def get(self, name: str, default: int = 0) -> int:
        """Return a number among the arguments."""
        value = dict(self.how).get(name, default)
        assert isinstance(value, int), f"{name} of {self.what} is a number"
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return a text among the arguments."""
        return str(dict(self.how).get(name, default))


class WorldPlan(NamedTuple):
    """A world. The same plan gives the same run, event by event."""

    seed: int
    settings: tuple[tuple[str, str], ...]
    """What every broker of the world is started with."""
    topics: tuple[TopicPlan, ...]
    nodes: tuple[str, ...]
    members: tuple[MemberPlan, ...]
    variants: tuple[tuple[MemberPlan, ...], ...]
    """For each member what its bounces make of it, one after the other, and then again from the first."""
    steps: tuple[WorldStep, ...]
    end_us: int
    """When the faults end and the world is healed."""
    gateways: tuple[str, ...] = ()
    """Gateways between the members and the brokers; without any, members connect to the brokers."""
    edge_assignor: str = ""
    """The assignor by which gateways replace the assignments of leaders, or empty."""
    producers: tuple[ProducerPlan, ...] = ()
    """Transactional producers, and a reader of what they commit."""
    streams: tuple[StreamsPlan, ...] = ()
    """What the members of streams groups run."""

    def only(self, numbers: Iterable[int]) -> WorldPlan:
        """Return the plan with these steps alone."""
        chosen = frozenset(numbers)
        return self._replace(steps=tuple(step for step in self.steps if step.number in chosen))

    def until(self, end_us: int) -> WorldPlan:
        """Return the plan with its faults ending at another time."""
        return self._replace(end_us=end_us)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in order of their first member."""
        return tuple(dict.fromkeys(member.group for member in self.members))


def draw_settings(random: Random) -> tuple[tuple[str, str], ...]:
    """Return the brokers' settings: times short enough that much happens, policies as they fall."""
    session_ms = random.choice((6_000, 8_000, 10_000))
    beat_ms = random.choice((1_000, 2_000, 3_000))
    choices: dict[str, str] = {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": random.choice(("0", "500", "3000")),
        "kohort.group.initial.quiet.ms": random.choice(("100", "100", "-1")),
        "kohort.group.heartbeat.park": random.choice(("true", "true", "false")),
        "kohort.group.sync.hold.ms": random.choice(("1000", "1000", "0")),
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.heartbeat.interval.ms": str(beat_ms),
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.assignment.interval.ms": random.choice(("1000", "1000", "0", "3000")),
        "group.consumer.assignors": random.choice(("uniform,range", "uniform,range", "range,uniform")),
        "group.consumer.migration.policy": random.choices(
            ("bidirectional", "upgrade", "downgrade", "disabled"), (12, 2, 2, 1)
        )[0],
        "kohort.group.migration.min.embedded.version": random.choice(("3", "3", "0")),
        "kohort.group.consumer.heartbeat.park.ms": random.choice(("1000", "1000", "0")),
        "offsets.topic.num.partitions": random.choice(("1", "1", "3")),
        "offsets.topic.segment.bytes": random.choice(("4096", "16384", "1048576")),
        "log.flush.interval.messages": "1",
        "log.cleaner.backoff.ms": random.choice(("200", "2000", "15000")),
        "log.cleaner.min.cleanable.ratio": random.choice(("0", "0.5")),
        "log.cleaner.delete.retention.ms": random.choice(("0", "5000", "86400000")),
    }
    return tuple(sorted(choices.items()))


def draw_streams_settings(random: Random) -> dict[str, str]:
    """Return the brokers' settings of streams groups."""
    offset_interval_ms = random.choice(("500", "2000", "5000"))
    return {
        "group.streams.session.timeout.ms": random.choice(("6000", "8000", "10000")),
        "group.streams.min.session.timeout.ms": "5000",
        "group.streams.heartbeat.interval.ms": random.choice(("1000", "2000", "3000")),
        "group.streams.min.heartbeat.interval.ms": "500",
        "group.streams.assignment.interval.ms": random.choice(("1000", "1000", "0", "3000")),
        "group.streams.initial.rebalance.delay.ms": random.choice(("0", "500", "3000")),
        "group.streams.num.standby.replicas": random.choice(("0", "0", "1", "2")),
        "group.streams.num.warmup.replicas": random.choice(("2", "2", "1", "0")),
        "group.streams.acceptable.recovery.lag": random.choice(("0", "100", "5000", "10000")),
        "group.streams.task.offset.interval.ms": offset_interval_ms,
        "group.streams.min.task.offset.interval.ms": "500",
    }


def show(plan: WorldPlan) -> Iterator[str]:
    """Yield a plan as text: its members, then each step on a line with its number."""
    yield f"seed {plan.seed}: {len(plan.steps)} steps, healed after {plan.end_us / SECOND_US:.1f} s"
    yield "topics   " + ", ".join(f"{topic.name} ({topic.partitions})" for topic in plan.topics)
    yield "nodes    " + ", ".join(plan.nodes)
    if plan.gateways:
        yield (
            "gateways " + ", ".join(plan.gateways) + (f", assigning by {plan.edge_assignor}" * bool(plan.edge_assignor))
        )
    for name, value in plan.settings:
        yield f"setting  {name}={value}"
    for member, variants in zip(plan.members, plan.variants, strict=True):
        yield f"member   {member.name}  {show_member(member)}"
        for variant in variants:
            yield f"  then   {member.name}  {show_member(variant)}"
    for each in plan.streams:
        yield f"streams  {each.group}  {each.program}, changelogs grow by {each.records_per_s} records/s"
    for producer in plan.producers:
        yield f"producer {producer.name}  {show_producer(producer)}"
    for step in plan.steps:
        yield f"{step.number:>4}  {show_time(step.at_us)}  {show_step(step)}"


def show_member(member: MemberPlan) -> str:
    """Return a member's configuration on a line."""
    kind, config = member.kind, member.config
    wanted = ",".join((*config.topics, *(() if config.pattern is None else (f"~{config.pattern}",))))
    parts = [
        f"{member.group}/{kind.name}",
        f"wants={wanted}",
        f"commit={config.commit}",
        f"work={config.work_us // 1000}ms",
        f"callback={config.callback_us // 1000}ms",
        f"max-poll={config.max_poll_interval_ms // 1000}s",
    ]
    if kind.protocol == "classic":
        parts.append(f"session={config.session_timeout_ms // 1000}s")
    if kind.protocol == "streams":
        parts += [f"threads={config.threads}", f"restores={config.restores_per_s}/s"]
        parts += [] if config.is_state_kept else ["loses its state"]
    if config.instance_id is not None:
        parts.append(f"instance={config.instance_id}")
    if config.overrun or config.raising:
        parts.append(f"overrun={config.overrun:g} raising={config.raising:g}")
    return " ".join(parts)


def show_producer(producer: ProducerPlan) -> str:
    """Return a transactional producer's configuration on a line."""
    parts = [
        f"transactions={producer.version}",
        f"timeout={producer.timeout_ms / 1000:g}s",
        f"aborts={producer.aborts:g}",
    ]
    if producer.dawdles:
        parts.append(f"dawdles={producer.dawdles:g}")
    if producer.first_epoch >= 0:
        parts.append(f"epoch={producer.first_epoch}")
    return " ".join(parts)


def show_step(step: WorldStep) -> str:
    """Return a step as text, without its number and time."""
    return " ".join((step.what, step.subject, *(f"{name}={value}" for name, value in step.how))).replace("  ", " ")


def show_time(at_us: int | None) -> str:
    """Return a time of the world in seconds, in ten columns."""
    return "   always " if at_us is None else f"{at_us / SECOND_US:>10.6f}"[:10]


class Broken(NamedTuple):
    """What broke: the invariant's name, a sentence, and when."""

    invariant: str
    sentence: str
    at_us: int
    event: int


class WorldOutcome(NamedTuple):
    """The result of one world. Counts are by name; `coverage` is how often each invariant was checked."""

    seed: int
    broken: Broken | None
    events: int
    virtual_us: int
    rest_us: int
    """How long after the healing the world had converged; -1 where it did not."""
    chunks: int
    """Pieces of messages that the network carried."""
    drawn: dict[str, int]
    met: dict[str, int]
    """Steps that had an effect."""
    coverage: dict[str, int]
    failures: dict[str, int]
    """Members that failed, by error."""
    unowned_us: int = 0
    """How long partitions were without an owner, summed over all of them."""
    gateways: int = 0
    """How many gateways the world has."""
    producers: int = 0
    """How many transactional producers it has."""
