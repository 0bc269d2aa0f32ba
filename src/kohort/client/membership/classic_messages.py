"""A classic member's effects as messages, and the answers as its inputs. Pure: who sends them is another's business.

`embedded` is the version of the embedded protocol that a member writes; below 3 only members stand in for old clients.
An answer whose blobs cannot be read raises `MalformedMessage`.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.assign.spec import MemberSpec
from kohort.member import effects, inputs
from kohort.member.member_state import MemberConfig
from kohort.model.errors import error_for
from kohort.model.reason import MAX_REASON_LENGTH
from kohort.wire.consumer_protocol import (
    NEWEST,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

PROTOCOL_TYPE = "consumer"
LEAVE_TIMEOUT_MS = 5_000
_JOIN_MARGIN_MS = 5_000


def held_back_ms(request_timeout_ms: int, config: MemberConfig) -> int:
    """Return how long to wait for what the coordinator may answer only when other members have come."""
    return max(request_timeout_ms, config.rebalance_timeout_ms + _JOIN_MARGIN_MS)


def heartbeat_ms(request_timeout_ms: int, config: MemberConfig) -> int:
    """Return how long to wait for the answer to a heartbeat."""
    return min(request_timeout_ms, config.session_timeout_ms)


def join_request(group_id: str, config: MemberConfig, effect: effects.Join, embedded: int = NEWEST) -> JoinGroupRequest:
    """Return JoinGroup."""
    offers = [
        (name, subscription if embedded == NEWEST else replace(subscription, version=embedded))
        for name, subscription in effect.protocols
    ]
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequest.Protocol(name=name, metadata=encode_subscription(subscription))
            for name, subscription in offers
        ],
        reason=effect.reason[:MAX_REASON_LENGTH] or None,
    )


def join_answered(effect: effects.Join, answer: JoinGroupResponse) -> inputs.JoinAnswered:
    """Return what JoinGroup's answer says."""
    return inputs.JoinAnswered(
        effect.identity,
        error_for(answer.error_code),
        generation=answer.generation_id,
        member_id=answer.member_id,
        leader=answer.leader,
        protocol_name=answer.protocol_name or "",
        members={
            member.member_id: MemberSpec(decode_subscription(member.metadata), member.group_instance_id)
            for member in answer.members
        },
        is_skip=answer.skip_assignment,
    )


def sync_request(group_id: str, config: MemberConfig, effect: effects.Sync, embedded: int = NEWEST) -> SyncGroupRequest:
    """Return SyncGroup."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=effect.identity.generation,
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=effect.protocol_name,
        assignments=[
            SyncGroupRequest.Assignment(member_id=member, assignment=encode_assignment(assignment, embedded))
            for member, assignment in sorted(effect.assignments.items())
        ],
        assignment_error=effect.failure,
    )


def sync_answered(effect: effects.Sync, answer: SyncGroupResponse) -> inputs.SyncAnswered:
    """Return what SyncGroup's answer says."""
    return inputs.SyncAnswered(
        effect.identity, error_for(answer.error_code), decode_assignment(answer.assignment), answer.error_message
    )


def heartbeat_request(group_id: str, config: MemberConfig, effect: effects.Heartbeat) -> HeartbeatRequest:
    """Return Heartbeat."""
    return HeartbeatRequest(
        group_id=group_id,
        generation_id=effect.identity.generation,
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
    )


def heartbeat_answered(effect: effects.Heartbeat, answer: HeartbeatResponse) -> inputs.HeartbeatAnswered:
    """Return what Heartbeat's answer says."""
    return inputs.HeartbeatAnswered(effect.identity, error_for(answer.error_code))


def leave_request(group_id: str, config: MemberConfig, effect: effects.Leave) -> LeaveGroupRequest:
    """Return LeaveGroup."""
    member = LeaveGroupRequest.Member(
        member_id=effect.identity.member_id,
        group_instance_id=config.instance_id,
        reason=effect.reason[:MAX_REASON_LENGTH],
    )
    return LeaveGroupRequest(group_id=group_id, member_id=effect.identity.member_id, members=[member])


def leave_answered(effect: effects.Leave, answer: LeaveGroupResponse) -> inputs.LeaveAnswered:
    """Return what LeaveGroup's answer says."""
    return inputs.LeaveAnswered(effect.identity, error_for(answer.error_code))
