"""How a peer speaks to its group: a member's effects go out as requests, the answers come back as its inputs.

One class for each protocol, over the same rules as the client that ships (`client.classic_messages`,
`client.consumer_messages`). What is sent again and again is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kohort.assign.spec import Assignor, GroupSpec
from kohort.client.membership import classic_messages, consumer_messages
from kohort.client.membership.leader_assignment import assign_group
from kohort.client.membership.topic_metadata import metadata_seen, specs, topics_seen
from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.member.consumer_effects import ConsumerHeartbeat, HurryHeartbeat, NameTopics
from kohort.member.consumer_inputs import ConsumerHeartbeatAnswered
from kohort.member.identity import Identity
from kohort.member.member_state import State
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, error_for
from kohort.model.id_partitions import IdPartitions
from kohort.model.ids import topic_id_text
from kohort.sim.peers.client_kinds import Kind
from kohort.sim.peers.heartbeat_pace import Heartbeats
from kohort.sim.peers.peer_connection import reader
from kohort.sim.peers.peer_link import PeerLink
from kohort.sim.peers.peer_metadata import PeerTopics
from kohort.wire.apis import Api
from kohort.wire.codec import MalformedMessage
from kohort.wire.message import Request

ToldT = TypeVar("ToldT")
EffectT = TypeVar("EffectT", effects.Join, effects.Sync)

Take = Callable[[inputs.Input], None]
Asked = Callable[[str, str], None]
"""Told that a request leaves: its name and what it says."""
Heard = Callable[[str, ErrorCode, str], None]
"""Told that its answer is here."""

_LOOKS_AGAIN_US = 200_000


class ClassicSpeech:
    """A member of the classic protocol: it joins, leads, assigns and syncs."""

    def __init__(
        self,
        link: PeerLink,
        topics: PeerTopics,
        kind: Kind,
        config: MemberConfig,
        take: Take,
        asked: Asked,
        heard: Heard,
    ) -> None:
        assignors = kind.made_assignors()
        self.member = ClassicMember(config, assignors, link.random.random)
        self._assignors: dict[str, Assignor] = {assignor.name: assignor for assignor in assignors}
        self._link = link
        self._topics = topics
        self._kind = kind
        self._config = config
        self._take = take
        self._asked = asked
        self._heard = heard
        self._beats = Heartbeats(kind.pace, self.member, link.host, config.heartbeat_interval_ms, take)
        self._held_back = 0
        self._beat_as: Identity | None = None
        self._beat = b""
        self._beat_read = reader(Api.HEARTBEAT, link.version(Api.HEARTBEAT))
        self._beat_ms = classic_messages.heartbeat_ms(link.request_timeout_ms, config)
        self._held_back_ms = classic_messages.held_back_ms(link.request_timeout_ms, config)

    def carry_out(self, effect: effects.Effect) -> None:
        """Send what is to be sent, or compute the group's assignment."""
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
        """Return the topics as the cluster shows them now."""
        return metadata_seen(self._topics.view, self._topics.followed)

    # -- requests

    def _heartbeat(self, effect: effects.Heartbeat) -> None:
        identity = effect.identity
        if identity != self._beat_as:
            self._beat = self._link.frame(classic_messages.heartbeat_request(self._link.group_id, self._config, effect))
            self._beat_as = identity

        def answered(code: ErrorCode, answer: Any) -> None:
            if answer is not None:
                code = error_for(answer.error_code)
            self._heard("Heartbeat", code, "")
            self._beats.answered(identity)
            self._take(inputs.HeartbeatAnswered(identity, code))

        self._asked("Heartbeat", "")
        self._beats.sent(identity)
        self._link.group.ask(self._beat, self._beat_read, answered, self._beat_ms)

    def _join(self, effect: effects.Join) -> None:
        request = classic_messages.join_request(self._link.group_id, self._config, effect, self._kind.embedded_version)

        def answered(code: ErrorCode, answer: Any) -> None:
            told = _told(inputs.JoinAnswered, classic_messages.join_answered, effect, code, answer)
            role = "leads" if told.leader and told.leader == told.member_id else "follows"
            self._heard("JoinGroup", told.error, f"{role} as {told.member_id} in generation {told.generation}")
            self._take(told)

        offers = ",".join(name for name, _ in effect.protocols)
        self._asked("JoinGroup", f"{offers}: {effect.reason}")
        self._ask_held_back(request, answered)

    def _sync(self, effect: effects.Sync) -> None:
        request = classic_messages.sync_request(self._link.group_id, self._config, effect, self._kind.embedded_version)

        def answered(code: ErrorCode, answer: Any) -> None:
            told = _told(inputs.SyncAnswered, classic_messages.sync_answered, effect, code, answer)
            self._heard("SyncGroup", told.error, _names(told.assignment.partitions))
            self._take(told)

        self._asked("SyncGroup", f"{len(effect.assignments)} assignments of {effect.protocol_name}")
        self._ask_held_back(request, answered)

    def _ask_held_back(self, request: Request[Any], heard: Callable[[ErrorCode, Any], None]) -> None:
        """Ask what the coordinator may answer only when other members have come."""

        def answered(code: ErrorCode, answer: Any) -> None:
            self._held_back -= 1
            heard(code, answer)

        self._held_back += 1
        self._link.ask(self._link.joins, request, answered, timeout_ms=self._held_back_ms)

    def _leave(self, effect: effects.Leave) -> None:
        if self._held_back:
            # On a new connection: brokers answer in order.
            self._link.joins.drop()
        request = classic_messages.leave_request(self._link.group_id, self._config, effect)

        def answered(code: ErrorCode, answer: Any) -> None:
            told = inputs.LeaveAnswered(effect.identity, ErrorCode.REQUEST_TIMED_OUT)
            if answer is not None:
                told = classic_messages.leave_answered(effect, answer)
            self._heard("LeaveGroup", told.error if answer is not None else code, "")
            self._take(told)

        self._asked("LeaveGroup", effect.reason)
        self._link.ask(self._link.group, request, answered, timeout_ms=classic_messages.LEAVE_TIMEOUT_MS)

    # -- leading

    def _compute(self, effect: effects.Compute) -> None:
        """Run the assignor over the members, with metadata of now that covers all their topics."""
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        self._topics.follow(topics)

        def looked(is_seen: bool) -> None:
            if self.member.state is not State.ASSIGNING or self.member.identity != effect.identity:
                return
            is_known = all(self._topics.view.spec(topic) is not None for topic in topics)
            if not is_seen and not is_known:
                self._link.host.after_us(_LOOKS_AGAIN_US, self._compute, effect)
            else:
                self._take(self._assigned(effect, topics))

        self._topics.look(looked)

    def _assigned(self, effect: effects.Compute, topics: list[str]) -> inputs.Input:
        snapshot = specs(self._topics.view, topics)
        if effect.skip:
            return inputs.Computed(effect.identity, {}, snapshot)
        spec = GroupSpec(effect.members, snapshot)
        try:
            made = assign_group(self._assignors, effect.protocol_name, spec, lambda _: None)
        except Exception as error:  # an assignor may be anybody's code
            return self._failed(effect, f"{type(error).__name__}: {error}")
        return inputs.Computed(effect.identity, made, snapshot)

    def _failed(self, effect: effects.Compute, text: str) -> inputs.ComputeFailed:
        return inputs.ComputeFailed(effect.identity, text, is_told=self._kind.is_ours)


