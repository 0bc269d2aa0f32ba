"""What is known of one connection and its client, what waits on it, and the rooms that its requests go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kohort.gateway.assigning.edge import Edge, WaitingSync
from kohort.gateway.assigning.static_members import StaticMembers
from kohort.gateway.holding.parked_answers import ParkedAnswer, ParkedAnswers
from kohort.gateway.holding.parked_requests import ParkedRequests
from kohort.gateway.holding.waiting_answers import WithheldSync, WithheldSyncs
from kohort.gateway.observing.epoch_heartbeats import EpochHeartbeat, UnobservedHeartbeat
from kohort.gateway.observing.member_locations import MemberLocations
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.policies.group_policies import GroupPolicies
from kohort.gateway.policies.policies import GroupProtocol, Policy, PolicyClient
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import CommitOffsets, ConsumerHeartbeat, Heartbeat, Join, Leave, Sync
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.model.bounded_dict import BoundedDict
from kohort.parking.client_software import UNNAMED, ClientSoftware, software_that_beats, software_that_joins
from kohort.parking.limits import EPOCH_MARGIN_MS, GATEWAY_STABLE_PARK_MS, OTHERS_MARGIN_MS
from kohort.parking.parked_heartbeat import ParkedHeartbeat
from kohort.wire.codec import Buffer

MOST_TREATMENTS = 16
"""For how many groups a connection remembers what the policies decide."""

Command = Join | Sync | Heartbeat | Leave | CommitOffsets | EpochHeartbeat


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


Waiting = ParkedAnswer | ParkedHeartbeat[EpochHeartbeat, None] | WaitingSync | WithheldSync
"""A request or an answer that waits on a connection."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """What all connections of one gateway have in common. Without `parked_answers` nothing waits."""

    groups: ObservedGroups
    policies: GroupPolicies
    edge: Edge
    static_members: StaticMembers
    instances: SharedTraffic
    parked_answers: ParkedAnswers | None
    withheld_syncs: WithheldSyncs
    parked_requests: Mapping[GroupProtocol, ParkedRequests]
    """Empty where nothing is parked."""


class Connection:
    """One connection. `client_host` is its client's address, without the port (`RequestOrigin`)."""

    def __init__(self, rooms: Rooms, client_host: str) -> None:
        self.rooms = rooms
        self.client_host = client_host
        self.software = UNNAMED
        """The client's software as ApiVersions names it (KIP-511), or as its requests show it."""
        self.client_id = ""
        """That of its last request about a group."""
        self.is_open = True
        self._treatments: BoundedDict[tuple[str, GroupProtocol], Policy] = BoundedDict(MOST_TREATMENTS)
        """The last groups' policies: a connection is one of a single client, and hardly ever of more groups."""
        self._table = rooms.policies.table
        """The table that decided them."""
        self.has_fetched = False
        """Whether it has carried a Fetch or a ShareFetch: then nothing waits on it."""
        self.authenticated_until_ms: int | None = None
        """When the client must have authenticated again (KIP-368), or None."""
        self.waiting: Waiting | None = None
        """What waits, or waited last."""

    @property
    def software_name(self) -> str:
        """The name of the client's software."""
        return self.software.name

    @property
    def margin_ms(self) -> int:
        """How long before its next heartbeat is due the client must have the last answer."""
        return EPOCH_MARGIN_MS.get(self.software_name, OTHERS_MARGIN_MS)

    # Who its client is, and what the policies decide for it

    def name_software(self, software: ClientSoftware, client_id: str) -> None:
        """The client names its software."""
        self._set_software(software)
        if software.is_named:
            self.rooms.policies.software.note(self.client_host, client_id, software)

    def identify(self, client_id: str) -> None:
        """A request has this client id; its software may be known from another connection."""
        if client_id != self.client_id:
            self.client_id = client_id
            self._treatments.clear()
        if not self.software.is_named:
            known = self.rooms.policies.software.of(self.client_host, client_id)
            if known.is_named and not known.habits.names_itself_always:
                self._set_software(known)

    def show_software(self, command: Command, api_version: int) -> None:
        """Find out by a request of a classic member what a client is that has not named its software."""
        if isinstance(command, Join):
            assignors = [name for name, _ in command.protocols]
            self._set_software(software_that_joins(self.software, api_version, assignors))
        elif isinstance(command, Heartbeat):
            self._set_software(software_that_beats(self.software, api_version))

    def _set_software(self, software: ClientSoftware) -> None:
        if software is not self.software:
            self.software = software
            self._treatments.clear()

    def policy(self, command: Command) -> Policy:
        """Return what the policies decide for the sender of a request."""
        key, table = (command.group_id, protocol_of(command)), self.rooms.policies.table
        if table is not self._table:  # the settings were read again
            self._table = table
            self._treatments.clear()
        found = self._treatments.get(key)
        if found is None:
            client = PolicyClient(self.software.name, self.client_id)
            found = table.decide(key[0], client, key[1])
            self._treatments[key] = found
        return found

    def parks(self, command: Command, now_ms: int) -> bool:
        """Whether a request or its answer may wait."""
        return self.rooms.policies.parks(self.policy(command), command.group_id, now_ms)

    def can_answer_wait(self, exchange: Exchange, command: Command, now_ms: int) -> bool:
        """Whether the answer to a request of a classic member may wait."""
        if not exchange.is_last or self.has_fetched or not self.parks(command, now_ms):
            return False
        return self.rooms.instances.locations.can_be_parked(command.group_id, now_ms)

    def expires_soon(self, now_ms: int) -> bool:
        """Whether a request that is parked could reach the broker when the client is no longer authenticated."""
        until_ms = self.authenticated_until_ms
        return until_ms is not None and now_ms + GATEWAY_STABLE_PARK_MS >= until_ms

    # What other connections and instances learn of its requests

    def member_seen(self, command: Join | Sync | Heartbeat | CommitOffsets | EpochHeartbeat, now_ms: int) -> None:
        """A member has sent a request."""
        self.rooms.policies.fallbacks.seen(command.group_id, command.member_id, now_ms)
        self.rooms.instances.seen(command.group_id, command.member_id, now_ms)

    def share_request(self, exchange: Exchange, command: Command) -> None:
        """A request goes to the broker."""
        self.rooms.instances.request(exchange, command, self.client_host, self.software_name)

    def share_answer(self, exchange: Exchange, command: Command, frame: Buffer, *, is_update: bool = False) -> None:
        """A request is answered; other instances get that if they got the request, or if it brings an update."""
        if exchange.number or is_update:
            self.rooms.instances.answer(exchange, command, frame, self.client_host, self.software_name)


def protocol_of(command: Command) -> GroupProtocol:
    """Return the protocol of a request."""
    if isinstance(command, UnobservedHeartbeat):
        return command.protocol
    if isinstance(command, StreamsHeartbeat):
        return GroupProtocol.STREAMS
    return GroupProtocol.CONSUMER if isinstance(command, ConsumerHeartbeat) else GroupProtocol.CLASSIC
