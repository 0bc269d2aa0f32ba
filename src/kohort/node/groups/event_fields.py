"""One event of a group as a JSON object: the fields that `kohort explain` and all other readers of the topic use.

An event is `Noted` when it happens, together with what is gone a moment later, and made JSON when its batch is written.
The embedded protocols of consumers, Connect and Streams are decoded; what is opaque in others is left out.
Events of consumer groups (KIP-848) have topic ids, JSON has names; a deleted topic appears by its id as text, unless it
was named before. The targets of one computation are reported together, by the event that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, NamedTuple

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, Protocols
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.events import (
    Assigned,
    ClassicJoinAnswered,
    ClassicJoinParked,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    ConsumerMemberStored,
    Event,
    GroupConverted,
    GroupDeleted,
    GroupStored,
    JoinRefused,
    MemberAdded,
    MemberAssignmentStored,
    MemberRejoined,
    MemberRemoved,
    MemberTargetDeleted,
    MemberTargetStored,
    OffsetCommitted,
    OffsetDeleted,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
    PendingMemberDropped,
    RegexDeleted,
    RegexStored,
    RoundOpened,
    StaticMemberReplaced,
    StoredMember,
    SyncReceived,
    TargetDeleted,
    TargetStored,
)
from kohort.group.join_refusals import Why
from kohort.group.streams.group import StreamsGroup
from kohort.model.assignment import IdPartitions
from kohort.model.cause import CauseKind
from kohort.model.ids import topic_id_text
from kohort.node.groups.streams_events import partition_fields
from kohort.wire.consumer_protocol import assigned_by_topic, claimed_by_topic, decode_assignment, decode_subscription
from kohort.wire.embedded_protocols import (
    RUNNING,
    STREAMS_ASSIGNOR,
    StreamsAssignment,
    StreamsSubscription,
    StreamsTask,
    decode_connect_assignment,
    decode_connect_worker,
    decode_streams_assignment,
    decode_streams_subscription,
    task_names,
)
from kohort.wire.primitives import MalformedMessage

Fields = dict[str, Any]
TopicName = Callable[[bytes], str]
"""Returns the name of a topic id."""

ByTopic = dict[str, list[int]]


class Noted(NamedTuple):
    """An event and what its group was right after it."""

    event: Event
    phase: str | None = None
    generation: int = -1
    size: int = 0
    members: tuple[str, ...] | None = None
    """All members of the group, where the event concerns all of them."""
    synced: dict[str, int] | None = None
    """When each member asked for the assignment that was stored."""
    awaiting: tuple[str, ...] = ()
    """Members that have not asked for it yet."""
    loaded: Callable[[TopicName], Fields] | None = None
    """Returns the fields of a group loaded from its log, or further fields of the event."""
    is_consumer: bool = False
    """Whether it was a group with an epoch, which is the `generation` then."""
    is_streams: bool = False
    """Whether it was a streams group, whose tasks stand for partitions."""
    silent_ms: int = -1
    """How long the member that another one replaces had sent nothing, where that is known."""


MOST_NAMED = 100
"""How many members an event names that stand in the way of a join."""

UNWRITTEN = frozenset(
    {
        OffsetCommitted,
        OffsetDeleted,
        PartitionMetadataStored,
        PartitionMetadataDeleted,
        TargetDeleted,
        MemberTargetDeleted,
        RegexDeleted,
    }
)
"""Commits, which are many, and tombstones that follow from what another event reports."""


def is_unwritten(event: Event) -> bool:
    """Whether an event is not written: commits are many, and a stored generation was just written as formed."""
    kind = type(event)
    return kind in UNWRITTEN or (kind is GroupStored and not event.is_synced)  # type: ignore[union-attr]


def event_name(event: Event) -> str:
    match event:
        case MemberRemoved() | ConsumerMemberOut():
            is_own_will = event.cause.kind in (CauseKind.MEMBER_LEFT, CauseKind.MEMBER_REMOVED)
            return "member_left" if is_own_will else "member_evicted"
        case GroupStored():
            if event.members:
                return "assignment_stored"
            return "group_emptied" if event.generation else "group_created"
        case _:
            return name_of_type(type(event))  # type: ignore[arg-type]


@cache
def name_of_type(kind: type) -> str:
    """Return the name of events of a type: that of the type, unless `NAMES` has another one."""
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__)
    return NAMES.get(kind) or words.lstrip("_")


def event_fields(noted: Noted, name_of: TopicName = topic_id_text) -> Fields:
    """Return an event as JSON fields; `name_of` names topics."""
    event = noted.event
    cause = event.cause
    found: Fields = {"at_ms": cause.at_ms, "group": event.group_id, "event": event_name(event)}
    if noted.phase is not None:
        found["epoch" if noted.is_consumer else "generation"] = noted.generation
        found["state"] = noted.phase
    if noted.is_streams:
        found["type"] = "streams"
    found |= DESCRIBED.get(type(event), _own_fields)(event, name_of)
    if noted.members is not None:
        found["members"] = sorted(noted.members)
    elif noted.phase is not None:
        found["size"] = noted.size
    if noted.loaded is not None:
        found |= noted.loaded(name_of)
    if noted.synced is not None:
        found["synced"] = noted.synced
    if noted.awaiting:
        found["awaiting"] = sorted(noted.awaiting)
    if noted.silent_ms >= 0:
        found["silent_ms"] = noted.silent_ms
    found["cause"] = {"kind": cause.kind, "member": cause.member_id, "detail": cause.detail, "at_ms": cause.at_ms}
    return found


def loaded_fields(group: ClassicGroup) -> Callable[[TopicName], Fields]:
    """Return the fields of a group that its coordinator has replayed; its past events may be gone."""
    assignments: dict[str, dict[str, list[int]]] | None = None
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        assignments = _decoded({member_id: member.assignment for member_id, member in group.members.items()})
    found = {
        "protocol": group.protocol_name,
        "leader": group.leader,
        "clients": {each.member_id: [each.client_id, each.instance_id] for _, each in sorted(group.members.items())},
        "assignments": assignments,
    }
    return lambda _: found


def _own_fields(event: Event, _: TopicName) -> Fields:
    """Return the fields of an event's dataclass under the names of the topic, those of `OMITTED` left out."""
    found = {name: getattr(event, attribute) for attribute, name in _names_of(type(event))}  # type: ignore[arg-type]
    return {name: sorted(at) if isinstance(at, tuple) else at for name, at in found.items()}


