"""Reads the fleet's tables with Spark and returns the values of a report, every list of them bounded.

Whatever grows with the fleet is aggregated, ordered and cut in Spark; only what a page shows comes to the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.fleet.report.gather_timelines import timelines_of
from kohort.fleet.report.model import (
    HOUR_MS,
    SEVERITIES,
    Columns,
    Evidence,
    Finding,
    FleetReport,
    GroupKey,
    HeatRow,
    Limits,
    Read,
    RuleFindings,
    columns_of,
    severity_rank,
)
from kohort.fleet.report.readiness import readiness_of
from kohort.fleet.report.standing import KEY, key_of, line_of, lines_of, severity_place, standing_of, totals_of
from kohort.fleet.schema import COUNTS, EVENTS, FINDINGS, GROUP_HOURS, GROUPS, OWNERSHIP, QUARANTINE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kohort.fleet.tables import Tables

DAY_MS = 24 * HOUR_MS
MOST_DAYS = 20_000
"""Days that are looked at for the report's time; a log with more of them has clocks that were wrong."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables that a report is made of, as `kohort.fleet.schema` describes them."""

    group_hours: DataFrame
    groups: DataFrame
    findings: DataFrame
    ownership: DataFrame
    events: DataFrame
    counts: DataFrame
    quarantine: DataFrame

    @classmethod
    def read(cls, spark: SparkSession, tables: Tables) -> Frames:
        """Return what is published."""
        named = (GROUP_HOURS, GROUPS, FINDINGS, OWNERSHIP, EVENTS, COUNTS, QUARANTINE)
        return cls(**{table.name: tables.frame(spark, table) for table in named})


def gather(frames: Frames, *, now_ms: int, limits: Limits | None = None) -> FleetReport:
    """Return the report of a fleet; `now_ms` is when it is made."""
    limits = limits or Limits()
    from_ms, until_ms, outside = _time_of(frames, now_ms, limits)
    columns = columns_of(from_ms, until_ms)
    from pyspark.sql import functions as f

    hours = frames.group_hours.where((f.col("hour_ms") >= from_ms) & (f.col("hour_ms") < until_ms))
    lines = lines_of(frames.groups, frames.findings, hours).persist()
    try:
        ranking = _keyed(lines.where("unowned_s > 0").orderBy(f.desc("unowned_s"), *KEY), limits.ranked_groups)
        busiest = _keyed(lines.where("rebalances > 0").orderBy(f.desc("rebalances"), *KEY), limits.heat_groups)
        listed = lines.orderBy("rank", f.desc("unowned_s"), f.desc("rebalances"), *KEY).limit(limits.groups).collect()
        standing = standing_of(lines)
        totals = totals_of(standing)
        active = [key_of(row) for row in listed[: limits.active_groups]]
        cells = _cells(hours, columns, [*active, *(key_of(row) for row in busiest)])
        drawn = list(dict.fromkeys([key_of(row) for row in [*ranking, *busiest]]))
        return FleetReport(
            made_at_ms=now_ms,
            columns=columns,
            totals=totals,
            rules=_rules(frames.findings, limits),
            fleet_rebalances=_fleet(hours, columns),
            heat=tuple(_heat_row(key_of(row), columns, cells) for row in busiest),
            heat_left_out=(
                standing.sum("with_rebalances") - len(busiest),
                totals.rebalances - sum(row["rebalances"] for row in busiest),
            ),
            ranking=tuple((key_of(row), row["unowned_s"]) for row in ranking),
            ranking_left_out=(
                standing.sum("with_unowned") - len(ranking),
                totals.unowned_s - sum(row["unowned_s"] for row in ranking),
            ),
            timelines=timelines_of(frames.ownership, frames.events, hours, drawn, limits),
            readiness=readiness_of(standing, frames.findings, limits),
            groups=tuple(line_of(row, cells) for row in listed),
            read=_read(frames, lines, outside),
            limits=limits,
        )
    finally:
        lines.unpersist()


def _keyed(frame: DataFrame, most: int) -> list[Any]:
    return list(frame.select(*KEY, "rebalances", "unowned_s").limit(most).collect())


# -- the time of the report


