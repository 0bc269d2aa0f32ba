"""The group requests of a simulated member: its effects become requests, the responses become its inputs.

One class for each protocol, over the same rules as the client that ships (`client.classic_messages`,
`client.consumer_messages`). Requests that repeat are encoded once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kohort.assign.cooperative import assign_group
from kohort.assign.spec import Assignor, GroupSpec
from kohort.client.membership import classic_messages, consumer_messages
from kohort.client.membership.topic_metadata import metadata_seen, specs, topics_seen
from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.member.effects import ConsumerHeartbeat, HurryHeartbeat, NameTopics
from kohort.member.identity import Identity
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.member.member_state import State
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, error_for
from kohort.model.id_partitions import IdPartitions
from kohort.model.ids import topic_id_text
from kohort.sim.peers.client_kinds import Kind
from kohort.sim.peers.peer_connection import PeerConnections, reader
from kohort.sim.peers.peer_metadata import PeerMetadata
from kohort.wire.apis import Api
from kohort.wire.codec import MalformedMessage
from kohort.wire.message import Request

InputT = TypeVar("InputT")
EffectT = TypeVar("EffectT", effects.Join, effects.Sync)

_RETRY_METADATA_US = 200_000


class Requester(Protocol):
    """The member on whose behalf requests are sent."""

    def take(self, event: inputs.Input) -> None:
        """Feed an input to the member's state machine."""

    def requested(self, request: str, detail: str) -> None:
        """A request leaves."""

    def answered(self, request: str, error: ErrorCode, detail: str) -> None:
        """Its response arrived."""


