"""One Kafka cluster as a client uses it: metadata that is refreshed, leaders and coordinators, requests sent to them.

The law: `leader` and `coordinator` return the newest known one; a caller that finds it wrong calls `request_refresh` or
`forget_coordinator` and looks it up again. All connections and the one background task end with `close`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Self, TypeVar

from kohort.client.arguments import bootstrap_addresses
from kohort.client.cluster.connection_pool import Pool
from kohort.client.cluster.metadata import Broker, ClusterView, TopicView, read_names, read_view, read_whole
from kohort.client.cluster.retry import Waits, is_worth_a_retry, retry
from kohort.client.errors import BrokerUnreachable, ClientStopped, UnknownPartition, UnknownTopic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.net.api_versions import BrokerVersions
from kohort.net.connection import Connection
from kohort.net.environment import random as random_number
from kohort.net.sasl import Sasl
from kohort.net.tls import ListenerMismatch
from kohort.wire.message import Request
from kohort.wire.messages import FindCoordinatorRequest, MetadataRequest

ResponseT = TypeVar("ResponseT")
log = logging.getLogger(__name__)

_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

_INCOMPLETE_S = 1.0


class CoordinatorType(IntEnum):
    """What a coordinator coordinates, as FindCoordinator numbers it; `owner` is that in words."""

    owner: str

    def __new__(cls, number: int, owner: str) -> Self:
        kind = int.__new__(cls, number)
        kind._value_ = number
        kind.owner = owner
        return kind

    GROUP = 0, "group"
    TRANSACTION = 1, "transactional id"


class Cluster:
    """A Kafka cluster, ours or Apache's.

    `bootstrap_servers` is `host:port[,host:port…]` or a list of them. `random` is the source of jitter. Use it as
    `async with Cluster(…) as cluster`, or `start` and `close` it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "kohort",
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 300_000,
        connect_timeout_ms: int = 10_000,
        start_timeout_ms: int = 5_000,
        allow_auto_create_topics: bool = False,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
        random: Callable[[], float] = random_number,
    ) -> None:
        self._bootstrap = [Broker(-1, host, port) for host, port in bootstrap_addresses(bootstrap_servers)]
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self.random = random
        self.view = ClusterView()
        self.pool = Pool(client_id, random, connect_timeout_ms, tls, sasl)
        self._metadata_max_age_s = metadata_max_age_ms / 1000
        self._start_timeout_ms = start_timeout_ms
        self._is_auto_creating = allow_auto_create_topics
        self._topic_ids: dict[str, bytes] = {}
        self._tracked: set[str] = set()
        self._is_tracking_all = False
        self._unresolved_ids: frozenset[bytes] = frozenset()
        self._coordinators: dict[tuple[CoordinatorType, str], Broker] = {}
        self._watchers: list[Callable[[ClusterView], None]] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._refresh_loop: asyncio.Task[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to a broker and fetch the metadata. Raises `BrokerUnreachable`, naming every address tried and why.

        One that could not start may be started again. Raises RuntimeError for one that was closed.
        """
        if self._is_closed:
            raise RuntimeError("this client was stopped, and cannot be started again: make a new one")
        if self._refresh_loop is None:
            try:
                await retry(self._fetch_first_view, waits=self.waits(), timeout_ms=self._start_timeout_ms)
            except BaseException:
                if self._refreshing is not None:
                    self._refreshing.cancel()
                    self._refreshing = None
                self.pool.drop()
                raise
            self._refresh_loop = asyncio.create_task(self._refresh_repeatedly(), name="kohort metadata")

    async def _fetch_first_view(self) -> None:
        """Fetch the metadata; a broker that breaks the connection instead of answering cannot be reached either."""
        try:
            await self.refresh()
        except KafkaError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION or not is_worth_a_retry(error):
                raise
            tried = ", ".join(broker.address for broker in self._bootstrap)
            raise BrokerUnreachable([(tried, error.text)]) from error

    async def close(self) -> None:
        """End the background task and every connection."""
        self._is_closed = True
        tasks = [task for task in (self._refresh_loop, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._refresh_loop = None
        self.pool.close()

    # Metadata

    def waits(self, initial_ms: int = 100) -> Waits:
        """Return a fresh series of waits between retries."""
        return Waits(self.random, initial_ms=initial_ms)

    def watch(self, seen: Callable[[ClusterView], None]) -> Callable[[], None]:
        """Call `seen` with every new view; return what ends that."""
        self._watchers.append(seen)
        return lambda: self._watchers.remove(seen)

    def track(self, topics: Iterable[str]) -> bool:
        """Include these topics in the view from the next refresh on; return whether any of them was new."""
        new = set(topics) - self._tracked
        self._tracked |= new
        return bool(new)

    def track_all(self, *, is_wanted: bool = True) -> None:
        """Include every topic in the view from the next refresh on, or again only those tracked by name."""
        self._is_tracking_all = is_wanted

    def resolve_names(self, topic_ids: frozenset[bytes]) -> None:
        """Find the names of these topics, and of no others asked for before; those that are found are tracked."""
        self._unresolved_ids = topic_ids
        if topic_ids:
            self.request_refresh()

    def request_refresh(self) -> None:
        """Have the metadata refreshed soon, in the background: the view looks wrong."""
        self._wanted.set()

    async def refresh(self) -> None:
        """Request metadata now; callers at the same time share one request. Raises `KafkaError`."""
        if not self._is_closed and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh(), name="kohort metadata refresh")
        refreshing = self._refreshing
        if refreshing is not None:
            # One caller that is cancelled does not cancel the others, and `close` cancels none of them.
            await asyncio.wait([refreshing])
        if self._is_closed or refreshing is None:
            raise ClientStopped("it received the cluster's metadata")
        refreshing.result()

    async def force_refresh(self) -> None:
        """Do as `refresh`, by a request that leaves after this call: one that is under way may miss what is new."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])
        await self.refresh()

    async def topic(self, name: str) -> TopicView:
        """Return a topic with its partitions, from the metadata or requested from the cluster.

        Raises `UnknownTopic`, or the `KafkaError` of the broker.
        """
        known = self.view.topics.get(name)
        if known is not None and known.partitions and name in self._tracked:
            return known
        self.track([name])

        async def look() -> TopicView:
            await self.refresh()
            found = self.view.topics.get(name)
            if found is None or found.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(name)
            if found.error is not ErrorCode.NONE:
                raise KafkaError(found.error, f"topic {name!r}: {found.error.text}")
            return found

        try:
            # A topic that was created a moment ago, perhaps by this request, may not be known to every broker yet.
            timeout_ms = 5000 if self._is_auto_creating else 2000
            return await retry(look, waits=self.waits(), timeout_ms=timeout_ms)
        except UnknownTopic:
            self._tracked.discard(name)
            self.view = self.view.without(name)
            raise

    async def leader(self, partition: TopicPartition) -> Broker:
        """Return a partition's leader.

        Raises `UnknownTopic`, `UnknownPartition`, or LEADER_NOT_AVAILABLE after a refresh that found none.
        """
        if (found := self.view.leader(partition)) is not None:
            return found
        topic = await self.topic(partition.topic)
        if partition.partition not in topic.partitions:
            await self.refresh()
            topic = self.view.topics.get(partition.topic, topic)
            if partition.partition not in topic.partitions:
                raise UnknownPartition(partition, len(topic.partitions))
        if (found := self.view.leader(partition)) is None:
            await self.refresh()
            found = self.view.leader(partition)
        if found is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
        return found

    # Requests

    async def call(
        self,
        broker: Broker,
        request: Request[ResponseT],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
        lane: str = "",
    ) -> ResponseT:
        """Send a request to a broker and return its response. Raises `KafkaError` where none came.

        A request whose answer the broker may delay, such as Fetch, goes by a `lane` of its own.
        """
        connection = await self.pool.connection(broker, lane)
        return await connection.call(request, highest=highest, timeout_ms=timeout_ms or self.request_timeout_ms)

    async def call_any(self, request: Request[ResponseT], *, timeout_ms: int | None = None) -> ResponseT:
        """Send a request to any broker that can be reached. Raises `BrokerUnreachable`."""
        connection = await self._any_connection()
        return await connection.call(request, timeout_ms=timeout_ms or self.request_timeout_ms)

    async def call_controller(self, request: Request[ResponseT], *, timeout_ms: int | None = None) -> ResponseT:
        """Send a request to the controller, or to any broker, which forwards it. Raises `KafkaError`."""
        controller = self.view.brokers.get(self.view.controller_id)
        if controller is None:
            return await self.call_any(request, timeout_ms=timeout_ms)
        return await self.call(controller, request, timeout_ms=timeout_ms)

    async def coordinator(
        self, key: str, *, kind: CoordinatorType = CoordinatorType.GROUP, timeout_ms: int | None = None
    ) -> Broker:
        """Return the coordinator of a group or transactional id, looked up once and cached until `forget_coordinator`.

        Raises `KafkaError`.
        """
        if (known := self._coordinators.get((kind, key))) is not None:
            return known

        async def look() -> Broker:
            request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
            response = await self.call_any(request)
            found: Any = response.coordinators[0] if response.coordinators else response
            code = error_for(found.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"the coordinator of {kind.owner} {key!r}: {found.error_message or code.text}")
            return Broker(found.node_id, found.host, found.port)

        found = await retry(look, waits=self.waits(), timeout_ms=timeout_ms or 2 * self.request_timeout_ms)
        self._coordinators[kind, key] = found
        return found

    def forget_coordinator(self, key: str, *, kind: CoordinatorType = CoordinatorType.GROUP) -> None:
        """Forget a known coordinator: it is not, or may not be, the coordinator any more."""
        self._coordinators.pop((kind, key), None)

    async def call_coordinator(
        self,
        key: str,
        request: Request[ResponseT],
        code_of: Callable[[ResponseT], int],
        *,
        kind: CoordinatorType = CoordinatorType.GROUP,
        highest: int | None = None,
    ) -> ResponseT:
        """Send a request to the coordinator of a group or transactional id, wherever it moves; return its response.

        `code_of` reads the response's error code: where the coordinator moved or still loads there is a retry, any
        other code is the caller's. Raises `KafkaError` when time is up.
        """

        async def attempt() -> ResponseT:
            try:
                coordinator = await self.coordinator(key, kind=kind)
                response = await self.call(coordinator, request, highest=highest)
                code = error_for(code_of(response))
                if code in _ELSEWHERE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise KafkaError(code, f"the coordinator of {kind.owner} {key!r}: {code.text}")
            except KafkaError as error:
                if error.code in _ELSEWHERE:
                    self.forget_coordinator(key, kind=kind)
                raise
            return response

        return await retry(attempt, waits=self.waits(), timeout_ms=2 * self.request_timeout_ms)

    def versions(self, broker: Broker) -> BrokerVersions | None:
        """Return what a broker supports, if there is a connection to it at the moment."""
        connection = self.pool.connected(broker)
        return None if connection is None else connection.versions

    # The inside

    async def _any_connection(self) -> Connection:
        """Return a connection to any broker: known ones first, least busy first, then the bootstrap addresses."""
        known = list(self.view.brokers.values())
        first = int(self.random() * len(known)) if known else 0
        brokers = {each.address: each for each in [*known[first:], *known[:first], *self._bootstrap]}
        attempts: dict[str, KafkaError] = {}
        for address, broker in brokers.items():
            try:
                return await self.pool.connection(broker)
            except KafkaError as error:
                if error.code is not ErrorCode.NETWORK_EXCEPTION or not is_worth_a_retry(error):
                    raise
                attempts[address] = error
        mismatch = next((each for each in attempts.values() if isinstance(each, ListenerMismatch)), None)
        raise BrokerUnreachable([(address, error.text) for address, error in attempts.items()]) from mismatch

    async def _refresh(self) -> None:
        names = None if self._is_tracking_all else sorted(self._tracked)
        topics = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._is_auto_creating)
        response = await self.call_any(request)
        self.view = (read_whole if names is None else read_view)(response, self.view)
        if self._is_auto_creating:
            self._warn_of_topics_made_anew()
        await self._find_names()
        for seen in tuple(self._watchers):
            seen(self.view)

    def _warn_of_topics_made_anew(self) -> None:
        """Log topics that have another id than before: where one is deleted, this client's requests make it anew."""
        for name, topic in self.view.topics.items():
            if topic.topic_id == NO_TOPIC_ID:
                continue
            if self._topic_ids.setdefault(name, topic.topic_id) != topic.topic_id:
                self._topic_ids[name] = topic.topic_id
                text = (
                    "topic %r was deleted and exists again, with another id and %d partition%s: a broker makes topics"
                )
                text += " that a producer names, unless it has allow_auto_create_topics=False"
                log.warning(text, name, count := len(topic.partitions), "" if count == 1 else "s")

    async def _find_names(self) -> None:
        """Request topics by id: a request that names any id is answered for ids alone (KIP-516)."""
        names = {topic.topic_id: topic.name for topic in self.view.topics.values()}
        missing = sorted(self._unresolved_ids - names.keys())
        if missing:
            request = MetadataRequest(topics=[MetadataRequest.Topic(topic_id=each, name=None) for each in missing])
            self.view = read_names(await self.call_any(request), self.view)
            names = {topic.topic_id: topic.name for topic in self.view.topics.values()}
        self._tracked |= {names[topic_id] for topic_id in self._unresolved_ids & names.keys()}
        self._unresolved_ids -= names.keys()

    async def _refresh_repeatedly(self) -> None:
        waits = self.waits()
        warned: set[str] = set()  # what was logged since metadata was refreshed last
        while True:
            try:
                # A topic that does not exist yet, or whose leader is being elected, will: look again soon.
                is_complete = all(topic.error is ErrorCode.NONE for topic in self.view.topics.values())
                is_complete = is_complete and not self._unresolved_ids
                async with asyncio.timeout(self._metadata_max_age_s if is_complete else _INCOMPLETE_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self.refresh()
                waits.reset()
                if warned:
                    warned.clear()
                    log.info("metadata was refreshed again")
            except KafkaError as error:
                if error.text not in warned:
                    warned.add(error.text)
                    log.warning("metadata could not be refreshed: %s; it is tried again", error.text)
                self._wanted.set()
            # However many callers find the view wrong, metadata is requested at most this often.
            await asyncio.sleep(waits.next_s())