def _told(
    made: Callable[[Identity, ErrorCode], ToldT],
    read: Callable[[EffectT, Any], ToldT],
    effect: EffectT,
    code: ErrorCode,
    answer: Any,
) -> ToldT:
    """Return what a member is told of an answer: what it says, or why there is none that can be read."""
    if answer is None:
        return made(effect.identity, code)
    try:
        return read(effect, answer)
    except MalformedMessage:
        return made(effect.identity, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


class ConsumerSpeech:
    """A member of the consumer protocol: it sends heartbeats, and finds the names of what it is assigned."""

    def __init__(
        self,
        link: PeerLink,
        topics: PeerTopics,
        kind: Kind,
        config: MemberConfig,
        take: Take,
        asked: Asked,
        heard: Heard,
    ) -> None:
        self.member = ConsumerMember(config, _new_member_id(link), link.random.random)
        self._link = link
        self._topics = topics
        self._kind = kind
        self._config = config
        self._take = take
        self._asked = asked
        self._heard = heard
        self._known: dict[bytes, str] = {}
        self._interval_ms = 5_000
        self._read = reader(Api.CONSUMER_GROUP_HEARTBEAT, link.version(Api.CONSUMER_GROUP_HEARTBEAT))
        self._hurry = link.opening("kohort")
        self._said: ConsumerHeartbeat | None = None
        self._frame = b""

    def carry_out(self, effect: effects.Effect) -> None:
        """Send a heartbeat, or ask the cluster for names."""
        match effect:
            case ConsumerHeartbeat():
                self._heartbeat(effect)
            case HurryHeartbeat():
                self._hurry_up()
            case NameTopics(topic_ids):
                self._topics.want_names(topic_ids)

    def seen(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return topics_seen(self._topics.view, self._known)

    # -- requests

    def _heartbeat(self, effect: ConsumerHeartbeat) -> None:
        longest_ms = max(consumer_messages.SHORTEST_TIMEOUT_MS, 3 * self._interval_ms)
        timeout_ms = min(self._link.request_timeout_ms, longest_ms)
        if effect.is_leave:
            timeout_ms = consumer_messages.LEAVE_TIMEOUT_MS

        def answered(code: ErrorCode, answer: Any) -> None:
            told = ConsumerHeartbeatAnswered(effect.number, code)
            if answer is not None:
                told = consumer_messages.heartbeat_answered(effect, answer)
                if told.error is ErrorCode.NONE and told.interval_ms > 0:
                    self._interval_ms = told.interval_ms
            given = "" if told.assignment is None else _ids(told.assignment)
            self._heard("ConsumerGroupHeartbeat", told.error, f"epoch {told.member_epoch}{given}")
            self._take(told)

        self._asked("ConsumerGroupHeartbeat", f"epoch {effect.member_epoch}: {effect.cause}")
        self._link.group.ask(self._frame_of(effect), self._read, answered, timeout_ms)

    def _frame_of(self, effect: ConsumerHeartbeat) -> bytes:
        said = self._said
        if said is not None and _says_the_same(said, effect):
            return self._frame
        request = consumer_messages.heartbeat_request(
            self._link.group_id, self._config, effect, is_heard=self._kind.is_ours, topic_id=self._topics.spec_id
        )
        self._said, self._frame = effect, self._link.frame(request)
        return self._frame

    def _hurry_up(self) -> None:
        """Ask for anything: a broker that keeps the heartbeat under way answers it before any other request."""
        if self._kind.is_ours:
            self._link.group.ask(self._hurry, bytes, lambda *_: self._take(inputs.Tick()), 20_000)
        else:
            self._take(inputs.Tick())


def _says_the_same(said: ConsumerHeartbeat, effect: ConsumerHeartbeat) -> bool:
    """Return whether two heartbeats are the same bytes: both only say that the member is there."""
    return (
        said.member_epoch == effect.member_epoch
        and said.member_id == effect.member_id
        and effect.topics is said.topics is None
        and effect.regex is said.regex is None
        and effect.owned is said.owned is None
        and effect.lags is said.lags is None
        and effect.rebalance_timeout_ms == said.rebalance_timeout_ms == -1
        and effect.reason == said.reason == ""
    )


def _new_member_id(link: PeerLink) -> str:
    """Return an id as members of the consumer protocol make their own, from the world's luck."""
    while (text := topic_id_text(link.random.randbytes(16))).startswith("-"):
        pass
    return text


def _names(partitions: Partitions) -> str:
    return " ".join(map(str, sorted(partitions)))


def _ids(assignment: IdPartitions) -> str:
    parts = [f"{topic_id.hex()[:4]}:{','.join(map(str, numbers))}" for topic_id, numbers in assignment]
    return f", assigned {' '.join(parts) or 'nothing'}"
