"""What the log holds of a classic group: the events that become its record.

A generation is stored twice: when it forms, before any member hears of it, and when it has its assignments. So
whoever replays the log knows every generation that a member may speak of, and who is in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.group.classic.group import ClassicGroup, Member
from kohort.group.events import GenerationFormed, GroupStored, StoredMember
from kohort.model.cause import Cause


def synced(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int, cause: Cause) -> GroupStored:
    """Return the group's generation with these assignments, members by id."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader=group.leader,
        state_timestamp_ms=now_ms,
        members=tuple(
            stored_member(member, group.protocol_name, assignments.get(member_id, b""))
            for member_id, member in sorted(group.members.items())
        ),
        cause=cause,
    )


def unsynced(group: ClassicGroup, formed: GenerationFormed) -> GroupStored:
    """Return the generation that forms, which awaits its leader's SyncGroup."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=formed.generation,
        protocol_name=formed.protocol_name,
        leader=formed.leader,
        state_timestamp_ms=formed.cause.at_ms,
        members=tuple(stored_member(member, formed.protocol_name, b"") for _, member in sorted(group.members.items())),
        cause=formed.cause,
        is_synced=False,
    )


def emptied(group: ClassicGroup, cause: Cause, now_ms: int) -> GroupStored:
    """Return that nobody is left after a round."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation + 1,
        protocol_name=None,
        leader=None,
        state_timestamp_ms=now_ms,
        members=(),
        cause=cause,
    )


def stored_member(member: Member, protocol_name: str | None, assignment: bytes) -> StoredMember:
    """Return what is stored of one member: of its protocols only the one that was chosen."""
    return StoredMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol_name),
        assignment,
    )
