"""What the members of a program's own group agree on: a name, how metadata and assignments are written, who assigns.

A group's leader is sent the metadata of all members, and its function returns what each of them gets. With
`EagerProtocol` that is any value, and a member revokes all of it before each round. With `CooperativeProtocol` it is a
set of names, such as shards or tenants: a member still owns what it is assigned again; a name goes to its next owner
only after the one before has revoked it (KIP-429).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

M = TypeVar("M")
A = TypeVar("A")
T = TypeVar("T")


class Codec(Protocol[T]):
    """How a value becomes bytes, and is read. Both must do the same in every member of the group."""

    def encode(self, value: T) -> bytes:
        """Return the value as bytes."""
        ...

    def decode(self, data: bytes) -> T:
        """Return the value of bytes that `encode` made. Raises ValueError where they are no such bytes."""
        ...


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
