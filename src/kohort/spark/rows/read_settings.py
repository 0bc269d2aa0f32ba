"""How ranges are read, as plain values that travel from the driver to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Isolation = Literal["read_uncommitted", "read_committed"]

FETCH_BYTES = 1 << 20
"""Bytes per fetch: the decoder is fastest on chunks that fit the processor's cache."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How ranges are read, as plain values, so that they travel to executors.

    `properties` are the security settings in Kafka's names (`security.protocol`, `sasl.…`, `ssl.…`). Without
    `fail_on_data_loss`, offsets that are gone are skipped with a warning, as Spark's own source does.
    """

    bootstrap_servers: str
    fetch_bytes: int = FETCH_BYTES
    isolation: Isolation = "read_uncommitted"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    client_id: str = "kohort"
    client_rack: str = ""
    timeout_ms: int = 60_000
    properties: Mapping[str, str] = field(default_factory=dict)
