"""Spark queries that gather the values of a report from the fleet's tables.

Everything that grows with the fleet is aggregated, ordered and limited in Spark; only what a page shows is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from kohort.fleet.report.fleet_report import (
    NOT_READY,
    READY,
    SEVERITIES,
    Columns,
    Finding,
    FleetReport,
    GroupKey,
    GroupLine,
    HeatRow,
    Limits,
    Read,
    Readiness,
    Reason,
    RuleFindings,
    Totals,
    columns_of,
    key_of,
    severity_rank,
)
from kohort.fleet.report.timeline_queries import timelines_of
from kohort.fleet.schema import (
    COUNTS,
    DAY_MS,
    EVENTS,
    FINDINGS,
    GROUP_HOURS,
    GROUPS,
    HOUR_MS,
    KEY,
    OWNERSHIP,
    QUARANTINE,
    Evidence,
    Table,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ReadTable = Callable[[Table], "DataFrame"]
"""Returns a table of the fleet."""

MOST_COUNTS = 10_000
MOST_DAYS = 20_000
"""Most days considered for the report's time; a log with more of them had wrong clocks."""


def gather(read: ReadTable, *, now_ms: int, limits: Limits | None = None) -> FleetReport:
    """Return the report of a fleet; `now_ms` is when it is made."""
    from pyspark.sql import functions as f

    limits = limits or Limits()
    every_hour, findings = read(GROUP_HOURS), read(FINDINGS)
    from_ms, until_ms, outside = _time_of(every_hour, now_ms, limits)
    columns = columns_of(from_ms, until_ms)
    hours = every_hour.where((f.col("hour_ms") >= from_ms) & (f.col("hour_ms") < until_ms))
    lines = lines_of(read(GROUPS), findings, hours).persist()
    try:
        sums = sums_of(lines)
        totals = totals_of(sums)
        shown = _shown(lines, limits)
        listed = [row for row in shown if row["by_worst"] <= limits.groups]
        ranking = _first(shown, "by_unowned", "unowned_s", limits.ranked_groups)
        busiest = _first(shown, "by_rebalances", "rebalances", limits.heat_groups)
        active = [key_of(row) for row in listed[: limits.active_groups]]
        fleet, cells = _cells(hours, columns, [*active, *map(key_of, busiest)])
        rules, further = _rules(findings, active, limits)
        drawn = list(dict.fromkeys(map(key_of, [*ranking, *busiest])))
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
            timelines=timelines_of(read(OWNERSHIP), read(EVENTS), hours, drawn, limits),
            readiness=readiness_of(sums, findings, limits),
            groups=tuple(line_of(row, cells) for row in listed),
            read=_read(read(COUNTS), read(QUARANTINE), outside),
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


def _time_of(every_hour: DataFrame, now_ms: int, limits: Limits) -> tuple[int, int, int]:
    """Return the start and end of the report's time, and how many hours of groups lie outside."""
    from pyspark.sql import functions as f

    day = f.floor(f.col("hour_ms") / DAY_MS).cast("bigint").alias("day_number")
    counted = every_hour.groupBy(day).agg(f.count("*").alias("hours"), f.min("hour_ms"), f.max("hour_ms"))
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

    rebalanced = _marked(hours.where("rebalances > 0"), keys)
    of = [f.when(f.col("is_marked"), f.col(name)).alias(name) for name in KEY]
    rows = rebalanced.groupBy(*of, _column(columns)).agg(f.sum("rebalances").alias("rebalances")).collect()
    fleet = [0] * columns.count
    cells: dict[GroupKey, dict[int, int]] = {}
    for row in rows:
        fleet[row["column"]] += row["rebalances"]
        if row["source"] is not None:
            cells.setdefault(key_of(row), {})[row["column"]] = row["rebalances"]
    return tuple(fleet), cells


def _marked(rows: DataFrame, keys: Iterable[GroupKey]) -> DataFrame:
    """Return rows with `is_marked`: true where they are of one of these groups, else null."""
    from pyspark.sql import functions as f

    marks = [(*key, True) for key in dict.fromkeys(keys)]
    chosen = rows.sparkSession.createDataFrame(marks, "source string, group string, is_marked boolean")
    return rows.join(f.broadcast(chosen), KEY, "left")


