"""Incremental fetch sessions (KIP-227): what a client fetches, stored here so that it need not send it again.

The cache is bounded. A new session takes the place of one that has been idle for long; without one, the
client just continues with full fetches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.step_scheduler import Steps
from kohort.wire.messages import FetchRequest

EVICTION_MS = 120_000
"""A session idle for this long may be evicted for a new one (min.incremental.fetch.session.eviction.ms)."""

FINAL_EPOCH = -1
FIRST_EPOCH = 0
NO_SESSION = 0
_INT_MAX = (1 << 31) - 1

TopicKey = bytes | str
"""A topic as the session's requests name it: by id from Fetch v13 on, by name before."""


class Fetched:
    """One partition of a fetch: what the client requests of it, and what it last received."""

    __slots__ = ("asked", "high_watermark", "log_start_offset", "partition", "topic")

    def __init__(self, topic: TopicKey, asked: FetchRequest.Topic.Partition) -> None:
        self.topic = topic
        self.partition = asked.partition
        self.asked = asked
        self.high_watermark = -2
        self.log_start_offset = -2


@dataclass(slots=True, eq=False)
class FetchSession:
    """One client's session. `partitions` is in the order in which they are read."""

    session_id: int
    uses_ids: bool
    last_ms: int
    epoch: int = FIRST_EPOCH + 1
    partitions: dict[tuple[TopicKey, int], Fetched] = field(default_factory=dict)

    def update(self, message: FetchRequest, version: int) -> Steps[None]:
        """Take what the request adds and changes, then what it forgets."""
        for topic in message.topics:
            yield 1
            key: TopicKey = topic.topic_id if version >= 13 else topic.topic
            for asked in topic.partitions:
                known = self.partitions.get((key, asked.partition))
                if known is None:
                    self.partitions[key, asked.partition] = Fetched(key, asked)
                else:
                    known.asked = asked
                yield 1
        for forgotten in message.forgotten_topics_data:
            key = forgotten.topic_id if version >= 13 else forgotten.topic
            for partition in forgotten.partitions:
                self.partitions.pop((key, partition), None)
            yield 1


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int, random_bytes: Callable[[int], bytes]) -> None:
        self._slots = slots
        self._random_bytes = random_bytes
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, message: FetchRequest, version: int, now_ms: int) -> Steps[FetchSession | None]:
        """Begin a session for a full fetch; None when it asks for nothing or there is no room."""
        session = FetchSession(NO_SESSION, version >= 13, now_ms)
        yield from session.update(message, version)
        if not session.partitions or not self._has_room(now_ms):
            return None
        session.session_id = self._new_id()
        self._sessions[session.session_id] = session
        return session

    def close(self, session_id: int) -> None:
        """Forget a session, if it exists."""
        self._sessions.pop(session_id, None)

    def resume(self, message: FetchRequest, version: int, now_ms: int) -> Steps[FetchSession]:
        """Return the session of an incremental fetch, updated by it.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(message.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != message.session_epoch:
            text = f"The session is at epoch {session.epoch}, the request at {message.session_epoch}."
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, text)
        if session.uses_ids != (version >= 13):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == _INT_MAX else session.epoch + 1
        session.last_ms = now_ms
        # The most recently used is last, so the first is the one to evict.
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session
        yield from session.update(message, version)
        return session

    def _has_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = int.from_bytes(self._random_bytes(4), "big") & _INT_MAX
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id
