"""What the members of a program's own group agree on: a name, how metadata and assignments are written, who assigns.

A group's leader is sent the metadata of all members, and its function returns what each of them gets. With
`EagerProtocol` that is any value, and a member revokes all of it before each round: to the state machine it is one
partition, `WHOLE`. With `CooperativeProtocol` it is a set of names; a name goes to its next owner only after the one
before has revoked it (KIP-429). Each is partition 0 of a topic of that name, and such members write what consumers
write (ConsumerProtocolSubscription and ConsumerProtocolAssignment, version 3), so that what is owned, and since which
generation (KIP-792), travels with the metadata. No topic of the cluster is meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from kohort.assign.cooperative import claimants_of, two_step
from kohort.assign.spec import GroupSpec, RebalanceProtocol, StatelessAssignor
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition
from kohort.model.setting import of_type
from kohort.model.subscription import Subscription
from kohort.wire.codec import Buffer
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment, encode_subscription

M = TypeVar("M")
A = TypeVar("A")
T = TypeVar("T")


class Codec(Protocol[T]):
    """How a value becomes bytes, and is read. Both must do the same in every member of the group."""

    def encode(self, value: T) -> bytes:
        """Return the value as bytes."""

    def decode(self, data: bytes) -> T:
        """Return the value of bytes that `encode` made. Raises ValueError where they are no such bytes."""


class JsonCodec:
    """JSON in UTF-8. No bytes at all, which is what a member gets that the leader has left out, are None."""

    def encode(self, value: Any) -> bytes:
        """Return compact JSON, keys sorted. Raises TypeError for what JSON cannot write."""
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()

    def decode(self, data: bytes) -> Any:
        """Return the value. Raises ValueError."""
        try:
            return json.loads(data) if data else None
        except RecursionError:
            raise ValueError("its lists or objects are nested too deeply") from None


class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: bytes | None) -> bytes:
        """Return the bytes; None is none at all. Raises TypeError for anything else."""
        if not isinstance(value, bytes | None):
            raise TypeError(f"{value!r} is not bytes: pass bytes, or a codec such as codec=JsonCodec()")
        return value or b""

    def decode(self, data: bytes) -> bytes:
        """Return the bytes."""
        return data


BYTES: Codec[Any] = BytesCodec()


@dataclass(frozen=True, slots=True)
class MemberMetadata(Generic[M]):
    """One member, as the leader's function is given it.

    `instance_id` is its `group_instance_id`, or None; `owned` are the names that are its own until it revokes them,
    empty in an eager group.
    """

    member_id: str
    instance_id: str | None
    metadata: M
    owned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerProtocol(Generic[M, A]):
    """Members stop before each round, and get any value from it.

    `assign` is called in the leader, with the members by id, and returns a value by member id; a member that it leaves
    out gets no bytes. It must not block. `codec` is that of the metadata, `assignment_codec` that of the values.
    """

    name: str
    assign: Callable[[Sequence[MemberMetadata[M]]], Mapping[str, A]]
    codec: Codec[M] = BYTES
    assignment_codec: Codec[A] = BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperativeProtocol(Generic[M]):
    """Members share names out, and continue with those that they still own while a round is under way.

    `assign` is called in the leader, with the members by id, and returns names by member id, each name once. It must
    not block, and need not care who owned a name: what must be revoked first is withheld for one round. `codec` is
    that of the metadata.
    """

    name: str
    assign: Callable[[Sequence[MemberMetadata[M]]], Mapping[str, Collection[str]]]
    codec: Codec[M] = BYTES


GroupProtocol = EagerProtocol[Any, Any] | CooperativeProtocol[Any]


def share_evenly(names: Iterable[str]) -> Callable[[Sequence[MemberMetadata[Any]]], dict[str, frozenset[str]]]:
    """Return a function for `CooperativeProtocol` that gives all members about as many names and moves the fewest.

    `names` is read in each round: a list that the program changes counts from the next one.
    """

    def assign(members: Sequence[MemberMetadata[Any]]) -> dict[str, frozenset[str]]:
        free = set(names)
        least, more = divmod(len(free), len(members))
        # Who owns the most is assigned one more than the least, so that the fewest names move.
        order = sorted(members, key=lambda member: (-len(member.owned & free), member.member_id))
        quotas = {member.member_id: least + (place < more) for place, member in enumerate(order)}
        assigned: dict[str, list[str]] = {}
        for member in order:
            owned = sorted(member.owned & free)[: quotas[member.member_id]]
            assigned[member.member_id] = owned
            free -= set(owned)
        left = iter(sorted(free))
        for member in order:
            given = assigned[member.member_id]
            given += islice(left, quotas[member.member_id] - len(given))
        return {member_id: frozenset(given) for member_id, given in assigned.items()}

    return assign


WHOLE = TopicPartition("the whole assignment", 0)

_VALUE = b"v"
"""Stands before an eager member's value, since the user data of an assignment has meanings of its own."""

AssignmentCallback = Callable[[str, Any, int], None]
"""Takes the protocol's name, an assignment and its generation."""


def names_of(partitions: Iterable[TopicPartition]) -> frozenset[str]:
    """Return the names that partitions stand for."""
    return frozenset(partition.topic for partition in partitions)


