"""What becomes of a leader's assignments: read, checked and written, without a look at anything else.

Only `range`, `roundrobin`, `sticky` and `cooperative-sticky` of the type `consumer` are touched, and no assignment with
user data, in which an assignor sends more than partitions (Streams, Connect). In the first three a member owns
nothing while a round lasts; in `cooperative-sticky` what changes hands is withheld for a round (KIP-429).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from kohort.assign.cooperative import claimants_of, two_step
from kohort.assign.quality import faults_of
from kohort.assign.spec import GroupSpec, MemberSpec, TopicSpec, member_order
from kohort.assign.sticky import generation_of
from kohort.assign.user_data import decode_sticky, wish
from kohort.group.results import JoinedMember
from kohort.model.assignment import Assignment, Partitions
from kohort.model.cause import first_few
from kohort.model.ids import TopicPartition
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment, version_of
from kohort.wire.primitives import MalformedMessage

COOPERATIVE_STICKY = "cooperative-sticky"
STICKY = "sticky"
PROTOCOLS = frozenset({"range", "roundrobin", STICKY, COOPERATIVE_STICKY})

MOST_OWNED = 100_000
"""How many partitions the members of a group may claim to own: foreign bytes can claim millions."""

MOST_SUBSCRIPTION_BYTES = 4 * MOST_OWNED


@dataclass(frozen=True, slots=True)
class Intended:
    """What the members shall own in the end, nothing withheld; and the topics of all members, those that exist."""

    partitions: Mapping[str, Partitions]
    topics: Mapping[str, TopicSpec]


Done = Callable[[Intended | str, int], None]
"""Takes what an assignor intends, or in a sentence why it does not, and the time."""


class AssignorRunner(Protocol):
    """Runs assignors outside of the core."""

    def assignor_of(self, group_id: str, /) -> str | None:
        """Return the name of the assignor that the settings have for a group, or None."""
        ...

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done, /) -> None:
        """Run the assignor of a group, or `uniform` where there is none, and call `done`, once, now or later.

        `members` has no topics yet, and lacks drained members; `topics` are what any member subscribed to, and
        `Intended.topics` those of them that exist. What a member owned before is its `owned`; each partition has one
        owner at most.
        """
        ...


class LeftAsItIs(Exception):
    """The leader's own assignments pass; the text is the reason."""


def members_of(protocol: str, joined: Iterable[JoinedMember], seen: Mapping[str, bytes]) -> GroupSpec:
    """Return the members in the leader's JoinGroup answer, with what each one owned before.

    `seen` are their last assignments, as they were answered. Raises LeftAsItIs.
    """
    members, owned = {}, 0
    for each in joined:
        member = _member(protocol, each, seen.get(each.member_id, b""))
        members[each.member_id] = member
        owned += len(member.subscription.owned)
        if owned > MOST_OWNED:
            raise LeftAsItIs(f"its members claim to own more than {MOST_OWNED:,} partitions")
    old = sorted(name for name, member in members.items() if member.subscription.version < 1)
    if protocol == COOPERATIVE_STICKY and old:
        raise LeftAsItIs(f"it is cooperative and these members cannot say what they own: {first_few(old)}")
    return GroupSpec(members)


def _member(protocol: str, joined: JoinedMember, seen: bytes) -> MemberSpec:
    # Members of `cooperative-sticky` send what they owned, those of `sticky` remember it in their user data, and of the
    # other two the gateway saw it. No user data has to be written back: a member of `sticky` remembers what it was
    # assigned in the end, so the next leader, which reads the memories, starts from what the edge has decided.
    if len(joined.metadata) > MOST_SUBSCRIPTION_BYTES:
        raise LeftAsItIs(f"the subscription of {joined.member_id} has {len(joined.metadata):,} bytes")
    try:
        subscription = decode_subscription(joined.metadata)
        if protocol == COOPERATIVE_STICKY:
            subscription = replace(subscription, generation=generation_of(subscription))
        elif protocol == STICKY:
            memory = decode_sticky(subscription.user_data)
            subscription = replace(subscription, owned=memory.partitions, generation=memory.generation)
        else:
            subscription = replace(subscription, owned=tuple(sorted(decode_assignment(seen).partitions)))
    except MalformedMessage as error:
        raise LeftAsItIs(f"the subscription of {joined.member_id} cannot be read: {error}") from error
    return MemberSpec(subscription, joined.instance_id)


def with_single_owners(spec: GroupSpec, protocol: str, left_out: frozenset[str]) -> GroupSpec:
    """Return the members without those left out, for an assignor: each partition has one owner at most (KIP-792)."""
    owned: dict[str, list[TopicPartition]] = {}
    for partition, owners in claimants_of(spec).items():
        if len(owners) == 1:
            owned.setdefault(owners[0], []).append(partition)
    members = {}
    for name, member in spec.members.items():
        if name not in left_out:
            mine = tuple(sorted(owned.get(name, ())))
            user_data = wish(protocol, member.subscription.user_data)
            members[name] = replace(member, subscription=replace(member.subscription, owned=mine, user_data=user_data))
    return GroupSpec(members)


