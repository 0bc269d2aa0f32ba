"""What a connection's requests say about groups: decoded, and handed to `ObservedGroups`. Nothing is changed.

A request that cannot be read, or whose version the codec does not know, passes unread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from kohort.gateway.assigning.edge import Edge, HeldAssignments
from kohort.gateway.holding.classic_holding import ClassicHolding, HeldAnswer, HeldSync
from kohort.gateway.holding.consumer_holding import STABLE_PARK_MS, ConsumerHolding
from kohort.gateway.observing.epoch_heartbeats import (
    EpochHeartbeat,
    UnobservedHeartbeat,
    share_heartbeat,
    share_result,
    streams_heartbeat,
    streams_result,
)
from kohort.gateway.observing.member_locations import MemberLocations
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.policies.group_policies import GroupPolicies
from kohort.gateway.policies.policies import UNKNOWN_SOFTWARE, Client, GroupProtocol, Policy, Treatment
from kohort.gateway.relay.answers import encode_answer
from kohort.gateway.relay.frame_cutter import LENGTH_BYTES
from kohort.gateway.relay.relay import REQUEST_HEAD_BYTES, Exchange, RequestHead, request_head
from kohort.group.commands import CommitOffsets, ConsumerHeartbeat, Heartbeat, Join, Leave, Sync
from kohort.group.results import ConsumerHeartbeatResult, JoinedMember, JoinResult
from kohort.model.errors import ErrorCode, error_for
from kohort.model.id_partitions import id_partitions
from kohort.node.apis.k11_12_13_14_classic_members import join_command, leaving_members, sync_command
from kohort.node.apis.k68_consumer_group_heartbeat import heartbeat_command
from kohort.parking.client_software import MARGIN_MS, OTHERS_MARGIN_MS
from kohort.parking.parked_heartbeat import Follower, ParkedHeartbeat
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.codec import Buffer, decode
from kohort.wire.frames import decode_request_header, decode_response
from kohort.wire.message import Request, Response
from kohort.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

MOST_TREATMENTS = 16
"""For how many groups a connection remembers what the policies decide."""

_EVICTED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

_HELD = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""What the answer to a heartbeat that may be held says."""

Command = Join | Sync | Heartbeat | Leave | CommitOffsets | ConsumerHeartbeat | UnobservedHeartbeat


@dataclass(frozen=True, slots=True)
class _ReadApi:
    """How requests of one API become commands, and what their answers show."""

    request: type[Request[Any]]
    response: type[Response]
    command: Callable[[Any, int, RequestOrigin, str], Command] | None = None
    sent: Callable[[ObservedGroups, Any, int], None] | None = None
    answered: Callable[[ObservedGroups, Any, Any, int, int], bool | None] | None = None
    """Returns whether the answer should be held."""
    result: Callable[[Any], ConsumerHeartbeatResult] | None = None
    """What the answer to a heartbeat with a member epoch contains."""


class RequestOrigin(Protocol):
    """The connection of a request."""

    @property
    def client_host(self) -> str:
        """The client's address, without the port."""

    @property
    def software(self) -> str:
        """The client's software as ApiVersions names it (KIP-511), or empty."""

    @property
    def margin_ms(self) -> int:
        """How long before its next heartbeat is due the client must have the last answer."""


class SharedTraffic(Protocol):
    """The other instances of the gateway, as a connection knows them."""

    @property
    def locations(self) -> MemberLocations:
        """Where members were last seen."""

    def seen(self, group_id: str, member_id: str, now_ms: int, /) -> None:
        """A member has sent a request here."""

    def request(self, exchange: Exchange, command: Command, client_host: str, software: str, /) -> None:
        """A request goes to the broker; it is shared if it may change its group."""

    def answer(self, exchange: Exchange, command: Command, frame: Buffer, client_host: str, software: str, /) -> None:
        """A request that was shared is answered, or a heartbeat whose answer brings something."""

    def ended(self, exchange: Exchange, /) -> None:
        """The connection of a request has ended without an answer."""


