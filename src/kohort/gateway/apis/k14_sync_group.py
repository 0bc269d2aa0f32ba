"""SyncGroup: a leader's waits for an assignor that replaces its assignments, and answers to others may be withheld."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.holding.waiting_answers import WithheldSync
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import Sync
from kohort.model.errors import error_for
from kohort.node.apis.k11_12_13_14_classic_members import sync_command
from kohort.wire.codec import Buffer
from kohort.wire.messages import SyncGroupRequest, SyncGroupResponse


def command_of(message: SyncGroupRequest, _version: int, _origin: RequestOrigin, _client_id: str) -> Sync:
    """Return what a SyncGroup requests. Apache Kafka ignores our field of a failure."""
    return sync_command(message)


def request(connection: Connection, exchange: Exchange, command: Sync, now_ms: int) -> bool:
    """Return whether it passes now: a leader's may wait for an assignor."""
    groups = connection.rooms.groups

    def passes(decided: Sync, remark: str, at_ms: int) -> None:
        exchange.context = decided
        connection.share_request(exchange, decided)
        groups.sync_sent(decided, at_ms, remark)
        exchange.pass_on()

    assigning = connection.rooms.edge.replace_assignments(exchange, command, now_ms, passes)
    if assigning is None:
        connection.share_request(exchange, command)
        groups.sync_sent(command, now_ms)
        return True
    connection.waiting = assigning
    return assigning.is_over


def answer(
    connection: Connection, exchange: Exchange, command: Sync, message: SyncGroupResponse, frame: Buffer, now_ms: int
) -> Buffer | None:
    """Take a member's assignment; None where the answer is withheld."""
    connection.share_answer(exchange, command, frame)
    groups, withheld = connection.rooms.groups, connection.waiting
    if isinstance(withheld, WithheldSync) and withheld.exchange is exchange:
        passing = withheld.answered_again(frame, error_for(message.error_code), now_ms)
        if passing is not None:
            observe_answer(groups, command, message, exchange.head.api_version, now_ms)
        return passing
    waits = observe_answer(groups, command, message, exchange.head.api_version, now_ms)
    if not waits or not connection.can_answer_wait(exchange, command, now_ms):
        return frame
    is_overtaken = connection.software.habits.matches_by_id
    withheld_syncs = connection.rooms.withheld_syncs
    connection.waiting = withheld_syncs.withhold(exchange, command, frame, now_ms, is_overtaken=is_overtaken)
    if connection.waiting is None:
        return frame
    connection.rooms.policies.counters.syncs += 1
    return None


def observe_answer(
    groups: ObservedGroups, command: Sync, message: SyncGroupResponse, _version: int, now_ms: int
) -> bool:
    """Have an answer change the groups; return whether it is to be withheld."""
    return groups.sync_answered(command, error_for(message.error_code), bytes(message.assignment), now_ms)


API = GroupApi(
    request_type=SyncGroupRequest,
    response_type=SyncGroupResponse,
    command_of=command_of,
    request=request,
    answer=answer,
    observe_request=ObservedGroups.sync_sent,
    observe_answer=observe_answer,
    abandon=ObservedGroups.sync_abandoned,
)
