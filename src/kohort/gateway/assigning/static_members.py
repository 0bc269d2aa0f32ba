"""Static membership (KIP-345) of clients that have no `group.instance.id`: a row of the policies gives them one.

It is the client id behind `static-`. A member's id begins with that of its instance, so ids show who is static,
whichever gateway made it so. It goes into JoinGroup, and into SyncGroup, Heartbeat and OffsetCommit of such members: a
client whose instance id another one takes is fenced, which proves that both have one client id; then both are dynamic.

A static client's LeaveGroup is delayed. If it joins again in time, the coordinator returns to it what it had, without a
round. A round that begins meanwhile would wait for it, so its leave is sent at once. What is delayed is lost with the
gateway: then the coordinator's session timeout ends the member, as one that was killed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange, changed_frame, encode_answer
from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, Phase
from kohort.group.commands import Leave, Leaving
from kohort.group.events import Event, MemberRemoved, RoundOpened, StaticMemberReplaced
from kohort.model.bounded_dict import BoundedDict
from kohort.model.errors import ErrorCode
from kohort.model.printable import printable
from kohort.node.timers import Timers
from kohort.parking.limits import ASSUMED_SESSION_MS
from kohort.wire.message import Request, Response
from kohort.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
)

log = logging.getLogger("kohort.gateway")

PREFIX = "static-"
"""The other end of a client id often has an ordinal, which tools look for."""

_LEGAL = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""What Kafka takes as a `group.instance.id`."""

MOST_CLIENTS = 10_000
"""How many clients are remembered; beyond that the oldest are forgotten."""

SHARED_MS = 3_600_000
"""For how long clients that share a client id stay dynamic."""

FIRST_VERSIONS = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3, OffsetCommitRequest: 7}
"""The first versions with a `group.instance.id`."""

MemberRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | OffsetCommitRequest


class Link(Protocol):
    """The connection of a client."""

    is_open: bool


@dataclass(slots=True, eq=False)
class StaticClient:
    """A client with an instance id of the gateway.

    `member_id` is its member's, and `links` are the connections by which the coordinator has accepted it, or by which
    the client joins: franz-go has two.
    """

    group_id: str
    client_id: str
    links: set[Link]
    session_timeout_ms: int
    seen_ms: int
    member_id: str = ""
    leaving: Leaving | None = None
    """Its LeaveGroup that is delayed."""
    left_ms: int = 0

    def is_here(self, now_ms: int) -> bool:
        """Whether its process runs, as far as it is seen."""
        is_connected = any(link.is_open for link in self.links)
        return is_connected and self.leaving is None and now_ms - self.seen_ms < self.session_timeout_ms

    def accepted(self, member_id: str, link: Link) -> None:
        """The coordinator has accepted a request of its member."""
        known = self.links if self.member_id in ("", member_id) else ()
        self.member_id, self.links = member_id, {each for each in known if each.is_open} | {link}


