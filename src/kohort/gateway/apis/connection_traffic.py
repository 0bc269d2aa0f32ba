"""The reader of one connection's frames (`TrafficReader`): it finds the module of each, and has it do the rest.

A request that cannot be read, or whose version the codec does not know, passes unread.
"""

from __future__ import annotations

import logging
from typing import cast

from kohort.gateway.apis.api import ConnectionApi, GroupApi
from kohort.gateway.apis.connection_state import Command, Connection, Rooms
from kohort.gateway.apis.routes import APIS, abandon_request, observe_request
from kohort.gateway.holding.parked_answers import ParkedAnswer
from kohort.gateway.holding.waiting_answers import WithheldSync
from kohort.gateway.policies.policies import Treatment
from kohort.gateway.relay.frame_cutter import LENGTH_BYTES
from kohort.gateway.relay.relay import Exchange, RequestHead, encode_answer
from kohort.group.commands import CommitOffsets, Heartbeat, Join, Leave
from kohort.parking.parked_heartbeat import Follower, ParkedHeartbeat, follower_of
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.codec import Buffer, decode
from kohort.wire.frames import decode_request_header, decode_response
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")


class ConnectionTraffic:
    """What is read of one connection."""

    def __init__(self, rooms: Rooms, client_host: str) -> None:
        self._connection = Connection(rooms, client_host)
        self._rooms = rooms
        self._is_warned = False

    def reads(self, head: RequestHead) -> bool:
        """Whether a request is about a group, and known to the codec."""
        return head.api_key in APIS and head.api_version in VERSIONS[Api(head.api_key)]

    def request(self, exchange: Exchange, now_ms: int) -> bool:
        """Take a request; return whether it passes now."""
        command = self._command_of(exchange, now_ms)
        api = APIS[exchange.head.api_key]
        if command is None or isinstance(api, ConnectionApi):
            return True
        if not isinstance(command, Leave):  # which anyone may send
            self._connection.member_seen(command, now_ms)
        if api.request is not None:
            return api.request(self._connection, exchange, command, now_ms)
        self._connection.share_request(exchange, command)
        observe_request(self._rooms.groups, exchange.head, command, now_ms)
        return True

    def _command_of(self, exchange: Exchange, now_ms: int) -> Command | None:
        """Return what a request asks of its group; None where it cannot be read, or asks nothing."""
        if exchange.context is not None:
            return cast(Command, exchange.context)
        head, connection = exchange.head, self._connection
        api = APIS[head.api_key]
        body = memoryview(exchange.frame)[LENGTH_BYTES:]
        try:
            header, position = decode_request_header(body)
            message, _ = decode(api.request_type, head.api_version, body, position)
        except MalformedMessage as error:
            self._warn(head, error)
            return None
        client_id = header.client_id or ""
        if isinstance(api, ConnectionApi):
            if api.request is not None:
                api.request(connection, message, client_id)
            return None
        connection.identify(client_id)
        command = api.command_of(message, head.api_version, connection, client_id)
        connection.show_software(command, head.api_version)
        policy = connection.policy(command)
        if policy.treatment is Treatment.OFF:
            return None
        if policy.makes_static and self._rooms.static_members.put_in(connection, exchange, message, client_id, now_ms):
            command = api.command_of(message, head.api_version, connection, client_id)
        if isinstance(command, Join):
            self._rooms.edge.give_reason(exchange, command, now_ms)
        exchange.context = command
        return command

    def answered(self, exchange: Exchange, frame: bytes, now_ms: int) -> Buffer | None:
        """Take the answer to a request; return what the client gets now, or None where it waits."""
        head, command = exchange.head, exchange.context
        api = APIS[head.api_key]
        is_read = api.answer is not None
        if isinstance(api, GroupApi):
            is_read = command is not None and (is_read or api.observe_answer is not None or _is_static(exchange))
        if not is_read:
            return frame
        try:
            _, message = decode_response(api.response_type, head.api_version, memoryview(frame)[LENGTH_BYTES:])
        except MalformedMessage as error:
            self._warn(head, error)
            self._abandon(exchange, now_ms)
            return frame
        if _is_static(exchange) and not isinstance(command, Leave):
            member_id, statics = cast(Heartbeat, command).member_id, self._rooms.static_members
            if statics.answered(self._connection, exchange, member_id, message, now_ms):
                frame = encode_answer(head, message)
        if isinstance(api, GroupApi):
            if api.answer is not None:
                return api.answer(self._connection, exchange, command, message, frame, now_ms)
            self._connection.share_answer(exchange, cast(Command, command), frame)
            if api.observe_answer is not None:
                api.observe_answer(self._rooms.groups, command, message, head.api_version, now_ms)
        elif api.answer is not None:
            api.answer(self._connection, message, now_ms)
        return frame

    def goes_ahead(self, head: RequestHead) -> bool:
        """Whether a request is a commit of a client that matches answers by id."""
        return head.api_key == Api.OFFSET_COMMIT and self._connection.software.habits.matches_by_id

    def passed(self, head: RequestHead, now_ms: int) -> None:
        """Note a Fetch or a ShareFetch."""
        del now_ms
        self._connection.has_fetched |= head.api_key in (Api.FETCH, Api.SHARE_FETCH)

    def followed(self, waiting: Exchange, behind: Exchange | None, now_ms: int) -> bool:
        """A request arrived behind one that waits, or whose answer waits: return whether it stays so."""
        del waiting
        parked = self._connection.waiting
        assert parked is not None, "what waits was noted"
        follower = Follower.OTHER
        if isinstance(parked, ParkedAnswer | WithheldSync) and behind is not None:
            sent = parked.heartbeat if isinstance(parked, ParkedAnswer) else parked.command
            follower = follower_of(sent, self._command_of(behind, now_ms), CommitOffsets)
        return parked.followed(follower, now_ms)

    def closed(self, unanswered: tuple[Exchange, ...], now_ms: int, *, is_by_client: bool) -> None:
        """The connection has ended."""
        self._connection.is_open = False
        for exchange in unanswered:
            self._abandon(exchange, now_ms)
        waiting = self._connection.waiting
        if waiting is None:
            return
        if is_by_client and isinstance(waiting, ParkedAnswer | ParkedHeartbeat) and waiting.is_parked:
            heartbeat, host = waiting.heartbeat, self._connection.client_host
            self._rooms.policies.fallbacks.disconnected(heartbeat.group_id, heartbeat.member_id, host, now_ms)
        waiting.drop()

    def _abandon(self, exchange: Exchange, now_ms: int) -> None:
        """What a request was answered is not known, and will not be."""
        self._rooms.instances.ended(exchange)
        abandon_request(self._rooms.groups, exchange.head, exchange.context, now_ms)

    def oversized(self, head: RequestHead) -> None:
        """Report a request that passes unread."""
        self._warn(head, "it is too long, or too many await their answers")

    def answer_oversized(self, exchange: Exchange, now_ms: int) -> None:
        """Report an answer that passes unread."""
        self._warn(exchange.head, "its answer is too long, or too much is read now")
        self._abandon(exchange, now_ms)

    def _warn(self, head: RequestHead, why: object) -> None:
        if not self._is_warned:
            self._is_warned = True
            host, name = self._connection.client_host, Api(head.api_key).name
            log.warning("client %s: %s v%d passes unread: %s", host, name, head.api_version, why)


def _is_static(exchange: Exchange) -> bool:
    return exchange.static_key is not None
