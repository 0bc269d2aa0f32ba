"""One event of a group as JSON says it: the fields that `explain` and everybody else read.

An event is `Noted` when it happens, together with what is gone a moment later, and told when its batch is written.
The embedded `consumer` protocol is decoded; opaque metadata and assignments of other protocol types are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, Protocols
from kohort.group.events import (
    AssignmentFailed,
    ConsumerMemberOut,
    Event,
    GatheringFailed,
    GenerationFormed,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    GroupUnloaded,
    InitialDelayExtended,
    JoinRefused,
    MemberAdded,
    MemberIdIssued,
    MemberRecognized,
    MemberRejoined,
    MemberRemoved,
    OffsetCommitted,
    OffsetDeleted,
    PendingMemberDropped,
    RebalanceAvoided,
    RevocationsAwaited,
    RoundAnnounced,
    RoundOpened,
    StaticMemberReplaced,
    SyncReceived,
    SyncsReleased,
)
from kohort.group.join_refusals import Why
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import topic_id_text
from kohort.node.groups.consumer_event_fields import (
    CONSUMER_NAMES,
    UNWRITTEN,
    Fields,
    TopicName,
    consumer_fields,
    is_conversion,
)
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import assigned_by_topic, claimed_by_topic


class Noted(NamedTuple):
    """An event and what its group was right after it."""

    event: Event
    phase: str | None
    generation: int
    size: int
    members: tuple[str, ...] | None
    """Whoever is in the group, where the event is about all of them."""
    synced: dict[str, int] | None = None
    """When each member asked for the assignment that was stored."""
    awaiting: tuple[str, ...] = ()
    """Members that have not asked for it yet."""
    loaded: Callable[[TopicName], Fields] | None = None
    """What a group is that was taken up from its log, or what else is told with its event."""
    is_consumer: bool = False
    """Whether it was a consumer group: then `generation` is its epoch."""
    silent_ms: int = -1
    """How long the member that another one replaces had sent nothing, where that is known."""


MOST_NAMED = 100
"""How many members an event names that stand in the way of a join."""

_UNWRITTEN = frozenset({OffsetCommitted, OffsetDeleted, *UNWRITTEN})


def is_unwritten(event: Event) -> bool:
    """Whether an event is no news: commits are many, and a stored generation has just been told as formed."""
    kind = type(event)
    return kind in _UNWRITTEN or (kind is GroupStored and not event.is_synced)  # type: ignore[union-attr]


def event_name(event: Event) -> str:
    """Return what people call an event."""
    match event:
        case MemberRemoved() | ConsumerMemberOut():
            is_own_will = event.cause.kind in (CauseKind.MEMBER_LEFT, CauseKind.MEMBER_REMOVED)
            return "member_left" if is_own_will else "member_evicted"
        case GroupStored():
            if event.members:
                return "assignment_stored"
            return "group_emptied" if event.generation else "group_created"
        case _:
            return NAMES.get(type(event)) or _snake(type(event).__name__)


NAMES: dict[type, str] = {
    MemberIdIssued: "member_id_issued",
    PendingMemberDropped: "member_id_dropped",
    MemberAdded: "member_joined",
    MemberRejoined: "member_rejoined",
    StaticMemberReplaced: "member_replaced",
    MemberRemoved: "member_left or member_evicted",
    RoundOpened: "round_opened",
    RoundAnnounced: "round_announced",
    InitialDelayExtended: "initial_delay_extended",
    GenerationFormed: "generation_formed",
    SyncReceived: "member_synced",
    MemberRecognized: "member_recognized",
    RebalanceAvoided: "rebalance_avoided",
    AssignmentFailed: "assignment_failed",
    RevocationsAwaited: "revocations_awaited",
    SyncsReleased: "syncs_released",
    JoinRefused: "join_refused",
    GatheringFailed: "gathering_failed",
    GroupLoaded: "group_loaded",
    GroupStored: "assignment_stored, group_emptied or group_created",
    GroupDeleted: "group_deleted",
    GroupUnloaded: "group_unloaded",
    **CONSUMER_NAMES,
}
"""What each type of event is called. A type that is not here is told under its own name, with all its fields."""


def event_fields(noted: Noted, name_of: TopicName = topic_id_text) -> Fields:
    """Return an event as JSON can say it; `name_of` names topics."""
    event = noted.event
    cause = event.cause
    told: Fields = {"at_ms": cause.at_ms, "group": event.group_id, "event": event_name(event)}
    if noted.phase is not None:
        told["epoch" if noted.is_consumer else "generation"] = noted.generation
        told["state"] = noted.phase
    said = consumer_fields(event, name_of)
    told |= PARTICULARS.get(type(event), _all_fields)(event) if said is None else said
    if noted.members is not None:
        told["members"] = sorted(noted.members)
    elif noted.phase is not None:
        told["size"] = noted.size
    if noted.loaded is not None:
        told |= noted.loaded(name_of)
    if noted.synced is not None:
        told["synced"] = noted.synced
    if noted.awaiting:
        told["awaiting"] = sorted(noted.awaiting)
    if noted.silent_ms >= 0:
        told["silent_ms"] = noted.silent_ms
    told["cause"] = {"kind": cause.kind, "member": cause.member_id, "detail": cause.detail, "at_ms": cause.at_ms}
    return told


def loaded_fields(group: ClassicGroup) -> Callable[[TopicName], Fields]:
    """Return how to say what a group is that its coordinator has replayed; the events of its past may be gone."""
    assignments: dict[str, dict[str, list[int]]] | None = None
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        assignments = _decoded({member_id: member.assignment for member_id, member in group.members.items()})
    told = {
        "protocol": group.protocol_name,
        "leader": group.leader,
        "clients": {each.member_id: [each.client_id, each.instance_id] for _, each in sorted(group.members.items())},
        "assignments": assignments,
    }
    return lambda _: told


def _member(event: Any) -> Fields:
    return {"member": event.member_id}


def _member_added(event: MemberAdded) -> Fields:
    topics, owned = _said(event.protocol_type, event.protocols)
    return {
        "member": event.member_id,
        "instance": event.instance_id,
        "client": event.client_id,
        "host": event.client_host,
        "session_timeout_ms": event.session_timeout_ms,
        "rebalance_timeout_ms": event.rebalance_timeout_ms,
        "protocols": [name for name, _ in event.protocols],
        "topics": topics,
        "owned": owned,
    }


def _member_rejoined(event: MemberRejoined) -> Fields:
    topics, owned = _said(CONSUMER_PROTOCOL_TYPE, event.protocols)
    told: Fields = {"member": event.member_id}
    if event.cause.kind is CauseKind.PROTOCOL_CHANGED:
        told["protocols"] = [name for name, _ in event.protocols]
    if event.cause.kind is CauseKind.SUBSCRIPTION_CHANGED:
        told["topics"] = topics
    told["owned"] = owned
    return told


def _member_replaced(event: StaticMemberReplaced) -> Fields:
    _, owned = _said(CONSUMER_PROTOCOL_TYPE, event.protocols)
    return {
        "member": event.member_id,
        "instance": event.instance_id,
        "replaced": event.old_member_id,
        "client": event.client_id,
        "host": event.client_host,
        "awaits_join": event.awaits_join,
        "owned": owned,
    }


def _member_removed(event: MemberRemoved) -> Fields:
    told: Fields = {"member": event.member_id, "instance": event.instance_id}
    if event.silent_ms >= 0:
        told |= {"silent_ms": event.silent_ms, "session_timeout_ms": event.session_timeout_ms}
    return told


def _round_opened(event: RoundOpened) -> Fields:
    told: Fields = {"is_initial": event.is_initial}
    if event.is_initial:
        told |= {"initial_delay_ms": event.initial_delay_ms, "initial_remaining_ms": event.initial_remaining_ms}
    return told


def _round_announced(event: RoundAnnounced) -> Fields:
    return {"waited_ms": event.waited_ms}


def _delay_extended(event: InitialDelayExtended) -> Fields:
    return {"delay_ms": event.delay_ms, "remaining_ms": event.remaining_ms}


def _generation_formed(event: GenerationFormed) -> Fields:
    return {"protocol": event.protocol_name, "leader": event.leader}


def _group_stored(event: GroupStored) -> Fields:
    if not event.members:
        return {}
    assignments = None
    if event.protocol_type == CONSUMER_PROTOCOL_TYPE:
        assignments = _decoded({member.member_id: member.assignment for member in event.members})
    return {"protocol": event.protocol_name, "leader": event.leader, "assignments": assignments}


def _member_synced(event: SyncReceived) -> Fields:
    return {"member": event.member_id, "is_held": event.awaits_sync}


def _assignment_failed(event: AssignmentFailed) -> Fields:
    return {"leader": event.leader, "message": event.message}


def _revocations_awaited(event: RevocationsAwaited) -> Fields:
    return {"revoking": sorted(event.revoking), "is_holding": event.is_holding, "held": sorted(event.held)}


def _join_refused(event: JoinRefused) -> Fields:
    request = event.request
    return {
        "member": request.member_id or None,
        "instance": request.instance_id,
        "client": request.client_id,
        "host": request.client_host,
        "is_native": isinstance(request, ConsumerHeartbeat),
        "error": event.error.name,
    }


def refusal_fields(why: Why, count: int) -> Callable[[TopicName], Fields]:
    """Return how to say why a join was refused, for which members' sake, and how many refusals an event stands for."""
    told = {"text": why.text, "in_the_way": list(why.member_ids[:MOST_NAMED]), "count": count}
    return lambda _: told


