"""How a live group gets from one protocol to another, one restart at a time: what stands against it, and what it costs.

A plan is a pure function of what describing the group and its cluster shows. It changes nothing; it refuses what is
not safe, naming the rule that it breaks; where a fact cannot be read it reports an assumption, and never guesses
that something is safe.

THE RULES, by their names in JSON:
 - `protocol_not_offered`: the cluster speaks the protocol that the group is to go to.
 - `policy`: `group.consumer.migration.policy` allows the direction.
 - `group_type`, `group_state`: it is a group of consumers, and stable: only then can be read who owns what.
 - `size`: the group is not larger than groups of the new type may be.
 - `embedded_version`: classic members write their metadata in the version that a conversion takes (KIP-848 asks for 3).
 - `assignor_data`: no classic member's assignment has bytes of its assignor: a server-side one would lose them.
 - `unreadable`: a member's metadata can be read.
 - `common_assignor`: at each moment there is an assignor that every classic member offers.
 - `owned_partitions`: members of a cooperative group can report what they own (version 1 of their metadata).

THE WAYS. To the consumer protocol each classic member is restarted once; the first that comes back converts the group.
Back, each native member is restarted once, and the last one converts it. To cooperative, every member is restarted
twice: first to offer the cooperative assignor beside the eager one, then to offer it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kohort.assign.server.spec import ServerAssignor
from kohort.group.classic.group import COOPERATIVE
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class MemberKind(StrEnum):
    """How a member takes part."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"


PREDICTABLE = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky", "capacity"})
"""Client-side assignors of which it is known what they do."""


def is_predictable(assignor: str) -> bool:
    """Whether it is known what a client-side assignor does."""
    return assignor in PREDICTABLE


class Cost(NamedTuple):
    """What is expected of one restart. `moves` counts each time a partition goes from one owner to another."""

    moves: int
    unowned_partition_s: float
    """By the coordinator's books."""
    unread_partition_s: float
    """As members see it: who is away reads nothing, whatever it owns."""


class Goal(StrEnum):
    """Where a group is to go."""

    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True)
