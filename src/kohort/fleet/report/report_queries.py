"""Spark queries that gather the values of a report from the fleet's tables.

Everything that grows with the fleet is aggregated, ordered and limited in Spark; only what a page shows is collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.fleet.report.fleet_report import (
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
from kohort.fleet.report.group_queries import (
    KEY,
    key_of,
    line_of,
    lines_of,
    readiness_of,
    severity_place,
    sums_of,
    totals_of,
)
from kohort.fleet.report.timeline_queries import timelines_of
from kohort.fleet.schema import COUNTS, EVENTS, FINDINGS, GROUP_HOURS, GROUPS, OWNERSHIP, QUARANTINE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kohort.fleet.tables import Tables

DAY_MS = 24 * HOUR_MS
MOST_COUNTS = 10_000
MOST_DAYS = 20_000
"""Most days considered for the report's time; a log with more of them had wrong clocks."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables that a report reads."""

    group_hours: DataFrame
    groups: DataFrame
    findings: DataFrame
    ownership: DataFrame
    events: DataFrame
    counts: DataFrame
    quarantine: DataFrame

    @classmethod
    def read(cls, spark: SparkSession, tables: Tables) -> Frames:
        """Return the published tables."""
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
        sums = sums_of(lines)
        totals = totals_of(sums)
        shown = _shown(lines, limits)
        listed = [row for row in shown if row["by_worst"] <= limits.groups]
        ranking = _first(shown, "by_unowned", "unowned_s", limits.ranked_groups)
        busiest = _first(shown, "by_rebalances", "rebalances", limits.heat_groups)
        active = [key_of(row) for row in listed[: limits.active_groups]]
        fleet, cells = _cells(hours, columns, [*active, *(key_of(row) for row in busiest)])
        rules, further = _rules(frames.findings, active, limits)
        drawn = list(dict.fromkeys([key_of(row) for row in [*ranking, *busiest]]))
        return FleetReport(
            made_at_ms=now_ms,
            columns=columns,
            totals=totals,
            rules=rules,
            further=further,
            fleet_rebalances=fleet,
            heat=tuple(_heat_row(key_of(row), columns, cells) for row in busiest),
            heat_left_out=(
                sums.sum("with_rebalances") - len(busiest),
                totals.rebalances - sum(row["rebalances"] for row in busiest),
            ),
            ranking=tuple((key_of(row), row["unowned_s"]) for row in ranking),
            ranking_left_out=(
                sums.sum("with_unowned") - len(ranking),
                totals.unowned_s - sum(row["unowned_s"] for row in ranking),
            ),
            timelines=timelines_of(frames.ownership, frames.events, hours, drawn, limits),
            readiness=readiness_of(sums, frames.findings, limits),
            groups=tuple(line_of(row, cells) for row in listed),
            read=_read(frames, outside),
            limits=limits,
        )
    finally:
        lines.unpersist()


def _shown(lines: DataFrame, limits: Limits) -> list[Any]:
    """Return the groups that any list shows, the worst first, each with its place in every order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    worst = ["rank", f.desc("unowned_s"), f.desc("rebalances"), *KEY]
    placed = (
        lines.withColumn("by_worst", f.row_number().over(Window.orderBy(*worst)))
        .withColumn("by_unowned", f.row_number().over(Window.orderBy(f.desc("unowned_s"), *KEY)))
        .withColumn("by_rebalances", f.row_number().over(Window.orderBy(f.desc("rebalances"), *KEY)))
    )
    is_listed = f.col("by_worst") <= limits.groups
    is_ranked = f.col("by_unowned") <= limits.ranked_groups
    is_busy = f.col("by_rebalances") <= limits.heat_groups
    return sorted(placed.where(is_listed | is_ranked | is_busy).collect(), key=lambda row: row["by_worst"])


def _first(rows: list[Any], order: str, figure: str, most: int) -> list[Any]:
    """Return the first rows of an order, without those whose figure is zero."""
    return sorted((row for row in rows if row[order] <= most and row[figure] > 0), key=lambda row: row[order])


# -- the time of the report


def _time_of(frames: Frames, now_ms: int, limits: Limits) -> tuple[int, int, int]:
    """Return the start and end of the report's time, and how many hours of groups lie outside."""
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
    best, chosen, hours, start = -1, (numbers[0], numbers[0]), 0, 0
    for place, number in enumerate(numbers):
        hours += days[number]
        while number - numbers[start] >= most:
            hours -= days[numbers[start]]
            start += 1
        if hours >= best:
            best, chosen = hours, (numbers[start], numbers[place])
    return chosen


# -- over time