def _partitions_of(names: Iterable[str]) -> Partitions:
    return frozenset(TopicPartition(name, 0) for name in names)


class Metadata:
    """What a member sends about itself; the program may replace it."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class OwnProtocol:
    """All protocols that one member offers: its embedded protocol."""

    protocol_type: str
    protocols: Mapping[str, GroupProtocol]
    metadata: Metadata
    is_cooperative: bool
    has_topics = False

    def encode_subscription(self, name: str, subscription: Subscription) -> bytes:
        """Return the metadata, in a cooperative group with what is owned. Raises what the codec raises."""
        data = self.protocols[name].codec.encode(self.metadata.value)
        if not self.is_cooperative:
            return data
        return encode_subscription(Subscription((), data, subscription.owned, subscription.generation))

    def decode_subscription(self, blob: Buffer) -> Subscription:
        """Read another member's; its metadata is left as bytes."""
        return decode_subscription(blob) if self.is_cooperative else Subscription((), bytes(blob))

    def encode_assignment(self, assignment: Assignment) -> bytes:
        """Return names, or the value."""
        return encode_assignment(assignment) if self.is_cooperative else (assignment.user_data or _VALUE)[len(_VALUE) :]

    def decode_assignment(self, blob: Buffer) -> Assignment:
        """Read names, or the value."""
        return decode_assignment(blob) if self.is_cooperative else Assignment(frozenset({WHOLE}), _VALUE + bytes(blob))


class OwnAssignor(StatelessAssignor):
    """One protocol of a program's as an assignor: its function for the leader, and what the member was assigned."""

    def __init__(self, protocol: GroupProtocol, set_assignment: AssignmentCallback) -> None:
        self._protocol = protocol
        self._set_assignment = set_assignment

    @property
    def name(self) -> str:
        """The protocol's name."""
        return self._protocol.name

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """How members revoke what they own."""
        is_eager = isinstance(self._protocol, EagerProtocol)
        return (RebalanceProtocol.EAGER if is_eager else RebalanceProtocol.COOPERATIVE,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Have the program's function assign. Raises ValueError for an assignment that cannot be meant."""
        claimed: dict[str, set[str]] = {member_id: set() for member_id in spec.members}
        for partition, claimants in claimants_of(spec).items():
            if len(claimants) == 1:
                claimed[claimants[0]].add(partition.topic)
        members = [
            MemberMetadata(
                member_id, each.instance_id, self._metadata(member_id, each.subscription), frozenset(claimed[member_id])
            )
            for member_id, each in sorted(spec.members.items())
        ]
        assigned = self._protocol.assign(members)
        if unknown := sorted(assigned.keys() - spec.members.keys()):
            raise ValueError(f"{self.name} assigns to {unknown[0]!r}, which is no member of the group")
        if isinstance(self._protocol, CooperativeProtocol):
            return two_step(spec, _shared_out(self.name, spec.members, assigned))
        codec = self._protocol.assignment_codec
        values = {
            member_id: codec.encode(assigned[member_id]) if member_id in assigned else b"" for member_id in spec.members
        }
        return {member_id: Assignment(frozenset({WHOLE}), _VALUE + value) for member_id, value in values.items()}

    def _metadata(self, member_id: str, subscription: Subscription) -> Any:
        try:
            return self._protocol.codec.decode(subscription.user_data or b"")
        except Exception as error:
            raise ValueError(f"the metadata of member {member_id} cannot be read: {error}") from error

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Pass the assignment to the member. Raises what the codec raises."""
        if isinstance(self._protocol, CooperativeProtocol):
            self._set_assignment(self.name, names_of(assignment.partitions), generation)
        else:
            value = self._protocol.assignment_codec.decode((assignment.user_data or _VALUE)[len(_VALUE) :])
            self._set_assignment(self.name, value, generation)


def _shared_out(name: str, members: Collection[str], assigned: Mapping[str, Collection[str]]) -> dict[str, Assignment]:
    owners: dict[str, str] = {}
    for member_id, names in sorted(assigned.items()):
        if isinstance(names, str):
            raise of_type(f"what {name} assigns to {member_id}", names, "a collection of names")
        for each in names:
            if not isinstance(each, str):
                raise of_type(f"what {name} assigns to {member_id}", each, "a name, of type str")
            if owners.setdefault(each, member_id) != member_id:
                raise ValueError(f"{name} assigns {each!r} to {owners[each]} and to {member_id}")
    return {member_id: Assignment(_partitions_of(assigned.get(member_id, ()))) for member_id in members}


def check_protocols(protocols: Sequence[GroupProtocol]) -> bool:
    """Return whether they are cooperative. Raises TypeError, ValueError where they do not go together."""
    if not protocols:
        raise ValueError("protocols is empty: pass an EagerProtocol or a CooperativeProtocol")
    for each in protocols:
        if not isinstance(each, EagerProtocol | CooperativeProtocol):
            raise of_type("one of protocols", each, "an EagerProtocol or a CooperativeProtocol")
    names = [each.name for each in protocols]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the protocol {doubled[0]} is offered twice: each name may be there once")
    kinds = {isinstance(each, CooperativeProtocol) for each in protocols}
    if len(kinds) > 1:
        raise ValueError("one member offers eager or cooperative protocols, not both: a member revokes all or a part")
    return kinds.pop()
