"""Gold tables: one row per group and hour (`group_hours`), and one row per group with its latest state (`groups`).

Hours are sums of parts (`fold/hours.py`): the parts that this run found, and the published rows of the same days. The
lag of an hour is known only where end offsets were read in that hour: `__consumer_offsets` does not contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kohort.fleet.schema import GROUP_HOURS, GROUPS, HOUR_MS, KEY, STATE_COMMITS
from kohort.fleet.silver import is_commit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SUMS = (
    "rebalances",
    "rebalances_failed",
    "rebalance_ms_total",
    "unowned_partition_seconds",
    "partitions_moved",
    "partitions_kept",
    "commits",
    "joined",
    "left",
    "evicted",
)
_AT_THE_END = ("kind", "strategy", "static_share", "members", "partitions")


def hours(parts: DataFrame, known: DataFrame, lags: DataFrame | None) -> DataFrame:
    """Return the hours of which there are parts in either frame, added up.

    `lags` has (source, group, hour_ms, lag), where any is known.
    """
    from pyspark.sql import functions as f

    def latest(name: str) -> Column:
        # Of two parts that end in the same instant the new one is later.
        return f.max_by(f.struct(name), f.struct("last_at_ms", "is_new"))[name].alias(name)

    sums = [f.sum(name).alias(name) for name in _SUMS]
    merged = (
        parts.select(*GROUP_HOURS.names, f.lit(True).alias("is_new"))
        .unionByName(known.select(*GROUP_HOURS.names, f.lit(False).alias("is_new")))
        .groupBy(*KEY, "hour_ms", "day", "bucket")
        .agg(
            *sums,
            *(latest(name) for name in _AT_THE_END),
            f.max_by("slowest_member", f.when(f.col("slowest_member").isNotNull(), f.col("rebalance_ms_max"))).alias(
                "slowest_member"
            ),
            f.max("rebalance_ms_max").alias("rebalance_ms_max"),
            f.coalesce(f.min("members_min"), f.lit(0)).alias("members_min"),
            f.coalesce(f.max("members_max"), f.lit(0)).alias("members_max"),
            f.array_sort(f.array_distinct(f.flatten(f.collect_list("protocols")))).alias("protocols"),
            f.array_sort(f.array_distinct(f.flatten(f.collect_list("embedded_versions")))).alias("embedded_versions"),
            f.max("last_at_ms").alias("last_at_ms"),
            f.max("lag").alias("lag" if lags is None else "known_lag"),
        )
    )
    if lags is not None:
        merged = merged.join(lags, [*KEY, "hour_ms"], "left").withColumn("lag", f.coalesce("lag", "known_lag"))
    given = f.col("partitions_kept") + f.col("partitions_moved")
    rows = (
        merged.withColumn("stickiness", f.when(given > 0, f.col("partitions_kept") / given))
        .withColumn("commit_rate", f.col("commits") / (HOUR_MS // 1000))
        .withColumn("unowned_partition_seconds", f.round("unowned_partition_seconds", 3))
    )
    return rows.select(*(f.col(name).cast(kind) for name, kind in GROUP_HOURS.types.items()))


def last_commits(records: DataFrame, known: DataFrame) -> DataFrame:
    """Return the last commit of each partition of each group: of new records, and of what was known."""
    from pyspark.sql import functions as f

    new = records.where(is_commit()).withColumns(
        {
            "committed_offset": f.when(~f.col("tombstone"), f.col("committed_offset")),
            "first_ms": f.col("at_ms"),
        }
    )
    partition = (*KEY, "topic", "topic_partition")
    last = f.struct(*(name for name in STATE_COMMITS.names if name not in (*partition, "first_ms")))
    return (
        new.select(*STATE_COMMITS.names)
        .unionByName(known)
        .groupBy(*partition)
        .agg(f.max_by(last, "offset").alias("last"), f.min("first_ms").alias("first_ms"))
        .select(*partition, "last.*", "first_ms")
        .select(*STATE_COMMITS.names)
    )


def ends_of_topics(spark: SparkSession, topics: Iterable[Mapping[str, Any]]) -> DataFrame | None:
    """Return the end offsets that were read last of each topic, of the rows of `topics`; None where there are none."""
    last: dict[tuple[str, str], tuple[int, list[int]]] = {}
    for row in topics:
        if row["end_offsets"] is not None:
            key = row["source"], row["topic"]
            last[key] = max(last.get(key, (-1, [])), (row["read_at_ms"], row["end_offsets"]))
    if not last:
        return None
    rows = [(*key, ends, read_at_ms) for key, (read_at_ms, ends) in last.items()]
    return spark.createDataFrame(rows, "source string, topic string, ends array<bigint>, read_at_ms bigint")


def lag_of_commits(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """Return the commits with their lag, null where no end offset is known, and when the end offset was read."""
    from pyspark.sql import functions as f

    commits = commits.where(f.col("committed_offset").isNotNull())
    if ends is None:
        return commits.withColumn("lag", f.lit(None).cast("bigint"))
    end = f.get("ends", f.col("topic_partition"))
    return (
        commits.join(f.broadcast(ends), ["source", "topic"], "left")
        .withColumn("lag", f.when(end >= 0, f.greatest(end - f.col("committed_offset"), f.lit(0))))
        .drop("ends")
    )


def lags_of_hours(lagged: DataFrame) -> DataFrame:
    """Return the lag of each group in the hour in which end offsets were read."""
    from pyspark.sql import functions as f

    hour = f.col("read_at_ms") - f.col("read_at_ms") % HOUR_MS
    known = lagged.where(f.col("lag").isNotNull())
    return known.groupBy(*KEY, hour.alias("hour_ms")).agg(f.sum("lag").alias("lag"))


def groups(states: DataFrame, lagged: DataFrame) -> DataFrame:
    """Return one row for each group: how it was folded last, and what it has committed."""
    from pyspark.sql import functions as f

    committed = lagged.groupBy(*KEY).agg(
        f.array_sort(f.collect_set("topic")).alias("committed_topics"),
        f.count("*").alias("committed_partitions"),
        f.sum("lag").alias("lag"),
        f.min("first_ms").alias("first_commit_ms"),
        f.max("at_ms").alias("last_commit_ms"),
        f.min(f.when(f.col("expire_at_ms") >= 0, f.col("expire_at_ms"))).alias("next_expiry_ms"),
    )
    rows = states.join(committed, KEY, "left").fillna(0, "committed_partitions")
    return rows.select(*(f.col(name).cast(kind) for name, kind in GROUPS.types.items()))