class ConnectionTraffic:
    """The reader of one connection's frames (`TrafficReader`). `client_host` is its address, without the port.

    Without `holding` nothing waits: traffic is observed only.
    """

    def __init__(
        self,
        groups: ObservedGroups,
        client_host: str,
        policies: GroupPolicies,
        edge: Edge,
        instances: SharedTraffic,
        holding: ClassicHolding | None = None,
        epoch_holdings: Mapping[GroupProtocol, ConsumerHolding] | None = None,
    ) -> None:
        self._groups = groups
        self._edge = edge
        self._assigning: HeldAssignments | None = None
        self._policies = policies
        self._instances = instances
        self._holding = holding
        self._epoch_holdings = epoch_holdings or {}
        self._parked: ParkedHeartbeat[EpochHeartbeat, None] | None = None
        self.client_host = client_host
        self.software = ""
        """The client's software as ApiVersions names it (KIP-511), or empty."""
        self._client_id = ""
        self._treatments: dict[tuple[str, GroupProtocol], Policy] = {}
        """The last group's policy: a connection is one of a single client, and hardly ever of more groups."""
        self.has_fetched = False
        """Whether the connection has carried a Fetch or a ShareFetch."""
        self._authenticated_until_ms: int | None = None
        """When the client must have authenticated again (KIP-368), or None."""
        self._held: HeldAnswer | HeldSync | None = None
        self._heartbeat_ms = 0
        """When the last heartbeat of a classic member arrived."""
        self._is_warned = False

    @property
    def margin_ms(self) -> int:
        """How long before its next heartbeat is due the client must have the last answer."""
        return MARGIN_MS.get(self.software, OTHERS_MARGIN_MS)

    def reads(self, head: RequestHead) -> bool:
        """Whether a request is about a group, and known to the codec."""
        api = _READ.get(head.api_key)
        return api is not None and head.api_version in VERSIONS[Api(head.api_key)]

    def request(self, exchange: Exchange, now_ms: int) -> bool:
        """Take a request; it passes."""
        command = self._command_of(exchange, now_ms)
        if isinstance(command, CommitOffsets) and self._holding is not None:
            self._holding.committed(command, now_ms)
        if isinstance(command, Heartbeat):
            self._heartbeat_ms = now_ms
        if command is not None:
            if not isinstance(command, Leave):
                self._policies.fallbacks.seen(command.group_id, command.member_id, now_ms)
                self._instances.seen(command.group_id, command.member_id, now_ms)
            if not isinstance(command, Sync):
                self._instances.request(exchange, command, self.client_host, self.software)
        if isinstance(command, EpochHeartbeat):
            return self._pass_or_hold(exchange, command, now_ms)
        if isinstance(command, Sync):
            return self._sync_passes(exchange, command, now_ms)
        sent = _READ[exchange.head.api_key].sent
        if command is not None and sent is not None:
            sent(self._groups, command, now_ms)
        return True

    def _sync_passes(self, exchange: Exchange, command: Sync, now_ms: int) -> bool:
        """Return whether a SyncGroup passes now: a leader's may wait for an assignor."""

        def passes(decided: Sync, remark: str, at_ms: int) -> None:
            exchange.context = decided
            self._instances.request(exchange, decided, self.client_host, self.software)
            self._groups.sync_sent(decided, at_ms, remark)
            exchange.pass_on()

        self._assigning = self._edge.handed_in(exchange, command, now_ms, passes)
        if self._assigning is None:
            self._instances.request(exchange, command, self.client_host, self.software)
            self._groups.sync_sent(command, now_ms)
            return True
        return self._assigning.is_over

    def _pass_or_hold(self, exchange: Exchange, heartbeat: EpochHeartbeat, now_ms: int) -> bool:
        """Return whether a heartbeat with a member epoch passes now."""
        protocol = protocol_of(heartbeat)
        holding = self._epoch_holdings.get(protocol)
        if holding is None:
            return True
        if not self.has_fetched and not self._expires_soon(now_ms) and self._parks(heartbeat, now_ms):
            parked = holding.hold(exchange, heartbeat, now_ms)
            if parked is not None:
                self._parked = parked
                self._policies.counters.heartbeats[protocol] += 1
                return False
        holding.sent(heartbeat, now_ms)
        return True

    def _expires_soon(self, now_ms: int) -> bool:
        """Whether a request that is held could reach the broker when the client is no longer authenticated."""
        return self._authenticated_until_ms is not None and now_ms + STABLE_PARK_MS >= self._authenticated_until_ms

    def _command_of(self, exchange: Exchange, now_ms: int) -> Command | None:
        """Return what a request asks of its group; None where it cannot be read, or asks nothing."""
        if exchange.context is not None:
            return cast(Command, exchange.context)
        head = exchange.head
        api = _READ[head.api_key]
        body = memoryview(exchange.frame)[LENGTH_BYTES:]
        try:
            header, position = decode_request_header(body)
            message, _ = decode(api.request, head.api_version, body, position)
        except MalformedMessage as error:
            self._warn(head, error)
            return None
        if isinstance(message, ApiVersionsRequest):
            self.software = message.client_software_name or ""
            self._treatments.clear()
            if self.software:
                self._policies.software.note(self.client_host, header.client_id or "", self.software)
        if api.command is None:
            return None
        client_id = header.client_id or ""
        if client_id != self._client_id:
            self._client_id = client_id
            self._treatments.clear()
        if not self.software and (known := self._policies.software.of(self.client_host, client_id)):
            self.software = known
            self._treatments.clear()
        command = api.command(message, head.api_version, self, client_id)
        if isinstance(command, Join):
            command.reason = self._edge.reason_of(command, now_ms)
        if self._policy(command).treatment is Treatment.OFF:
            return None
        exchange.context = command
        return command

    def _policy(self, command: Command) -> Policy:
        """Return what the policies decide for the sender of a request."""
        key = command.group_id, protocol_of(command)
        found = self._treatments.get(key)
        if found is None:
            client = Client(self.software or UNKNOWN_SOFTWARE, self._client_id)
            found = self._policies.table.decide(key[0], client, key[1])
            if len(self._treatments) >= MOST_TREATMENTS:
                self._treatments.clear()
            self._treatments[key] = found
        return found

    def _parks(self, command: Command, now_ms: int) -> bool:
        """Whether a request or its answer may be held."""
        return self._policies.parks(self._policy(command), command.group_id, now_ms)

    def answered(self, exchange: Exchange, frame: bytes, now_ms: int) -> Buffer | None:
        """Take the answer to a request; it passes."""
        head, command = exchange.head, exchange.context
        api = _READ[head.api_key]
        is_authentication = head.api_key == Api.SASL_AUTHENTICATE
        if is_authentication or (command is not None and (api.answered or api.result) is not None):
            try:
                _, message = decode_response(api.response, head.api_version, memoryview(frame)[LENGTH_BYTES:])
            except MalformedMessage as error:
                self._warn(head, error)
                self._ended(exchange, now_ms)
            else:
                if isinstance(message, SaslAuthenticateResponse):
                    lifetime_ms = message.session_lifetime_ms
                    self._authenticated_until_ms = now_ms + lifetime_ms if lifetime_ms > 0 else None
                    return frame
                if isinstance(command, EpochHeartbeat):
                    assert api.result is not None, "an answer to a heartbeat with an epoch has one"
                    result = api.result(message)
                    if exchange.number or _is_news(command, result):
                        self._instances.answer(exchange, command, frame, self.client_host, self.software)
                    return self._heartbeat_answered(command, result, frame, now_ms)
                assert api.answered is not None, "an answer that is read is noted"
                if exchange.number or (isinstance(message, HeartbeatResponse) and message.error_code):
                    self._instances.answer(exchange, cast(Command, command), frame, self.client_host, self.software)
                held = self._held
                if isinstance(message, SyncGroupResponse) and isinstance(held, HeldSync) and held.exchange is exchange:
                    passing = held.answered_again(frame, error_for(message.error_code), now_ms)
                    if passing is not None:
                        api.answered(self._groups, command, message, head.api_version, now_ms)
                    return passing
                holds = api.answered(self._groups, command, message, head.api_version, now_ms)
                if isinstance(command, Join) and isinstance(message, JoinGroupResponse):
                    self._edge.join_answered(command.group_id, _join_result(message))
                if holds and isinstance(command, Sync) and self._may_hold(exchange, command, now_ms):
                    assert self._holding is not None, "what may be held is held somewhere"
                    self._held = self._holding.hold_sync(exchange, command, frame, now_ms)
                    self._policies.counters.syncs += self._held is not None
                    return None if self._held is not None else frame
                if isinstance(command, Heartbeat) and isinstance(message, HeartbeatResponse):
                    if not message.error_code and self._edge.interrupts(command, now_ms):
                        self._edge.counters.rounds_ordered += 1
                        message.error_code = ErrorCode.REBALANCE_IN_PROGRESS
                        frame = encode_answer(head, message)
                    return self._hold(exchange, command, frame, error_for(message.error_code), now_ms)
        return frame

    def _heartbeat_answered(
        self, command: EpochHeartbeat, result: ConsumerHeartbeatResult, frame: Buffer, now_ms: int
    ) -> Buffer:
        """Take the answer to a heartbeat with a member epoch; return what the client gets."""
        if isinstance(command, ConsumerHeartbeat):
            self._groups.consumer.heartbeat_answered(command, result, now_ms)
        holding = self._epoch_holdings.get(protocol_of(command))
        if holding is None:
            return frame
        if result.error in _EVICTED and self._parked is not None and self._parked.heartbeat is command:
            self._policies.fallbacks.evicted(command.group_id, command.member_id, now_ms)
        answer = holding.answered(command, result, frame, now_ms)
        return answer if self._parks(command, now_ms) else frame

    def _may_hold(self, exchange: Exchange, command: Command, now_ms: int) -> bool:
        """Whether the answer to a request of a classic member may be held."""
        is_possible = self._holding is not None and exchange.is_last and not self.has_fetched
        if not is_possible or not self._parks(command, now_ms):
            return False
        return self._instances.locations.is_complete(command.group_id, now_ms)

    def _hold(
        self, exchange: Exchange, command: Heartbeat, frame: bytes, error: ErrorCode, now_ms: int
    ) -> Buffer | None:
        """Return the answer to a heartbeat, or None where it is held."""
        held = self._held
        if isinstance(held, HeldAnswer) and held.exchange is exchange:
            return held.answered_again(frame, error, now_ms)
        if self._holding is None or error not in _HELD or not self._may_hold(exchange, command, now_ms):
            return frame
        self._held = self._holding.hold(
            exchange,
            command,
            frame,
            error,
            now_ms,
            software=self.software,
            answered_after_ms=now_ms - self._heartbeat_ms,
            commit_hold_ms=self._policy(command).commit_hold_ms,
        )
        if self._held is None:
            return frame
        self._policies.counters.heartbeats[GroupProtocol.CLASSIC] += 1
        return None

    def passed(self, head: RequestHead, now_ms: int) -> None:
        """Note a Fetch or a ShareFetch."""
        del now_ms
        self.has_fetched |= head.api_key in (Api.FETCH, Api.SHARE_FETCH)

    def followed(self, waiting: Exchange, behind: Exchange | None, now_ms: int) -> bool:
        """A request arrived behind a heartbeat whose answer is held: return whether it goes on being held."""
        if isinstance(waiting.context, EpochHeartbeat):
            assert self._parked is not None, "what waits was parked"
            return self._parked.followed(Follower.OTHER, now_ms)
        if self._assigning is not None and self._assigning.exchange is waiting and not self._assigning.is_over:
            self._assigning.end(now_ms)
            return False
        held = self._held
        assert held is not None, "only answers to heartbeats wait"
        assert held.exchange is waiting, "one answer waits at a time"
        command = None if behind is None else self._command_of(behind, now_ms)
        follower = Follower.OTHER
        if isinstance(command, Heartbeat | CommitOffsets) and _is_of(command, waiting.context):
            follower = Follower.HEARTBEAT if isinstance(command, Heartbeat) else Follower.COMMIT
        return held.followed(follower, now_ms)

    def closed(self, unanswered: tuple[Exchange, ...], now_ms: int, *, is_by_client: bool) -> None:
        """The connection has ended."""
        for exchange in unanswered:
            self._ended(exchange, now_ms)
        held, parked = self._held, self._parked
        waiting: Heartbeat | EpochHeartbeat | None = None
        if isinstance(held, HeldAnswer) and held.is_parked:
            waiting = held.command
        elif parked is not None and parked.parking is not None:
            waiting = parked.heartbeat
        if waiting is not None and is_by_client:
            self._policies.fallbacks.disconnected(waiting.group_id, waiting.member_id, self.client_host, now_ms)
        if held is not None:
            held.drop()
        if parked is not None:
            parked.drop()
        if self._assigning is not None:
            self._assigning.drop()

    def _ended(self, exchange: Exchange, now_ms: int) -> None:
        """What a request was answered is not known, and will not be."""
        self._instances.ended(exchange)
        request_abandoned(self._groups, exchange.context, now_ms)

    def oversized(self, head: RequestHead) -> None:
        """Report a request that passes unread."""
        self._warn(head, "it is too long, or too many await their answers")

    def answer_oversized(self, exchange: Exchange, now_ms: int) -> None:
        """Report an answer that passes unread."""
        self._warn(exchange.head, "its answer is too long, or too much is read now")
        self._ended(exchange, now_ms)

    def _warn(self, head: RequestHead, why: object) -> None:
        if not self._is_warned:
            self._is_warned = True
            name = Api(head.api_key).name
            log.warning("client %s: %s v%d passes unread: %s", self.client_host, name, head.api_version, why)


