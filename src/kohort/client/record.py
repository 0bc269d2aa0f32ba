"""Record that a consumer returns, and the types of keys and values: what deserializers return, and serializers take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

from kohort.model.ids import TopicPartition

if TYPE_CHECKING:  # `typing` has defaults from Python 3.13 on; type checkers know this module without its package
    from typing_extensions import TypeVar

    K = TypeVar("K", covariant=True, default=bytes | None)
    V = TypeVar("V", covariant=True, default=bytes | None)
    SentK = TypeVar("SentK", contravariant=True, default=bytes | None)
    SentV = TypeVar("SentV", contravariant=True, default=bytes | None)
else:
    from typing import TypeVar

    K, V, SentK, SentV = map(TypeVar, ("K", "V", "SentK", "SentV"))


class Record(NamedTuple, Generic[K, V]):
    """One record of a partition. A null key or value is None; header keys are text, header values bytes or None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as `commit`, `seek` and `pause` take it."""
        return TopicPartition(self.topic, self.partition)
