"""What happened to groups, as records that any client can read: one JSON object for each event, keyed by group.

Best effort: a group never waits for it, and a failure to write is one log line. Heartbeats and commits are not in it.
The embedded `consumer` assignments are decoded; opaque ones of other protocol types are left out.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from kohort.group.classic_group import CONSUMER_PROTOCOL_TYPE
from kohort.group.events import (
    Event,
    GenerationFormed,
    GroupDeleted,
    GroupStored,
    GroupUnloaded,
    InitialDelayExtended,
    MemberAdded,
    MemberIdIssued,
    MemberRejoined,
    MemberRemoved,
    OffsetCommitted,
    OffsetDeleted,
    PendingMemberDropped,
    RoundOpened,
    StaticMemberReplaced,
    SyncReceived,
)
from kohort.group.shard import Shard
from kohort.log.disk import StorageError
from kohort.model.assignment import by_topic
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import KafkaError
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from kohort.node.node import Node
    from kohort.node.topics import Topic

log = logging.getLogger("kohort.node")

EVENT_TOPIC = "__kohort_group_events"
LINGER_MS = 5
"""How long events are gathered into one batch."""

_BATCH_EVENTS = 500
_UNWRITTEN = (OffsetCommitted, OffsetDeleted, SyncReceived, GroupUnloaded)


class EventTopic:
    """The writer of one node's events."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: list[Record] = []

    def note(self, shard: Shard, event: Event, now_ms: int) -> None:
        """Take an event that has been applied to `shard`."""
        if isinstance(event, _UNWRITTEN):
            return
        value = json.dumps(event_fields(shard, event), separators=(",", ":")).encode()
        if not self._waiting:
            self._node.timers.arm(EVENT_TOPIC, now_ms + LINGER_MS, self.flush)
        self._waiting.append(Record(0, now_ms, event.group_id.encode(), value))
        if len(self._waiting) >= _BATCH_EVENTS:
            self.flush(now_ms)

    def flush(self, now_ms: int) -> None:
        """Append what waits."""
        records, self._waiting = self._waiting, []
        if not records:
            return
        try:
            self._topic(now_ms).partitions[0].append([encode_batch(records)], now_ms)
        except (StorageError, KafkaError) as error:
            log.warning("%d group events were not written: %s", len(records), error)

    def _topic(self, now_ms: int) -> Topic:
        topic = self._node.topics.get(EVENT_TOPIC)
        return topic or self._node.topics.create(EVENT_TOPIC, 1, {}, now_ms)


def event_fields(shard: Shard, event: Event) -> dict[str, Any]:
    """Return an event as JSON can say it. `shard` is as the event left it."""
    fields: dict[str, Any] = {"at_ms": event.cause.at_ms, "group": event.group_id, "event": event_name(event)}
    group = shard.groups.get(event.group_id)
    if group is not None:
        fields["generation"] = group.generation
        fields["state"] = group.phase
    fields |= _particulars(event)
    if isinstance(event, RoundOpened | GenerationFormed) and group is not None:
        fields["members"] = sorted(group.members)
    elif group is not None:
        fields["size"] = len(group.members)
    fields["cause"] = _cause_fields(event.cause)
    return fields


def event_name(event: Event) -> str:
    """Return what people call an event."""
    match event:
        case MemberIdIssued():
            return "member_id_issued"
        case PendingMemberDropped():
            return "member_id_dropped"
        case MemberAdded():
            return "member_joined"
        case MemberRejoined():
            return "member_rejoined"
        case StaticMemberReplaced():
            return "member_replaced"
        case MemberRemoved():
            is_own_will = event.cause.kind in (CauseKind.MEMBER_LEFT, CauseKind.MEMBER_REMOVED)
            return "member_left" if is_own_will else "member_evicted"
        case RoundOpened():
            return "round_opened"
        case InitialDelayExtended():
            return "initial_delay_extended"
        case GenerationFormed():
            return "generation_formed"
        case GroupStored():
            if event.members:
                return "assignment_stored"
            return "group_emptied" if event.generation else "group_created"
        case GroupDeleted():
            return "group_deleted"
        case _:
            return type(event).__name__


def _particulars(event: Event) -> dict[str, Any]:
    match event:
        case MemberAdded():
            return {
                "member": event.member_id,
                "instance": event.instance_id,
                "client": event.client_id,
                "host": event.client_host,
                "protocols": [name for name, _ in event.protocols],
            }
        case StaticMemberReplaced():
            return {"member": event.member_id, "instance": event.instance_id, "replaced": event.old_member_id}
        case MemberRemoved():
            return {"member": event.member_id, "instance": event.instance_id}
        case MemberIdIssued() | PendingMemberDropped() | MemberRejoined():
            return {"member": event.member_id}
        case RoundOpened():
            return {"is_initial": event.is_initial}
        case GenerationFormed():
            return {"protocol": event.protocol_name, "leader": event.leader}
        case GroupStored() if event.members:
            members = [member.member_id for member in event.members]
            return {"leader": event.leader, "members": members, "assignments": assignments_of(event)}
        case _:
            return {}


def assignments_of(event: GroupStored) -> dict[str, dict[str, list[int]]] | None:
    """Return partitions by topic by member, or None where the assignments are not the consumer protocol's."""
    if event.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        return {member.member_id: by_topic(decode_assignment(member.assignment).partitions) for member in event.members}
    except MalformedMessage:
        return None


def _cause_fields(cause: Cause) -> dict[str, Any]:
    return {"kind": cause.kind, "member": cause.member_id, "detail": cause.detail, "at_ms": cause.at_ms}
