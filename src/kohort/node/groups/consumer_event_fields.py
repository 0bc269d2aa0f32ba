"""The events of a consumer group (KIP-848) as JSON says them: what `event_fields.py` is to a classic group.

Topics have ids in these events; JSON names them. One that is gone goes by its id as text, unless it was named before.
The targets of one computation are told together, by the event that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from kohort.group.commands import Protocols
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.events import (
    ClassicJoinAnswered,
    ClassicJoinParked,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    ConsumerMemberStored,
    GroupConverted,
    Held,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberTargetDeleted,
    MemberTargetStored,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
    RegexDeleted,
    RegexStored,
    TargetDeleted,
    TargetFailed,
    TargetStored,
    TargetTimed,
)
from kohort.model.id_partitions import IdPartitions
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import claimed_by_topic

Fields = dict[str, Any]
TopicName = Callable[[bytes], str]
"""Says what a topic id is called."""

ByTopic = dict[str, list[int]]

CONSUMER_NAMES: dict[type, str] = {
    ConsumerGroupStored: "group_epoch_bumped",
    ConsumerMemberStored: "member_subscribed",
    TargetStored: "target_computed",
    MemberTargetStored: "member_targeted",
    MemberAssignmentStored: "member_reconciled",
    RegexStored: "regex_resolved",
    ConsumerGroupDeleted: "group_deleted",
    ConsumerMemberDeleted: "member_deleted",
    MemberAssignmentDeleted: "member_assignment_deleted",
    TargetFailed: "target_failed",
    TargetTimed: "target_timed",
    ConsumerMemberOut: "member_left or member_evicted",
    ClassicJoinParked: "join_held",
    ClassicJoinAnswered: "join_released",
    GroupConverted: "group_converted",
}
"""What each type of event is called."""

UNWRITTEN = (PartitionMetadataStored, PartitionMetadataDeleted, TargetDeleted, MemberTargetDeleted, RegexDeleted)
"""Tombstones that follow from what another event tells."""


def consumer_fields(event: Any, name_of: TopicName) -> Fields | None:
    """Return what an event itself says; None for a type that is not one of a consumer group."""
    told = CONSUMER_PARTICULARS.get(type(event))
    return None if told is None else told(event, name_of)


def loaded_consumer_fields(group: ConsumerGroup) -> Callable[[TopicName], Fields]:
    """Return how to say what a group is that its coordinator has replayed. What it holds is kept as it is now."""
    members = [
        (each.member_id, each.client_id, each.instance_id, each.assigned, each.pending, each.target)
        for _, each in sorted(group.members.items())
    ]
    states = {each.member_id: [each.epoch, each.state.name] for _, each in sorted(group.members.items())}
    classic = {each.member_id: each.classic_phase.name for _, each in sorted(group.members.items()) if each.classic}
    target_epoch = group.assignment_epoch

    def told(name_of: TopicName) -> Fields:
        return {
            "clients": {member_id: [client_id, instance] for member_id, client_id, instance, _, _, _ in members},
            "assignments": {member_id: _held(assigned, name_of) for member_id, _, _, assigned, _, _ in members},
            "pending": {member_id: _held(pending, name_of) for member_id, _, _, _, pending, _ in members if pending},
            "targets": {member_id: _named(target, name_of) for member_id, _, _, _, _, target in members},
            "target_epoch": target_epoch,
            "member_states": states,
            "phases": classic,
        }

    return told


def targets_fields(targets: Iterable[MemberTargetStored], name_of: TopicName) -> Fields:
    """Return the targets that changed in one computation."""
    return {"targets": {each.member_id: _named(each.target, name_of) for each in targets}}


def _group_stored(event: ConsumerGroupStored, _: TopicName) -> Fields:
    return {"epoch": event.epoch}


def _member_stored(event: ConsumerMemberStored, name_of: TopicName) -> Fields:
    told: Fields = {
        "member": event.member_id,
        "instance": event.instance_id,
        "client": event.client_id,
        "host": event.client_host,
        "rack": event.rack_id,
        "topics": list(event.subscribed_topic_names),
        "regex": event.subscribed_topic_regex or None,
        "rebalance_timeout_ms": event.rebalance_timeout_ms,
        "assignor": event.server_assignor,
        "is_classic": event.classic is not None,
    }
    if event.classic is not None:
        told["session_timeout_ms"] = event.classic.session_timeout_ms
        told["protocols"] = [name for name, _ in event.classic.protocols]
        told["owned"] = _claimed(event.classic.protocols)
    if event.lags:
        told["lags"] = {name_of(topic_id): [list(lag) for lag in lags] for topic_id, lags in event.lags}
    return told


def _target_stored(event: TargetStored, _: TopicName) -> Fields:
    return {"target_epoch": event.epoch, "computed_ms": event.timestamp_ms}


def _member_target(event: MemberTargetStored, name_of: TopicName) -> Fields:
    return {"member": event.member_id, "target": _named(event.target, name_of)}


def _member_assignment(event: MemberAssignmentStored, name_of: TopicName) -> Fields:
    told: Fields = {
        "member": event.member_id,
        "member_epoch": event.epoch,
        "previous_epoch": event.previous_epoch,
        "member_state": event.state.name,
        "assigned": _held(event.assigned, name_of),
        "pending": _held(event.pending, name_of),
    }
    if event.classic_phase:
        told["phase"] = event.classic_phase.name
    return told


def _regex_stored(event: RegexStored, _: TopicName) -> Fields:
    return {"regex": event.regex, "topics": list(event.topics)}


def _group_deleted(event: ConsumerGroupDeleted, _: TopicName) -> Fields:
    return {"to": "classic"} if is_conversion(event) else {}


def is_conversion(event: Any) -> bool:
    """Whether a group is deleted only to go on as one of the other type."""
    return str(event.cause.kind) == "group_converted"


def _member(event: Any, _: TopicName) -> Fields:
    return {"member": event.member_id}


def _member_out(event: ConsumerMemberOut, _: TopicName) -> Fields:
    told: Fields = {"member": event.member_id, "instance": event.instance_id}
    if event.silent_ms >= 0:
        told["silent_ms"] = event.silent_ms
    return told


def _group_converted(event: GroupConverted, _: TopicName) -> Fields:
    return {"to": "consumer" if event.is_consumer else "classic"}


def _target_failed(event: TargetFailed, _: TopicName) -> Fields:
    return {"assignor": event.assignor, "message": event.message}


def _target_timed(event: TargetTimed, _: TopicName) -> Fields:
    return {"cost_us": event.cost_us}


CONSUMER_PARTICULARS: dict[type, Callable[[Any, TopicName], Fields]] = {
    ConsumerGroupStored: _group_stored,
    ConsumerMemberStored: _member_stored,
    TargetStored: _target_stored,
    MemberTargetStored: _member_target,
    MemberAssignmentStored: _member_assignment,
    RegexStored: _regex_stored,
    ConsumerGroupDeleted: _group_deleted,
    ConsumerMemberDeleted: _member,
    MemberAssignmentDeleted: _member,
    TargetFailed: _target_failed,
    TargetTimed: _target_timed,
    ConsumerMemberOut: _member_out,
    ClassicJoinParked: _member,
    ClassicJoinAnswered: _member,
    GroupConverted: _group_converted,
}


def _named(partitions: IdPartitions, name_of: TopicName) -> ByTopic:
    return {name_of(topic_id): list(numbers) for topic_id, numbers in partitions}


def _held(held: Iterable[Held], name_of: TopicName) -> ByTopic:
    return {name_of(each.topic_id): list(each.partitions) for each in held}


def _claimed(protocols: Protocols) -> ByTopic | None:
    return _read(protocols[0][1]) if protocols else None


@lru_cache(maxsize=64)
def _read(metadata: bytes) -> ByTopic | None:
    try:
        return claimed_by_topic(metadata)[1]
    except MalformedMessage:
        return None
