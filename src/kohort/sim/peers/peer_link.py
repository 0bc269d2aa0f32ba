"""The link of a simulated member to its coordinator and the cluster, and the pace of its heartbeats.

The requests and responses of both protocols are those of the client that ships (`client.membership.protocol_driver`);
here is only how they travel, and when a client of another library sends its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from logging import CRITICAL, Logger
from typing import TypeVar

from kohort.assign import RebalanceProtocol
from kohort.client.cluster.metadata import ClusterView
from kohort.client.membership.member_messages import ConsumerProtocol
from kohort.client.membership.protocol_driver import ClassicDriver, ConsumerDriver, Response
from kohort.member import Identity, MemberConfig, effects, inputs
from kohort.member.deadlines import Session
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import topic_id_text
from kohort.parking.client_software import KOHORT, software_named
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.scheduler import outcome_of
from kohort.sim.peers.client_kinds import ClientKind, PeerConfig
from kohort.sim.peers.peer_connection import SOFTWARE_VERSION, PeerConnections
from kohort.sim.peers.peer_metadata import PeerMetadata
from kohort.wire.message import Request
from kohort.wire.messages import ApiVersionsRequest, JoinGroupRequest, SyncGroupRequest

ResponseT = TypeVar("ResponseT")
Take = Callable[[inputs.Input], None]

_RETRY_METADATA_US = 200_000


class PeerLink:
    """What `client.membership` needs of a client, in virtual time."""

    log = Logger("peers", CRITICAL + 1)
    """What members log in a world is dropped: its trace has more."""
    address = "the coordinator"

    def __init__(self, connections: PeerConnections, metadata: PeerMetadata, *, is_ours: bool) -> None:
        self.group_id = connections.group_id
        self.request_timeout_ms = connections.request_timeout_ms
        self.random = connections.random.random
        self.newest = connections.version
        self.drop = connections.joins.drop
        self.resolve_names = metadata.request_names
        self._connections = connections
        self._metadata = metadata
        self._is_ours = is_ours
        self._opening = connections.opening(KOHORT)

    async def open(self) -> PeerLink:
        """Return itself: connections are opened for what is sent on them."""
        return self

    def within(self, limit_ms: int) -> nullcontext[None]:
        """Return a context without a limit: opening a connection has its own."""
        return nullcontext()

    async def call(self, request: Request[ResponseT], *, timeout_ms: int) -> ResponseT:
        """Send a request and return its response. Raises `KafkaError`."""
        connections = self._connections
        is_of_round = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        connection = connections.joins if is_of_round else connections.group
        send = partial(connections.send, connection, request, timeout_ms=timeout_ms)
        if isinstance(request, ApiVersionsRequest):  # to end a parked heartbeat: what the response has is known
            send = partial(connection.send, self._opening, bytes, timeout_ms=timeout_ms)
        code, response = await outcome_of(lambda answered: send(answered=answered))
        if response is None:
            raise KafkaError(code)
        return response  # type: ignore[no-any-return]

    def has_feature(self, version: int = 1) -> bool:
        """Return whether the client uses what only our brokers offer."""
        return self._is_ours

    def code(self, error: KafkaError) -> ErrorCode:
        return error.code

    @property
    def view(self) -> ClusterView:
        """The newest metadata."""
        return self._metadata.view

    @property
    def followed(self) -> Iterable[str]:
        """The topics whose metadata concerns the member."""
        return self._metadata.followed

    def follow(self, topics: Iterable[str]) -> None:
        """Look at these topics too."""
        self._metadata.follow(topics)

    async def refresh(self, topics: Iterable[str], is_wanted: Callable[[], bool]) -> None:
        """Look at the topics, again and again where that fails and one of them was never seen."""
        self._metadata.follow(topics)
        while True:
            (is_new,) = await outcome_of(self._metadata.look)
            if is_new or not is_wanted() or all(self.view.spec(topic) is not None for topic in topics):
                return
            await outcome_of(partial(self._connections.host.after_us, _RETRY_METADATA_US))


class _PausedSession(Session):
    """The deadlines of a member that lets some time pass between two JoinGroups, unless it revokes in between."""

    def __init__(self, config: MemberConfig, random: Callable[[], float], pause_ms: int) -> None:
        super().__init__(config, random)
        self._pause_ms = pause_ms
        self.joined_ms = -pause_ms
        """When the last JoinGroup was sent."""

    def wait_to_retry(self, now_ms: int, *, is_first_at_once: bool = False) -> None:
        """A JoinGroup or SyncGroup failed."""
        super().wait_to_retry(now_ms, is_first_at_once=is_first_at_once)
        self.pause()

    def pause(self) -> None:
        """Delay the next JoinGroup."""
        self.retry_ms = max(self.retry_ms or 0, self.joined_ms + self._pause_ms)


class _RepeatingSession(Session):
    """The deadlines of a member that knows itself how long to wait before it sends a heartbeat again (kgo)."""

    repeats_after_ms = 0

    def retry_heartbeat(self, now_ms: int) -> None:
        """A heartbeat ended with an error, or got no answer."""
        wait_ms, self.repeats_after_ms = self.repeats_after_ms, 0
        if wait_ms:
            self.heartbeat_ms = now_ms + wait_ms
        else:
            super().retry_heartbeat(now_ms)


class PacedDriver:
    """A member of the classic protocol with the pace of another client library, applied from outside."""

    def __init__(
        self, driver: ClassicDriver, kind: ClientKind, host: Host, take: Take, random: Callable[[], float]
    ) -> None:
        self.member = driver.member
        self.topic_metadata = driver.topic_metadata
        self._driver = driver
        self._pace = kind.pace
        habits = software_named(kind.software or "", SOFTWARE_VERSION).habits
        self._repeat_error = habits.repeat_error
        self._session: _PausedSession | None = None
        if habits.join_pause_ms:
            self._session = _PausedSession(driver.member.config, random, habits.join_pause_ms)
            self.member.session = self._session
        elif kind.pace == "from answer":
            self.member.session = _RepeatingSession(driver.member.config, random)
        self._repeats = 0
        self._host = host
        self._take = take

    def carry_out(self, effect: effects.Effect) -> Response | None:
        """Send a request as the driver does, a heartbeat with the library's pace."""
        response = self._driver.carry_out(effect)
        if self._session is not None and isinstance(effect, effects.Join):
            self._session.joined_ms = self._host.now_ms()
        if response is None or not isinstance(effect, effects.Heartbeat):
            return response
        if self._pace == "overlaps":
            self._host.after_us(self.member.config.heartbeat_interval_ms * 1000, self._overlap, effect.identity)
        return self._paced(effect.identity, response)

    async def _paced(self, identity: Identity, response: Response) -> inputs.Input:
        """Await a heartbeat that was sent as `identity`, and time the next one as the client library does."""
        event = await response
        member, session, now_ms = self.member, self.member.session, self._host.now_ms()
        if identity != member.identity or session.heartbeat_ms is None:
            return event
        is_rebalancing = isinstance(event, inputs.HeartbeatAnswered) and event.error is ErrorCode.REBALANCE_IN_PROGRESS
        if is_rebalancing and member.protocol is RebalanceProtocol.COOPERATIVE and self._session is not None:
            self._session.pause()  # an eager one revokes, and does not wait
        match self._pace:
            case "overlaps" if member.beat_as is None:
                member.beat_as = identity  # it was taken for answered when the next one fell due
            case "skips":
                while session.heartbeat_ms <= now_ms:
                    session.heartbeat_ms += member.config.heartbeat_interval_ms
            case "from answer":
                session.mark_heartbeat_sent(now_ms)
            case _:
                pass
        if not isinstance(event, inputs.HeartbeatAnswered) or not event.error or event.error is not self._repeat_error:
            self._repeats = 0
            return event
        self._repeats += 1
        if isinstance(session, _RepeatingSession):  # it waits twice as long after each error in a row
            session.repeats_after_ms = min(250 << (self._repeats - 1), 5_000)
        # After this error our own member, too, sends its heartbeat again soon, and counts its session on.
        return replace(event, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _overlap(self, identity: Identity) -> None:
        """The interval is over: have the member send the next heartbeat, whether or not the last one is answered."""
        if self.member.beat_as == identity == self.member.identity:
            self.member.beat_as = None
            self._take(inputs.Tick())


Driver = ClassicDriver | ConsumerDriver | PacedDriver


def driver_of(
    kind: ClientKind, config: PeerConfig, connections: PeerConnections, metadata: PeerMetadata, take: Take
) -> Driver:
    """Return the driver of a new member, which is passed inputs by `take`."""
    link = PeerLink(connections, metadata, is_ours=kind.is_ours)
    member_config = config.member_config(kind)
    if kind.protocol == "consumer":
        return ConsumerDriver(link, member_config, _new_member_id(connections.random.randbytes))
    embedded = ConsumerProtocol(kind.embedded_version)
    driver = ClassicDriver(link, member_config, kind.made_assignors(), embedded=embedded)
    return driver if kind.pace == "waits" else PacedDriver(driver, kind, connections.host, take, link.random)


def _new_member_id(randbytes: Callable[[int], bytes]) -> str:
    """Return an id as members of the consumer protocol generate it, from the world's random numbers."""
    while (text := topic_id_text(randbytes(16))).startswith("-"):
        pass
    return text
