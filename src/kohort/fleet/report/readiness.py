"""How far the fleet is from leaving the classic protocol, counted from gold and from what two rules found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.fleet.report.fleet_report import NOT_READY, GroupKey, Limits, Readiness, Reason
from kohort.fleet.report.group_queries import KEY, Standing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MOST_REASONS = 1_000
"""Reasons that are counted; a rule that gives more of them gives one for each group."""


def readiness_of(standing: Standing, findings: DataFrame, limits: Limits) -> Readiness:
    """Return how many groups have moved, could, and could not, and why not."""
    alive = [row for row in standing.rows if row["state"] not in ("Dead", "Simple")]
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
