"""Refused joins: which answers they are, why in words, and which members of the group stand in the way.

A client may end for good on such an answer and print nothing but a number, so the refusal is an event of the group. It
changes no group. What it has beyond the answer is worked out only if the event is written (see
`node/groups/event_topic`), since any client can send joins that are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, Join
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import UNLIMITED
from kohort.group.effects import Effects, Note, Reply
from kohort.group.events import JoinRefused
from kohort.group.migration.conversion_rules import upgrade_obstacles
from kohort.group.shard import Group, Shard
from kohort.group.streams.group import StreamsGroup
from kohort.model.cause import Cause, CauseKind, first_few
from kohort.model.errors import ErrorCode

REFUSALS = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Answers that a client cannot mend by joining again at once; the others are steps of the protocol."""


def with_refusals(command: Join | ConsumerHeartbeat, effects: Effects, now_ms: int) -> Effects:
    """Yield the effects of a join, and an event if its sender is refused."""
    for effect in effects:
        yield effect
        if type(effect) is Reply and effect.to is None and effect.result.error in REFUSALS:
            message = getattr(effect.result, "error_message", None) or ""
            cause = Cause(CauseKind.JOIN_REFUSED, now_ms, command.member_id or None, message)
            yield Note(JoinRefused(command.group_id, effect.result.error, command, cause))


class Why(NamedTuple):
    """Why a join was refused, and the members of the group that stand in the way, if it is for them."""

    text: str
    member_ids: tuple[str, ...] = ()


def why_refused(shard: Shard, event: JoinRefused) -> Why:
    """Return why a join was refused, by what its group is right after. Walks all members."""
    group, request, settings = shard.groups.get(event.group_id), event.request, shard.settings
    if isinstance(request, ConsumerHeartbeat):
        found = upgrade_obstacles(group, settings) if isinstance(group, ClassicGroup) else ()
        is_obstacle = event.error is ErrorCode.INVALID_REQUEST
        return Why(event.cause.detail, tuple(each for one in found if is_obstacle for each in one.member_ids))
    match event.error:
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return _inconsistent(shard, group, request)
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            least, most = settings.min_session_timeout_ms, settings.max_session_timeout_ms
            limits = f"this broker takes {least} to {most}" if least else "its broker takes no such one"
            return Why(f"its session timeout is {request.session_timeout_ms} ms; {limits}")
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            most = settings.consumer_max_size if isinstance(group, ConsumerGroup) else settings.max_size
            if most == UNLIMITED:
                return Why("as many members are in already as its broker takes")
            return Why(f"{most} members are in already, which is the limit of this broker")
        case ErrorCode.FENCED_INSTANCE_ID if group is not None and request.instance_id in group.static_members:
            holder = group.static_members[request.instance_id]
            return Why(f"instance {request.instance_id} is {holder} now, a newer process", (holder,))
        case error:
            return Why(error.name)


def _inconsistent(shard: Shard, group: Group | None, request: Join) -> Why:
    names = [name for name, _ in request.protocols]
    if isinstance(group, StreamsGroup):
        return Why("the group is a streams group with members")
    of_group = group.protocol_type if isinstance(group, ClassicGroup) else CONSUMER_PROTOCOL_TYPE
    if not names or not request.protocol_type:
        return Why("it offers no assignor")
    if group is None or request.protocol_type != of_group:
        return Why(f"it is of protocol type {request.protocol_type!r}, and the group of {of_group!r}")
    if isinstance(group, ClassicGroup):
        offers = {member_id: [name for name, _ in member.protocols] for member_id, member in group.members.items()}
        return _no_shared_assignor(names, offers)
    settings = shard.settings
    subscription = settings.subscription_of(request.protocols[0][1])
    if subscription is None:
        return Why("its subscription cannot be read")
    if subscription.version < settings.min_embedded_version:
        least = settings.min_embedded_version
        return Why(f"its subscription has version {subscription.version}, a consumer group takes {least} or newer")
    classic = {member_id: member.classic for member_id, member in group.members.items() if member.classic is not None}
    offers = {member_id: [name for name, _ in each.protocols] for member_id, each in classic.items()}
    why = _no_shared_assignor(names, offers)
    return why if why.member_ids else Why(f"the migration policy is {settings.migration_policy}")


def _no_shared_assignor(names: Iterable[str], offers: dict[str, list[str]]) -> Why:
    """Name the members that do not offer the assignor which most of them offer of those of the sender."""
    lacking = {name: [member_id for member_id, other in offers.items() if name not in other] for name in names}
    best = min(lacking, key=lambda name: (len(lacking[name]), name))
    member_ids = tuple(sorted(lacking[best]))
    shown = first_few([f"{member_id} ({','.join(offers[member_id])})" for member_id in member_ids])
    return Why(f"it offers {','.join(lacking)}, and these members offer none that all have: {shown}", member_ids)
