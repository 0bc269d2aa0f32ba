"""A change to a group: members that join, die or leave, topics that grow, restarts with other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kohort.assign.server.catalog import BUILT_IN
from kohort.group.classic.group import COOPERATIVE
from kohort.group.migration.migration_plan import Goal, LiveGroup, MemberKind
from kohort.what_if.group_facts import CLIENT_SIDE, MemberProfile, kind_of


class Pace(StrEnum):
    """How members are restarted."""

    ROLLING = "rolling"
    """One after another, each once the group is stable."""
    ALL = "all"
    """All at once."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """Every member is restarted once, and has `kind` from then on; None is the one it had.

    `offers` are the client-side assignors that it has then, `vote` the server-side one that it asks for.
    """

    pace: Pace = Pace.ROLLING
    kind: MemberKind | None = None
    offers: tuple[str, ...] = ()
    vote: str | None = None

    def renewed(self, profile: MemberProfile) -> MemberProfile:
        """Return a member as it comes back."""
        if self.kind is None:
            return profile
        if self.kind is MemberKind.CONSUMER:
            return replace(profile, kind=self.kind, offers=(), server_assignor=self.vote)
        return replace(profile, kind=kind_of(self.offers), offers=self.offers, server_assignor=None)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What is without restarts happens at once, in the beginning; the restarts follow when the group is stable."""

    add: int = 0
    kill: tuple[str, ...] = ()
    """Members by id, which die without a word."""
    stop: tuple[str, ...] = ()
    """Members by id, which leave."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many a topic is to have."""
    restarts: tuple[Restarts, ...] = ()


class Impossible(ValueError):
    """A change that cannot happen to this group; the text gives the cause, and what to do instead."""


def check(change: PlannedChange, group: LiveGroup) -> None:
    """Raise Impossible for what cannot happen to this group."""
    check_members(change, group.group_id, len(group.members))
    topics = ", ".join(sorted({name for member in group.members for name in member.topics})) or "no topic"
    for topic, count in sorted(change.partitions.items()):
        known = group.topics.get(topic)
        if known is None or topic not in topics.split(", "):
            missing = (
                f"there is no topic {topic!r}" if known is None else f"no member of {group.group_id} reads {topic!r}"
            )
            raise Impossible(f"{missing}: the group reads {topics}")
        if count <= known[1]:
            raise Impossible(f"{topic} has {known[1]} partitions, and topics only grow: give more than {known[1]}")


def check_members(change: PlannedChange, group_id: str, members: int) -> None:
    """Raise Impossible for members that cannot join or go so, in a group of any type that has so many."""
    if not members:
        raise Impossible(f"{group_id} has no members that a change could affect")
    if twice := sorted(set(change.kill) & set(change.stop)):
        raise Impossible(f"{twice[0]} can be killed or stopped, not both")
    if len(set(change.kill) | set(change.stop)) >= members and not change.add:
        raise Impossible("no member would be left: leave one member, or add some with --add")


def restarts_for(group: LiveGroup, goal: Goal | None, assignor: str | None, pace: Pace | None) -> tuple[Restarts, ...]:
    """Return the restarts that take a group to another protocol or assignor, or that are plain ones. Raises Impossible.

    Classic members must have an assignor in common at each moment: to go to another one they are restarted twice, first
    to offer both.
    """
    if goal is None and assignor is None:
        return () if pace is None else (Restarts(pace),)
    chosen = pace or Pace.ROLLING
    is_consumer = group.group_type == "consumer"
    if goal is Goal.CONSUMER or (goal is None and is_consumer):
        _check_server_side(assignor)
        if goal is not None and assignor is None and all(each.is_native for each in group.members):
            raise Impossible("every member speaks the consumer protocol already: --bounce rolling restarts them as is")
        return (Restarts(chosen, MemberKind.CONSUMER, vote=assignor),)
    target = assignor or ("cooperative-sticky" if goal is Goal.COOPERATIVE else "range")
    _check_client_side(target, goal)
    offered = Restarts(chosen, kind_of((target,)), (target,))
    if is_consumer or chosen is Pace.ALL:
        return (offered,)
    if group.assignor == target:
        raise Impossible(f"its assignor is {target} already: --bounce rolling restarts the members as they are")
    if goal is Goal.CLASSIC and assignor is None:
        raise Impossible("every member speaks the classic protocol already: name another assignor with --assignor")
    if group.assignor not in CLIENT_SIDE:
        raise Impossible(f"its assignor {group.assignor} cannot be simulated: its algorithm is not known")
    both = (target, group.assignor)
    return (Restarts(chosen, kind_of(both), both), offered)


def _check_server_side(assignor: str | None) -> None:
    if assignor is None or assignor in BUILT_IN:
        return
    if assignor in CLIENT_SIDE:
        text = f"{assignor} is an assignor of classic members: with the consumer protocol"
    else:
        text = f"{assignor} is no assignor that can be simulated: in the consumer protocol"
    raise Impossible(f"{text} there are {', '.join(sorted(BUILT_IN))}")


def _check_client_side(assignor: str, goal: Goal | None) -> None:
    if assignor not in CLIENT_SIDE:
        if assignor in BUILT_IN:
            text = f"{assignor} is an assignor of the consumer protocol: add --protocol consumer, or choose one of"
        else:
            text = f"{assignor} is no assignor that can be simulated: in the classic protocol there are"
        raise Impossible(f"{text} {', '.join(sorted(CLIENT_SIDE))}")
    if goal is Goal.COOPERATIVE and assignor not in COOPERATIVE:
        raise Impossible(f"{assignor} is eager: cooperative ones are {', '.join(sorted(COOPERATIVE))}")
