"""Progress of a job in its group: what Spark's metrics of a query do not have for sources written in Python."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.spark.membership.control_socket import request_lags

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from kohort.client.membership.membership import Membership


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
    reader: str = ""
    """The name of the control socket of a query's source."""

    def __str__(self) -> str:
        return (
            f"group {self.group}: generation {self.generation}, {self.partitions} partitions, lag {self.lag} (longest"
            f" {self.longest_lag}), {self.rebalances} rebalances, {self.read_again} offsets read again"
        )

    @classmethod
    def of(
        cls, group: str, member: Membership, partitions: int, lags: Collection[int], read_again: int
    ) -> GroupProgress:
        """Return the place of a member whose partitions are so many offsets behind."""
        return cls(
            *(group, member.member_id, member.generation, partitions, sum(lags), max(lags, default=0)),
            *(member.rebalances, read_again),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what the offset of a source shows, under the names of the metrics of Spark's own source."""
        return {shown: getattr(self, name) for name, shown in _SHOWN.items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> GroupProgress:
        """Return what `to_json` wrote beside `group` and `generation`. Raises KeyError for anything else."""
        shown = {name: found[shown] for name, shown in _SHOWN.items()}
        return cls(group=found["group"], generation=found["generation"], reader=found.get("reader", ""), **shown)


_SHOWN = {
    "member_id": "memberId",
    "partitions": "partitions",
    "lag": "offsetsBehindLatest",
    "longest_lag": "maxOffsetsBehindLatest",
    "rebalances": "rebalances",
    "read_again": "offsetsReadAgain",
}


def progress(query: StreamingQuery) -> tuple[GroupProgress, ...]:
    """Return the progress of each source `kohort` of a query, as of its last trigger; nothing before the first."""
    last = query.lastProgress
    return () if last is None else tuple(group_progress(source.latestOffset for source in last.sources))


def read_lag(query: StreamingQuery) -> dict[TopicPartition, Lag]:
    """Have the sources `kohort` of a query read how far its group is behind in each partition that they own.

    In records and in seconds, from what is committed, as `GroupStream.read_lag`: the batch that is being written is
    behind. Nothing before the first trigger and after the end. Raises KafkaError, also where the driver of the query
    is on another host.
    """
    if not query.isActive:
        return {}
    return {each: lag for source in progress(query) for each, lag in request_lags(source.reader).items()}


def group_progress(latest_offsets: Iterable[str | None]) -> Iterator[GroupProgress]:
    """Return the progress in latest offsets of a query's sources; those of other sources are left out."""
    for text in latest_offsets:
        try:
            yield GroupProgress.from_json(json.loads(text or "null"))
        except (KeyError, TypeError, ValueError):
            continue
