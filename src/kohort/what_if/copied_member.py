"""One copied member: a simulated client of the production state machines, and what its application does.

Callbacks take the given times, deadlines are virtual. A copy is restored by a join of its own whose answers are what
the live member got, so that it needs no input but those of every member.
"""

from __future__ import annotations

from typing import Any

from kohort.assign.server.standby import ACCEPTABLE_RECOVERY_LAG
from kohort.assign.spec import MemberSpec
from kohort.client.membership.protocol_driver import ClassicDriver, ConsumerDriver
from kohort.group.migration.migration_plan import MemberKind
from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.member.effects import Callback
from kohort.model.assignment import Assignment, Partitions
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.client_kinds import PeerConfig
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.sim.peers.peer_link import Driver, PeerLink, ResponseT, Take
from kohort.sim.peers.peer_member import CLOSING, MemberUser, PeerMember
from kohort.sim.peers.peer_metadata import PeerMetadata
from kohort.what_if.group_facts import CLIENT_SIDE, MemberProfile, Roster
from kohort.what_if.virtual_broker import ADDRESS, GENERATION, VirtualBroker, with_ids
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.message import Request
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

SPREAD = 0.02
"""How much the times of one callback differ: what one member revokes is assigned while others still run theirs."""

NEVER_MS = 1 << 40
_GOLDEN = 0.618034


class CopiedMember(MemberUser):
    """One process of one member; a restart is another one. `restored` is the member of the roster that it copies."""

    def __init__(
        self, broker: VirtualBroker, profile: MemberProfile, restored: tuple[str, Roster] | None = None
    ) -> None:
        self.broker = broker
        self.profile = profile
        self.number = next(broker.numbers)
        self._in_poll = True
        self._is_begun = False
        name = f"member-{self.number}"
        self._host, random = Host(name, broker.scheduler), broker.rng.stream(name)
        place = ClientPlace(self._host, broker.network, [ADDRESS], random, Observer())
        connections = PeerConnections(profile.name, broker.group_id, place, versions={})
        self._metadata = PeerMetadata(connections, NEVER_MS)
        self._metadata.changed = self._topics_changed
        self._link = _CopiedLink(broker, connections, self._metadata, restored)
        config = PeerConfig(broker.group_id, tuple(sorted(profile.topics)), instance_id=profile.instance_id)
        kind = str(profile.kind)
        self._member = PeerMember(name, kind, config, connections, self._metadata, place.observer, self._driver)
        self._member.user = self

    def _driver(self, _: Take) -> Driver:
        profile, times = self.profile, self.broker.times
        bound = profile.acceptable_recovery_lag
        config = MemberConfig(
            acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG if bound is None else bound,
            session_timeout_ms=times.session_timeout_ms,
            rebalance_timeout_ms=times.rebalance_timeout_ms,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
            instance_id=profile.instance_id,
            rack=profile.rack,
            server_assignor=profile.server_assignor,
        )
        if profile.kind is not MemberKind.CONSUMER:
            return ClassicDriver(self._link, config, [CLIENT_SIDE[name]() for name in profile.offers])
        restored = self._link.restored
        driver = ConsumerDriver(
            self._link, config, f"{profile.name}-{self.number}" if restored is None else restored[0]
        )
        driver.member.lag_source = lambda: profile.lags
        return driver

    @property
    def machine(self) -> ClassicMember | ConsumerMember:
        """Its state machine."""
        return self._member.machine

    @property
    def is_dead(self) -> bool:
        """Whether its process has ended."""
        return self._member.is_over

    @property
    def failure(self) -> str:
        """Why it failed, empty where it did not."""
        return "" if self._member.failure is None else self._member.failure.text

    @property
    def member_id(self) -> str:
        """Its member id."""
        return self.machine.identity.member_id

    @property
    def _reader(self) -> tuple[str, int]:
        return self.profile.name, self.number

    @property
    def place(self) -> float:
        """A number from 0 to 1 of its own, which spreads members evenly, however many there are."""
        return self.number * _GOLDEN % 1

    @property
    def is_settled(self) -> bool:
        """Whether it owns its assignment and nothing is under way."""
        member = self.machine
        return self.is_dead or member.is_closed or (member.is_stable and member.running is None and not self.failure)

    # -- the process

    def begin(self) -> None:
        """Start, and join."""
        self.broker.unsettled.add(self.number)
        self._metadata.follow(self.profile.topics)
        self.refresh_topics()

    def refresh_topics(self) -> None:
        """Look at the topics of the cluster."""
        if not self.is_dead:
            self._metadata.look()

    def _topics_changed(self) -> None:
        if self.is_dead:
            return
        self._member.show_topics()
        if not self._is_begun:
            self._is_begun = True
            self._member.take(inputs.Subscribed(self._member.config.topics))

    def stop(self) -> None:
        """Close: the callback runs, and a dynamic member leaves."""
        self._member.take(inputs.CloseRequested(CLOSING))

    def kill(self) -> None:
        """End without LeaveGroup."""
        self.broker.readers.stop(self.read_partitions, self._reader, self.broker.scheduler.now_us)
        self.broker.network.close_all(self._host)
        self._member.end("killed")
        self.input_taken()

    @property
    def read_partitions(self) -> Partitions:
        """The partitions that it reads now."""
        running = self.machine.running
        return self.machine.owned - (running[1] if running is not None else frozenset())

    def input_taken(self) -> None:
        """Count it among those that are settled, or are not; it is restored as soon as it is stable."""
        if self._link.restored is not None and self.machine.is_stable:
            (member_id, roster), self._link.restored = self._link.restored, None
            assert self.machine.owned == roster.owned[member_id], f"{self.profile.name} owns what it owned"
            self.broker.readers.start(self.machine.owned, self._reader, self.broker.scheduler.now_us)
        if self.is_settled:
            self.broker.mark_settled(self.number)
            self._in_poll = False
        else:
            self.broker.unsettled.add(self.number)

    # -- the application's code

    def run_callback(self, effect: effects.RunCallback) -> None:
        """Have a callback take its time, when the application is in poll."""
        if self._link.restored is not None:
            self._member.take(inputs.CallbackFinished(effect.callback))
            return
        times, broker = self.broker.times, self.broker
        if effect.callback is not Callback.ASSIGNED:
            broker.readers.stop(effect.partitions, self._reader, broker.scheduler.now_us)
        took_ms = times.assigned_ms if effect.callback is Callback.ASSIGNED else times.revoked_ms
        took_ms *= 1 + SPREAD * (self.place - 0.5)
        wait_ms = 0.0
        if times.poll_ms and not self._in_poll and self.machine.closing is None:
            # Callbacks run in poll, and the application is between two of them.
            wait_ms = times.poll_ms * self.place
        self._in_poll = True
        self._host.after_us(round((wait_ms + took_ms) * 1000), self._finish, effect)

    def _finish(self, effect: effects.RunCallback) -> None:
        if effect.callback is Callback.ASSIGNED:
            taken = effect.partitions & self.machine.owned
            self.broker.readers.start(taken, self._reader, self.broker.scheduler.now_us)
        self._member.take(inputs.CallbackFinished(effect.callback))