def own_assignments(spec: GroupSpec, assignments: Iterable[tuple[str, bytes]]) -> dict[str, Assignment]:
    """Return what the leader assigned. Raises LeftAsItIs."""
    own = {}
    for name, blob in assignments:
        try:
            own[name] = decode_assignment(blob)
        except MalformedMessage as error:
            raise LeftAsItIs(f"the leader's assignment of {name} cannot be read: {error}") from error
        user_data, member = own[name].user_data, spec.members.get(name)
        # librdkafka returns to each member the user data of that member's subscription.
        if user_data and (member is None or user_data != member.subscription.user_data):
            raise LeftAsItIs("the leader's assignments carry user data, which says more than who gets what")
    return own


def by_assignor(
    spec: GroupSpec, protocol: str, drained: frozenset[str], own: Mapping[str, Assignment], intended: Intended
) -> dict[str, Partitions]:
    """Return what each member is assigned in this round. Raises LeftAsItIs."""
    if unknown := sorted(intended.partitions.keys() - spec.members.keys()):
        raise LeftAsItIs(f"it gave partitions to {first_few(unknown)}: no such member")
    spec = GroupSpec(spec.members, intended.topics)
    given = {name: Assignment(intended.partitions.get(name, frozenset())) for name in spec.members}
    if faults := faults_of(spec, given):
        raise LeftAsItIs(first_few(faults))
    assigned = _union(given)
    if drained_given := sorted(name for name in drained if given[name].partitions):
        raise LeftAsItIs(f"it gave partitions to {first_few(drained_given)}, drained")
    existing = frozenset(
        TopicPartition(topic, number) for topic, each in spec.topics.items() for number in range(each.partitions)
    )
    served = {
        topic for name, member in spec.members.items() if name not in drained for topic in member.subscription.topics
    }
    if absent := sorted(assigned - existing):
        raise LeftAsItIs(f"it assigned partitions that do not exist: {first_few(list(map(str, absent)))}")
    if missing := sorted(each for each in existing - assigned if each.topic in served):
        raise LeftAsItIs(f"it assigned to no member: {first_few(list(map(str, missing)))}")
    if unseen := sorted(_union(own) - existing):
        raise LeftAsItIs(
            f"the leader knows partitions that the gateway does not see: {first_few(list(map(str, unseen)))}"
        )
    result = two_step(spec, given) if protocol == COOPERATIVE_STICKY else given
    # The rule gives back what no member shall have, but a drained member retains nothing.
    return {name: frozenset() if name in drained else each.partitions for name, each in result.items()}


def without_drained(spec: GroupSpec, drained: frozenset[str], own: Mapping[str, Assignment]) -> dict[str, Partitions]:
    """Return an eager leader's assignments, with what drained members got given to others, by the fewest moves.

    A partition goes to the one that owned it before, unless that one has more than another; else to the one that has
    least. One that only drained members want is left out.
    """
    given = {name: set(own[name].partitions if name in own else ()) for name in spec.members}
    before = {each: name for name, member in spec.members.items() for each in member.subscription.owned}
    order = [name for name in member_order(spec) if name not in drained]
    wants = {name: frozenset(spec.members[name].subscription.topics) for name in order}
    free = sorted(each for name in drained for each in given.get(name, ()))
    for name in drained:
        given[name] = set()
    for partition in free:
        takers = [name for name in order if partition.topic in wants[name]]
        if takers:
            taker = min(takers, key=lambda name: (len(given[name]), before.get(partition) != name))
            given[taker].add(partition)
    return {name: frozenset(mine) for name, mine in given.items()}


def written(handed_in: Iterable[tuple[str, bytes]], decided: Mapping[str, Partitions]) -> tuple[tuple[str, bytes], ...]:
    """Return assignments as the leader would have written them: each in the version in which it wrote that member's."""
    before = {name: blob for name, blob in handed_in if len(blob)}
    usual = Counter(version_of(blob) for blob in before.values()).most_common(1)
    found = []
    for name in sorted(decided):
        blob = before.get(name)
        version = version_of(blob) if blob is not None else usual[0][0] if usual else 0
        user_data = decode_assignment(blob).user_data if blob is not None else None
        found.append((name, encode_assignment(Assignment(decided[name], user_data), version)))
    return tuple(found)


def _union(assignments: Mapping[str, Assignment]) -> Partitions:
    return frozenset[TopicPartition]().union(*(each.partitions for each in assignments.values()))