def _heat_row(key: GroupKey, columns: Columns, cells: Mapping[GroupKey, Mapping[int, int]]) -> HeatRow:
    mine = cells.get(key, {})
    return HeatRow(key, tuple(mine.get(place, 0) for place in range(columns.count)))


# -- groups


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
        f.sum("rebalances_failed").alias("rebalances_failed"),
        f.max("rebalance_ms_max").alias("rebalance_ms_max"),
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
    subscribed = f.when(f.size("topics") > 0, f.col("topics")).otherwise(f.col("committed_topics"))
    named = groups.drop("rebalances").withColumn("topics", subscribed)
    named = named.withColumnsRenamed({"strategy": "assignor", "supported_protocols": "protocols"})
    joined = named.join(summed, KEY, "left").join(found, KEY, "left")
    counts = ("rebalances", "rebalances_failed", "rebalance_ms_max", "unowned_s", "moved", "commits", "findings")
    absent = dict.fromkeys((*counts, "members", "partitions"), 0)
    return joined.fillna({**absent, "rank": len(SEVERITIES), "kind": "", "state": ""})


_OF_ROWS = tuple(each.name for each in fields(GroupLine) if each.name not in ("key", "severity", "activity"))


def line_of(row: Any, cells: Mapping[GroupKey, Mapping[int, int]]) -> GroupLine:
    """Return one row of `lines_of` as a value."""
    key = key_of(row)
    values = {name: row[name] for name in _OF_ROWS}
    return GroupLine(
        **values | {name: tuple(values[name] or ()) for name in ("topics", "protocols")},
        key=key,
        severity=SEVERITIES[row["rank"]] if row["rank"] < len(SEVERITIES) else None,
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


_SUMMED = ("members", "partitions", "rebalances", "rebalances_failed", "unowned_s", "commits")


def sums_of(lines: DataFrame) -> FleetSums:
    """Add up the rows of `lines_of`."""
    from pyspark.sql import functions as f

    grouped = lines.groupBy("kind", "state", "rank", "is_ready", "is_not_ready").agg(
        f.count("*").alias("groups"),
        f.count_if(f.col("rebalances") > 0).alias("with_rebalances"),
        f.count_if(f.col("unowned_s") > 0).alias("with_unowned"),
        *(f.sum(name).alias(name) for name in (*_SUMMED, "lag")),
    )
    return FleetSums(tuple(row.asDict() for row in grouped.collect()))


def totals_of(sums: FleetSums) -> Totals:
    """Return the fleet in numbers."""
    ranks = dict(sums.counted("rank"))
    has_lag = any(row["lag"] is not None for row in sums.rows)
    return Totals(
        **{name: sums.sum(name) for name in ("groups", *_SUMMED)},
        kinds=sums.counted("kind"),
        states=sums.counted("state"),
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
    order = [f.col("rank"), f.col("value").desc_nulls_last(), *map(f.col, KEY), f.col("from_ms"), f.col("finding")]
    placed = (
        _marked(findings, active)
        .withColumn("rank", severity_place())
        .withColumn("place", f.row_number().over(Window.partitionBy("finding").orderBy(*order)))
        .withColumn("place_in_group", f.row_number().over(Window.partitionBy(*KEY).orderBy(*order)))
    )
    is_worst = f.col("place") <= limits.findings_of_a_rule
    is_of_active = f.col("is_marked") & (f.col("place_in_group") <= limits.findings_of_a_group)
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
    evidence = tuple(Evidence(*record) for record in row["evidence"] or ())
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


def _read(counts: DataFrame, quarantine: DataFrame, hours_outside: int) -> Read:
    from pyspark.sql import functions as f

    summed = [f.sum(name).alias(name) for name in ("records", "tombstones")]
    rows = counts.groupBy("source", "kind").agg(*summed).limit(MOST_COUNTS).collect()
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["records"]
    reasons = quarantine.groupBy("reason").count().orderBy(f.desc("count"), "reason").limit(12).collect()
    return Read(
        sources=tuple(sorted({row["source"] for row in rows})),
        records=sum(row["records"] for row in rows),
        tombstones=sum(row["tombstones"] for row in rows),
        kinds=tuple(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
        quarantined=tuple((row["reason"] or "", row["count"]) for row in reasons),
        hours_outside=hours_outside,
    )
