"""Heartbeats with a member epoch, as k68, k76 and k88 share them: the request may be parked, its answer passes at once.

The three differ in their messages, and in whether their groups are observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection, protocol_of
from kohort.gateway.observing.epoch_heartbeats import EpochHeartbeat, EpochResult
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.assignment import IdPartitions
from kohort.model.errors import ErrorCode, error_for
from kohort.parking.parked_heartbeat import ParkedHeartbeat
from kohort.wire.codec import Buffer
from kohort.wire.message import Request, Response

_EVICTED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


def request(connection: Connection, exchange: Exchange, heartbeat: EpochHeartbeat, now_ms: int) -> bool:
    """Return whether a heartbeat passes now; else it is parked."""
    connection.share_request(exchange, heartbeat)
    protocol = protocol_of(heartbeat)
    requests = connection.rooms.parked_requests.get(protocol)
    if requests is None:
        return True
    can_wait = not connection.has_fetched and not connection.expires_soon(now_ms)
    if can_wait and connection.parks(heartbeat, now_ms):
        parked = requests.park(exchange, heartbeat, now_ms)
        if parked is not None:
            connection.waiting = parked
            connection.rooms.policies.counters.heartbeats[protocol] += 1
            return False
    requests.sent(heartbeat, now_ms)
    return True


def epoch_api(
    request_type: type[Request[Any]],
    response_type: type[Response],
    command_of: Callable[[Any, int, RequestOrigin, str], EpochHeartbeat],
    result_of: Callable[[Any], EpochResult],
) -> GroupApi:
    """Return one of the three. `result_of` returns what an answer brings."""

    def answer(
        connection: Connection, exchange: Exchange, heartbeat: EpochHeartbeat, message: Any, frame: Buffer, now_ms: int
    ) -> Buffer:
        result = result_of(message)
        # Other instances get one that brings more than that all is as before: to a member that leaves it does.
        is_change = heartbeat.member_epoch < 0 or result.member_epoch != heartbeat.member_epoch
        is_update = is_change or bool(result.error) or result.assignment is not None
        connection.share_answer(exchange, heartbeat, frame, is_update=is_update)
        connection.rooms.groups.epoch_heartbeat_answered(heartbeat, result, now_ms)
        return _with_interval(connection, heartbeat, result, frame, now_ms)

    def observe_answer(
        groups: ObservedGroups, heartbeat: EpochHeartbeat, message: Any, _version: int, now_ms: int
    ) -> EpochResult:
        result = result_of(message)
        groups.epoch_heartbeat_answered(heartbeat, result, now_ms)
        return result

    return GroupApi(
        request_type=request_type,
        response_type=response_type,
        command_of=command_of,
        request=request,
        answer=answer,
        observe_answer=observe_answer,
    )


def partitions_result(message: Any, assignment: IdPartitions | None = None) -> ConsumerHeartbeatResult:
    """Return what an answer brings that assigns these partitions, None where it assigns none."""
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        error_message=message.error_message,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
        assignment=assignment,
    )


def _with_interval(
    connection: Connection, heartbeat: EpochHeartbeat, result: EpochResult, frame: Buffer, now_ms: int
) -> Buffer:
    """Return what the client gets: where heartbeats are parked, the answer with another interval."""
    requests = connection.rooms.parked_requests.get(protocol_of(heartbeat))
    if requests is None:
        return frame
    parked = connection.waiting
    if result.error in _EVICTED and isinstance(parked, ParkedHeartbeat) and parked.heartbeat is heartbeat:
        connection.rooms.policies.fallbacks.evicted(heartbeat.group_id, heartbeat.member_id, now_ms)
    answer = requests.answered(heartbeat, result, frame, now_ms)
    return answer if connection.parks(heartbeat, now_ms) else frame
