"""What a peer knows of the cluster's topics: looked at now and then, when something looks wrong, and when it leads.

The law: each request for metadata is answered with the newest view, or with its failure. Requests never overlap, and
after one that failed or showed something incomplete the next comes soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kohort.client.cluster.metadata import ClusterView, read_names, read_view, read_whole
from kohort.member.deadlines import Backoff
from kohort.model.errors import ErrorCode
from kohort.sim.kernel.scheduler import Due
from kohort.sim.peers.peer_connection import PeerConnections, reader
from kohort.wire.apis import Api
from kohort.wire.messages import MetadataRequest, MetadataResponse

FIRST_BY_ID = 10
"""The first version of Metadata that names topics by id."""
_INCOMPLETE_MS = 1_000
_SHORTEST_WAIT_MS = 100

Looked = Callable[[bool], None]
"""Called with whether the view is of now."""


class PeerMetadata:
    """The view of one peer. `changed` is called when a response differs from the one before it."""

    def __init__(self, connections: PeerConnections, look_ms: int) -> None:
        self.changed: Callable[[], None] = _ignore
        self.view = ClusterView()
        self.followed: dict[str, None] = {}
        self.is_following_all = False
        self._connections = connections
        self._host = connections.host
        self._look_ms = look_ms
        self._unresolved: frozenset[bytes] = frozenset()
        self._waits = Backoff(connections.random.random)
        self._version = connections.version(Api.METADATA)
        self._read = reader(Api.METADATA, self._version)
        self._asked = b""
        """The request that the last view answers, without its correlation id."""
        self._answer = b""
        self._is_looking = False
        self._is_again = False
        """Whether what is looked for has changed since the look that is under way began."""
        self._next: Due | None = None
        self._next_us = 0
        self._waiting: list[Looked] = []

    def follow(self, topics: Iterable[str]) -> bool:
        """Look at these topics too; return whether any of them is new."""
        known = len(self.followed)
        self.followed.update(dict.fromkeys(sorted(topics)))
        return len(self.followed) > known

    def request_names(self, topic_ids: frozenset[bytes]) -> None:
        """Find the names of these topics, and of no others asked for before."""
        self._unresolved = topic_ids
        if topic_ids:
            self.request_refresh()

    def request_refresh(self) -> None:
        """Note that the view looks wrong: there is a look soon."""
        if self._is_looking:
            self._is_again = True
        else:
            self._look_after(_SHORTEST_WAIT_MS)

    def look(self, looked: Looked | None = None) -> None:
        """Request metadata now; `looked` is called with the result."""
        if looked is not None:
            self._waiting.append(looked)
        if self._is_looking:
            self._is_again = True
            return
        self._is_looking, self._is_again = True, False
        if self._next is not None:
            self._next.cancel()
            self._next = None
        everything = self.is_following_all
        topics = None if everything else [MetadataRequest.Topic(name=name) for name in self.followed]
        if topics is None and self._version == 0:
            topics = []
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        frame = self._connections.frame(request, self._version)
        waiting, self._waiting = self._waiting, []

        def answered(code: ErrorCode, found: bytes | None) -> None:
            self._take(frame, found if code is ErrorCode.NONE else None, waiting, is_whole=everything)

        self._connections.any.send(frame, bytes, answered, self._connections.request_timeout_ms)

    # -- the inside

    def _take(self, frame: bytes, found: bytes | None, waiting: list[Looked], *, is_whole: bool) -> None:
        if found is None:
            self._end(waiting, is_seen=False)
            return
        # A topic that does not exist is reported again and again: a member may have been assigned it meanwhile.
        is_lacking = not self._is_complete or any(map(self.view.is_gone, self.followed))
        has_changed = frame != self._asked or found[4:] != self._answer or is_lacking
        self._asked, self._answer = frame, found[4:]
        if has_changed:
            answer: MetadataResponse = self._read(found)
            self.view = (read_whole if is_whole else read_view)(answer, self.view)
            self._connections.brokers = tuple((broker.host, broker.port) for broker in self.view.brokers.values())
        if self._unresolved and self._version >= FIRST_BY_ID:
            known = {topic.topic_id for topic in self.view.topics.values()}
            if missing := sorted(self._unresolved - known):
                self._find_names(missing, waiting)
                return
        if has_changed:
            self.changed()
        self._end(waiting, is_seen=True)

    @property
    def _is_complete(self) -> bool:
        return all(topic.error is ErrorCode.NONE for topic in self.view.topics.values()) and not self._unresolved

    def _find_names(self, topic_ids: list[bytes], waiting: list[Looked]) -> None:
        """Ask for topics by id: a request that names any id is answered for ids alone (KIP-516)."""
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(topic_id=each, name=None) for each in topic_ids],
            allow_auto_topic_creation=False,
        )

        def answered(code: ErrorCode, answer: Any) -> None:
            if code is ErrorCode.NONE:
                self.view = read_names(answer, self.view)
                found = {topic.topic_id: topic.name for topic in self.view.topics.values()}
                self.follow(found[topic_id] for topic_id in topic_ids if topic_id in found)
                self._unresolved -= found.keys()
                self.changed()
            self._end(waiting, is_seen=code is ErrorCode.NONE)

        self._connections.send(self._connections.any, request, answered, version=self._version)

    def _end(self, waiting: list[Looked], *, is_seen: bool) -> None:
        self._is_looking = False
        if is_seen:
            self._waits.reset()
        if not is_seen or self._is_again:
            self._look_after(self._waits.next_ms())
        else:
            self._look_after(self._look_ms if self._is_complete else min(self._look_ms, _INCOMPLETE_MS))
        for looked in waiting:
            looked(is_seen)
        if self._waiting and not self._is_looking:
            self.look()

    def _look_after(self, wait_ms: int) -> None:
        when_us = self._host.scheduler.now_us + wait_ms * 1000
        if self._next is not None:
            if self._next_us <= when_us:
                return
            self._next.cancel()
        self._next_us = when_us
        self._next = self._host.at_us(when_us, self._look_by_itself)

    def _look_by_itself(self) -> None:
        self._next = None
        self.look()


def _ignore() -> None:
    """Ignore changes."""
