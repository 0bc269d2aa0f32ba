"""Progress of a job in its group: what Spark's metrics of a query do not have for sources written in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """One member's place in its group. `lag` and `longest_lag` are offsets behind the ends of its partitions.

    `rebalances` are those of this member. `read_again` are offsets that are read more than once: those of a batch that
    was run again after a restart, and those whose commit the group refused, which their next owner reads again.
    """

    group: str
    member_id: str
    generation: int
    partitions: int
    lag: int
    longest_lag: int
    rebalances: int
    read_again: int

    def __str__(self) -> str:
        return (
            f"group {self.group}: generation {self.generation}, {self.partitions} partitions, lag {self.lag} (longest"
            f" {self.longest_lag}), {self.rebalances} rebalances, {self.read_again} offsets read again"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what the offset of a source shows, under the names of the metrics of Spark's own source."""
        return {
            "memberId": self.member_id,
            "partitions": self.partitions,
            "offsetsBehindLatest": self.lag,
            "maxOffsetsBehindLatest": self.longest_lag,
            "rebalances": self.rebalances,
            "offsetsReadAgain": self.read_again,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> GroupProgress:
        """Return what `to_json` wrote beside `group` and `generation`. Raises KeyError for anything else."""
        return cls(
            found["group"],
            found["memberId"],
            found["generation"],
            found["partitions"],
            found["offsetsBehindLatest"],
            found["maxOffsetsBehindLatest"],
            found["rebalances"],
            found["offsetsReadAgain"],
        )


def progress(query: StreamingQuery) -> tuple[GroupProgress, ...]:
    """Return the progress of each source `kohort` of a query, as of its last trigger; nothing before the first."""
    last = query.lastProgress
    return () if last is None else tuple(group_progress(source.latestOffset for source in last.sources))


def group_progress(latest_offsets: Iterable[str | None]) -> Iterator[GroupProgress]:
    """Return the progress in latest offsets of a query's sources; those of other sources are left out."""
    for text in latest_offsets:
        try:
            yield GroupProgress.from_json(json.loads(text or "null"))
        except (KeyError, TypeError, ValueError):
            continue
