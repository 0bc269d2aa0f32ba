"""Metadata of the commits of Spark jobs: which streaming query committed, and its last finished batch.

Every commit of a job has this metadata, also the one with which it begins a partition. An offset without it was
committed by another client or reset by an administrator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = re.compile(r"kohort\.spark(?: query=(?P<query>\w+) batch=(?P<batch>-?\d+)(?: state=(?P<state>\S+))?)?")


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What a job writes beside an offset. A `GroupStream` has no `query`; `batch` is -1 where none was finished.

    `state` is the part of the partitions whose rows are in the state of the query's checkpoint, such as all or 1/2.
    """

    query: str = ""
    batch: int = -1
    state: str = ""

    @property
    def text(self) -> str:
        """The metadata of the commit."""
        state = f" state={self.state}" if self.state else ""
        return f"kohort.spark query={self.query} batch={self.batch}{state}" if self.query else "kohort.spark"

    @property
    def is_of_a_finished_batch(self) -> bool:
        """Whether a streaming query committed this offset after a batch, and not when it began the partition."""
        return bool(self.query) and self.batch >= 0

    @classmethod
    def parse(cls, metadata: str | None) -> CommitMark | None:
        """Return the mark in a commit's metadata, None where no job of ours committed."""
        if (found := _TEXT.fullmatch(metadata or "")) is None:
            return None
        return cls(found["query"], int(found["batch"]), found["state"] or "") if found["query"] else cls()


JOB = CommitMark()
"""The mark of a job that is no streaming query."""
