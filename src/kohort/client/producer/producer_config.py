"""Settings of a producer: their defaults, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kohort.client.producer.partitioner import partition_for_key
from kohort.client.settings import ClientConfig
from kohort.wire.compression import Compression, compress

Acks = Literal["all", "-1", "1", "0", -1, 1, 0]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_ACKS = {"all": -1, -1: -1, "-1": -1, 0: 0, "0": 0, 1: 1, "1": 1}
_CODECS = {codec.name.lower(): codec for codec in Compression}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ProducerConfig(ClientConfig):
    """What every part of a producer reads. Times are milliseconds, sizes bytes.

    `acks` is "all", 1 or 0. `enable_idempotence` is on by default where acks is "all", and needs that.
    `compression_type` is "gzip", "snappy", "lz4", "zstd" or None. `buffer_memory` bounds what waits to be written:
    beyond it `send` waits, at most `max_block_ms`. `partitioner(key, partitions)` replaces Java's choice for records
    with a key. `key_serializer` and `value_serializer` make bytes of what `send` is given, except of None, which stays
    a null. With a `transactional_id` every record is written in a transaction, which the brokers abort after
    `transaction_timeout_ms`. Raises ValueError for settings that do not go together, CompressionUnavailable.
    """

    acks: Acks = "all"
    enable_idempotence: bool | None = None
    linger_ms: float = 5
    batch_size: int = 65_536
    compression_type: CompressionType | Compression | None = None
    max_request_size: int = 1_048_576
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    max_in_flight_requests_per_connection: int = 5
    partitioner: Callable[[bytes, int], int] = partition_for_key
    allow_auto_create_topics: bool = True
    key_serializer: Callable[[Any], bytes | None] | None = None
    value_serializer: Callable[[Any], bytes | None] | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.transactional_id == "":
            raise ValueError("transactional_id is empty: name one, or leave it out to write without transactions")
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
        """The compression. Raises ValueError for one that does not exist."""
        if self.compression_type is None:
            return Compression.NONE
        if isinstance(self.compression_type, Compression):
            return self.compression_type
        if self.compression_type not in _CODECS:
            raise ValueError(f"compression_type={self.compression_type!r} is not one of {', '.join(_CODECS)}")
        return _CODECS[self.compression_type]