@cache
def _names_of(kind: type) -> list[tuple[str, str]]:
    """Return the fields of a type of events that are written, each with its name in the topic."""
    return [(each.name, _RENAMED.get(each.name, each.name)) for each in fields(kind) if each.name not in OMITTED]


OMITTED = {"group_id", "generation", "cause", "protocols", "metadata_hash"}
"""Fields that `event_fields` adds itself, and those that are bytes or of no use to people."""

_RENAMED = {
    "member_id": "member",
    "instance_id": "instance",
    "protocol_name": "protocol",
    "awaits_sync": "is_held",
}


def _client(found: Any) -> Fields:
    """Return what identifies a client, in its request or in what is stored of it."""
    return {"instance": found.instance_id, "client": found.client_id, "host": found.client_host}


def _member_added(event: MemberAdded, _: TopicName) -> Fields:
    request = event.request
    topics, owned = _claims(request.protocol_type, request.protocols)
    return {
        "member": event.member_id,
        **_client(request),
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "protocols": [name for name, _ in request.protocols],
        "topics": topics,
        "owned": owned,
    }


def _member_rejoined(event: MemberRejoined, _: TopicName) -> Fields:
    topics, owned = _claims(CONSUMER_PROTOCOL_TYPE, event.request.protocols)
    found: Fields = {"member": event.member_id}
    if event.cause.kind is CauseKind.PROTOCOL_CHANGED:
        found["protocols"] = [name for name, _ in event.request.protocols]
    if event.cause.kind is CauseKind.SUBSCRIPTION_CHANGED:
        found["topics"] = topics
    found["owned"] = owned
    return found


def _member_replaced(event: StaticMemberReplaced, _: TopicName) -> Fields:
    return {
        "member": event.member_id,
        **_client(event.request),
        "replaced": event.old_member_id,
        "awaits_join": event.awaits_join,
        "owned": _claims(CONSUMER_PROTOCOL_TYPE, event.request.protocols)[1],
    }


def _member_gone(event: MemberRemoved | ConsumerMemberOut, _: TopicName) -> Fields:
    found: Fields = {"member": event.member_id, "instance": event.instance_id}
    if event.silent_ms >= 0:
        found["silent_ms"] = event.silent_ms
        if isinstance(event, MemberRemoved):
            found["session_timeout_ms"] = event.session_timeout_ms
    return found


def _round_opened(event: RoundOpened, _: TopicName) -> Fields:
    found: Fields = {"is_initial": event.is_initial}
    if event.is_initial:
        found |= {"initial_delay_ms": event.initial_delay_ms, "initial_remaining_ms": event.initial_remaining_ms}
    return found


def _group_stored(event: GroupStored, _: TopicName) -> Fields:
    if not event.members:
        return {}
    assignments = None
    if event.protocol_type == CONSUMER_PROTOCOL_TYPE:
        assignments = _decoded({member.member_id: member.assignment for member in event.members})
    found = {"protocol": event.protocol_name, "leader": event.leader, "assignments": assignments}
    work = assigned_work(event)
    return found if work is None else {**found, "work": work}


