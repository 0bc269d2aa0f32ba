"""The same change to the same members in each of the protocols: who would be where, and what they would own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kohort.assign.server.spec import ServerAssignor
from kohort.group.member_kinds import COOPERATIVE, Kind
from kohort.what_if.change import Change
from kohort.what_if.forecast import Forecast
from kohort.what_if.group_facts import CLIENT_SIDE, Cast, Facts, Role, Times, cast_of
from kohort.what_if.simulation import Advanced, play
from kohort.what_if.targets import client_target, server_target

NOW = "as it is"
STATIC = "static"


def variants(facts: Facts, server: ServerAssignor, *, has_consumer_protocol: bool = True) -> Iterator[tuple[str, Cast]]:
    """Yield the group as it is, unless one of the others is that, and in each protocol, by name.

    Members of a variant own what its assignor gives them when they own what they own now. Static members go by the
    protocol that the group has.
    """
    now = cast_of(facts.group)
    kinds = {role.kind for role in now.roles.values()}
    is_static = any(role.instance_id is not None for role in now.roles.values())
    names = {Kind.EAGER: "eager", Kind.COOPERATIVE: "cooperative", Kind.CONSUMER: "consumer"}
    kind_now = next(iter(kinds)) if len(kinds) == 1 else None
    base = kind_now or (Kind.CONSUMER if now.is_consumer else Kind.EAGER)
    if kind_now is None or (is_static and not _is_all_static(now)):
        yield NOW, now
    for kind in (Kind.EAGER, Kind.COOPERATIVE):
        yield names[kind], _variant(facts, now, kind, server, is_static=False)
    yield STATIC, _variant(facts, now, base, server, is_static=True)
    if has_consumer_protocol:
        yield names[Kind.CONSUMER], _variant(facts, now, Kind.CONSUMER, server, is_static=False)


def name_of_now(facts: Facts) -> str:
    """Return which variant the group is."""
    now = cast_of(facts.group)
    kinds = {role.kind for role in now.roles.values()}
    if len(kinds) != 1:
        return NOW
    if _is_all_static(now):
        return STATIC
    is_static = any(role.instance_id is not None for role in now.roles.values())
    return NOW if is_static else str(next(iter(kinds)))


def compare(
    facts: Facts, times: Times, change: Change, server: ServerAssignor, advanced: Advanced, *, has_consumer: bool
) -> list[Forecast]:
    """Return a forecast for each variant."""
    return [
        play(facts, cast, times, change, name, advanced)
        for name, cast in variants(facts, server, has_consumer_protocol=has_consumer)
    ]


def _is_all_static(cast: Cast) -> bool:
    return all(role.instance_id is not None for role in cast.roles.values())


def _variant(facts: Facts, now: Cast, kind: Kind, server: ServerAssignor, *, is_static: bool) -> Cast:
    is_kind = {role.kind for role in now.roles.values()} == {kind}
    assignor = now.assignor if is_kind else ""
    if kind is Kind.CONSUMER:
        assignor = assignor or server.name
    elif assignor not in CLIENT_SIDE or (assignor in COOPERATIVE) is not (kind is Kind.COOPERATIVE):
        assignor = "cooperative-sticky" if kind is Kind.COOPERATIVE else "range"
    roles = {
        member_id: _as(role, kind, assignor, (role.instance_id or role.name) if is_static else None)
        for member_id, role in now.roles.items()
    }
    owned = now.owned
    if not is_kind:
        topics = facts.group.topics
        if kind is Kind.CONSUMER:
            owned = server_target(server, roles, now.owned, topics)
        else:
            owned = client_target(assignor, roles, now.owned, topics)
    return Cast(roles, owned, assignor)


def _as(role: Role, kind: Kind, assignor: str, instance_id: str | None) -> Role:
    if kind is Kind.CONSUMER:
        return replace(role, kind=kind, offers=(), server_assignor=None, instance_id=instance_id)
    offers = role.offers if role.kind is kind and assignor in role.offers else (assignor,)
    return replace(role, kind=kind, offers=offers, server_assignor=None, instance_id=instance_id)
