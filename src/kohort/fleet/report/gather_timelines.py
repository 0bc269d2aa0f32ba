"""Who owned what in the worst hour of a group: intervals of ownership, cut to that hour and to what a page can show.

The worst hour is the one in which partitions were without an owner for longest, or else the one with most rebalances.
The partitions shown are those that changed hands most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kohort.fleet.report.model import HOUR_MS, GroupKey, Limits, Span, Timeline, TimelineRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = ["source", "group"]
_AWAY = ("emptied", "deleted", "expired")
_BACK = ("joined", "rejoined")


def timelines_of(
    ownership: DataFrame, events: DataFrame, hours: DataFrame, keys: Sequence[GroupKey], limits: Limits
) -> tuple[Timeline, ...]:
    """Return the timelines of the first of `keys` that owned anything in their worst hour."""
    if not keys:
        return ()
    worst = _worst_hours(hours, keys).persist()
    try:
        rows = _spans(ownership, worst, limits).collect()
        by_key: dict[GroupKey, list[Any]] = {}
        for row in rows:
            by_key.setdefault(GroupKey(row["source"], row["group"]), []).append(row)
        chosen = [key for key in keys if key in by_key][: limits.timelines]
        empty = _empty_times(events, worst, chosen)
    finally:
        worst.unpersist()
    return tuple(_timeline(key, by_key[key], empty.get(key, ()), limits) for key in chosen)


def _worst_hours(hours: DataFrame, keys: Sequence[GroupKey]) -> DataFrame:
    """Return (source, group, from_ms, until_ms) of each key's worst hour."""
    from pyspark.sql import functions as f

    chosen = hours.sparkSession.createDataFrame(list(keys), "source string, group string")
    badness = f.struct("unowned_partition_seconds", "rebalances", "hour_ms")
    found = (
        hours.join(f.broadcast(chosen), KEY, "left_semi")
        .groupBy(*KEY)
        .agg(f.max_by("hour_ms", badness).alias("from_ms"))
    )
    return found.withColumn("until_ms", f.col("from_ms") + HOUR_MS).withColumnsRenamed(
        {"from_ms": "hour_from_ms", "until_ms": "hour_until_ms"}
    )


def _spans(ownership: DataFrame, worst: DataFrame, limits: Limits) -> DataFrame:
    """Return the intervals of the worst hours, of the partitions that changed hands most, and how much is left out."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    inside = (
        ownership.join(f.broadcast(worst), KEY)
        .where(f.col("from_ms") < f.col("hour_until_ms"))
        .where(f.coalesce("until_ms", f.col("hour_until_ms")) > f.col("hour_from_ms"))
    )
    partition = [*KEY, "topic", "topic_partition"]
    changes = inside.groupBy(*partition).agg(f.count("*").alias("changes"))
    by_changes = Window.partitionBy(*KEY).orderBy(f.desc("changes"), "topic", "topic_partition")
    of_key = Window.partitionBy(*KEY)
    ranked = (
        changes.withColumn("partition_place", f.row_number().over(by_changes))
        .withColumn("partition_count", f.count("*").over(of_key))
        .where(f.col("partition_place") <= limits.timeline_partitions)
    )
    kept = inside.join(f.broadcast(ranked), partition)
    by_time = Window.partitionBy(*KEY).orderBy("from_ms", "topic", "topic_partition", "member")
    numbered = kept.withColumn("span_place", f.row_number().over(by_time)).withColumn(
        "span_count", f.count("*").over(of_key)
    )
    return numbered.where(f.col("span_place") <= limits.timeline_spans).orderBy(*KEY, "span_place")


def _empty_times(
    events: DataFrame, worst: DataFrame, keys: Sequence[GroupKey]
) -> dict[GroupKey, tuple[tuple[int, int], ...]]:
    """Return when groups had no members, as (from, until) inside of their worst hours."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if not keys:
        return {}
    told = (
        events.where(f.col("event").isin(*_AWAY, *_BACK))
        .join(f.broadcast(worst), KEY)
        .where(f.col("at_ms") < f.col("hour_until_ms"))
        .withColumn("away", f.col("event").isin(*_AWAY))
    )
    in_order = Window.partitionBy(*KEY).orderBy("offset", "at_ms", "away")
    turns = told.withColumn("before", f.lag("away").over(in_order)).where(
        f.col("before").isNull() | (f.col("before") != f.col("away"))
    )
    rows = turns.withColumn("next_ms", f.lead("at_ms").over(in_order)).where("away").collect()
    found: dict[GroupKey, list[tuple[int, int]]] = {}
    for row in rows:
        from_ms = max(row["at_ms"], row["hour_from_ms"])
        until_ms = min(row["hour_until_ms"] if row["next_ms"] is None else row["next_ms"], row["hour_until_ms"])
        if until_ms > from_ms:
            found.setdefault(GroupKey(row["source"], row["group"]), []).append((from_ms, until_ms))
    return {key: tuple(sorted(times)) for key, times in found.items()}


def _timeline(key: GroupKey, rows: list[Any], empty: tuple[tuple[int, int], ...], limits: Limits) -> Timeline:
    first = rows[0]
    from_ms, until_ms = first["hour_from_ms"], first["hour_until_ms"]
    spans: dict[tuple[str, int], list[Span]] = {}
    for row in rows:
        ended_ms = until_ms if row["until_ms"] is None else min(row["until_ms"], until_ms)
        span = Span(row["member"], max(row["from_ms"], from_ms), ended_ms)
        spans.setdefault((row["topic"], row["topic_partition"]), []).append(span)
    return Timeline(
        key=key,
        from_ms=from_ms,
        until_ms=until_ms,
        rows=tuple(TimelineRow(f"{topic}-{number}", tuple(spans[topic, number])) for topic, number in sorted(spans)),
        partitions_left_out=max(0, first["partition_count"] - limits.timeline_partitions),
        spans_left_out=first["span_count"] - len(rows),
        empty=empty,
    )