def _join_refused(event: JoinRefused, _: TopicName) -> Fields:
    request = event.request
    return {
        "member": request.member_id or None,
        **_client(request),
        "is_native": isinstance(request, ConsumerHeartbeat),
        "error": event.error.name,
    }


def refusal_fields(why: Why, count: int) -> Callable[[TopicName], Fields]:
    """Return the fields of a refused join: why, which members prevent it, and how many refusals the event counts."""
    found = {"text": why.text, "in_the_way": list(why.member_ids[:MOST_NAMED]), "count": count}
    return lambda _: found


# -- events of consumer groups


def loaded_consumer_fields(group: ConsumerGroup) -> Callable[[TopicName], Fields]:
    """Return the fields of a consumer group that its coordinator has replayed, as it is now."""
    members = [member for _, member in sorted(group.members.items())]
    clients = {each.member_id: [each.client_id, each.instance_id] for each in members}
    assigned = {each.member_id: each.assigned for each in members}
    pending = {each.member_id: each.pending for each in members if each.pending}
    targets = {each.member_id: each.target for each in members}
    now = {
        "target_epoch": group.assignment_epoch,
        "member_states": {each.member_id: [each.epoch, each.state.name] for each in members},
        "phases": {each.member_id: each.classic_phase.name for each in members if each.classic},
    }
    return lambda name_of: {
        "clients": clients,
        "assignments": {member_id: _by_topic(owned, name_of) for member_id, owned in assigned.items()},
        "pending": {member_id: _by_topic(owned, name_of) for member_id, owned in pending.items()},
        "targets": {member_id: _named(target, name_of) for member_id, target in targets.items()},
        **now,
    }


def loaded_streams_fields(group: StreamsGroup) -> Callable[[TopicName], Fields]:
    """Return the same of a streams group."""
    found: Fields = {"target_epoch": group.assignment_epoch, "phases": {}, **partition_fields(group)}
    return lambda _: found


def targets_fields(
    targets: Iterable[MemberTargetStored], warmups: Mapping[str, ByTopic] | None, name_of: TopicName
) -> Fields:
    """Return the targets that changed in one computation, and for a streams group all that is to be warmed up."""
    found: Fields = {"targets": {each.member_id: _named(each.target, name_of) for each in targets}}
    return found if warmups is None else {**found, "warmups": warmups}


def _member_stored(event: ConsumerMemberStored, name_of: TopicName) -> Fields:
    found = {
        "member": event.member_id,
        **_client(event),
        "rack": event.rack_id,
        "rebalance_timeout_ms": event.rebalance_timeout_ms,
        "assignor": event.server_assignor,
        "topics": list(event.subscribed_topic_names),
        "regex": event.subscribed_topic_regex or None,
        "is_classic": event.classic is not None,
    }
    if event.classic is not None:
        found["session_timeout_ms"] = event.classic.session_timeout_ms
        found["protocols"] = [name for name, _ in event.classic.protocols]
        found["owned"] = _claims(CONSUMER_PROTOCOL_TYPE, event.classic.protocols)[1]
    if event.lags:
        found["lags"] = {name_of(topic_id): [list(lag) for lag in lags] for topic_id, lags in event.lags}
    return found


def _member_target(event: MemberTargetStored, name_of: TopicName) -> Fields:
    return {"member": event.member_id, "target": _named(event.target, name_of)}


def _target_stored(event: TargetStored, _: TopicName) -> Fields:
    return {"target_epoch": event.epoch, "computed_ms": event.timestamp_ms}


def _member_assignment(event: MemberAssignmentStored, name_of: TopicName) -> Fields:
    found = {
        "member": event.member_id,
        "member_epoch": event.epoch,
        "previous_epoch": event.previous_epoch,
        "member_state": event.state.name,
        "assigned": _by_topic(event.assigned, name_of),
        "pending": _by_topic(event.pending, name_of),
    }
    if event.classic_phase:
        found["phase"] = event.classic_phase.name
    return found


def _regex_stored(event: RegexStored, _: TopicName) -> Fields:
    return {"regex": event.regex, "topics": list(event.topics)}


def _group_deleted(event: GroupDeleted | ConsumerGroupDeleted, _: TopicName) -> Fields:
    if event.cause.kind != CauseKind.GROUP_CONVERTED:
        return {}
    return {"to": "consumer" if isinstance(event, GroupDeleted) else "classic"}


def _group_converted(event: GroupConverted, _: TopicName) -> Fields:
    return {"to": "consumer" if event.is_consumer else "classic"}