def _join(message: JoinGroupRequest, version: int, connection: RequestOrigin, client_id: str) -> Join:
    return join_command(message, version, client_id, connection.client_host)


def _join_answered(
    groups: ObservedGroups, command: Join, message: JoinGroupResponse, version: int, now_ms: int
) -> None:
    del version
    groups.join_answered(command, _join_result(message), now_ms)


def _join_result(message: JoinGroupResponse) -> JoinResult:
    return JoinResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        leader=message.leader,
        members=tuple(
            JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata))
            for member in message.members
        ),
        skip_assignment=message.skip_assignment,
    )


def _sync(message: SyncGroupRequest, version: int, connection: RequestOrigin, client_id: str) -> Sync:
    del version, connection, client_id
    return sync_command(message)  # Apache Kafka ignores our field of a failure


def _sync_answered(
    groups: ObservedGroups, command: Sync, message: SyncGroupResponse, version: int, now_ms: int
) -> bool:
    del version
    return groups.sync_answered(command, error_for(message.error_code), bytes(message.assignment), now_ms)


def _heartbeat(message: HeartbeatRequest, version: int, connection: RequestOrigin, client_id: str) -> Heartbeat:
    del version, connection, client_id
    return Heartbeat(message.group_id, message.member_id, message.group_instance_id, message.generation_id)


