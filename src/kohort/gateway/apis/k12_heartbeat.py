"""Heartbeat of a classic member: it goes to the coordinator at once, and its answer may be parked.

By order of an operator the leader's is answered with REBALANCE_IN_PROGRESS, which begins a round.
"""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.holding.parked_answers import ParkedAnswer
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.relay import Exchange, encode_answer
from kohort.group.commands import Heartbeat
from kohort.model.errors import ErrorCode, error_for
from kohort.wire.codec import Buffer
from kohort.wire.messages import HeartbeatRequest, HeartbeatResponse

_CAN_WAIT = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""The errors of answers that may be parked."""


def command_of(message: HeartbeatRequest, _version: int, _origin: RequestOrigin, _client_id: str) -> Heartbeat:
    """Return what a heartbeat requests."""
    return Heartbeat(message.group_id, message.member_id, message.group_instance_id, message.generation_id)


def answer(
    connection: Connection,
    exchange: Exchange,
    command: Heartbeat,
    message: HeartbeatResponse,
    frame: Buffer,
    now_ms: int,
) -> Buffer | None:
    """Take the coordinator's answer, or the order of an operator; None where it is parked."""
    connection.share_answer(exchange, command, frame, is_update=bool(message.error_code))
    observe_answer(connection.rooms.groups, command, message, exchange.head.api_version, now_ms)
    edge = connection.rooms.edge
    if not message.error_code and edge.interrupts(command, now_ms):
        edge.counters.rounds_ordered += 1
        message.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        frame = encode_answer(exchange.head, message)
    error, parked = error_for(message.error_code), connection.waiting
    if isinstance(parked, ParkedAnswer) and parked.exchange is exchange:
        return parked.answered_again(frame, error, now_ms)
    if _park(connection, exchange, command, frame, error, now_ms):
        return None
    answers = connection.rooms.parked_answers
    if answers is not None and error is ErrorCode.REBALANCE_IN_PROGRESS:
        answers.learnt(command, now_ms)
    return frame


def _park(
    connection: Connection, exchange: Exchange, command: Heartbeat, frame: Buffer, error: ErrorCode, now_ms: int
) -> bool:
    answers = connection.rooms.parked_answers
    if answers is None or error not in _CAN_WAIT or not connection.can_answer_wait(exchange, command, now_ms):
        return False
    parked = answers.park(
        exchange,
        command,
        frame,
        error,
        now_ms,
        client=connection.software,
        commit_delay_ms=connection.policy(command).commit_delay_ms,
    )
    connection.waiting = parked
    if parked is None:
        return False
    connection.rooms.policies.counters.heartbeats[GroupProtocol.CLASSIC] += 1
    return True


def observe_answer(
    groups: ObservedGroups, command: Heartbeat, message: HeartbeatResponse, _version: int, now_ms: int
) -> None:
    """Have an answer change the groups."""
    groups.heartbeat_answered(command, error_for(message.error_code), now_ms)


API = GroupApi(
    request_type=HeartbeatRequest,
    response_type=HeartbeatResponse,
    command_of=command_of,
    answer=answer,
    observe_request=ObservedGroups.heartbeat_sent,
    observe_answer=observe_answer,
)