NAMES: dict[type, str] = {
    PendingMemberDropped: "member_id_dropped",
    MemberAdded: "member_joined",
    StaticMemberReplaced: "member_replaced",
    SyncReceived: "member_synced",
    ConsumerGroupStored: "group_epoch_bumped",
    ConsumerMemberStored: "member_subscribed",
    TargetStored: "target_computed",
    MemberTargetStored: "member_targeted",
    MemberAssignmentStored: "member_reconciled",
    RegexStored: "regex_resolved",
    ConsumerGroupDeleted: "group_deleted",
    ConsumerMemberDeleted: "member_deleted",
    ClassicJoinParked: "join_held",
    ClassicJoinAnswered: "join_released",
}
"""The names of events that are not those of their types."""

DESCRIBED: dict[type, Callable[[Any, TopicName], Fields]] = {
    MemberAdded: _member_added,
    MemberRejoined: _member_rejoined,
    StaticMemberReplaced: _member_replaced,
    MemberRemoved: _member_gone,
    RoundOpened: _round_opened,
    JoinRefused: _join_refused,
    GroupStored: _group_stored,
    GroupDeleted: _group_deleted,
    ConsumerMemberStored: _member_stored,
    TargetStored: _target_stored,
    MemberTargetStored: _member_target,
    MemberAssignmentStored: _member_assignment,
    RegexStored: _regex_stored,
    ConsumerGroupDeleted: _group_deleted,
    ConsumerMemberOut: _member_gone,
    GroupConverted: _group_converted,
}
"""What describes the types of events whose fields are not those of their dataclass."""


def _claims(protocol_type: str, protocols: Protocols) -> tuple[list[str] | None, dict[str, list[int]] | None]:
    """Return the topics that a member subscribes to and the partitions it claims; all its protocols have the same."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not protocols:
        return None, None
    return _read(protocols[0][1])


@lru_cache(maxsize=64)
def _read(metadata: bytes) -> tuple[list[str] | None, dict[str, list[int]] | None]:
    # Eager members of one group all send the same.
    try:
        return claimed_by_topic(metadata)
    except MalformedMessage:
        return None, None


def _decoded(assignments: dict[str, bytes]) -> dict[str, dict[str, list[int]]] | None:
    try:
        return {member_id: assigned_by_topic(owned) for member_id, owned in assignments.items()}
    except MalformedMessage:
        return None


def _named(partitions: IdPartitions, name_of: TopicName) -> ByTopic:
    return {name_of(topic_id): list(numbers) for topic_id, numbers in partitions}


def _by_topic(assigned: Iterable[Assigned], name_of: TopicName) -> ByTopic:
    return {name_of(each.topic_id): list(each.partitions) for each in assigned}


CONNECT_PROTOCOL_TYPE = "connect"

Work = dict[str, Any]


def assigned_work(event: GroupStored) -> Work | None:
    """Return what each member of Connect or Streams runs and what its leader has scheduled; None for others.

    Connectors and tasks are no partitions: they stand in the metadata and assignments that these protocols embed. What
    cannot be read is None too.
    """
    try:
        if event.protocol_type == CONNECT_PROTOCOL_TYPE:
            return _connect(event.members)
        if event.protocol_type == CONSUMER_PROTOCOL_TYPE and event.protocol_name == STREAMS_ASSIGNOR:
            return _streams(event.members)
    except MalformedMessage:
        return None
    return None


def _connect(members: Iterable[StoredMember]) -> Work:
    each: Work = {}
    found: Work = {"members": each, "leader_url": "", "config_offset": -1, "delay_ms": 0}
    for member in members:
        worker, given = decode_connect_worker(member.subscription), decode_connect_assignment(member.assignment)
        each[member.member_id] = {
            "url": worker.url,
            "runs": task_names(worker.running(given)),
            "gives_up": task_names(given.revoked),
        }
        if given.config_offset >= found["config_offset"]:
            found |= {"leader_url": given.leader_url, "config_offset": given.config_offset}
        found["delay_ms"] = max(found["delay_ms"], given.delay_ms)
    return found


def _streams(members: Iterable[StoredMember]) -> Work:
    each: Work = {}
    due: list[int] = []
    for member in members:
        sent_data = decode_subscription(member.subscription).user_data
        given_data = decode_assignment(member.assignment).user_data
        sent = decode_streams_subscription(sent_data) if sent_data else StreamsSubscription(0)
        given = decode_streams_assignment(given_data) if given_data else StreamsAssignment(0)
        each[member.member_id] = {
            "process": sent.process_id,
            "runs": _names(given.active),
            "copies": _names(given.standby),
            "ran": _names(sent.running),
            "offsets": {str(task): offset for task, offset in sorted(sent.offset_sums) if offset != RUNNING},
        }
        due += [] if given.next_rebalance_ms is None else [given.next_rebalance_ms]
    return {"members": each, "next_rebalance_ms": min(due, default=None)}


def _names(tasks: Iterable[StreamsTask]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