class GroupRequests(ABC):
    """The requests of one member, and its state machine (`member`)."""

    member: ClassicMember | ConsumerMember

    def __init__(
        self,
        connections: PeerConnections,
        metadata: PeerMetadata,
        kind: Kind,
        config: MemberConfig,
        requester: Requester,
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._kind = kind
        self._config = config
        self._requester = requester

    @abstractmethod
    def carry_out(self, effect: effects.Effect) -> None:
        """Carry out an effect that concerns the group or the cluster."""

    @abstractmethod
    def seen(self) -> inputs.Input:
        """Return the topics of the newest metadata as an input."""


class ClassicRequests(GroupRequests):
    """A member of the classic protocol: it joins, leads, assigns and syncs."""

    def __init__(
        self,
        connections: PeerConnections,
        metadata: PeerMetadata,
        kind: Kind,
        config: MemberConfig,
        requester: Requester,
    ) -> None:
        super().__init__(connections, metadata, kind, config, requester)
        assignors = kind.made_assignors()
        self.member: ClassicMember = ClassicMember(config, assignors, connections.random.random)
        self._assignors: dict[str, Assignor] = {assignor.name: assignor for assignor in assignors}
        self._held_back = 0
        """How many JoinGroup and SyncGroup requests are unanswered."""
        self._beat_as: Identity | None = None
        self._beat = b""
        self._beat_read = reader(Api.HEARTBEAT, connections.version(Api.HEARTBEAT))
        self._beat_ms = classic_messages.heartbeat_ms(connections.request_timeout_ms, config)
        self._held_back_ms = classic_messages.held_back_ms(connections.request_timeout_ms, config)

    def carry_out(self, effect: effects.Effect) -> None:
        """Send a request, or compute the group's assignment."""
        match effect:
            case effects.Heartbeat():
                self._heartbeat(effect)
            case effects.Join():
                self._join(effect)
            case effects.Sync():
                self._sync(effect)
            case effects.Leave():
                self._leave(effect)
            case effects.Compute():
                self._compute(effect)
            case effects.OnAssignment(name, assignment, generation):
                self._assignors[name].on_assignment(assignment, generation)

    def seen(self) -> inputs.Input:
        """Return the topics of the newest metadata as an input."""
        return metadata_seen(self._metadata.view, self._metadata.followed)

    # -- heartbeats

    def _heartbeat(self, effect: effects.Heartbeat) -> None:
        identity = effect.identity
        group_id = self._connections.group_id
        if identity != self._beat_as:
            self._beat = self._connections.frame(classic_messages.heartbeat_request(group_id, self._config, effect))
            self._beat_as = identity

        def answered(code: ErrorCode, response: Any) -> None:
            if response is not None:
                code = error_for(response.error_code)
            self._requester.answered("Heartbeat", code, "")
            self._keep_pace(identity)
            self._requester.take(inputs.HeartbeatAnswered(identity, code))

        self._requester.requested("Heartbeat", "")
        if self._kind.pace == "overlaps":
            interval_us = self._config.heartbeat_interval_ms * 1000
            self._connections.host.after_us(interval_us, self._overlap, identity)
        self._connections.group.send(self._beat, self._beat_read, answered, self._beat_ms)

    def _keep_pace(self, identity: Identity) -> None:
        """A heartbeat that was sent as `identity` is answered: time the next one as the client library does."""
        member, session, now_ms = self.member, self.member.session, self._connections.host.now_ms()
        if identity != member.identity or session.heartbeat_ms is None:
            return
        match self._kind.pace:
            case "overlaps" if member.beat_as is None:
                member.beat_as = identity  # it was taken for answered when the next one fell due
            case "skips":
                while session.heartbeat_ms <= now_ms:
                    session.heartbeat_ms += self._config.heartbeat_interval_ms
            case "from answer":
                session.mark_heartbeat_sent(now_ms)
            case _:
                pass

    def _overlap(self, identity: Identity) -> None:
        """The interval is over: have the member send the next heartbeat, whether or not the last one is answered."""
        if self.member.beat_as == identity == self.member.identity:
            self.member.beat_as = None
            self._requester.take(inputs.Tick())

    # -- rounds

    def _join(self, effect: effects.Join) -> None:
        group_id = self._connections.group_id
        request = classic_messages.join_request(group_id, self._config, effect, self._kind.embedded_version)

        def answered(code: ErrorCode, response: Any) -> None:
            event = _input_of(inputs.JoinAnswered, classic_messages.join_answered, effect, code, response)
            role = "leads" if event.leader and event.leader == event.member_id else "follows"
            detail = f"{role} as {event.member_id} in generation {event.generation}"
            self._requester.answered("JoinGroup", event.error, detail)
            self._requester.take(event)

        offers = ",".join(name for name, _ in effect.protocols)
        self._requester.requested("JoinGroup", f"{offers}: {effect.reason}")
        self._send_held_back(request, answered)

    def _sync(self, effect: effects.Sync) -> None:
        group_id = self._connections.group_id
        request = classic_messages.sync_request(group_id, self._config, effect, self._kind.embedded_version)

        def answered(code: ErrorCode, response: Any) -> None:
            event = _input_of(inputs.SyncAnswered, classic_messages.sync_answered, effect, code, response)
            self._requester.answered("SyncGroup", event.error, _names(event.assignment.partitions))
            self._requester.take(event)

        self._requester.requested("SyncGroup", f"{len(effect.assignments)} assignments of {effect.protocol_name}")
        self._send_held_back(request, answered)

    def _send_held_back(self, request: Request[Any], done: Callable[[ErrorCode, Any], None]) -> None:
        """Send a request that the coordinator may answer only when other members have sent theirs."""

        def answered(code: ErrorCode, response: Any) -> None:
            self._held_back -= 1
            done(code, response)

        self._held_back += 1
        self._connections.send(self._connections.joins, request, answered, timeout_ms=self._held_back_ms)

    def _leave(self, effect: effects.Leave) -> None:
        if self._held_back:
            # On a new connection: brokers answer in order.
            self._connections.joins.drop()
        request = classic_messages.leave_request(self._connections.group_id, self._config, effect)

        def answered(code: ErrorCode, response: Any) -> None:
            event = inputs.LeaveAnswered(effect.identity, ErrorCode.REQUEST_TIMED_OUT)
            if response is not None:
                event = classic_messages.leave_answered(effect, response)
            self._requester.answered("LeaveGroup", event.error if response is not None else code, "")
            self._requester.take(event)

        self._requester.requested("LeaveGroup", effect.reason)
        timeout_ms = classic_messages.LEAVE_TIMEOUT_MS
        self._connections.send(self._connections.group, request, answered, timeout_ms=timeout_ms)

    # -- leading

    def _compute(self, effect: effects.Compute) -> None:
        """Run the assignor over the members, with new metadata that covers all their topics."""
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        self._metadata.follow(topics)

        def looked(is_new: bool) -> None:
            if self.member.state is not State.ASSIGNING or self.member.identity != effect.identity:
                return
            is_known = all(self._metadata.view.spec(topic) is not None for topic in topics)
            if not is_new and not is_known:
                self._connections.host.after_us(_RETRY_METADATA_US, self._compute, effect)
            else:
                self._requester.take(self._assigned(effect, topics))

        self._metadata.look(looked)

    def _assigned(self, effect: effects.Compute, topics: list[str]) -> inputs.Input:
        snapshot = specs(self._metadata.view, topics)
        if effect.skip:
            return inputs.Computed(effect.identity, {}, snapshot)
        spec = GroupSpec(effect.members, snapshot)
        try:
            made = assign_group(self._assignors, effect.protocol_name, spec, lambda _: None)
        except Exception as error:  # an assignor may be a user's code
            text = f"{type(error).__name__}: {error}"
            return inputs.ComputeFailed(effect.identity, text, is_passed_on=self._kind.is_ours)
        return inputs.Computed(effect.identity, made, snapshot)


def _input_of(
    made: Callable[[Identity, ErrorCode], InputT],
    read: Callable[[EffectT, Any], InputT],
    effect: EffectT,
    code: ErrorCode,
    response: Any,
) -> InputT:
    """Return a response as the member's input; an error where there is none, or none that can be read."""
    if response is None:
        return made(effect.identity, code)
    try:
        return read(effect, response)
    except MalformedMessage:
        return made(effect.identity, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


class ConsumerRequests(GroupRequests):
    """A member of the consumer protocol: it sends heartbeats, and finds the names of its assigned topics."""

    def __init__(
        self,
        connections: PeerConnections,
        metadata: PeerMetadata,
        kind: Kind,
        config: MemberConfig,
        requester: Requester,
    ) -> None:
        super().__init__(connections, metadata, kind, config, requester)
        self.member: ConsumerMember = ConsumerMember(config, _new_member_id(connections), connections.random.random)
        self._known: dict[bytes, str] = {}
        self._interval_ms = 5_000
        api = Api.CONSUMER_GROUP_HEARTBEAT
        self._read = reader(api, connections.version(api))
        self._hurry = connections.opening("kohort")
        self._last: ConsumerHeartbeat | None = None
        self._frame = b""
        """The bytes of the last heartbeat."""

    def carry_out(self, effect: effects.Effect) -> None:
        """Send a heartbeat, or request the names of topics."""
        match effect:
            case ConsumerHeartbeat():
                self._heartbeat(effect)
            case HurryHeartbeat():
                self._hurry_up()
            case NameTopics(topic_ids):
                self._metadata.want_names(topic_ids)

    def seen(self) -> inputs.Input:
        """Return the topics of the newest metadata as an input."""
        return topics_seen(self._metadata.view, self._known)

    def _heartbeat(self, effect: ConsumerHeartbeat) -> None:
        longest_ms = max(consumer_messages.SHORTEST_TIMEOUT_MS, 3 * self._interval_ms)
        timeout_ms = min(self._connections.request_timeout_ms, longest_ms)
        if effect.is_leave:
            timeout_ms = consumer_messages.LEAVE_TIMEOUT_MS

        def answered(code: ErrorCode, response: Any) -> None:
            event = ConsumerHeartbeatAnswered(effect.number, code)
            if response is not None:
                event = consumer_messages.heartbeat_answered(effect, response)
                if event.error is ErrorCode.NONE and event.interval_ms > 0:
                    self._interval_ms = event.interval_ms
            assigned = "" if event.assignment is None else _ids(event.assignment)
            self._requester.answered("ConsumerGroupHeartbeat", event.error, f"epoch {event.member_epoch}{assigned}")
            self._requester.take(event)

        self._requester.requested("ConsumerGroupHeartbeat", f"epoch {effect.member_epoch}: {effect.cause}")
        self._connections.group.send(self._frame_of(effect), self._read, answered, timeout_ms)

    def _frame_of(self, effect: ConsumerHeartbeat) -> bytes:
        if self._last is None or not _is_same(self._last, effect):
            request = consumer_messages.heartbeat_request(
                self._connections.group_id,
                self._config,
                effect,
                is_heard=self._kind.is_ours,
                topic_id=self._metadata.spec_id,
            )
            self._last, self._frame = effect, self._connections.frame(request)
        return self._frame

    def _hurry_up(self) -> None:
        """Send any request: a broker that parks the heartbeat under way answers it before any other request."""
        if self._kind.is_ours:
            self._connections.group.send(self._hurry, bytes, lambda *_: self._requester.take(inputs.Tick()), 20_000)
        else:
            self._requester.take(inputs.Tick())


def _is_same(last: ConsumerHeartbeat, effect: ConsumerHeartbeat) -> bool:
    """Return whether two heartbeats have the same bytes: both carry nothing but the member's identity."""
    return (
        last.member_epoch == effect.member_epoch
        and last.member_id == effect.member_id
        and effect.topics is last.topics is None
        and effect.regex is last.regex is None
        and effect.owned is last.owned is None
        and effect.lags is last.lags is None
        and effect.rebalance_timeout_ms == last.rebalance_timeout_ms == -1
        and effect.reason == last.reason == ""
    )


def _new_member_id(connections: PeerConnections) -> str:
    """Return an id as members of the consumer protocol generate it, from the world's random numbers."""
    while (text := topic_id_text(connections.random.randbytes(16))).startswith("-"):
        pass
    return text


def _names(partitions: Partitions) -> str:
    return " ".join(map(str, sorted(partitions)))


def _ids(assignment: IdPartitions) -> str:
    parts = [f"{topic_id.hex()[:4]}:{','.join(map(str, numbers))}" for topic_id, numbers in assignment]
    return f", assigned {' '.join(parts) or 'nothing'}"