def _heartbeat_answered(
    groups: ObservedGroups, command: Heartbeat, message: HeartbeatResponse, version: int, now_ms: int
) -> None:
    del version
    groups.heartbeat_answered(command, error_for(message.error_code), now_ms)


def _commit(message: OffsetCommitRequest, version: int, connection: RequestOrigin, client_id: str) -> CommitOffsets:
    del version, connection, client_id
    generation = message.generation_id_or_member_epoch
    return CommitOffsets(message.group_id, message.member_id, message.group_instance_id, generation, [])


def _consumer_heartbeat(
    message: ConsumerGroupHeartbeatRequest, version: int, connection: RequestOrigin, client_id: str
) -> ConsumerHeartbeat:
    return heartbeat_command(message, version, client_id, connection.client_host, connection.software)


def _consumer_result(message: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    assignment = message.assignment
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        error_message=message.error_message,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
        assignment=(
            None
            if assignment is None
            else id_partitions((each.topic_id, each.partitions) for each in assignment.topic_partitions)
        ),
    )


def _leave(message: LeaveGroupRequest, version: int, connection: RequestOrigin, client_id: str) -> Leave:
    del connection, client_id
    return Leave(message.group_id, leaving_members(message, version))


def _leave_answered(
    groups: ObservedGroups, command: Leave, message: LeaveGroupResponse, version: int, now_ms: int
) -> None:
    if message.error_code:
        return
    members = command.members
    if version >= 3:
        answers = zip(members, message.members, strict=False)
        members = tuple(leaving for leaving, answer in answers if not answer.error_code)
    if members:
        groups.left(Leave(command.group_id, members), now_ms)


