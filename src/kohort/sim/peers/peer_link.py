"""A peer's way to its cluster: which broker is asked what, on which of its connections, in which versions.

Which requests to the coordinator share a connection differs between clients (`Connections`): a JoinGroup that the
coordinator holds back holds back what comes behind it, and a commit behind a kept heartbeat has it answered. One more
connection is for records, one for everything that any broker may answer. The coordinator is looked up once and kept
until somebody doubts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal

from kohort.member.deadlines import Backoff
from kohort.model.errors import ErrorCode
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, Network
from kohort.sim.peers.peer_connection import Answered, Lane, reader
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.frames import encode_request
from kohort.wire.message import Message
from kohort.wire.messages import ApiVersionsRequest, FindCoordinatorRequest

Connections = Literal["apart", "one", "joins apart"]
"""`apart`: group requests on one, commits and committed offsets on another (ours). `one`: all on one (Java, librdkafka,
kafka-python, aiokafka). `joins apart`: JoinGroup and SyncGroup on one, the others on another (kgo)."""

_OPENING_VERSION = 3


class PeerLink:
    """The connections of one peer. `versions` are the newest that it speaks, where they are not the newest of all."""

    def __init__(
        self,
        client_id: str,
        group_id: str,
        host: Host,
        network: Network,
        bootstrap: Sequence[Address],
        random: Random,
        *,
        versions: Mapping[Api, int],
        request_timeout_ms: int = 30_000,
        software: str | None = None,
        connections: Connections = "apart",
    ) -> None:
        self.client_id = client_id
        self.group_id = group_id
        self.host = host
        self.random = random
        self.request_timeout_ms = request_timeout_ms
        self.brokers: tuple[Address, ...] = ()
        """The brokers that metadata has shown last."""
        self._bootstrap = tuple(bootstrap)
        self._versions = versions
        self._turn = random.randrange(len(self._bootstrap))
        self._coordinator: Address | None = None
        self._is_looking = False
        self._waits = Backoff(random.random)
        self.group = Lane(host, network, self._find_coordinator, self._doubt_coordinator)
        self.joins = self.offsets = self.group
        if connections == "apart":
            self.offsets = Lane(host, network, self._find_coordinator, self._doubt_coordinator)
        elif connections == "joins apart":
            self.joins = Lane(host, network, self._find_coordinator, self._doubt_coordinator)
        self.records = Lane(host, network, self._leader, self._turn_away)
        self.any = Lane(host, network, self._anybody, self._turn_away)
        self._coordinated = tuple(dict.fromkeys((self.group, self.joins, self.offsets)))
        if software is not None:
            self.group.opening = self.joins.opening = self.opening(software)

    def version(self, api: Api) -> int:
        """Return the version in which this peer speaks an API."""
        return min(self._versions.get(api, 1 << 15), VERSIONS[api].highest)

    def frame(self, request: Message, version: int | None = None) -> bytes:
        """Return the bytes of a request without its correlation id."""
        chosen = self.version(Api(request.API_KEY)) if version is None else version
        return encode_request(request, chosen, 0, self.client_id)

    def ask(
        self,
        lane: Lane,
        request: Message,
        answered: Answered,
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
    ) -> None:
        """Send a request; `answered` hears what became of it."""
        api = Api(request.API_KEY)
        chosen = self.version(api) if version is None else version
        frame = encode_request(request, chosen, 0, self.client_id)
        lane.ask(frame, reader(api, chosen), answered, self.request_timeout_ms if timeout_ms is None else timeout_ms)

    def opening(self, software: str) -> bytes:
        """Return an ApiVersions request, which any broker answers at once."""
        request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        return encode_request(request, _OPENING_VERSION, 0, self.client_id)

    def rediscover(self) -> None:
        """Forget the coordinator and the connection to it; the next request looks it up."""
        self.forget_coordinator()
        self.group.drop()
        if self.joins is not self.group:
            self.joins.drop()

    def forget_coordinator(self) -> None:
        """Say that the known coordinator is not, or may not be, the coordinator."""
        self._coordinator = None

    def close(self) -> None:
        """Close every connection; nobody is told anything any more."""
        for lane in (*self._coordinated, self.records, self.any):
            lane.close()

    # -- where to

    def _anybody(self) -> Address | None:
        known = tuple(dict.fromkeys((*self.brokers, *self._bootstrap)))
        return known[self._turn % len(known)]

    def _leader(self) -> Address | None:
        # One node leads everything; which one it is, metadata says.
        return self.brokers[0] if self.brokers else self._anybody()

    def _turn_away(self) -> None:
        self._turn += 1

    def _doubt_coordinator(self) -> None:
        self._coordinator = None

    def _find_coordinator(self) -> Address | None:
        if self._coordinator is None:
            self._look_up()
        return self._coordinator

    def _look_up(self) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        request = FindCoordinatorRequest(key=self.group_id, key_type=0, coordinator_keys=[self.group_id])
        self.ask(self.any, request, self._looked_up)

    def _looked_up(self, code: ErrorCode, answer: Any) -> None:
        found = None
        if code is ErrorCode.NONE:
            found = answer.coordinators[0] if answer.coordinators else answer
        if found is None or found.error_code:
            self.host.after_us(self._waits.next_ms() * 1000, self._look_again)
            return
        self._is_looking = False
        self._waits.reset()
        self._coordinator = (found.host, found.port)
        for lane in self._coordinated:
            lane.connect()

    def _look_again(self) -> None:
        self._is_looking = False
        if any(lane.is_wanted for lane in self._coordinated):
            self._look_up()
