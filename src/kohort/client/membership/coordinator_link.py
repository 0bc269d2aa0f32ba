"""Connection of a member to its group's coordinator, wherever that has gone: what a member needs, and a program's.

`MemberLink` is what a member needs of its client, whichever kind: the coordinator, and the metadata of topics.
`CoordinatorLink` is that of an asyncio program; the simulator has one in virtual time, whose awaits no event loop runs.
It is the member's own: a JoinGroup or heartbeat whose answer the coordinator delays blocks no other request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from logging import Logger
from typing import Any, Protocol, TypeVar

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import ClusterView
from kohort.client.cluster.retry import is_worth_a_retry, retry
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.connection import Connection
from kohort.wire.apis import Api
from kohort.wire.message import Request

ResponseT = TypeVar("ResponseT")


class OpenConnection(Protocol):
    """An open connection to the coordinator."""

    @property
    def address(self) -> str:
        """The coordinator's `host:port`."""

    async def call(self, request: Request[ResponseT], *, timeout_ms: int) -> ResponseT:
        """Send a request and return its response, whatever error codes that has. Raises `KafkaError`."""


class MemberLink(Protocol):
    """The coordinator of one group, and the topics that concern one member."""

    log: Logger

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def request_timeout_ms(self) -> int:
        """The longest that an ordinary request waits for its response."""

    @property
    def view(self) -> ClusterView:
        """The newest metadata."""

    @property
    def followed(self) -> Iterable[str]:
        """The topics whose metadata concerns the member."""

    def random(self) -> float:
        """Return a random number from 0 to 1, for jitter."""

    async def open(self) -> OpenConnection:
        """Return an open connection to the coordinator. Raises `KafkaError`."""

    def within(self, limit_ms: int) -> AbstractAsyncContextManager[Any]:
        """Return a context that raises TimeoutError where its body, with opening a connection, takes longer."""

    def drop(self) -> None:
        """Close the connection; what waits on it fails with NETWORK_EXCEPTION."""

    def newest(self, api: Api) -> int:
        """Return the newest version of an API that both sides of the open connection speak."""

    def has_feature(self, version: int = 1) -> bool:
        """Return whether the coordinator is one of ours, as far as is known, with this version of the feature."""

    def code(self, error: KafkaError) -> ErrorCode:
        """Return the code of an error, as an input of the member."""

    def follow(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics too."""

    def resolve_names(self, topic_ids: frozenset[bytes]) -> None:
        """Find the names of these topics, and of no others asked for before."""

    async def refresh(self, topics: Iterable[str], is_wanted: Callable[[], bool]) -> None:
        """Wait for metadata of now that covers these topics, or until they are not wanted. Raises `KafkaError`."""


FEATURE = "kohort.group"
"""What our brokers offer beside Kafka: 1, leaders' failures passed on; 2, lags and reasons in heartbeats."""


class CoordinatorLink:
    """A member's own connection, opened when first needed, and again wherever the coordinator has gone.

    `complaint` is the last error with more text than its code.
    """

    log = logging.getLogger("kohort.client.membership")

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.request_timeout_ms = cluster.request_timeout_ms
        self.random = cluster.random
        self.followed: set[str] = set()
        self.complaint: KafkaError | None = None
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> Connection:
        """Return the open connection, connecting where need be. Raises `KafkaError`."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                coordinator = await self.cluster.coordinator(self.group_id, timeout_ms=self.cluster.request_timeout_ms)
                self._connection = await self.cluster.pool.open_apart(coordinator)
            return self._connection

    def within(self, limit_ms: int) -> asyncio.Timeout:
        """Return a context that raises TimeoutError where its body takes longer."""
        return asyncio.timeout(limit_ms / 1000)

    def newest(self, api: Api) -> int:
        """Return the newest version of an API that both sides of the open connection speak."""
        assert self._connection is not None, "versions are those of an open connection"
        return self._connection.versions.newest(api)

    def has_feature(self, version: int = 1) -> bool:
        """Return whether the coordinator is one of ours, as far as is known, with this version of the feature."""
        connection = self._connection
        return connection is not None and not connection.is_closed and connection.versions.has_feature(FEATURE, version)

    def rediscover(self) -> None:
        """Forget the coordinator; the next request looks it up."""
        self.cluster.forget_coordinator(self.group_id)
        self.drop()

    def drop(self) -> None:
        """Close the connection; what waits on it gets NETWORK_EXCEPTION."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def code(self, error: KafkaError) -> ErrorCode:
        """Return the code of an error, as an input of the member."""
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            return ErrorCode.NETWORK_EXCEPTION
        if not error.code.is_retriable:
            self.complaint = error
        return error.code

    # Metadata

    @property
    def view(self) -> ClusterView:
        """The newest metadata of the cluster."""
        return self.cluster.view

    def follow(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics too."""
        self.followed.update(topics)
        if self.cluster.track(topics):
            # A follower never computes an assignment, and still has to find the leaders of what it is given.
            self.cluster.request_refresh()

    def resolve_names(self, topic_ids: frozenset[bytes]) -> None:
        """Find the names of these topics, and of no others asked for before."""
        self.cluster.resolve_names(topic_ids)

    async def refresh(self, topics: Iterable[str], is_wanted: Callable[[], bool]) -> None:
        """Ask for metadata now: a round may have begun because another member saw what this one has not.

        A cluster that cannot be asked is no reason to end: the coordinator ends a round that takes too long.
        """
        if not topics:
            return
        self.followed.update(topics)
        self.cluster.track(topics)
        try:
            await self.cluster.force_refresh()
        except KafkaError as error:
            if all(self.view.spec(topic) is not None for topic in topics):
                self.log.warning("group %s: assigning with metadata of before: %s", self.group_id, error.text)
                return
            waits = self.cluster.waits()
            while is_wanted():
                try:
                    await retry(self.cluster.force_refresh, waits=waits, timeout_ms=self.cluster.request_timeout_ms)
                except KafkaError as again:
                    if not is_worth_a_retry(again):
                        raise
                    text = "group %s: no assignment yet, the topics cannot be seen: %s"
                    self.log.warning(text, self.group_id, again.text)
                else:
                    return