_READ: Mapping[int, _ReadApi] = {
    Api.API_VERSIONS: _ReadApi(ApiVersionsRequest, ApiVersionsResponse),
    Api.SASL_AUTHENTICATE: _ReadApi(SaslAuthenticateRequest, SaslAuthenticateResponse),
    Api.JOIN_GROUP: _ReadApi(JoinGroupRequest, JoinGroupResponse, _join, ObservedGroups.join_sent, _join_answered),
    Api.SYNC_GROUP: _ReadApi(SyncGroupRequest, SyncGroupResponse, _sync, ObservedGroups.sync_sent, _sync_answered),
    Api.HEARTBEAT: _ReadApi(
        HeartbeatRequest, HeartbeatResponse, _heartbeat, ObservedGroups.heartbeat_sent, _heartbeat_answered
    ),
    Api.OFFSET_COMMIT: _ReadApi(OffsetCommitRequest, OffsetCommitResponse, _commit),
    Api.CONSUMER_GROUP_HEARTBEAT: _ReadApi(
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        _consumer_heartbeat,
        result=_consumer_result,
    ),
    Api.SHARE_GROUP_HEARTBEAT: _ReadApi(
        ShareGroupHeartbeatRequest,
        ShareGroupHeartbeatResponse,
        lambda message, _version, connection, _client_id: share_heartbeat(message, connection.margin_ms),
        result=share_result,
    ),
    Api.STREAMS_GROUP_HEARTBEAT: _ReadApi(
        StreamsGroupHeartbeatRequest,
        StreamsGroupHeartbeatResponse,
        lambda message, _version, connection, _client_id: streams_heartbeat(message, connection.margin_ms),
        result=streams_result,
    ),
    Api.LEAVE_GROUP: _ReadApi(
        LeaveGroupRequest, LeaveGroupResponse, _leave, ObservedGroups.leave_sent, _leave_answered
    ),
}


