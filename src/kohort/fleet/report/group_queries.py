"""Spark queries over groups for a report: one row per group with its hours added up, totals, readiness to migrate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.fleet.report.fleet_report import (
    NOT_READY,
    READY,
    SEVERITIES,
    GroupKey,
    GroupLine,
    Limits,
    Readiness,
    Reason,
    Totals,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY = ["source", "group"]


def key_of(row: Any) -> GroupKey:
    """Return the group of a row."""
    return GroupKey(row["source"], row["group"])


def severity_place() -> Column:
    """Return the rank of a finding's severity, as `severity_rank` does."""
    from pyspark.sql import functions as f

    ranked = f.lit(len(SEVERITIES))
    for rank, name in enumerate(SEVERITIES):
        ranked = f.when(f.col("severity") == name, f.lit(rank)).otherwise(ranked)
    return ranked


def lines_of(groups: DataFrame, findings: DataFrame, hours: DataFrame) -> DataFrame:
    """Return a row for each group: its row of gold, its hours added up, and its worst finding."""
    from pyspark.sql import functions as f

    summed = hours.groupBy(*KEY).agg(
        f.sum("rebalances").alias("rebalances"),
        f.sum("rebalances_failed").alias("failed"),
        f.max("rebalance_ms_max").alias("longest_ms"),
        f.sum("unowned_partition_seconds").alias("unowned_s"),
        f.sum("partitions_moved").alias("moved"),
        f.sum("commits").alias("commits"),
        f.max_by("static_share", "hour_ms").alias("static_share"),
    )
    can_wait = f.col("finding").isin(READY, NOT_READY)
    found = findings.groupBy(*KEY).agg(
        f.min(f.when(can_wait, SEVERITIES.index("info")).otherwise(severity_place())).alias("rank"),
        f.count("*").alias("findings"),
        f.max(f.col("finding") == READY).alias("is_ready"),
        f.max(f.col("finding") == NOT_READY).alias("is_not_ready"),
    )
    kept = groups.drop("rebalances")
    joined = kept.join(summed, KEY, "left").join(found, KEY, "left")
    absent = {"failed": 0, "longest_ms": 0, "rebalances": 0, "moved": 0, "commits": 0, "unowned_s": 0.0, "findings": 0}
    return joined.fillna({**absent, "rank": len(SEVERITIES), "members": 0, "partitions": 0, "kind": "", "state": ""})


def line_of(row: Any, cells: Mapping[GroupKey, Mapping[int, int]]) -> GroupLine:
    """Return one row of `lines_of` as a value."""
    key = key_of(row)
    return GroupLine(
        key=key,
        kind=row["kind"],
        state=row["state"],
        members=row["members"],
        partitions=row["partitions"],
        topics=tuple(row["topics"] or row["committed_topics"] or ()),
        assignor=row["strategy"],
        protocols=tuple(row["supported_protocols"] or ()),
        rebalances=row["rebalances"],
        rebalances_failed=row["failed"],
        rebalance_ms_max=row["longest_ms"],
        unowned_s=row["unowned_s"],
        moved=row["moved"],
        commits=row["commits"],
        lag=row["lag"],
        static_share=row["static_share"],
        first_seen_ms=row["first_seen_ms"],
        last_seen_ms=row["last_seen_ms"],
        last_commit_ms=row["last_commit_ms"],
        severity=SEVERITIES[row["rank"]] if row["rank"] < len(SEVERITIES) else None,
        findings=row["findings"],
        activity=tuple(sorted(cells.get(key, {}).items())),
    )


@dataclass(frozen=True, slots=True)
class FleetSums:
    """The fleet in a few rows: groups counted by type, state, worst finding and readiness, with sums."""

    rows: tuple[Mapping[str, Any], ...]

    def sum(self, name: str) -> Any:
        """Return a sum over all groups; of nothing it is 0."""
        return sum(row[name] for row in self.rows if row[name] is not None)

    def counted(self, name: str) -> tuple[tuple[Any, int], ...]:
        """Return how many groups have which value, the most first."""
        counts: dict[Any, int] = {}
        for row in self.rows:
            counts[row[name]] = counts.get(row[name], 0) + row["groups"]
        return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def sums_of(lines: DataFrame) -> FleetSums:
    """Add up the rows of `lines_of`."""
    from pyspark.sql import functions as f

    names = ("members", "partitions", "rebalances", "failed", "unowned_s", "commits", "lag")
    grouped = lines.groupBy("kind", "state", "rank", "is_ready", "is_not_ready").agg(
        f.count("*").alias("groups"),
        f.count_if(f.col("rebalances") > 0).alias("with_rebalances"),
        f.count_if(f.col("unowned_s") > 0).alias("with_unowned"),
        *(f.sum(name).alias(name) for name in names),
    )
    return FleetSums(tuple(row.asDict() for row in grouped.collect()))


def totals_of(sums: FleetSums) -> Totals:
    """Return the fleet in numbers."""
    ranks = dict(sums.counted("rank"))
    has_lag = any(row["lag"] is not None for row in sums.rows)
    return Totals(
        groups=sums.sum("groups"),
        members=sums.sum("members"),
        partitions=sums.sum("partitions"),
        kinds=sums.counted("kind"),
        states=sums.counted("state"),
        rebalances=sums.sum("rebalances"),
        rebalances_failed=sums.sum("failed"),
        unowned_s=sums.sum("unowned_s"),
        commits=sums.sum("commits"),
        lag=sums.sum("lag") if has_lag else None,
        severities=tuple((name, ranks.get(rank, 0)) for rank, name in enumerate(SEVERITIES)),
    )


MOST_REASONS = 1_000
"""Most reasons that are counted."""


def readiness_of(sums: FleetSums, findings: DataFrame, limits: Limits) -> Readiness:
    """Return how many groups have moved, could, and could not, and why not."""
    alive = [row for row in sums.rows if row["state"] not in ("Dead", "Simple")]
    classic = [row for row in alive if row["kind"] == "classic"]
    not_ready = sum(row["groups"] for row in classic if row["is_not_ready"])
    ready = sum(row["groups"] for row in classic if row["is_ready"] and not row["is_not_ready"])
    total = sum(row["groups"] for row in classic)
    reasons, left = _reasons(findings.where(f"finding = '{NOT_READY}'"), limits)
    return Readiness(
        moved=sum(row["groups"] for row in alive) - total,
        ready=ready,
        not_ready=not_ready,
        unknown=total - ready - not_ready,
        reasons=reasons,
        reasons_left_out=left,
    )


def _reasons(findings: DataFrame, limits: Limits) -> tuple[tuple[Reason, ...], int]:
    from pyspark.sql import functions as f

    why = f.when(f.length("advice") > 0, f.col("advice")).otherwise(f.col("sentence")).alias("advice")
    keys = f.slice(f.array_sort(f.collect_set(f.struct(*KEY))), 1, limits.reason_groups).alias("keys")
    example = f.min_by("sentence", f.struct(*KEY)).alias("example")
    counted = findings.select(*KEY, "sentence", why).groupBy("advice").agg(f.count("*").alias("groups"), example, keys)
    rows = counted.orderBy(f.desc("groups"), "advice").limit(MOST_REASONS).collect()
    reasons = tuple(
        Reason(row["advice"] or "", row["example"] or "", row["groups"], tuple(GroupKey(*key) for key in row["keys"]))
        for row in rows[: limits.reasons]
    )
    return reasons, max(0, len(rows) - len(reasons))