def _time_of(frames: Frames, now_ms: int, limits: Limits) -> tuple[int, int, int]:
    """Return from when to when the report goes, and how many hours of groups lie outside."""
    from pyspark.sql import functions as f

    day = f.floor(f.col("hour_ms") / DAY_MS).cast("bigint").alias("day_number")
    counted = frames.group_hours.groupBy(day).agg(f.count("*").alias("hours"), f.min("hour_ms"), f.max("hour_ms"))
    days = {row[0]: row for row in counted.orderBy(f.desc("hours")).limit(MOST_DAYS).collect()}
    if not days:
        return now_ms - now_ms % HOUR_MS - HOUR_MS, now_ms - now_ms % HOUR_MS, 0
    first, last = best_window({number: row["hours"] for number, row in days.items()}, limits.window_hours // 24)
    inside = [row for number, row in days.items() if first <= number <= last]
    outside = sum(row["hours"] for number, row in days.items() if not first <= number <= last)
    return min(row[2] for row in inside), max(row[3] for row in inside) + HOUR_MS, outside


def best_window(days: Mapping[int, int], most: int) -> tuple[int, int]:
    """Return the first and last day of at most `most` days in a row that hold most; the latest of equals."""
    numbers = sorted(days)
    best, chosen, held, start = -1, (numbers[0], numbers[0]), 0, 0
    for place, number in enumerate(numbers):
        held += days[number]
        while number - numbers[start] >= most:
            held -= days[numbers[start]]
            start += 1
        if held >= best:
            best, chosen = held, (numbers[start], numbers[place])
    return chosen


# -- over time


def _column(columns: Columns) -> Column:
    from pyspark.sql import functions as f

    return f.floor((f.col("hour_ms") - columns.from_ms) / columns.step_ms).cast("int").alias("column")


def _fleet(hours: DataFrame, columns: Columns) -> tuple[int, ...]:
    from pyspark.sql import functions as f

    rows = hours.groupBy(_column(columns)).agg(f.sum("rebalances").alias("rebalances")).collect()
    counts = {row["column"]: row["rebalances"] for row in rows}
    return tuple(counts.get(place) or 0 for place in range(columns.count))


def _cells(hours: DataFrame, columns: Columns, keys: Iterable[GroupKey]) -> dict[GroupKey, dict[int, int]]:
    """Return the rebalances of some groups by column."""
    from pyspark.sql import functions as f

    wanted = list(dict.fromkeys(keys))
    if not wanted:
        return {}
    chosen = hours.sparkSession.createDataFrame(wanted, "source string, group string")
    rebalanced = hours.where("rebalances > 0").join(f.broadcast(chosen), KEY, "left_semi")
    rows = rebalanced.groupBy(*KEY, _column(columns)).agg(f.sum("rebalances").alias("rebalances")).collect()
    cells: dict[GroupKey, dict[int, int]] = {}
    for row in rows:
        cells.setdefault(key_of(row), {})[row["column"]] = row["rebalances"]
    return cells


def _heat_row(key: GroupKey, columns: Columns, cells: Mapping[GroupKey, Mapping[int, int]]) -> HeatRow:
    mine = cells.get(key, {})
    return HeatRow(key, tuple(mine.get(place, 0) for place in range(columns.count)))


# -- findings


def _rules(findings: DataFrame, limits: Limits) -> tuple[RuleFindings, ...]:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    severities = [f.count_if(f.col("severity") == name).alias(name) for name in SEVERITIES]
    groups = f.count_distinct(f.struct(*KEY)).alias("groups")
    counted = {row["finding"]: row for row in findings.groupBy("finding").agg(groups, *severities).collect()}
    order = [f.col("rank"), f.col("value").desc_nulls_last(), *map(f.col, KEY), f.col("from_ms")]
    numbered = findings.withColumn("rank", severity_place()).withColumn(
        "place", f.row_number().over(Window.partitionBy("finding").orderBy(*order))
    )
    worst = numbered.where(f.col("place") <= limits.findings_of_a_rule).withColumn("records", f.size("evidence"))
    shown: dict[str, list[Finding]] = {}
    for row in (
        worst.withColumn("evidence", f.slice("evidence", 1, limits.evidence)).orderBy("finding", "place").collect()
    ):
        shown.setdefault(row["finding"], []).append(_finding(row))
    rules = []
    for rule in shown:
        by_severity = tuple((name, counted[rule][name]) for name in SEVERITIES if counted[rule][name])
        rules.append(RuleFindings(rule, by_severity, counted[rule]["groups"], tuple(shown[rule])))
    rules.sort(key=lambda rule: (severity_rank(rule.severity), -rule.groups, rule.rule))
    return tuple(rules)


def _finding(row: Any) -> Finding:
    evidence = tuple(
        Evidence(each["partition"], each["offset"], each["at_ms"], each["what"] or "") for each in row["evidence"] or ()
    )
    return Finding(
        key=key_of(row),
        rule=row["finding"],
        severity=row["severity"],
        sentence=row["sentence"] or "",
        advice=row["advice"] or "",
        from_ms=row["from_ms"],
        until_ms=row["until_ms"],
        value=row["value"],
        evidence=evidence,
        evidence_left_out=max(0, (row["records"] or 0) - len(evidence)),
    )


# -- what was read


def _read(frames: Frames, lines: DataFrame, hours_outside: int) -> Read:
    from pyspark.sql import functions as f

    kinds = frames.counts.groupBy("kind").agg(
        f.sum("records").alias("records"), f.sum("tombstones").alias("tombstones")
    )
    rows = kinds.orderBy(f.desc("records"), "kind").limit(64).collect()
    both = frames.counts.select("source").union(lines.select("source"))
    sources = both.distinct().orderBy("source").limit(50).collect()
    reasons = frames.quarantine.groupBy("reason").count().orderBy(f.desc("count"), "reason").limit(12).collect()
    return Read(
        sources=tuple(row["source"] for row in sources),
        records=sum(row["records"] for row in rows),
        tombstones=sum(row["tombstones"] for row in rows),
        kinds=tuple((row["kind"], row["records"]) for row in rows),
        quarantined=tuple((row["reason"] or "", row["count"]) for row in reasons),
        hours_outside=hours_outside,
    )
