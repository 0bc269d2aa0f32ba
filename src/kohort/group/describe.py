"""What an operator sees of a classic group. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kohort.group.classic_group import ClassicGroup, Phase
from kohort.group.shard import Shard


class DescribedMember(NamedTuple):
    """One member as DescribeGroups shows it: outside a Stable group without metadata, and with its last assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """One group as DescribeGroups shows it."""

    group_id: str
    state: Phase
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]
    rebalances_avoided: int = 0
    """How many rounds were spared because a member said that nothing had changed; since the group was loaded."""


class ListedGroup(NamedTuple):
    """One group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: Phase
    group_type: str


GROUP_TYPE = "classic"


def describe(shard: Shard, group_id: str) -> DescribedGroup | None:
    """Return a group with its members by id, or None when there is no such group."""
    group = shard.groups.get(group_id)
    if group is None or group.phase is Phase.DEAD:
        return None
    is_settled = group.phase is Phase.STABLE
    return DescribedGroup(
        group_id=group_id,
        state=group.phase,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol_name or "") if is_settled else "",
        members=tuple(_described(group, member_id, is_settled) for member_id in sorted(group.members)),
        rebalances_avoided=group.rebalances_avoided,
    )


def _described(group: ClassicGroup, member_id: str, is_settled: bool) -> DescribedMember:
    member = group.members[member_id]
    return DescribedMember(
        member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(group.protocol_name) if is_settled else b"",
        member.assignment,
    )


def list_groups(shard: Shard, states: frozenset[str], types: frozenset[str]) -> Iterator[ListedGroup]:
    """Yield the groups in one of `states` and of one of `types`, both in lower case; an empty filter takes all."""
    if types and GROUP_TYPE not in types:
        return
    for group_id, group in sorted(shard.groups.items()):
        if not states or group.phase.lower() in states:
            yield ListedGroup(group_id, group.protocol_type or "", group.phase, GROUP_TYPE)