class LiveMember:
    """One member as the cluster describes it. None stands for what it does not show.

    `version` is that of its embedded metadata; `offers` are its client-side assignors, in order of preference.
    `lags` are those of its standby copies, which only the log of one of our brokers shows.
    """

    member_id: str
    name: str
    is_native: bool
    topics: frozenset[str] = frozenset()
    owned: Partitions = frozenset()
    instance_id: str | None = None
    rack: str | None = None
    version: int | None = None
    is_readable: bool = True
    has_assignor_data: bool = False
    offers: tuple[str, ...] | None = None
    regex: str = ""
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    acceptable_recovery_lag: int | None = None


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group as the cluster describes it; `assignor` is the one in force."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[LiveMember, ...]
    topics: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)
    """The id and the number of partitions of each topic."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the cluster allows. None stands for what it does not show."""

    has_consumer_protocol: bool
    server_assignor: ServerAssignor
    policy: str | None = None
    min_embedded_version: int | None = None
    max_consumer_size: int | None = None
    max_classic_size: int | None = None
    is_ours: bool = True
    ignores_echoed_data: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that the way would break, and by which members."""

    rule: str
    text: str
    member_ids: tuple[str, ...] = ()


REFUSED_WITH = {
    "embedded_version": ErrorCode.INVALID_REQUEST,
    "assignor_data": ErrorCode.INVALID_REQUEST,
    "unreadable": ErrorCode.INVALID_REQUEST,
    "common_assignor": ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
}
"""By rule, the answer to restarted members as long as others break it; Java's consumer ends for good on each."""


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart: whose, with which settings, and what it leads to.

    `kind` is how the member takes part then, `offers` are its client-side assignors.
    """

    number: int
    round: int
    member_id: str
    settings: str
    kind: MemberKind
    offers: tuple[str, ...] = ()
    effect: str = ""


Costs = Callable[[LiveGroup, Sequence[Restart]], Sequence[Cost]]
"""Returns what each of the restarts of a group will move and cost."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The way, or why there is none."""

    group: LiveGroup
    goal: Goal
    refusals: tuple[Refusal, ...]
    restarts: tuple[Restart, ...]
    costs: tuple[Cost, ...]
    """One for each restart, or none where they are not predicted."""
    assumptions: tuple[str, ...]
    remark: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether nothing stands against it."""
        return not self.refusals

    def blocked(self, member_id: str) -> Refusal | None:
        """Return why a member cannot go, or None."""
        return next((each for each in self.refusals if member_id in each.member_ids), None)


def make_plan(
    group: LiveGroup,
    limits: Limits,
    goal: Goal,
    assignor: str | None = None,
    *,
    costs: Costs | None = None,
    assumed: Sequence[str] = (),
) -> MigrationPlan:
    """Return the way of `group` to `goal`; `assignor` is the client-side one to go to, where there is one.

    `assumed` is what `costs` takes for granted, in sentences.
    """
    target = assignor or ("cooperative-sticky" if goal is Goal.COOPERATIVE else "range")
    todo = {
        Goal.CONSUMER: [each for each in group.members if not each.is_native],
        Goal.CLASSIC: [each for each in group.members if each.is_native],
        Goal.COOPERATIVE: list(group.members),
    }[goal]
    if goal is Goal.COOPERATIVE and group.group_type == "consumer":
        todo = [each for each in group.members if each.is_native or target not in (each.offers or (target,))]
    if remark := _nothing_to_do(group, goal, todo, target):
        return MigrationPlan(group, goal, (), (), (), (), remark)
    if stands := refusals(group, limits, goal, target):
        return MigrationPlan(group, goal, stands, (), (), tuple(_unknowns(group, limits, goal, target)))
    restarts = tuple(_restarts(group, goal, todo, target))
    is_known = (group.group_type == "consumer" or is_predictable(group.assignor)) and is_predictable(target)
    found = tuple(costs(group, restarts)) if costs is not None and is_known else ()
    assumptions = (*_assumptions(group, limits, goal, target, is_known=is_known), *(assumed if found else ()))
    return MigrationPlan(group, goal, (), restarts, found, assumptions)


def _nothing_to_do(group: LiveGroup, goal: Goal, todo: list[LiveMember], target: str) -> str:
    if not group.members:
        return "it has no members: start them with the new settings, in any order"
    if not todo:
        return f"every member speaks the {goal.value} protocol already"
    is_alone = all(each.offers is None or set(each.offers) <= COOPERATIVE for each in group.members)
    if goal is Goal.COOPERATIVE and group.group_type == "classic" and group.assignor == target and is_alone:
        return f"it is cooperative already, with {target}"
    return ""


# -- what stands against it


def refusals(group: LiveGroup, limits: Limits, goal: Goal, target: str) -> tuple[Refusal, ...]:
    """Return what stands against the way of a group to `goal`, where `target` is the client-side assignor then."""
    return tuple(_refusals(group, limits, goal, target))


def _refusals(group: LiveGroup, limits: Limits, goal: Goal, target: str) -> Iterator[Refusal]:
    is_classic = group.group_type == "classic"
    if group.group_type not in ("classic", "consumer") or (is_classic and group.protocol_type != "consumer"):
        kind = group.protocol_type if is_classic else group.group_type
        yield Refusal("group_type", f"it is a group of type {kind or 'simple'}, not one of consumers")
        return
    if is_classic and group.state != "Stable":
        yield Refusal("group_state", f"it is {group.state}: who owns what can be read once it is Stable; ask again")
        return
    unreadable = [each.member_id for each in group.members if not each.is_readable]
    if unreadable:
        yield Refusal("unreadable", "their metadata cannot be read", tuple(unreadable))
    if goal is Goal.CONSUMER:
        yield from _consumer_refusals(group, limits)
    elif group.group_type == "consumer":
        yield from _classic_refusals(group, limits, target)
    else:
        yield from _cooperative_refusals(group, target)


def _consumer_refusals(group: LiveGroup, limits: Limits) -> Iterator[Refusal]:
    if not limits.has_consumer_protocol:
        yield Refusal("protocol_not_offered", "its coordinator does not offer the consumer protocol")
    if group.group_type != "classic":
        return
    if limits.policy not in (None, "bidirectional", "upgrade"):
        yield Refusal(
            "policy", f"group.consumer.migration.policy is {limits.policy}: it may not become a consumer group"
        )
    if limits.max_consumer_size is not None and len(group.members) > limits.max_consumer_size:
        size = limits.max_consumer_size
        yield Refusal("size", f"it has {len(group.members)} members; group.consumer.max.size is {size}")
    least = limits.min_embedded_version or 0
    old = [each for each in group.members if each.version is not None and each.version < least]
    if old:
        found = ", ".join(
            str(version) for version in sorted({each.version for each in old if each.version is not None})
        )
        text = f"their metadata has version {found}, a conversion takes {least} or newer"
        yield Refusal("embedded_version", text, _ids(old))
    if writers := [each for each in group.members if each.has_assignor_data]:
        text = f"assignor {group.assignor} sent user data along with their assignments, which would be lost"
        if limits.is_ours and not limits.ignores_echoed_data:
            text += (
                "; if it is only what the members sent themselves (librdkafka's leaders send that back), set"
                " kohort.group.migration.ignore.echoed.data=true"
            )
        yield Refusal("assignor_data", text, _ids(writers))


def _classic_refusals(group: LiveGroup, limits: Limits, target: str) -> Iterator[Refusal]:
    if limits.policy not in (None, "bidirectional", "downgrade"):
        yield Refusal(
            "policy", f"group.consumer.migration.policy is {limits.policy}: it may not become a classic group"
        )
    if limits.max_classic_size is not None and len(group.members) > limits.max_classic_size:
        yield Refusal("size", f"it has {len(group.members)} members; group.max.size is {limits.max_classic_size}")
    others = [each for each in group.members if not each.is_native and target not in (each.offers or (target,))]
    if others:
        text = f"they do not offer {target}: classic members must have an assignor in common"
        yield Refusal("common_assignor", text, _ids(others))


def _cooperative_refusals(group: LiveGroup, target: str) -> Iterator[Refusal]:
    mute = [each for each in group.members if each.version is not None and each.version < 1]
    if target in COOPERATIVE and mute:
        text = (
            "their metadata has version 0, which cannot say what a member owns: in a cooperative group that is revoked"
        )
        yield Refusal("owned_partitions", text, _ids(mute))
    without = [each for each in group.members if group.assignor not in (each.offers or (group.assignor,))]
    if without:
        text = f"they do not offer {group.assignor}, which must be offered by all until every member offers {target}"
        yield Refusal("common_assignor", text, _ids(without))


def _ids(members: Iterable[LiveMember]) -> tuple[str, ...]:
    return tuple(each.member_id for each in members)


# -- the restarts


def _restarts(group: LiveGroup, goal: Goal, todo: list[LiveMember], target: str) -> Iterator[Restart]:
    order = sorted(todo, key=lambda each: (each.name, each.member_id))
    if goal is Goal.COOPERATIVE and group.group_type == "classic":
        yield from _two_rounds(group, order, target)
        return
    kind, settings = MemberKind.CONSUMER, "group.protocol=consumer"
    offers: tuple[str, ...] = ()
    if goal is not Goal.CONSUMER:
        kind, offers = _kind(target), (target,)
        settings = f"group.protocol=classic partition.assignment.strategy={target}"
    natives = [each for each in order if each.is_native]
    for number, member in enumerate(order, 1):
        effect = ""
        if goal is Goal.CONSUMER and group.group_type == "classic" and number == 1:
            effect = "converts the group"
        elif goal is not Goal.CONSUMER and natives and member is natives[-1]:
            effect = (
                "its leaving converts the group back"
                if len(group.members) > 1
                else "the group is left, and begins anew"
            )
        yield Restart(number, 1, member.member_id, settings, kind, offers, effect)


def _kind(assignor: str) -> MemberKind:
    return MemberKind.COOPERATIVE if assignor in COOPERATIVE else MemberKind.EAGER


def _two_rounds(group: LiveGroup, order: list[LiveMember], target: str) -> Iterator[Restart]:
    number = 0
    both = (target, group.assignor)
    settings = f"partition.assignment.strategy={','.join(both)}"
    is_offered = all(each.offers is not None and target in each.offers for each in order)
    for at, member in enumerate(order if not is_offered else (), 1):
        number += 1
        effect = f"from here on all offer {target}" if at == len(order) else ""
        # A member that offers an eager assignor too behaves as an eager member.
        yield Restart(number, 1, member.member_id, settings, MemberKind.EAGER, both, effect)
    settings = f"partition.assignment.strategy={target}"
    for at, member in enumerate(order, 1):
        number += 1
        effect = "every member keeps what does not move" if at == len(order) else ""
        round_number = 1 if is_offered else 2
        yield Restart(number, round_number, member.member_id, settings, _kind(target), (target,), effect)


# -- what is assumed


def _unknowns(group: LiveGroup, limits: Limits, goal: Goal, target: str) -> Iterator[str]:
    if limits.policy is None and not (goal is Goal.COOPERATIVE and group.group_type == "classic"):
        yield "group.consumer.migration.policy could not be read: it is taken for bidirectional, the default"
    if goal is Goal.CONSUMER and limits.min_embedded_version is None and group.group_type == "classic":
        yield "this coordinator does not ask for a version of embedded metadata (Apache Kafka takes any)"
    untold = [each.name for each in group.members if not each.is_native and each.offers is None]
    if untold and goal is not Goal.CONSUMER:
        shown = group.assignor if group.group_type == "classic" else target
        yield f"which assignors classic members offer is not described: all are taken to offer {shown}"


def _assumptions(group: LiveGroup, limits: Limits, goal: Goal, target: str, *, is_known: bool) -> Iterator[str]:
    yield from _unknowns(group, limits, goal, target)
    if goal is not Goal.COOPERATIVE or group.group_type == "consumer":
        yield f"the server-side assignor is {limits.server_assignor.name}"
    if static := [each.name for each in group.members if each.instance_id is not None]:
        yield f"static members ({len(static)}) are back before their session times out, and receive nothing new"
    if any(each.regex for each in group.members) and goal is not Goal.CONSUMER:
        yield "members that subscribe with an expression match it themselves afterwards, in their client's dialect"
    if goal is Goal.COOPERATIVE and group.group_type == "classic":
        yield "members can offer eager and cooperative assignors together: Java and kohort can, librdkafka cannot"
    if not is_known:
        assignor = target if is_predictable(group.assignor) or group.group_type == "consumer" else group.assignor
        yield f"assignor {assignor} is not one that kohort knows: what its rounds move is not predicted"