def _column(columns: Columns) -> Column:
    from pyspark.sql import functions as f

    return f.floor((f.col("hour_ms") - columns.from_ms) / columns.step_ms).cast("int").alias("column")


def _cells(
    hours: DataFrame, columns: Columns, keys: Iterable[GroupKey]
) -> tuple[tuple[int, ...], dict[GroupKey, dict[int, int]]]:
    """Return the rebalances by column: of the whole fleet, and of some groups."""
    from pyspark.sql import functions as f

    wanted = [(*key, True) for key in dict.fromkeys(keys)]
    chosen = hours.sparkSession.createDataFrame(wanted, "source string, group string, is_shown boolean")
    rebalanced = hours.where("rebalances > 0").join(f.broadcast(chosen), KEY, "left")
    of = [f.when(f.col("is_shown"), f.col(name)).alias(name) for name in KEY]
    rows = rebalanced.groupBy(*of, _column(columns)).agg(f.sum("rebalances").alias("rebalances")).collect()
    fleet = [0] * columns.count
    cells: dict[GroupKey, dict[int, int]] = {}
    for row in rows:
        fleet[row["column"]] += row["rebalances"]
        if row["source"] is not None:
            cells.setdefault(key_of(row), {})[row["column"]] = row["rebalances"]
    return tuple(fleet), cells


def _heat_row(key: GroupKey, columns: Columns, cells: Mapping[GroupKey, Mapping[int, int]]) -> HeatRow:
    mine = cells.get(key, {})
    return HeatRow(key, tuple(mine.get(place, 0) for place in range(columns.count)))


# -- findings


def _rules(
    findings: DataFrame, active: Iterable[GroupKey], limits: Limits
) -> tuple[tuple[RuleFindings, ...], tuple[Finding, ...]]:
    """Return the findings of each rule, and further findings of the worst groups."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    severities = [f.count_if(f.col("severity") == name).alias(name) for name in SEVERITIES]
    groups = f.count_distinct(f.struct(*KEY)).alias("groups")
    counted = {row["finding"]: row for row in findings.groupBy("finding").agg(groups, *severities).collect()}
    keys = findings.sparkSession.createDataFrame(
        [(*key, True) for key in active], "source string, group string, is_active boolean"
    )
    order = [f.col("rank"), f.col("value").desc_nulls_last(), *map(f.col, KEY), f.col("from_ms"), f.col("finding")]
    placed = (
        findings.withColumn("rank", severity_place())
        .withColumn("place", f.row_number().over(Window.partitionBy("finding").orderBy(*order)))
        .withColumn("place_in_group", f.row_number().over(Window.partitionBy(*KEY).orderBy(*order)))
        .join(f.broadcast(keys), KEY, "left")
    )
    is_worst = f.col("place") <= limits.findings_of_a_rule
    is_of_active = f.col("is_active") & (f.col("place_in_group") <= limits.findings_of_a_group)
    rows = (
        placed.where(is_worst | is_of_active)
        .withColumn("records", f.size("evidence"))
        .withColumn("evidence", f.when(is_worst, f.slice("evidence", 1, limits.evidence)))
        .orderBy("finding", "place")
        .collect()
    )
    shown: dict[str, list[Finding]] = {}
    further: list[Finding] = []
    for row in rows:
        is_shown = row["place"] <= limits.findings_of_a_rule
        (shown.setdefault(row["finding"], []) if is_shown else further).append(_finding(row))
    rules = []
    for rule, worst in shown.items():
        by_severity = tuple((name, counted[rule][name]) for name in SEVERITIES if counted[rule][name])
        rules.append(RuleFindings(rule, by_severity, counted[rule]["groups"], tuple(worst)))
    rules.sort(key=lambda rule: (severity_rank(rule.severity), -rule.groups, rule.rule))
    return tuple(rules), tuple(further)


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


def _read(frames: Frames, hours_outside: int) -> Read:
    from pyspark.sql import functions as f

    summed = [f.sum(name).alias(name) for name in ("records", "tombstones")]
    rows = frames.counts.groupBy("source", "kind").agg(*summed).limit(MOST_COUNTS).collect()
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["records"]
    reasons = frames.quarantine.groupBy("reason").count().orderBy(f.desc("count"), "reason").limit(12).collect()
    return Read(
        sources=tuple(sorted({row["source"] for row in rows})),
        records=sum(row["records"] for row in rows),
        tombstones=sum(row["tombstones"] for row in rows),
        kinds=tuple(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
        quarantined=tuple((row["reason"] or "", row["count"]) for row in reasons),
        hours_outside=hours_outside,
    )
