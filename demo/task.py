"""The settings of one run of a worker, which the demo passes to its process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """Settings of one run of a worker. Paths are directories; times are milliseconds."""

    worker: str
    run: int
    bootstrap_servers: str
    topic: str
    group_id: str
    table: str
    journal: str
    max_rows_per_round: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    checkpoint: str
    is_query: bool
    """Whether it is a query of Structured Streaming; else it is a loop of rounds."""

    def to_json(self) -> str:
        """Return the argument for `python -m demo.worker`."""
        return json.dumps(asdict(self))
