"""The variants of a forecast: the same change to the same members in each of the protocols.

Members of a variant begin with what its assignor would give them, computed without a coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kohort.assign.server.spec import ServerAssignor, ServerGroup, ServerMember, ServerTopic
from kohort.assign.spec import GroupSpec, MemberSpec, TopicSpec
from kohort.group.classic.group import COOPERATIVE
from kohort.group.migration.migration_plan import MemberKind
from kohort.model.assignment import Assignment, Partitions, each
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.what_if.change import PlannedChange
from kohort.what_if.forecast import Forecast
from kohort.what_if.group_facts import CLIENT_SIDE, GroupFacts, MemberProfile, Roster, Times, roster_of
from kohort.what_if.simulation import Advanced, simulate
from kohort.what_if.virtual_broker import lags_with_ids, with_ids

Owned = Mapping[str, Partitions]
Topics = Mapping[str, tuple[bytes, int]]
"""The id and the number of partitions of each topic."""


def client_target(
    assignor: str, profiles: Mapping[str, MemberProfile], owned: Owned, topics: Topics
) -> dict[str, Partitions]:
    """Return what a client-side assignor would have all members own in the end."""
    # Both sticky ones have one engine; here all remember what they owned.
    made = CLIENT_SIDE["cooperative-sticky" if assignor == "sticky" else assignor]()
    members = {
        member_id: MemberSpec(
            Subscription(
                tuple(sorted(profile.topics)),
                owned=tuple(sorted(owned.get(member_id, ()))),
                generation=1,
                rack=profile.rack,
            ),
            profile.instance_id,
        )
        for member_id, profile in sorted(profiles.items())
    }
    wanted = {topic for profile in profiles.values() for topic in profile.topics}
    known = {name: TopicSpec(count) for name, (_, count) in topics.items() if count and name in wanted}
    spec = GroupSpec(members, known)
    # A cooperative one withholds what changes hands; `intended` is what it aims at.
    intended = getattr(made, "intended", made.assign)
    found: Mapping[str, Assignment] = intended(spec)
    return {member_id: found[member_id].partitions for member_id in members}


def server_target(
    assignor: ServerAssignor, profiles: Mapping[str, MemberProfile], owned: Owned, topics: Topics
) -> dict[str, Partitions]:
    """Return what a server-side assignor gives to all members."""
    ids = {name: topic_id for name, (topic_id, _) in topics.items()}
    names = {topic_id: name for name, topic_id in ids.items()}
    subscribed = {profile.topics for profile in profiles.values()}
    known = {
        topic_id: ServerTopic(name, count)
        for name, (topic_id, count) in sorted(topics.items())
        if any(name in wanted for wanted in subscribed)
    }
    by_ids = {wanted: frozenset(ids[name] for name in wanted if name in ids) for wanted in subscribed}
    members = {
        member_id: ServerMember(
            topics=by_ids[profile.topics],
            previous=with_ids(owned.get(member_id, frozenset()), ids),
            instance_id=profile.instance_id,
            rack=profile.rack,
            lags=lags_with_ids(profile.lags, ids),
            acceptable_recovery_lag=profile.acceptable_recovery_lag,
        )
        for member_id, profile in sorted(profiles.items())
    }
    target = assignor.assign(ServerGroup(members, known, len(subscribed) == 1))
    return {
        member_id: frozenset(
            TopicPartition(names[topic_id], number) for topic_id, number in each(target.get(member_id, ()))
        )
        for member_id in members
    }


NOW = "as it is"
STATIC = "static"


def variants(
    facts: GroupFacts, server: ServerAssignor, *, has_consumer_protocol: bool = True
) -> Iterator[tuple[str, Roster]]:
    """Yield the group as it is, unless one of the others is that, and in each protocol, by name.

    Members of a variant own what its assignor gives them when they own what they own now. Static members go by the
    protocol that the group has.
    """
    now = roster_of(facts.group)
    if name_of_now(facts) == NOW:
        yield NOW, now
    for kind in (MemberKind.EAGER, MemberKind.COOPERATIVE):
        yield kind.value, _variant(facts, now, kind, server, is_static=False)
    base = MemberKind.CONSUMER if now.is_consumer else min(now.kinds) if len(now.kinds) == 1 else MemberKind.EAGER
    yield STATIC, _variant(facts, now, base, server, is_static=True)
    if has_consumer_protocol:
        yield MemberKind.CONSUMER.value, _variant(facts, now, MemberKind.CONSUMER, server, is_static=False)


def name_of_now(facts: GroupFacts) -> str:
    """Return the name of the variant that the group is."""
    now = roster_of(facts.group)
    if len(now.kinds) != 1 or 0 < now.static_members < len(now.profiles):
        return NOW
    return STATIC if now.static_members else next(iter(now.kinds)).value


def compare(
    facts: GroupFacts,
    times: Times,
    change: PlannedChange,
    server: ServerAssignor,
    advanced: Advanced,
    *,
    has_consumer: bool,
) -> list[Forecast]:
    """Return a forecast for each variant."""
    return [
        simulate(facts, roster, times, change, name, advanced)
        for name, roster in variants(facts, server, has_consumer_protocol=has_consumer)
    ]


def _variant(facts: GroupFacts, now: Roster, kind: MemberKind, server: ServerAssignor, *, is_static: bool) -> Roster:
    is_kind = now.kinds == {kind}
    assignor = now.assignor if is_kind else ""
    if kind is MemberKind.CONSUMER:
        assignor = assignor or server.name
    elif assignor not in CLIENT_SIDE or (assignor in COOPERATIVE) is not (kind is MemberKind.COOPERATIVE):
        assignor = "cooperative-sticky" if kind is MemberKind.COOPERATIVE else "range"
    profiles = {
        member_id: _with_kind(profile, kind, assignor, (profile.instance_id or profile.name) if is_static else None)
        for member_id, profile in now.profiles.items()
    }
    owned = now.owned
    if not is_kind:
        topics = facts.group.topics
        if kind is MemberKind.CONSUMER:
            owned = server_target(server, profiles, now.owned, topics)
        else:
            owned = client_target(assignor, profiles, now.owned, topics)
    return Roster(profiles, owned, assignor)


def _with_kind(profile: MemberProfile, kind: MemberKind, assignor: str, instance_id: str | None) -> MemberProfile:
    if kind is MemberKind.CONSUMER:
        return replace(profile, kind=kind, offers=(), server_assignor=None, instance_id=instance_id)
    offers = profile.offers if profile.kind is kind and assignor in profile.offers else (assignor,)
    return replace(profile, kind=kind, offers=offers, server_assignor=None, instance_id=instance_id)
