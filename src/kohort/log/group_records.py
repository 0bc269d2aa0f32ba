"""The record of a classic group: type 2, written in value v3, read in every version.

A generation that awaits its sync is written in v4, which has tags: one of ours says so, and Kafka skips it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.group.events import GroupDeleted, GroupStored, StoredMember
from kohort.log.record_parts import LOADED, read_text, read_version, short, text
from kohort.wire.codec import decode, encode
from kohort.wire.messages import GroupMetadataValue

GROUP_METADATA = 2
_VERSION, _VERSION_WITH_TAGS = 3, 4


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group's record."""
    return short(GROUP_METADATA) + text(group_id)


def group_value(event: GroupStored) -> bytes:
    """Return the value of a classic group's record."""
    value = GroupMetadataValue(
        protocol_type=event.protocol_type or "",
        generation=event.generation,
        protocol=event.protocol_name,
        leader=event.leader,
        current_state_timestamp=event.state_timestamp_ms,
        members=[
            GroupMetadataValue.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in event.members
        ],
        awaits_sync=not event.is_synced,
    )
    version = _VERSION if event.is_synced else _VERSION_WITH_TAGS
    return short(version) + encode(value, version)


def read_group(key: bytes, value: bytes | None) -> GroupStored | GroupDeleted:
    """Return what a record of type 2 says. Raises MalformedMessage."""
    group_id, _ = read_text(key, 2)
    if value is None:
        return GroupDeleted(group_id, LOADED)
    found, _ = decode(GroupMetadataValue, read_version(value, _VERSION_WITH_TAGS), value, 2)
    return GroupStored(
        group_id=group_id,
        protocol_type=found.protocol_type or None,
        generation=found.generation,
        protocol_name=found.protocol,
        leader=found.leader,
        state_timestamp_ms=found.current_state_timestamp,
        members=tuple(_stored_members(found.members)),
        cause=LOADED,
        is_synced=not found.awaits_sync,
    )


def _stored_members(members: Iterable[GroupMetadataValue.Member]) -> Iterator[StoredMember]:
    for member in members:
        # Before v1 a member had one timeout for both.
        has_own = member.rebalance_timeout >= 0
        yield StoredMember(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout if has_own else member.session_timeout,
            session_timeout_ms=member.session_timeout,
            subscription=member.subscription,
            assignment=member.assignment,
        )