def _group_deleted(event: GroupDeleted) -> Fields:
    return {"to": "consumer"} if is_conversion(event) else {}


def _nothing(_: Event) -> Fields:
    return {}


def _all_fields(event: Event) -> Fields:
    """Return what an event holds, of a type that nobody has described here."""
    told: Fields = {}
    for each in fields(event) if is_dataclass(event) else ():
        value = getattr(event, each.name)
        if each.name == "group_id" or isinstance(value, Cause | bytes):
            continue
        name = {"member_id": "member", "instance_id": "instance"}.get(each.name, each.name)
        told[name] = sorted(value) if isinstance(value, set | frozenset) else value
    return told


PARTICULARS: dict[type, Callable[[Any], Fields]] = {
    MemberIdIssued: _member,
    PendingMemberDropped: _member,
    MemberAdded: _member_added,
    MemberRejoined: _member_rejoined,
    StaticMemberReplaced: _member_replaced,
    MemberRemoved: _member_removed,
    RoundOpened: _round_opened,
    RoundAnnounced: _round_announced,
    InitialDelayExtended: _delay_extended,
    GenerationFormed: _generation_formed,
    SyncReceived: _member_synced,
    MemberRecognized: _member,
    RebalanceAvoided: _member,
    AssignmentFailed: _assignment_failed,
    RevocationsAwaited: _revocations_awaited,
    SyncsReleased: _nothing,
    JoinRefused: _join_refused,
    GatheringFailed: _nothing,
    GroupLoaded: _nothing,
    GroupStored: _group_stored,
    GroupDeleted: _group_deleted,
    GroupUnloaded: _nothing,
}


def _said(protocol_type: str, protocols: Protocols) -> tuple[list[str] | None, dict[str, list[int]] | None]:
    """Return what a member subscribes to and what it says it owns; the same stands in all protocols it offers."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not protocols:
        return None, None
    return _read(protocols[0][1])


@lru_cache(maxsize=64)
def _read(metadata: bytes) -> tuple[list[str] | None, dict[str, list[int]] | None]:
    # Eager members of one group all say the same.
    try:
        return claimed_by_topic(metadata)
    except MalformedMessage:
        return None, None


def _decoded(assignments: dict[str, bytes]) -> dict[str, dict[str, list[int]]] | None:
    try:
        return {member_id: assigned_by_topic(held) for member_id, held in assignments.items()}
    except MalformedMessage:
        return None


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
