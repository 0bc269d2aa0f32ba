"""How ranges are read: values that are pickled and sent from the driver to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from kohort.client.config_file import connection_arguments
from kohort.model.setting import LONG, setting
from kohort.net.sasl import Sasl

if TYPE_CHECKING:
    import ssl

    from kohort.spark.schemas.value_decoder import Decoding

Isolation = Literal["read_uncommitted", "read_committed"]

FETCH_BYTES = 1 << 20
"""Bytes per fetch: the decoder is fastest on chunks that fit the processor's cache."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How ranges are read.

    `properties` are the security settings in Kafka's names (`security.protocol`, `sasl.…`, `ssl.…`). Without
    `fail_on_data_loss`, offsets that are gone are skipped with a warning, as Spark's own source does. With a `decoding`
    values are decoded, and bad records go to `dead_letter_topic` if there is one, in the name of `group_id`.
    """

    # fmt: off
    bootstrap_servers: str
    fetch_bytes: int = setting(FETCH_BYTES, "How much one fetch of a partition returns at most.", 1, kind=LONG,
        name="fetchBytes", aliases=("kafka.max.partition.fetch.bytes",))
    isolation: Isolation = setting("read_uncommitted", "Whether records of open and aborted transactions are read.",
        choices=get_args(Isolation), name="isolationLevel", aliases=("kafka.isolation.level",))
    include_headers: bool = setting(False, "Whether there is a column `headers`.", name="includeHeaders")
    fail_on_data_loss: bool = setting(True, "Whether offsets that are gone are an error; else they are skipped with a "
        "warning.", name="failOnDataLoss")
    client_id: str = setting("kohort", "The name of the clients in the brokers' logs and quotas.",
        name="kafka.client.id")
    client_rack: str = setting("", "The rack of the executors: replicas of it are read.", name="kafka.client.rack")
    timeout_ms: int = 60_000
    properties: Mapping[str, str] = field(default_factory=dict)
    group_id: str = setting("", "The group of a stream.", name="group.id", aliases=("kafka.group.id",))
    decoding: Decoding | None = None
    dead_letter_topic: str = setting("", "The topic of records whose value cannot be decoded.", name="deadLetterTopic")
    # fmt: on

    @property
    def fetches_headers(self) -> bool:
        """Whether headers are decoded: a dead letter has those of its record."""
        return self.include_headers or bool(self.dead_letter_topic)


class Security(TypedDict):
    """The arguments of clients that secure a connection."""

    tls: ssl.SSLContext | None
    sasl: Sasl | None


def security(properties: Mapping[str, str]) -> Security:
    """Return security settings in Kafka's names as arguments of clients. Raises ValueError, OSError."""
    found = connection_arguments(properties)
    return {"tls": found.get("tls"), "sasl": found.get("sasl")}
