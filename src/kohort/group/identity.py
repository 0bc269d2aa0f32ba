"""Who a request comes from: a member of the group, a stranger, or an instance that another has superseded."""

from __future__ import annotations

from kohort.group.classic.group import ClassicGroup
from kohort.model.errors import ErrorCode


def identity_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return why the sender is not the member it says it is, or NONE.

    An instance id decides first: unknown, the sender is unknown; held by another member id, the sender is fenced.
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