class _CopiedLink(PeerLink):
    """The link of a copied member. While that is `restored`, its requests get the answers that the live one got."""

    def __init__(
        self,
        broker: VirtualBroker,
        connections: PeerConnections,
        metadata: PeerMetadata,
        restored: tuple[str, Roster] | None,
    ) -> None:
        super().__init__(connections, metadata, is_ours=True)
        self.restored = restored
        self._broker = broker

    async def call(self, request: Request[ResponseT], *, timeout_ms: int) -> ResponseT:
        """Send a request and return its response. Raises `KafkaError`."""
        if self.restored is not None:
            return self._answer(request, *self.restored)  # type: ignore[no-any-return]
        response = await super().call(request, timeout_ms=timeout_ms)
        if isinstance(response, ConsumerGroupHeartbeatResponse) and not self._broker.facts.is_ours:
            # Ours requests the next one soon where there is something to do; Apache Kafka does not.
            response.heartbeat_interval_ms = self._broker.interval_ms
        return response

    def _answer(self, request: object, member_id: str, roster: Roster) -> Any:
        """Return the answer to a request of a join that is restored."""
        owned, profile = roster.owned[member_id], roster.profiles[member_id]
        match request:
            case JoinGroupRequest():
                # Classic members of a consumer group have their first choice.
                name = roster.assignor if roster.assignor in profile.offers else profile.offers[0]
                leader, of = min(roster.profiles), JoinGroupResponse.Member
                members = roster.subscriptions() if leader == member_id else {}
                return JoinGroupResponse(
                    generation_id=GENERATION,
                    protocol_type="consumer",
                    protocol_name=name,
                    leader=leader,
                    skip_assignment=True,
                    member_id=member_id,
                    members=[
                        of(member_id=each, group_instance_id=spec.instance_id, metadata=_metadata(spec))
                        for each, spec in members.items()
                    ],
                )
            case SyncGroupRequest():
                return SyncGroupResponse(assignment=encode_assignment(Assignment(owned)))
            case ConsumerGroupHeartbeatRequest():
                assignment = ConsumerGroupHeartbeatResponse.Assignment
                topics = [
                    assignment.TopicPartition(topic_id=topic_id, partitions=list(numbers))
                    for topic_id, numbers in with_ids(owned, self._broker.ids)
                ]
                return ConsumerGroupHeartbeatResponse(
                    member_id=member_id,
                    member_epoch=GENERATION,
                    heartbeat_interval_ms=self._broker.interval_ms,
                    assignment=assignment(topic_partitions=topics),
                )
            case _:
                return HeartbeatResponse()


def _metadata(member: MemberSpec) -> bytes:
    return encode_subscription(member.subscription)
