"""The group requests of a simulated member: its effects become requests, the responses become its inputs.

One class for each protocol, over the same rules as the client that ships (`client.membership.member_messages`).
Requests that repeat are encoded once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kohort.assign.cooperative import assign_group
from kohort.assign.spec import Assignor, GroupSpec
from kohort.client.membership import member_messages
from kohort.client.membership.embedded_protocol import ConsumerProtocol, EmbeddedProtocol
from kohort.client.membership.member_messages import metadata_seen, specs, topics_seen
from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.member.effects import ConsumerHeartbeat, HurryHeartbeat, NameTopics
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.member.member_state import Identity, State
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import topic_id_text
from kohort.sim.peers.client_kinds import Kind
from kohort.sim.peers.peer_connection import PeerConnections, reader
from kohort.sim.peers.peer_metadata import PeerMetadata
from kohort.wire.apis import Api
from kohort.wire.message import Request
from kohort.wire.primitives import MalformedMessage

EffectT = TypeVar("EffectT", effects.Join, effects.Sync)

_RETRY_METADATA_US = 200_000


@dataclass(eq=False)
class GroupRequests(ABC):
    """The requests of one member, whose responses it takes; and its state machine (`member`)."""

    connections: PeerConnections
    metadata: PeerMetadata
    kind: Kind
    config: MemberConfig
    take: Callable[[inputs.Input], None]
    member: ClassicMember | ConsumerMember = field(init=False)

    @abstractmethod
    def __post_init__(self) -> None:
        """Make the state machine."""

    @abstractmethod
    def carry_out(self, effect: effects.Effect) -> None:
        """Carry out an effect that concerns the group or the cluster."""

    @abstractmethod
    def seen(self) -> inputs.Input:
        """Return the topics of the newest metadata as an input."""


class ClassicRequests(GroupRequests):
    """A member of the classic protocol: it joins, leads, assigns and syncs."""

    member: ClassicMember

    def __post_init__(self) -> None:
        connections, config = self.connections, self.config
        assignors = self.kind.made_assignors()
        self.member = ClassicMember(config, assignors, connections.random.random)
        self._assignors: dict[str, Assignor] = {assignor.name: assignor for assignor in assignors}
        self._embedded = ConsumerProtocol(self.kind.embedded_version)
        self._held_back = 0
        """How many JoinGroup and SyncGroup requests are unanswered."""
        self._beat_as: Identity | None = None
        self._beat = b""
        self._beat_read = reader(Api.HEARTBEAT, connections.version(Api.HEARTBEAT))
        self._beat_ms = member_messages.heartbeat_ms(connections.request_timeout_ms, config)
        self._held_back_ms = member_messages.held_back_ms(connections.request_timeout_ms, config)

    def carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Heartbeat():
                self._heartbeat(effect)
            case effects.Join():
                self._send_held_back(
                    effect, member_messages.join_request, inputs.JoinAnswered, member_messages.join_answered
                )
            case effects.Sync():
                self._send_held_back(
                    effect, member_messages.sync_request, inputs.SyncAnswered, member_messages.sync_answered
                )
            case effects.Leave():
                self._leave(effect)
            case effects.Compute():
                self._compute(effect)
            case effects.OnAssignment(name, assignment, generation):
                self._assignors[name].on_assignment(assignment, generation)

    def seen(self) -> inputs.Input:
        return metadata_seen(self.metadata.view, self.metadata.followed)

    # -- heartbeats

    def _heartbeat(self, effect: effects.Heartbeat) -> None:
        identity = effect.identity
        group_id = self.connections.group_id
        if identity != self._beat_as:
            self._beat = self.connections.frame(member_messages.heartbeat_request(group_id, self.config, effect))
            self._beat_as = identity

        def answered(code: ErrorCode, response: Any) -> None:
            if response is not None:
                code = error_for(response.error_code)
            self._keep_pace(identity)
            self.take(inputs.HeartbeatAnswered(identity, code))

        if self.kind.pace == "overlaps":
            interval_us = self.config.heartbeat_interval_ms * 1000
            self.connections.host.after_us(interval_us, self._overlap, identity)
        self.connections.group.send(self._beat, self._beat_read, answered, self._beat_ms)

    def _keep_pace(self, identity: Identity) -> None:
        """A heartbeat that was sent as `identity` is answered: time the next one as the client library does."""
        member, session, now_ms = self.member, self.member.session, self.connections.host.now_ms()
        if identity != member.identity or session.heartbeat_ms is None:
            return
        match self.kind.pace:
            case "overlaps" if member.beat_as is None:
                member.beat_as = identity  # it was taken for answered when the next one fell due
            case "skips":
                while session.heartbeat_ms <= now_ms:
                    session.heartbeat_ms += self.config.heartbeat_interval_ms
            case "from answer":
                session.mark_heartbeat_sent(now_ms)
            case _:
                pass

    def _overlap(self, identity: Identity) -> None:
        """The interval is over: have the member send the next heartbeat, whether or not the last one is answered."""
        if self.member.beat_as == identity == self.member.identity:
            self.member.beat_as = None
            self.take(inputs.Tick())

    # -- rounds

    def _send_held_back(
        self,
        effect: EffectT,
        made: Callable[[str, MemberConfig, EffectT, EmbeddedProtocol], Request[Any]],
        failed: Callable[[Identity, ErrorCode], inputs.Input],
        read: Callable[[EffectT, Any], inputs.Input],
    ) -> None:
        """Send JoinGroup or SyncGroup, which the coordinator may answer only when other members have sent theirs."""
        request = made(self.connections.group_id, self.config, effect, self._embedded)

        def answered(code: ErrorCode, response: Any) -> None:
            self._held_back -= 1
            event = failed(effect.identity, code)
            if response is not None:
                try:
                    event = read(effect, response)
                except MalformedMessage:
                    event = failed(effect.identity, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            self.take(event)

        self._held_back += 1
        self.connections.send(self.connections.joins, request, answered, timeout_ms=self._held_back_ms)

    def _leave(self, effect: effects.Leave) -> None:
        if self._held_back:
            # On a new connection: brokers answer in order.
            self.connections.joins.drop()
        request = member_messages.leave_request(self.connections.group_id, self.config, effect)

        def answered(code: ErrorCode, response: Any) -> None:
            if response is not None:
                code = error_for(response.error_code)
            self.take(inputs.LeaveAnswered(effect.identity, code))

        timeout_ms = member_messages.LEAVE_TIMEOUT_MS
        self.connections.send(self.connections.group, request, answered, timeout_ms=timeout_ms)

    # -- leading

    def _compute(self, effect: effects.Compute) -> None:
        """Run the assignor over the members, with new metadata that covers all their topics."""
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        self.metadata.follow(topics)

        def looked(is_new: bool) -> None:
            if self.member.state is not State.ASSIGNING or self.member.identity != effect.identity:
                return
            is_known = all(self.metadata.view.spec(topic) is not None for topic in topics)
            if not is_new and not is_known:
                self.connections.host.after_us(_RETRY_METADATA_US, self._compute, effect)
            else:
                self.take(self._assigned(effect, topics))

        self.metadata.look(looked)

    def _assigned(self, effect: effects.Compute, topics: list[str]) -> inputs.Input:
        snapshot = specs(self.metadata.view, topics)
        if effect.skip:
            return inputs.Computed(effect.identity, {}, snapshot)
        spec = GroupSpec(effect.members, snapshot)
        try:
            made = assign_group(self._assignors, effect.protocol_name, spec, lambda _: None)
        except Exception as error:  # an assignor may be a user's code
            text = f"{type(error).__name__}: {error}"
            return inputs.ComputeFailed(effect.identity, text, is_passed_on=self.kind.is_ours)
        return inputs.Computed(effect.identity, made, snapshot)


class ConsumerRequests(GroupRequests):
    """A member of the consumer protocol: it sends heartbeats, and finds the names of its assigned topics."""

    member: ConsumerMember

    def __post_init__(self) -> None:
        connections = self.connections
        self.member = ConsumerMember(self.config, _new_member_id(connections), connections.random.random)
        self._known: dict[bytes, str] = {}
        self._interval_ms = 5_000
        api = Api.CONSUMER_GROUP_HEARTBEAT
        self._read = reader(api, connections.version(api))
        self._hurry = connections.opening("kohort")
        self._last: tuple[Request[Any] | None, bytes] = None, b""
        """The last heartbeat, and its bytes."""

    def carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case ConsumerHeartbeat():
                self._heartbeat(effect)
            case HurryHeartbeat():
                self._hurry_up()
            case NameTopics(topic_ids):
                self.metadata.request_names(topic_ids)

    def seen(self) -> inputs.Input:
        return topics_seen(self.metadata.view, self._known)

    def _heartbeat(self, effect: ConsumerHeartbeat) -> None:
        longest_ms = max(member_messages.SHORTEST_TIMEOUT_MS, 3 * self._interval_ms)
        timeout_ms = min(self.connections.request_timeout_ms, longest_ms)
        if effect.is_leave:
            timeout_ms = member_messages.LEAVE_TIMEOUT_MS

        def answered(code: ErrorCode, response: Any) -> None:
            event = ConsumerHeartbeatAnswered(effect.number, code)
            if response is not None:
                event = member_messages.consumer_heartbeat_answered(effect, response)
                if event.error is ErrorCode.NONE and event.interval_ms > 0:
                    self._interval_ms = event.interval_ms
            self.take(event)

        self.connections.group.send(self._frame_of(effect), self._read, answered, timeout_ms)

    def _frame_of(self, effect: ConsumerHeartbeat) -> bytes:
        group_id, supports_lags = self.connections.group_id, self.kind.is_ours
        request = member_messages.consumer_heartbeat_request(
            group_id, self.config, effect, self.metadata.view, supports_lags=supports_lags
        )
        if request != self._last[0]:
            self._last = request, self.connections.frame(request)
        return self._last[1]

    def _hurry_up(self) -> None:
        """Send any request: a broker that parks the heartbeat under way answers it before any other request."""
        if self.kind.is_ours:
            self.connections.group.send(self._hurry, bytes, lambda *_: self.take(inputs.Tick()), 20_000)
        else:
            self.take(inputs.Tick())


def _new_member_id(connections: PeerConnections) -> str:
    """Return an id as members of the consumer protocol generate it, from the world's random numbers."""
    while (text := topic_id_text(connections.random.randbytes(16))).startswith("-"):
        pass
    return text
