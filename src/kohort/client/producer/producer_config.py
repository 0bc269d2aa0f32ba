"""Settings of a producer: their defaults, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kohort.client.producer.partitioner import partition_for_key
from kohort.client.settings import ClientConfig
from kohort.client.tracing import TracerProvider
from kohort.model.setting import BOOLEAN, DOUBLE, FUNCTION, LONG, OBJECT, STRING, check_fields, listed, setting
from kohort.wire.compression import Compression, compress

Acks = Literal["all", "-1", "1", "0", -1, 1, 0]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_ACKS: dict[Acks, int] = {"all": -1, "1": 1, "0": 0, "-1": -1, 1: 1, 0: 0, -1: -1}
_CODECS = {codec.name.lower(): codec for codec in Compression}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ProducerConfig(ClientConfig):
    """What every part of a producer reads. Raises TypeError, ValueError, CompressionUnavailable."""

    # fmt: off
    acks: Acks = setting("all", "Which replicas have a record before it counts as written.", choices=tuple(_ACKS),
        expected="all, 1 or 0")
    enable_idempotence: bool | None = setting(None, "Whether each record is written once and in order; None: where "
        "acks is all, which it needs.", kind=BOOLEAN)
    linger_ms: float = setting(5, "How long a batch waits for more records.", 0, kind=DOUBLE)
    batch_size: int = setting(65_536, "How many bytes a batch has, but for a larger record.", 0)
    compression_type: CompressionType | Compression | None = setting(None, "How batches are compressed.", kind=STRING,
        choices=(*_CODECS, *Compression), expected=listed(_CODECS))
    max_request_size: int = setting(1_048_576, "How many bytes a request, and so a record, may have.", 1)
    buffer_memory: int = setting(33_554_432, "How many bytes may wait to be written; beyond it `send` waits.", 1,
        kind=LONG)
    max_block_ms: int = setting(60_000, "How long `send` waits at most.", 0)
    delivery_timeout_ms: int = setting(120_000, "A record that is not written after so long fails.", 1)
    max_in_flight_requests_per_connection: int = setting(5, "Requests that wait for their answers.", 1)
    partitioner: Callable[[bytes, int], int] = setting(partition_for_key,
        "Of a key and the number of partitions: replaces Java's choice.", kind=FUNCTION)
    allow_auto_create_topics: bool = setting(True, "Whether the broker may create a topic that a record is sent to.")
    key_serializer: Callable[[Any], bytes | None] | None = setting(None,
        "Makes bytes of keys, except of None, which stays a null.", kind=FUNCTION)
    value_serializer: Callable[[Any], bytes | None] | None = setting(None,
        "Makes bytes of values, except of None, which stays a null.", kind=FUNCTION)
    transactional_id: str | None = setting(None, "With it every record is written in a transaction.", 1, kind=STRING,
        expected="a name, or None to write without transactions")
    transaction_timeout_ms: int = setting(60_000, "When brokers abort a transaction that is open.", 1)
    tracer_provider: TracerProvider | None = setting(None, "For spans of OpenTelemetry; None: the global one, if the "
        "program has set one.", kind=OBJECT, cls=TracerProvider, expected="a TracerProvider of OpenTelemetry")
    # fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        if self.transactional_id is not None and not self.is_idempotent:
            off = "enable_idempotence=False" if self.enable_idempotence is False else f"acks={self.acks!r}"
            raise ValueError(f"transactional_id needs idempotence, which {off} turns off: drop one of the two")
        if self.is_idempotent and self.acks_number != -1:
            raise ValueError(f"enable_idempotence needs acks='all', not {self.acks!r}: drop one of the two")
        if self.is_idempotent and self.max_in_flight_requests_per_connection > 5:
            raise ValueError("enable_idempotence allows max_in_flight_requests_per_connection of 1 to 5")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ValueError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")
        compress(self.codec, b"")

    @property
    def acks_number(self) -> int:
        """`acks` as on the wire."""
        return _ACKS[self.acks]

    @property
    def is_idempotent(self) -> bool:
        """Whether each record is written once and in order however often it is sent (KIP-98)."""
        return self.acks_number == -1 if self.enable_idempotence is None else self.enable_idempotence

    @property
    def codec(self) -> Compression:
        """The compression."""
        if isinstance(self.compression_type, Compression):
            return self.compression_type
        return _CODECS[self.compression_type or "none"]
