"""One process of a member in a simulated world: our state machines behind real bytes, and a user who reads and commits.

    place = ClientPlace(host, network, [("n1", 9092)], rng.stream("m1/1"), observer)
    peer = Peer("m1", place, KINDS["cooperative"], PeerConfig("g", ("orders",)))
    peer.start()        # requests metadata, joins, polls; boots the host if it is down
    peer.subscribe(("orders", "bills")), peer.rejoin("why"), peer.close(), peer.kill(), host.freeze(until_us)

A restart is a new `Peer` of the same name on the same host, with a random stream of its own. `is_over` once it has
ended; `is_settled` when it owns its assignment and reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kohort.client.membership.member_messages import REGEX_VERSION
from kohort.member import Identity, inputs
from kohort.model.assignment import Partitions
from kohort.sim.peers.client_kinds import ClientKind, PeerConfig
from kohort.sim.peers.peer_application import PeerApplication
from kohort.sim.peers.peer_commits import PeerCommits
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.sim.peers.peer_fetcher import PeerFetcher
from kohort.sim.peers.peer_link import driver_of
from kohort.sim.peers.peer_member import CLOSING, PeerMember
from kohort.sim.peers.peer_metadata import PeerMetadata
from kohort.wire.apis import Api


class Peer:
    """One process. `made_as` is the kind of client, `config` what its user configures."""

    def __init__(self, name: str, place: ClientPlace, kind: ClientKind, config: PeerConfig) -> None:
        self.name = name
        self.host = place.host
        self.made_as = kind
        self._network = place.network
        self._subscription: tuple[tuple[str, ...], str | None] = (config.topics, config.pattern)
        self._is_begun = False
        self._connections = PeerConnections(
            name,
            config.group_id,
            place,
            versions=kind.versions,
            request_timeout_ms=config.request_timeout_ms,
            software=kind.software,
            layout=kind.connections,
        )
        self._metadata = PeerMetadata(self._connections, config.metadata_ms)
        driver = partial(driver_of, kind, config, self._connections, self._metadata)
        self.member = PeerMember(name, kind.label, config, self._connections, self._metadata, place.observer, driver)
        self._fetcher = PeerFetcher(self.member)
        self._application = PeerApplication(self.member, self._fetcher, PeerCommits(self.member))

    # -- what others see

    @property
    def config(self) -> PeerConfig:
        """What its user configures."""
        return self.member.config

    @property
    def identity(self) -> Identity:
        """Its member id with the generation or epoch that it shows; empty before it joined."""
        return self.member.identity

    @property
    def owned(self) -> Partitions:
        return self.member.owned

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self.member.is_over

    @property
    def is_settled(self) -> bool:
        """Whether it is in its group, owns its assignment, reads that, and no round is under way."""
        return self.member.is_stable and self._application.is_settled

    # -- its life

    def start(self) -> None:
        """Begin the process."""
        member = self.member
        if not self.host.is_up:
            self.host.boot()
        member.observer.member_started(member)
        member.observer.configured(member, self.config.heartbeat_interval_ms)
        topics, pattern = self._subscription
        self._metadata.is_following_all = pattern is not None
        self._metadata.follow(topics)
        self._metadata.changed = self._topics_changed
        self._metadata.look()

    def kill(self) -> None:
        """End the process where it stands; its kernel resets its connections."""
        if not self.is_over:
            self._network.close_all(self.host)
            self.member.end("killed")

    def close(self, leave: bool | None = None) -> None:
        """Close the member when its user has finished the current batch. `leave` as in `CloseRequested`."""
        if self.is_over:
            return
        if self._is_begun:
            self._application.close(inputs.CloseRequested(CLOSING, leave))
        else:
            self.member.end("closed")

    def reconfigure(self, **changes: float) -> None:
        """Change how the user behaves from now on, by fields of `PeerConfig`."""
        self.member.config = replace(self.member.config, **changes)  # type: ignore[arg-type]

    def subscribe(self, topics: Sequence[str], pattern: str | None = None) -> None:
        """Subscribe to other topics from now on."""
        self._subscription = (tuple(topics), pattern)
        self._metadata.is_following_all = pattern is not None
        if self._metadata.follow(topics) or pattern is not None:
            self._metadata.request_refresh()
        if self._is_begun and not self.is_over:
            self.member.take(self._subscribed())

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance (classic)."""
        if self._is_begun and not self.is_over:
            self.member.take(inputs.RejoinRequested(reason))

    # -- topics

    def _topics_changed(self) -> None:
        if self.is_over:
            return
        self.member.show_topics()
        if not self._is_begun:
            self._is_begun = True
            self.member.take(self._subscribed())
            self._application.begin()
            return
        if self._subscription[1] is not None:
            self.member.take(self._subscribed())
        self._fetcher.topics_changed()
        self._application.proceed()

    def _subscribed(self) -> inputs.Subscribed:
        topics, pattern = self._subscription
        if pattern is None:
            return inputs.Subscribed(topics)
        matches = re.compile(pattern).fullmatch
        found = [
            topic.name
            for topic in self._metadata.view.topics.values()
            if topic.partitions and not topic.is_internal and matches(topic.name)
        ]
        wanted = tuple(dict.fromkeys([*topics, *sorted(found)]))
        if self.made_as.protocol == "consumer":
            is_resolved_by_client = self._connections.version(Api.CONSUMER_GROUP_HEARTBEAT) < REGEX_VERSION
            return inputs.Subscribed(wanted, regex=None if is_resolved_by_client else pattern, names=topics)
        return inputs.Subscribed(wanted, lambda topic: matches(topic) is not None)
