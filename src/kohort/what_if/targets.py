"""What a group's assignor gives to whom, without a coordinator: where a group of another kind would begin."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.assign.server.spec import ServerAssignor, ServerGroup, ServerMember, ServerTopic
from kohort.assign.spec import GroupSpec, MemberSpec, TopicSpec
from kohort.model.assignment import Assignment, Partitions
from kohort.model.id_partitions import each
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.what_if.group_facts import CLIENT_SIDE, Role
from kohort.what_if.seeding import lags_with_ids, with_ids

Owned = Mapping[str, Partitions]
Topics = Mapping[str, tuple[bytes, int]]
"""The id and the number of partitions of each topic."""


def client_target(assignor: str, roles: Mapping[str, Role], owned: Owned, topics: Topics) -> dict[str, Partitions]:
    """Return what a client-side assignor would have all members own in the end."""
    # Both sticky ones have one engine; here all remember what they owned.
    made = CLIENT_SIDE["cooperative-sticky" if assignor == "sticky" else assignor]()
    members = {
        member_id: MemberSpec(
            Subscription(
                tuple(sorted(role.topics)),
                owned=tuple(sorted(owned.get(member_id, ()))),
                generation=1,
                rack=role.rack,
            ),
            role.instance_id,
        )
        for member_id, role in sorted(roles.items())
    }
    wanted = {topic for role in roles.values() for topic in role.topics}
    known = {name: TopicSpec(count) for name, (_, count) in topics.items() if count and name in wanted}
    spec = GroupSpec(members, known)
    # A cooperative one withholds what changes hands; `intended` tells what it means to do.
    intended = getattr(made, "intended", made.assign)
    found: Mapping[str, Assignment] = intended(spec)
    return {member_id: found[member_id].partitions for member_id in members}


def server_target(
    assignor: ServerAssignor, roles: Mapping[str, Role], owned: Owned, topics: Topics
) -> dict[str, Partitions]:
    """Return what a server-side assignor gives to all members."""
    ids = {name: topic_id for name, (topic_id, _) in topics.items()}
    names = {topic_id: name for name, topic_id in ids.items()}
    subscribed = {role.topics for role in roles.values()}
    known = {
        topic_id: ServerTopic(name, count)
        for name, (topic_id, count) in sorted(topics.items())
        if any(name in wanted for wanted in subscribed)
    }
    by_ids = {wanted: frozenset(ids[name] for name in wanted if name in ids) for wanted in subscribed}
    members = {
        member_id: ServerMember(
            topics=by_ids[role.topics],
            previous=with_ids(owned.get(member_id, frozenset()), ids),
            instance_id=role.instance_id,
            rack=role.rack,
            lags=lags_with_ids(role.lags, ids),
            acceptable_recovery_lag=role.acceptable_recovery_lag,
        )
        for member_id, role in sorted(roles.items())
    }
    target = assignor.assign(ServerGroup(members, known, len(subscribed) == 1))
    return {
        member_id: frozenset(
            TopicPartition(names[topic_id], number) for topic_id, number in each(target.get(member_id, ()))
        )
        for member_id in members
    }
