"""Instances of the gateway beside each other: each shares what its connections show, so that all know the same groups.

What is shared: requests to join, sync and leave, heartbeats with an update, and their answers, at once;
each second which members sent something; while an eager round is announced, whose heartbeats are parked; fallbacks.
What a peer shared is never shared on.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kohort.gateway.apis.connection_state import Command
from kohort.gateway.holding.parked_answers import ParkedAnswers
from kohort.gateway.holding.parked_requests import ParkedRequests
from kohort.gateway.observing.epoch_heartbeats import EpochHeartbeat, is_steady
from kohort.gateway.observing.member_locations import HERE, MemberLocations
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.peers.instance_messages import (
    VERSION,
    FellBack,
    Hello,
    InstanceMessage,
    LiveGroup,
    LiveMembers,
    Reached,
    RequestEnded,
    SharedAnswer,
    SharedRequest,
    decode_message,
    encode_message,
)
from kohort.gateway.peers.live_summaries import LiveSummaries
from kohort.gateway.peers.peer_traffic import PeerTraffic
from kohort.gateway.policies.group_policies import Fallbacks
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import CommitOffsets, Heartbeat, Leave
from kohort.group.events import (
    ConsumerMemberDeleted,
    Event,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    MemberAdded,
    MemberRemoved,
    StaticMemberReplaced,
)
from kohort.group.streams.events import StreamsMemberDeleted
from kohort.model.bounded_dict import BoundedDict
from kohort.node.timers import NodeClock, Timers
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

Send = Callable[[bytes], None]

SUMMARY_MS = 1_000
"""How often instances send each other which members sent something."""

PEER_IDLE_MS = 3_500
"""A peer from which nothing has come for so long counts as one that cannot be reached, until something comes."""

FORGET_EVERY_MS = 600_000
_IDLE_MEMBERS = "silent members"

MOST_EARLY = 10_000
"""For how many groups it is remembered which members peers have reached before the round is known here."""

_MEMBERS_CHANGED = (GroupDeleted, GroupLoaded, GroupStored, MemberAdded, MemberRemoved, StaticMemberReplaced)


@dataclass(slots=True)
class _Peer:
    """An instance with which a link is up."""

    send: Send
    traffic: PeerTraffic
    received_ms: int
    is_greeted: bool = False
    """Whether its first message has come, and is of our version."""
    is_live: bool = True


class Instances:
    """The other instances, and what is exchanged with them.

    What carries messages between them calls the three methods under "Links". Messages are whole, at most
    `MOST_MESSAGE_BYTES` long, and of one instance come in the order in which they were sent.

    After each of them, as after everything else that happens to a gateway, `Gateway.next_deadline_ms` may be earlier.
    """

    def __init__(
        self,
        instance_id: str,
        groups: ObservedGroups,
        fallbacks: Fallbacks,
        parked_answers: ParkedAnswers | None,
        parked_requests: Mapping[GroupProtocol, ParkedRequests],
        timers: Timers,
        clock: NodeClock,
    ) -> None:
        self.instance_id = instance_id
        self.locations = MemberLocations(groups, is_alone=not instance_id)
        self.summaries = LiveSummaries(groups)
        self._groups = groups
        self._fallbacks = fallbacks
        self._parked_answers = parked_answers
        self._parked_requests = parked_requests
        self._timers = timers
        self._clock = clock
        self._peers: dict[str, _Peer] = {}
        self._last_number = 0
        self._early: BoundedDict[str, tuple[int | None, set[str]]] = BoundedDict(MOST_EARLY)
        """By group, the generation and which members peers have reached before the round is known here."""

    def writes(self, group_id: str) -> bool:
        """Whether events and metrics of a group are written by this instance, of those that can be reached.

        All instances that reach each other find the same one (rendezvous hashing).
        """
        if not self._peers:
            return True
        own = _weight(self.instance_id, group_id)
        return all(own >= _weight(each, group_id) for each, peer in self._peers.items() if peer.is_live)

    # Links

    def connected(self, instance_id: str, send: Send, now_ms: int) -> None:
        """A link to another instance is up. `send` sends it one message; it must not block, and raises nothing.

        It may be called at once. A second link to the same instance replaces the first.
        """
        self._clock.advance(now_ms)
        self.disconnected(instance_id, now_ms)
        peer = self._peers[instance_id] = _Peer(send, PeerTraffic(self._groups, self._parked_requests), now_ms)
        self.locations.reachable(instance_id)
        peer.send(encode_message(Hello()))
        members: defaultdict[str, list[str]] = defaultdict(list)
        for group_id, member_id in self.locations.members_at(HERE):
            members[group_id].append(member_id)
        for summary in self.summaries.messages_of(members):
            peer.send(summary)
        if self._timers.deadline_ms(self) is None:
            self._timers.arm(self, now_ms + SUMMARY_MS, self._summarize)

    def disconnected(self, instance_id: str, now_ms: int) -> None:
        """The link to another instance has ended: its `send` is not called any more. Without a link nothing happens."""
        self._clock.advance(now_ms)
        peer = self._peers.pop(instance_id, None)
        if peer is not None:
            peer.traffic.close(now_ms)
            if peer.is_live:
                self._lost(instance_id, now_ms)

    def received(self, instance_id: str, message: bytes, now_ms: int) -> None:
        """Take a message of another instance. Raises MalformedMessage: close its link, and call `disconnected`."""
        self._clock.advance(now_ms)
        peer = self._peers.get(instance_id)
        if peer is None:
            return
        peer.received_ms = now_ms
        if not peer.is_live:
            peer.is_live = True
            self.locations.reachable(instance_id)
        decoded = decode_message(message)
        if isinstance(decoded, Hello):
            if decoded.version != VERSION:
                raise MalformedMessage(
                    f"instance {instance_id} sends messages of version {decoded.version}, and {VERSION} was agreed"
                )
            peer.is_greeted = True
        elif not peer.is_greeted:
            raise MalformedMessage(f"instance {instance_id} has not sent its version first")
        else:
            self._apply(instance_id, peer, decoded, now_ms)

    def _apply(self, instance_id: str, peer: _Peer, message: InstanceMessage, now_ms: int) -> None:
        match message:
            case SharedRequest():
                command = peer.traffic.request(message, now_ms)
                if command is not None:
                    self._seen_elsewhere(instance_id, command.group_id, _member_of(command), now_ms)
            case SharedAnswer():
                peer.traffic.answer(message, now_ms)
            case RequestEnded():
                peer.traffic.ended(message.number, now_ms)
            case LiveMembers():
                for group in message.groups:
                    self._live(instance_id, group, now_ms)
            case Reached():
                self._reached_elsewhere(message, now_ms)
            case FellBack():
                self._fallbacks.fell_elsewhere(message.group_id, now_ms)
            case Hello():
                pass

    def _lost(self, instance_id: str, now_ms: int) -> None:
        """An instance cannot be reached: eager groups with members there are only observed from now on."""
        self.locations.unreachable(instance_id)
        if self._parked_answers is not None:
            for group_id in dict.fromkeys(group_id for group_id, _ in self.locations.members_at(instance_id)):
                if not self.locations.can_be_parked(group_id, now_ms):
                    self._parked_answers.release_group(group_id, now_ms)

    def _send(self, message: InstanceMessage) -> None:
        if self._peers:
            data = encode_message(message)
            for peer in tuple(self._peers.values()):
                peer.send(data)

    # What connections of this instance show

    def seen(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member has sent a request here."""
        if member_id:
            if self._located(group_id, member_id, HERE, now_ms):
                self._groups.came_here(group_id, now_ms)
            if self._peers:
                self.summaries.seen(group_id, member_id)

    def _located(self, group_id: str, member_id: str, instance_id: str, now_ms: int) -> bool:
        """Note where a member is, and return whether it was elsewhere before."""
        has_moved = self.locations.seen(group_id, member_id, instance_id, now_ms)
        if self._timers.deadline_ms(_IDLE_MEMBERS) is None:
            self._timers.arm(_IDLE_MEMBERS, now_ms + FORGET_EVERY_MS, self._forget_idle)
        return has_moved

    def _forget_idle(self, now_ms: int) -> None:
        self.locations.forget_idle(now_ms)
        self._groups.last_requests.forget_idle(now_ms)
        if self.locations:
            self._timers.arm(_IDLE_MEMBERS, now_ms + FORGET_EVERY_MS, self._forget_idle)

    def request(self, exchange: Exchange, command: Command, client_host: str, software: str) -> None:
        """A request goes to the broker; it is shared if it may change its group."""
        if self._peers and not isinstance(command, Heartbeat | CommitOffsets) and not _is_steady(command):
            self._share_request(exchange, command, client_host, software)

    def answer(self, exchange: Exchange, command: Command, frame: Buffer, client_host: str, software: str) -> None:
        """A request is answered: share it if the request was shared.

        A heartbeat that was not is shared with its answer: the caller decides whether that brings an update.
        """
        if not self._peers:
            return
        if not exchange.number:
            if not isinstance(command, Heartbeat | EpochHeartbeat) or not exchange.frame:
                return
            self._share_request(exchange, command, client_host, software)
        self._send(SharedAnswer(exchange.number, frame))
        exchange.number = 0

    def ended(self, exchange: Exchange) -> None:
        """The connection of a request has ended without an answer."""
        if exchange.number:
            self._send(RequestEnded(exchange.number))
            exchange.number = 0

    def _share_request(self, exchange: Exchange, command: Command, client_host: str, software: str) -> None:
        self._last_number = exchange.number = self._last_number + 1
        generation = self._groups.generation_of(command.group_id)
        self._send(SharedRequest(exchange.number, generation, client_host, software, exchange.frame))

    def reach_changed(self, group_id: str, members: Collection[str], is_reached: bool) -> None:
        """While an eager round is announced: members' heartbeats are parked here, or no longer."""
        if members and self._peers:
            self._send(Reached(group_id, self._groups.generation_of(group_id), is_reached, tuple(members)))

    def round_awaited(self, group_id: str, now_ms: int) -> None:
        """A round is announced here: members that peers have reached before count."""
        generation, members = self._early.pop(group_id, (None, None))
        if members and self._parked_answers is not None and generation == self._groups.generation_of(group_id):
            self._parked_answers.reached_elsewhere(group_id, members, now_ms)

    def event_applied(self, event: Event, _now_ms: int) -> None:
        """An event has changed a group."""
        self.summaries.group_changed(event.group_id)
        if isinstance(event, _MEMBERS_CHANGED):
            self.locations.group_changed(event.group_id)
        if isinstance(event, MemberRemoved | ConsumerMemberDeleted | StreamsMemberDeleted):
            self.locations.removed(event.member_id)
        elif isinstance(event, StaticMemberReplaced):
            self.locations.removed(event.old_member_id)

    def fell_back(self, group_id: str) -> None:
        """Parking did harm to a group here."""
        self._send(FellBack(group_id))

    # What peers see

    def _seen_elsewhere(self, instance_id: str, group_id: str, member_id: str, now_ms: int) -> None:
        if member_id:
            self._located(group_id, member_id, instance_id, now_ms)
            self._fallbacks.seen(group_id, member_id, now_ms)

    def _live(self, instance_id: str, live: LiveGroup, now_ms: int) -> None:
        """Members sent something to a peer; a group that the peer knows otherwise is looked up."""
        for member_id in live.members:
            self._seen_elsewhere(instance_id, live.group_id, member_id, now_ms)
        differs, generation = self.summaries.differs(instance_id, live)
        self._groups.live_elsewhere(live.group_id, generation, live.members, now_ms, differs=differs)
        if live.shown is not None:
            self._groups.look_ups.generation_shown(live.group_id, live.shown, now_ms)

    def _reached_elsewhere(self, message: Reached, now_ms: int) -> None:
        if self._parked_answers is None:
            return
        group_id, members = message.group_id, message.members
        if self._parked_answers.parking.is_announcing(group_id):
            if message.is_reached:
                self._parked_answers.reached_elsewhere(group_id, members, now_ms)
            else:
                self._parked_answers.lost_elsewhere(group_id, members)
            return
        generation, early = self._early.pop(group_id, (None, set()))
        if generation != message.generation:
            early = set()
        early = early | set(members) if message.is_reached else early - set(members)
        self._early[group_id] = message.generation, early

    # Each second

    def _summarize(self, now_ms: int) -> None:
        if not self._peers:
            self.summaries.clear()
            return
        self._timers.arm(self, now_ms + SUMMARY_MS, self._summarize)
        for summary in self.summaries.pop_messages():
            for peer in tuple(self._peers.values()):
                peer.send(summary)
        for instance_id, peer in tuple(self._peers.items()):
            if peer.is_live and now_ms - peer.received_ms >= PEER_IDLE_MS:
                peer.is_live = False
                self._lost(instance_id, now_ms)


def _is_steady(command: Command) -> bool:
    return isinstance(command, EpochHeartbeat) and is_steady(command)


def _member_of(command: Command) -> str:
    """Return the sender of a request; a LeaveGroup may be sent by anyone."""
    return "" if isinstance(command, Leave) else command.member_id


def _weight(instance_id: str, group_id: str) -> bytes:
    return hashlib.blake2b(f"{instance_id}\0{group_id}".encode(), digest_size=8).digest()