@dataclass(frozen=True, slots=True)
class _ElsewhereOrigin:
    """The connection of a request that another instance of the gateway has shared (`RequestOrigin`)."""

    client_host: str
    software: str
    margin_ms: int = 0


def read_command(frame: Buffer, client_host: str, software: str) -> tuple[RequestHead, Command]:
    """Return what a request asks of its group. Raises MalformedMessage, also for a request that asks nothing of one."""
    if len(frame) < REQUEST_HEAD_BYTES:
        raise MalformedMessage(f"a request of {len(frame)} bytes has no header")
    head = request_head(frame)
    api = _READ.get(head.api_key)
    if api is None or api.command is None or head.api_version not in VERSIONS[Api(head.api_key)]:
        raise MalformedMessage(f"request with API key {head.api_key}, version {head.api_version} is about no group")
    body = memoryview(frame)[LENGTH_BYTES:]
    header, position = decode_request_header(body)
    message, _ = decode(api.request, head.api_version, body, position)
    return head, api.command(message, head.api_version, _ElsewhereOrigin(client_host, software), header.client_id or "")


def request_shown(groups: ObservedGroups, head: RequestHead, command: Command, now_ms: int) -> None:
    """Have a request change the groups."""
    sent = _READ[head.api_key].sent
    if sent is not None:
        sent(groups, command, now_ms)


def request_abandoned(groups: ObservedGroups, command: object, now_ms: int) -> None:
    """Note that what a request was answered is not known, and will not be."""
    if isinstance(command, Join):
        groups.join_abandoned(command, now_ms)
    elif isinstance(command, Sync):
        groups.sync_abandoned(command, now_ms)


def answer_shown(
    groups: ObservedGroups, head: RequestHead, command: Command, frame: Buffer, now_ms: int
) -> ConsumerHeartbeatResult | None:
    """Have an answer change the groups; return what one to a heartbeat with an epoch has. Raises MalformedMessage."""
    api = _READ[head.api_key]
    _, message = decode_response(api.response, head.api_version, memoryview(frame)[LENGTH_BYTES:])
    if api.result is not None:
        result = api.result(message)
        if isinstance(command, ConsumerHeartbeat):
            groups.consumer.heartbeat_answered(command, result, now_ms)
        return result
    if api.answered is not None:
        api.answered(groups, command, message, head.api_version, now_ms)
    return None


def _is_news(heartbeat: EpochHeartbeat, result: ConsumerHeartbeatResult) -> bool:
    """Whether an answer says more than that all is as before: one to a member that leaves does."""
    is_change = heartbeat.member_epoch < 0 or result.member_epoch != heartbeat.member_epoch
    return is_change or bool(result.error) or result.assignment is not None


def protocol_of(command: Command) -> GroupProtocol:
    """Return the protocol of a request."""
    if isinstance(command, UnobservedHeartbeat):
        return command.protocol
    return GroupProtocol.CONSUMER if isinstance(command, ConsumerHeartbeat) else GroupProtocol.CLASSIC


def _is_of(command: Heartbeat | CommitOffsets, waiting: object) -> bool:
    """Whether a request is one of the member whose heartbeat waits."""
    if not isinstance(waiting, Heartbeat):
        return False
    return (waiting.group_id, waiting.member_id) == (command.group_id, command.member_id)
