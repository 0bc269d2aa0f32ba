"""Spark queries for the timelines of a report: ownership intervals in the worst hour of a group.

The worst hour is the one with most unowned partition time, or else most rebalances. The partitions shown are those that
changed owners most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kohort.fleet.report.fleet_report import GroupKey, Limits, Span, Timeline, TimelineRow, key_of
from kohort.fleet.schema import HOUR_MS, KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
            by_key.setdefault(key_of(row), []).append(row)
        chosen = [key for key in keys if key in by_key][: limits.timelines]
        empty = _empty_times(events, worst, chosen)
    finally:
        worst.unpersist()
    return tuple(_timeline(key, by_key[key], empty.get(key, ()), limits) for key in chosen)


def _worst_hours(hours: DataFrame, keys: Sequence[GroupKey]) -> DataFrame:
    """Return each key's worst hour, and how many partitions the group had to own at its end."""
    from pyspark.sql import functions as f

    chosen = hours.sparkSession.createDataFrame(list(keys), "source string, group string")
    badness = f.struct("unowned_partition_seconds", "rebalances", "hour_ms")
    worst = f.max_by(f.struct("hour_ms", "partitions"), badness).alias("worst")
    found = hours.join(f.broadcast(chosen), KEY, "left_semi").groupBy(*KEY).agg(worst)
    return found.select(
        *KEY,
        f.col("worst.hour_ms").alias("hour_from_ms"),
        (f.col("worst.hour_ms") + HOUR_MS).alias("hour_until_ms"),
        f.coalesce("worst.partitions", f.lit(0)).alias("to_own"),
    )


def _spans(ownership: DataFrame, worst: DataFrame, limits: Limits) -> DataFrame:
    """Return the intervals of the worst hours, of the partitions with most of them, and how much is left out.

    A partition without an owner in that whole hour has one row without a member. Such partitions are chosen by the
    nearest interval outside of the hour, as many as the group had to own and did not.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    until = f.coalesce("until_ms", "hour_until_ms")
    inside = (f.col("from_ms") < f.col("hour_until_ms")) & (until > f.col("hour_from_ms"))
    near = ownership.join(f.broadcast(worst), KEY).withColumn("is_inside", inside)
    distance = f.greatest(f.col("from_ms") - f.col("hour_until_ms"), f.col("hour_from_ms") - until)
    partitions = near.groupBy(*KEY, "topic", "topic_partition", "hour_from_ms", "hour_until_ms", "to_own").agg(
        f.count_if("is_inside").alias("changes"), f.min(distance).alias("distance")
    )
    of_key = Window.partitionBy(*KEY)
    place = f.struct(f.col("changes") > 0, "distance", "topic", "topic_partition")
    missing = f.col("to_own") - f.count_if(f.col("changes") > 0).over(of_key)
    wanted = partitions.withColumn("place", f.row_number().over(of_key.orderBy(place))).withColumn("missing", missing)
    drawn = wanted.where((f.col("changes") > 0) | (f.col("place") <= f.col("missing")))
    order = of_key.orderBy(f.col("changes") > 0, f.desc("changes"), "topic", "topic_partition")
    ranked = (
        drawn.withColumn("partition_place", f.row_number().over(order))
        .withColumn("partition_count", f.count("*").over(of_key))
        .where(f.col("partition_place") <= limits.timeline_partitions)
    )
    partition = [*KEY, "topic", "topic_partition"]
    spans = near.where("is_inside").select(*partition, "member", "client_id", "from_ms", "until_ms")
    kept = f.broadcast(ranked).join(spans, partition, "left").withColumn("span_count", f.count("*").over(of_key))
    in_time = of_key.orderBy("from_ms", "topic", "topic_partition", "member")
    counted = kept.withColumn("span_place", f.row_number().over(in_time))
    return counted.where(f.col("span_place") <= limits.timeline_spans).orderBy(*KEY, "span_place")


def _empty_times(
    events: DataFrame, worst: DataFrame, keys: Sequence[GroupKey]
) -> dict[GroupKey, tuple[tuple[int, int], ...]]:
    """Return the times without members, as (from, until) within the groups' worst hours."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if not keys:
        return {}
    changes = (
        events.where(f.col("event").isin(*_AWAY, *_BACK))
        .join(f.broadcast(worst), KEY)
        .where(f.col("at_ms") < f.col("hour_until_ms"))
        .withColumn("away", f.col("event").isin(*_AWAY))
    )
    in_order = Window.partitionBy(*KEY).orderBy("offset", "at_ms", "away")
    turns = changes.withColumn("before", f.lag("away").over(in_order)).where(
        f.col("before").isNull() | (f.col("before") != f.col("away"))
    )
    until = f.coalesce("next_ms", "hour_until_ms")
    away = turns.withColumn("next_ms", f.lead("at_ms").over(in_order)).where("away")
    rows = away.where(until > f.col("hour_from_ms")).collect()
    found: dict[GroupKey, list[tuple[int, int]]] = {}
    for row in rows:
        from_ms = max(row["at_ms"], row["hour_from_ms"])
        until_ms = min(row["hour_until_ms"] if row["next_ms"] is None else row["next_ms"], row["hour_until_ms"])
        if until_ms > from_ms:
            found.setdefault(key_of(row), []).append((from_ms, until_ms))
    return {key: tuple(sorted(times)) for key, times in found.items()}


def _timeline(key: GroupKey, rows: list[Any], empty: tuple[tuple[int, int], ...], limits: Limits) -> Timeline:
    first = rows[0]
    from_ms, until_ms = first["hour_from_ms"], first["hour_until_ms"]
    spans: dict[tuple[str, int], list[Span]] = {}
    for row in rows:
        mine = spans.setdefault((row["topic"], row["topic_partition"]), [])
        if row["from_ms"] is not None:
            ended_ms = until_ms if row["until_ms"] is None else min(row["until_ms"], until_ms)
            mine.append(Span(_called(row), max(row["from_ms"], from_ms), ended_ms))
    return Timeline(
        key=key,
        from_ms=from_ms,
        until_ms=until_ms,
        rows=tuple(TimelineRow(f"{topic}-{number}", tuple(spans[topic, number])) for topic, number in sorted(spans)),
        partitions_left_out=max(0, first["partition_count"] - limits.timeline_partitions),
        spans_left_out=first["span_count"] - len(rows),
        empty=empty,
    )


def _called(row: Any) -> str:
    """Return a member's display name: its id, with its client id where the member id does not begin with it."""
    member, client = row["member"] or "", row["client_id"] or ""
    return member if member.startswith(client) else f"{client} {member}"