class StaticMembers:
    """The clients of one gateway that are static members through it. `leave` sends a LeaveGroup that was delayed."""

    def __init__(self, groups: ObservedGroups, timers: Timers, leave: Callable[[Leave], None]) -> None:
        self._groups = groups
        self._timers = timers
        self._leave = leave
        self._clients: BoundedDict[tuple[str, str], StaticClient] = BoundedDict(MOST_CLIENTS)
        """By group and client id."""
        self._leaving: dict[str, dict[str, StaticClient]] = {}
        """By group and member id, those whose leave is delayed."""
        self._shared_ms: BoundedDict[tuple[str, str], int] = BoundedDict(MOST_CLIENTS)
        """By group and client id, until when clients that share it stay dynamic."""
        self._logged: BoundedDict[tuple[str, str], str] = BoundedDict(MOST_CLIENTS)

    # Requests with an instance id

    def put_in(self, link: Link, exchange: Exchange, message: Request[Any], client_id: str, now_ms: int) -> bool:
        """Put the instance id into a request that should have one and has none; return whether `message` has it now."""
        if not isinstance(message, MemberRequest) or message.group_instance_id is not None:
            return False
        key, is_join = (message.group_id, client_id), isinstance(message, JoinGroupRequest)
        why = _why_dynamic(message, exchange.head.api_version, client_id)
        if why and is_join:
            self._log_once(key, why)
            return False
        is_static = self._is_static(link, key, message, now_ms)  # its client is seen, also where that has no field
        if why or not is_static:
            return False
        instance_id = PREFIX + client_id

        def change(request: MemberRequest) -> None:
            request.group_instance_id = instance_id

        frame = changed_frame(exchange, type(message), change)
        if frame is None:
            self._log_once(key, "its requests have fields that this gateway does not know")
            return False
        exchange.frame, message.group_instance_id = frame, instance_id
        exchange.static_key = key
        return True

    def _is_static(self, link: Link, key: tuple[str, str], message: MemberRequest, now_ms: int) -> bool:
        client = self._clients.get(key)
        if message.member_id:
            if not message.member_id.startswith(f"{PREFIX}{key[1]}-"):
                return False  # it was dynamic before the row was written, or its client id is shared
        elif self._is_shared(key, now_ms):
            return False
        elif client is not None and link not in client.links and client.is_here(now_ms):
            self._share(key, now_ms)
            return False
        if client is not None and client.leaving is not None and isinstance(message, JoinGroupRequest):
            self._forget_leave(client)
            away_s = (now_ms - client.left_ms) / 1000
            log.info("group %s: client %s is back after %.1f s, with its partitions", *_names(key), away_s)
        if client is None or (not message.member_id and link not in client.links):
            links = set() if message.member_id else {link}
            client = self._clients[key] = StaticClient(*key, links, ASSUMED_SESSION_MS, now_ms)
        client.seen_ms = now_ms
        if isinstance(message, JoinGroupRequest):
            client.session_timeout_ms = message.session_timeout_ms
        return True

    def _is_shared(self, key: tuple[str, str], now_ms: int) -> bool:
        return now_ms < self._shared_ms.get(key, 0)

    def _share(self, key: tuple[str, str], now_ms: int) -> None:
        if not self._is_shared(key, now_ms):
            self._shared_ms[key] = now_ms + SHARED_MS
            log.warning(
                "group %s: two clients have the client id %s, and those that join now become dynamic members: give each"
                " client an id of its own for static_members",
                *_names(key),
            )

    def _log_once(self, key: tuple[str, str], why: str) -> None:
        if self._logged.get(key) != why:
            self._logged[key] = why
            log.warning("group %s: client %s stays a dynamic member: %s", *_names(key), why)

    # Their answers

    def answered(self, link: Link, exchange: Exchange, member_id: str, message: Response, now_ms: int) -> bool:
        """Take the answer to a member's request with an instance id of ours; return whether `message` has changed.

        A client that has no instance does not expect to be fenced: it is no member any more, and joins again.
        """
        assert exchange.static_key is not None, "its request has an instance id"
        client = self._clients.get(exchange.static_key)
        answers: list[Any] = [message]
        if isinstance(message, OffsetCommitResponse):
            answers = [entry for topic in message.topics for entry in topic.partitions]
        fenced = [each for each in answers if each.error_code == ErrorCode.FENCED_INSTANCE_ID]
        for each in fenced:
            each.error_code = ErrorCode.UNKNOWN_MEMBER_ID
        if fenced:
            self._share(exchange.static_key, now_ms)
        elif client is not None and not any(each.error_code for each in answers):
            client.accepted(message.member_id if isinstance(message, JoinGroupResponse) else member_id, link)
        return bool(fenced)

    # Leaves that are delayed

    def delays(self, link: Link, exchange: Exchange, command: Leave, client_id: str, delay_ms: int) -> bool:
        """Whether a LeaveGroup is delayed. It passes without its member, so that the coordinator checks who sends it.

        It must come by the connection on which the coordinator has accepted its member.
        """
        key = command.group_id, client_id
        client, group = self._clients.get(key), self._groups.group(command.group_id)
        if client is None or link not in client.links or self._is_shared(key, exchange.arrived_ms):
            return False
        member_id, is_stable = client.member_id, group is not None and group.phase is Phase.STABLE
        if not member_id or [each.member_id for each in command.members] != [member_id] or not is_stable:
            return False

        def change(request: LeaveGroupRequest) -> None:
            request.member_id, request.members = "", [LeaveGroupRequest.Member(member_id="")]

        frame = changed_frame(exchange, LeaveGroupRequest, change)
        if frame is None:
            return False
        exchange.frame, exchange.static_key = frame, key
        client.leaving = Leaving(member_id, PREFIX + client_id, command.members[0].reason)
        client.left_ms = exchange.arrived_ms
        self._leaving.setdefault(command.group_id, {})[member_id] = client
        self._timers.arm(client, client.left_ms + delay_ms, lambda _now_ms: self._send(client, "has not come back"))
        return True

    def leave_answered(self, exchange: Exchange, command: Leave, message: LeaveGroupResponse) -> bytes | None:
        """Return what a client gets whose LeaveGroup was delayed, None where that is the coordinator's answer."""
        assert exchange.static_key is not None, "its leave was delayed"
        client = self._clients.get(exchange.static_key)
        if message.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            if client is not None and client.leaving is not None:
                self._forget_leave(client)  # it may not leave, or another broker coordinates the group
            return None
        message.error_code = ErrorCode.NONE
        message.members = [LeaveGroupResponse.Member(member_id=command.members[0].member_id, group_instance_id=None)]
        return encode_answer(exchange.head, message)

    def event_applied(self, event: Event, _now_ms: int) -> None:
        """An event has changed a group: a client that is away must leave for a round, or is back elsewhere."""
        leaving = self._leaving.get(event.group_id)
        if not leaving:
            return
        if isinstance(event, RoundOpened):
            for client in tuple(leaving.values()):
                self._send(client, "is awaited by a rebalance")
        gone = event.old_member_id if isinstance(event, StaticMemberReplaced) else ""
        gone = event.member_id if isinstance(event, MemberRemoved) else gone
        if gone in leaving:
            self._forget_leave(leaving[gone])

    def _send(self, client: StaticClient, why: str) -> None:
        assert client.leaving is not None, "its leave is delayed"
        leaving = client.leaving
        log.info("group %s: client %s %s, and leaves", *_names((client.group_id, client.client_id)), why)
        self._forget_leave(client)
        if self._clients.get((client.group_id, client.client_id)) is client:
            del self._clients[client.group_id, client.client_id]
        self._leave(Leave(client.group_id, (leaving,)))

    def _forget_leave(self, client: StaticClient) -> None:
        assert client.leaving is not None, "its leave is delayed"
        self._timers.disarm(client)
        leaving = self._leaving[client.group_id]
        del leaving[client.leaving.member_id]
        client.leaving = None
        if not leaving:
            del self._leaving[client.group_id]


def _why_dynamic(message: MemberRequest, version: int, client_id: str) -> str:
    """Return why a request cannot have an instance id, or empty."""
    if isinstance(message, JoinGroupRequest) and message.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return f"it is of the type {printable(message.protocol_type)}, and static_members is for consumers"
    if version < (first := FIRST_VERSIONS[type(message)]):
        return f"it sends version {version} of {type(message).__name__}, and {first} is the first with an instance id"
    if _LEGAL.fullmatch(PREFIX + client_id) is None or not client_id:
        return "its client id has other characters than A-Z a-z 0-9 . _ -, or too many, or none"
    return ""


def _names(key: tuple[str, str]) -> tuple[str, str]:
    return printable(key[0]), printable(key[1])
