"""What a seed decides before its world runs, as plain values: who is there, how lucky they are, and what happens when.

A step stands for itself: a fault says how long it lasts, so that any subset of the steps is a plan again. Steps keep
their numbers when others are left out, and each draws its luck under its own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

SECOND_US = 1_000_000


class MemberPlan(NamedTuple):
    """One member: what its user configures, and how its application behaves."""

    name: str
    group: str
    protocol: str = "classic"
    """`classic` or `consumer`."""
    topics: tuple[str, ...] = ("t",)
    pattern: str | None = None
    """An expression to subscribe to instead of topics; the client resolves it in the classic protocol."""
    assignors: tuple[str, ...] = ("range",)
    """Classic: what it offers, in order of preference. Consumer: the broker's assignor that it votes for, or none."""
    embedded_version: int = 3
    """The newest version of the embedded consumer protocol that it writes."""
    instance_id: str | None = None
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 2_000
    max_poll_interval_ms: int = 10_000
    work_us: int = 50_000
    """How long the application works on what one poll gave it."""
    callback_us: int = 1_000
    """How long a rebalance callback takes."""
    commit: str = "auto"
    """`auto` (with the polls, each second or so), `sync` (after each batch, and waits), `async` (and does not wait)."""
    max_poll_records: int = 50
    reset: str = "earliest"

    @property
    def kind(self) -> str:
        """What the trace calls it: eager, cooperative or consumer."""
        if self.protocol == "consumer":
            return "consumer"
        return "cooperative" if self.assignors == ("cooperative-sticky",) else "eager"


class TopicPlan(NamedTuple):
    """A topic that exists from the beginning."""

    name: str
    partitions: int


class Step(NamedTuple):
    """One thing that happens to the world. `at_us` is None for luck that lasts from the beginning to the healing."""

    number: int
    at_us: int | None
    what: str
    subject: str = ""
    how: tuple[tuple[str, int | str], ...] = ()

    def get(self, name: str, default: int = 0) -> int:
        """Return a number among the arguments."""
        value = dict(self.how).get(name, default)
        assert isinstance(value, int), f"{name} of {self.what} is a number"
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return a text among the arguments."""
        return str(dict(self.how).get(name, default))


class Plan(NamedTuple):
    """A world. The same plan gives the same run, event by event."""

    seed: int
    settings: tuple[tuple[str, str], ...]
    """What every broker of the world is started with."""
    topics: tuple[TopicPlan, ...]
    nodes: tuple[str, ...]
    members: tuple[MemberPlan, ...]
    variants: tuple[tuple[MemberPlan, ...], ...]
    """For each member what its bounces make of it, one after the other, and then again from the first."""
    steps: tuple[Step, ...]
    end_us: int
    """When the faults end and the world is healed."""

    def only(self, numbers: Iterable[int]) -> Plan:
        """Return the plan with these steps alone."""
        kept = frozenset(numbers)
        return self._replace(steps=tuple(step for step in self.steps if step.number in kept))

    def until(self, end_us: int) -> Plan:
        """Return the plan with its faults ending at another time."""
        return self._replace(end_us=end_us)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in order of their first member."""
        return tuple(dict.fromkeys(member.group for member in self.members))


def show(plan: Plan) -> Iterator[str]:
    """Tell a plan as text: who is there, then each step on a line with its number."""
    yield f"seed {plan.seed}: {len(plan.steps)} steps, healed after {plan.end_us / SECOND_US:.1f} s"
    yield "topics   " + ", ".join(f"{topic.name} ({topic.partitions})" for topic in plan.topics)
    yield "nodes    " + ", ".join(plan.nodes)
    for name, value in plan.settings:
        yield f"setting  {name}={value}"
    for member, variants in zip(plan.members, plan.variants, strict=True):
        yield f"member   {member.name}  {show_member(member)}"
        for variant in variants:
            yield f"  then   {member.name}  {show_member(variant)}"
    for step in plan.steps:
        yield f"{step.number:>4}  {show_time(step.at_us)}  {show_step(step)}"


def show_member(member: MemberPlan) -> str:
    """Tell a member's configuration on a line."""
    wanted = f"~{member.pattern}" if member.pattern is not None else ",".join(member.topics)
    parts = [
        f"{member.group}/{member.kind}",
        f"wants={wanted}",
        f"assignors={','.join(member.assignors) or '-'}",
        f"commit={member.commit}",
        f"work={member.work_us // 1000}ms",
        f"callback={member.callback_us // 1000}ms",
        f"max-poll={member.max_poll_interval_ms // 1000}s",
    ]
    if member.protocol == "classic":
        parts.append(f"session={member.session_timeout_ms // 1000}s embedded=v{member.embedded_version}")
    if member.instance_id is not None:
        parts.append(f"instance={member.instance_id}")
    return " ".join(parts)


def show_step(step: Step) -> str:
    """Tell a step without its number and time."""
    return " ".join((step.what, step.subject, *(f"{name}={value}" for name, value in step.how))).replace("  ", " ")


def show_time(at_us: int | None) -> str:
    """Tell a time of the world in seconds, in ten columns."""
    return "   always " if at_us is None else f"{at_us / SECOND_US:>10.6f}"[:10]
