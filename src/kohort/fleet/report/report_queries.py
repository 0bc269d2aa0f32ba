"""Queries that gather the values of a report from the fleet's tables.

Everything that grows with the fleet is aggregated, ordered and limited by them; only what a page shows is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kohort.fleet.queries import Query, query_over, quoted, struct_of
from kohort.fleet.report.fleet_report import (
    NOT_READY,
    READY,
    SEVERITIES,
    BlockingReason,
    Columns,
    FindingLine,
    FleetReport,
    GroupKey,
    GroupLine,
    HeatRow,
    Readiness,
    ReportInput,
    ReportLimits,
    RuleFindings,
    Span,
    Timeline,
    TimelineRow,
    Totals,
    columns_of,
    key_of,
    severity_rank,
)
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

ReadTable = Callable[[Table], Any]
"""Returns a table of the fleet, as Arrow's table or dataset."""

MOST_COUNTS = 10_000
MOST_DAYS = 20_000
"""Most days considered for the report's time; a log with more of them had wrong clocks."""

_KEY = quoted(*KEY)
_HOURS = f"""
SELECT {_KEY}, hour_ms, partitions, static_share, coalesce(rebalances, 0) AS rebalances, rebalances_failed,
    rebalance_ms_max, coalesce(unowned_partition_seconds, 0) AS unowned_partition_seconds, partitions_moved, commits
FROM group_hours WHERE hour_ms >= $1 AND hour_ms < $2
"""


def gather(read: ReadTable, *, now_ms: int, limits: ReportLimits | None = None) -> FleetReport:
    """Return the report of a fleet; `now_ms` is when it is made."""
    limits = limits or ReportLimits()
    tables = (COUNTS, EVENTS, FINDINGS, GROUP_HOURS, GROUPS, OWNERSHIP, QUARANTINE)
    with query_over({table.name: read(table) for table in tables}) as query:
        from_ms, until_ms, outside = _time_of(query, now_ms, limits)
        columns = columns_of(from_ms, until_ms)
        query.put("hours", _HOURS, from_ms, until_ms)
        query.put("lines", _LINES)
        sums = FleetSums(tuple(query.rows(_SUMS)))
        totals = totals_of(sums)
        shown = query.rows(_SHOWN, limits.groups, limits.ranked_groups, limits.heat_groups)
        listed = [row for row in shown if row["by_worst"] <= limits.groups]
        ranking = _first(shown, "by_unowned", "unowned_s", limits.ranked_groups)
        busiest = _first(shown, "by_rebalances", "rebalances", limits.heat_groups)
        active = [key_of(row) for row in listed[: limits.active_groups]]
        fleet, cells = _cells(query, columns, [*active, *map(key_of, busiest)])
        rules, further = _rules(query, active, limits)
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
            timelines=timelines_of(query, drawn, limits),
            readiness=readiness_of(query, sums, limits),
            groups=tuple(line_of(row, cells) for row in listed),
            read=_read(query, outside),
            limits=limits,
        )


_SHOWN = f"""
SELECT *, row_number() OVER (ORDER BY rank, unowned_s DESC, rebalances DESC, {_KEY}) AS by_worst,
    row_number() OVER (ORDER BY unowned_s DESC, {_KEY}) AS by_unowned,
    row_number() OVER (ORDER BY rebalances DESC, {_KEY}) AS by_rebalances
FROM lines QUALIFY by_worst <= $1 OR by_unowned <= $2 OR by_rebalances <= $3 ORDER BY by_worst
"""
"""The groups that any list shows, the worst first, each with its place in every order."""


def _first(rows: list[Any], order: str, figure: str, most: int) -> list[Any]:
    """Return the first rows of an order, without those whose figure is zero."""
    return sorted((row for row in rows if row[order] <= most and row[figure] > 0), key=lambda row: row[order])


# -- the time of the report

_DAYS = f"""
SELECT CAST(floor(hour_ms / {DAY_MS}) AS BIGINT) AS number, count(*) AS hours, min(hour_ms) AS first,
    max(hour_ms) AS last
FROM group_hours GROUP BY number ORDER BY hours DESC LIMIT {MOST_DAYS}
"""


def _time_of(query: Query, now_ms: int, limits: ReportLimits) -> tuple[int, int, int]:
    """Return the start and end of the report's time, and how many hours of groups lie outside."""
    days = query.rows(_DAYS)
    if not days:
        return now_ms - now_ms % HOUR_MS - HOUR_MS, now_ms - now_ms % HOUR_MS, 0
    first, last = best_window({day["number"]: day["hours"] for day in days}, limits.window_hours // 24)
    inside = [day for day in days if first <= day["number"] <= last]
    outside = sum(day["hours"] for day in days) - sum(day["hours"] for day in inside)
    return min(day["first"] for day in inside), max(day["last"] for day in inside) + HOUR_MS, outside


def best_window(days: Mapping[int, int], most: int) -> tuple[int, int]:
    """Return the first and last day of at most `most` days in a row that have most; the latest of equals."""
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

_CELLS = f"""
SELECT marked.source, marked."group", CAST((hour_ms - $1) // $2 AS INTEGER) AS "column",
    CAST(sum(rebalances) AS BIGINT) AS rebalances
FROM hours LEFT JOIN marked USING ({_KEY}) WHERE rebalances > 0 GROUP BY ALL
"""


def _cells(
    query: Query, columns: Columns, keys: Iterable[GroupKey]
) -> tuple[tuple[int, ...], dict[GroupKey, dict[int, int]]]:
    """Return the rebalances by column: of the whole fleet, and of some groups."""
    query.put_keys("marked", keys)
    fleet = [0] * columns.count
    cells: dict[GroupKey, dict[int, int]] = {}
    for row in query.rows(_CELLS, columns.from_ms, columns.step_ms):
        fleet[row["column"]] += row["rebalances"]
        if row["source"] is not None:
            cells.setdefault(key_of(row), {})[row["column"]] = row["rebalances"]
    return tuple(fleet), cells


def _heat_row(key: GroupKey, columns: Columns, cells: Mapping[GroupKey, Mapping[int, int]]) -> HeatRow:
    mine = cells.get(key, {})
    return HeatRow(key, tuple(mine.get(place, 0) for place in range(columns.count)))


# -- groups

_CASES = " ".join(f"WHEN '{name}' THEN {rank}" for rank, name in enumerate(SEVERITIES))
_RANK = f"CASE severity {_CASES} ELSE {len(SEVERITIES)} END"
"""The rank of a finding's severity, as `severity_rank` has it."""

_COUNTS = ("rebalances", "rebalances_failed", "rebalance_ms_max", "unowned_s", "moved", "commits", "findings")
_LINES = f"""
WITH summed AS (
    SELECT {_KEY}, CAST(sum(rebalances) AS BIGINT) AS rebalances,
        CAST(sum(rebalances_failed) AS BIGINT) AS rebalances_failed, max(rebalance_ms_max) AS rebalance_ms_max,
        sum(unowned_partition_seconds) AS unowned_s, CAST(sum(partitions_moved) AS BIGINT) AS moved,
        CAST(sum(commits) AS BIGINT) AS commits, arg_max({{'share': static_share}}, hour_ms).share AS static_share
    FROM hours GROUP BY {_KEY}
), found AS (
    SELECT {_KEY}, count(*) AS findings, bool_or(finding = '{READY}') AS is_ready,
        bool_or(finding = '{NOT_READY}') AS is_not_ready,
        min(CASE WHEN finding IN ('{READY}', '{NOT_READY}') THEN {SEVERITIES.index("info")} ELSE {_RANK} END) AS rank
    FROM findings GROUP BY {_KEY}
)
SELECT {_KEY}, coalesce(kind, '') AS kind, coalesce(state, '') AS state, coalesce(members, 0) AS members,
    coalesce(partitions, 0) AS partitions, strategy AS assignor, supported_protocols AS protocols,
    CASE WHEN len(topics) > 0 THEN topics ELSE committed_topics END AS topics, lag, static_share,
    first_seen_ms, last_seen_ms, last_commit_ms, {", ".join(f"coalesce({name}, 0) AS {name}" for name in _COUNTS)},
    coalesce(rank, {len(SEVERITIES)}) AS rank, is_ready, is_not_ready
FROM (SELECT * EXCLUDE (rebalances) FROM groups) LEFT JOIN summed USING ({_KEY}) LEFT JOIN found USING ({_KEY})
"""
"""A row for each group: its row of gold, its hours added up, and its worst finding."""

_OF_ROWS = tuple(each.name for each in fields(GroupLine) if each.name not in ("key", "severity", "activity"))


def line_of(row: Any, cells: Mapping[GroupKey, Mapping[int, int]]) -> GroupLine:
    """Return a row of `_LINES` as a value."""
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
_SUMS = f"""
SELECT kind, state, rank, is_ready, is_not_ready, count(*) AS groups,
    count_if(rebalances > 0)::BIGINT AS with_rebalances,
    count_if(unowned_s > 0)::BIGINT AS with_unowned, sum(unowned_s) AS unowned_s,
    {", ".join(f"sum({name})::BIGINT AS {name}" for name in (*_SUMMED, "lag") if name != "unowned_s")}
FROM lines GROUP BY kind, state, rank, is_ready, is_not_ready
"""


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


def readiness_of(query: Query, sums: FleetSums, limits: ReportLimits) -> Readiness:
    """Return how many groups have moved, could, and could not, and why not."""
    alive = [row for row in sums.rows if row["state"] not in ("Dead", "Simple")]
    classic = [row for row in alive if row["kind"] == "classic"]
    not_ready = sum(row["groups"] for row in classic if row["is_not_ready"])
    ready = sum(row["groups"] for row in classic if row["is_ready"] and not row["is_not_ready"])
    total = sum(row["groups"] for row in classic)
    rows = query.rows(_REASONS, limits.reason_groups)
    reasons = tuple(
        BlockingReason(row["why"] or "", row["example"] or "", row["groups"], tuple(map(key_of, row["keys"])))
        for row in rows[: limits.reasons]
    )
    return Readiness(
        moved=sum(row["groups"] for row in alive) - total,
        ready=ready,
        not_ready=not_ready,
        unknown=total - ready - not_ready,
        reasons=reasons,
        reasons_left_out=len(rows) - len(reasons),
    )


_REASONS = f"""
SELECT CASE WHEN length(advice) > 0 THEN advice ELSE sentence END AS why, count(*) AS groups,
    arg_min(sentence, ({_KEY})) AS example,
    list_sort(list(DISTINCT {struct_of(KEY)}))[1 : CAST($1 AS INTEGER)] AS keys
FROM findings WHERE finding = '{NOT_READY}' GROUP BY why ORDER BY groups DESC, why LIMIT {MOST_REASONS}
"""


# -- findings

_COUNTED = f"""
SELECT finding, count(DISTINCT ({_KEY})) AS groups,
    {", ".join(f"count_if(severity = '{name}')::BIGINT AS {name}" for name in SEVERITIES)}
FROM findings GROUP BY finding
"""
_ORDER = f"ORDER BY {_RANK}, value DESC NULLS LAST, {_KEY}, from_ms, finding"
_FOUND = f"""
SELECT findings.* EXCLUDE (evidence), len(evidence) AS records,
    row_number() OVER (PARTITION BY finding {_ORDER}) AS place,
    row_number() OVER (PARTITION BY {_KEY} {_ORDER}) AS place_in_group,
    CASE WHEN place <= $1 THEN evidence[1 : CAST($3 AS INTEGER)] END AS evidence
FROM findings
QUALIFY place <= $1 OR (place_in_group <= $2 AND ({_KEY}) IN (SELECT ({_KEY}) FROM marked))
ORDER BY finding, place
"""


def _rules(
    query: Query, active: Iterable[GroupKey], limits: ReportLimits
) -> tuple[tuple[RuleFindings, ...], tuple[FindingLine, ...]]:
    """Return the findings of each rule, and further findings of the worst groups."""
    query.put_keys("marked", active)
    counted = {row["finding"]: row for row in query.rows(_COUNTED)}
    shown: dict[str, list[FindingLine]] = {}
    further: list[FindingLine] = []
    for row in query.rows(_FOUND, limits.findings_of_a_rule, limits.findings_of_a_group, limits.evidence):
        is_shown = row["place"] <= limits.findings_of_a_rule
        (shown.setdefault(row["finding"], []) if is_shown else further).append(_finding(row))
    rules = []
    for rule, worst in shown.items():
        by_severity = tuple((name, counted[rule][name]) for name in SEVERITIES if counted[rule][name])
        rules.append(RuleFindings(rule, by_severity, counted[rule]["groups"], tuple(worst)))
    rules.sort(key=lambda rule: (severity_rank(rule.severity), -rule.groups, rule.rule))
    return tuple(rules), tuple(further)


def _finding(row: Any) -> FindingLine:
    evidence = tuple(Evidence(**record) for record in row["evidence"] or ())
    return FindingLine(
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

_READ = f"""
SELECT source, kind, CAST(sum(records) AS BIGINT) AS records, CAST(sum(tombstones) AS BIGINT) AS tombstones
FROM counts GROUP BY source, kind LIMIT {MOST_COUNTS}
"""
_QUARANTINED = "SELECT reason, count(*) AS count FROM quarantine GROUP BY reason ORDER BY count DESC, reason LIMIT 12"


def _read(query: Query, hours_outside: int) -> ReportInput:
    rows = query.rows(_READ)
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["records"]
    return ReportInput(
        sources=tuple(sorted({row["source"] for row in rows})),
        records=sum(row["records"] for row in rows),
        tombstones=sum(row["tombstones"] for row in rows),
        kinds=tuple(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
        quarantined=tuple((row["reason"] or "", row["count"]) for row in query.rows(_QUARANTINED)),
        hours_outside=hours_outside,
    )


# -- timelines: the worst hour of a group has most unowned partition time, or else most rebalances

_AWAY = ("emptied", "deleted", "expired")
_BACK = ("joined", "rejoined")


def timelines_of(query: Query, keys: Sequence[GroupKey], limits: ReportLimits) -> tuple[Timeline, ...]:
    """Return the timelines of the first of `keys` that owned anything in their worst hour."""
    query.put_keys("drawn", keys)
    query.put("worst", _WORST)
    by_key: dict[GroupKey, list[Any]] = {}
    for row in query.rows(_SPANS, limits.timeline_partitions, limits.timeline_spans):
        by_key.setdefault(key_of(row), []).append(row)
    empty: dict[GroupKey, list[tuple[int, int]]] = {}
    for row in query.rows(_EMPTY_TIMES):
        empty.setdefault(key_of(row), []).append((row["away_from_ms"], row["away_until_ms"]))
    chosen = [key for key in keys if key in by_key][: limits.timelines]
    return tuple(_timeline(key, by_key[key], tuple(empty.get(key, ())), limits) for key in chosen)


_WORST = f"""
SELECT {_KEY}, worst.hour_ms AS hour_from_ms, worst.hour_ms + {HOUR_MS} AS hour_until_ms,
    coalesce(worst.partitions, 0) AS to_own
FROM (
    SELECT {_KEY}, arg_max({{'hour_ms': hour_ms, 'partitions': partitions}},
        (unowned_partition_seconds, rebalances, hour_ms)) AS worst
    FROM hours SEMI JOIN drawn USING ({_KEY}) GROUP BY {_KEY}
)
"""
"""Each group's worst hour, and how many partitions it had to own at its end."""

_SPANS = f"""
WITH near AS (
    SELECT *, coalesce(until_ms, hour_until_ms) AS ended_ms,
        from_ms < hour_until_ms AND ended_ms > hour_from_ms AS is_inside,
        greatest(from_ms - hour_until_ms, hour_from_ms - ended_ms) AS distance
    FROM (SELECT {_KEY}, topic, topic_partition, member, client_id, from_ms, until_ms FROM ownership)
    JOIN worst USING ({_KEY})
), partitions AS (
    SELECT {_KEY}, topic, topic_partition, hour_from_ms, hour_until_ms, to_own,
        count_if(is_inside) AS changes, min(distance) AS distance
    FROM near GROUP BY {_KEY}, topic, topic_partition, hour_from_ms, hour_until_ms, to_own
), wanted AS (
    SELECT *, row_number() OVER (PARTITION BY {_KEY} ORDER BY changes > 0, distance, topic, topic_partition) AS place,
        to_own - count(*) FILTER (changes > 0) OVER (PARTITION BY {_KEY}) AS missing
    FROM partitions
), ranked AS (
    SELECT *, count(*) OVER (PARTITION BY {_KEY}) AS partition_count, row_number() OVER (
        PARTITION BY {_KEY} ORDER BY changes > 0, changes DESC, topic, topic_partition) AS partition_place
    FROM wanted WHERE changes > 0 OR place <= missing QUALIFY partition_place <= $1
)
SELECT {_KEY}, topic, topic_partition, hour_from_ms, hour_until_ms, partition_count, member, client_id, from_ms,
    until_ms, count(*) OVER (PARTITION BY {_KEY}) AS span_count, row_number() OVER (
        PARTITION BY {_KEY} ORDER BY from_ms NULLS FIRST, topic, topic_partition, member) AS span_place
FROM ranked LEFT JOIN (
    SELECT {_KEY}, topic, topic_partition, member, client_id, from_ms, until_ms FROM near WHERE is_inside
) USING ({_KEY}, topic, topic_partition)
QUALIFY span_place <= $2 ORDER BY {_KEY}, span_place
"""
"""The intervals of the worst hours, of the partitions with most of them, and how much is left out.

A partition without an owner in that whole hour has one row without a member. Such partitions are chosen by the nearest
interval outside of the hour, as many as the group had to own and did not.
"""

_EMPTY_TIMES = f"""
WITH changes AS (
    SELECT {_KEY}, at_ms, "offset", event IN {_AWAY} AS away, hour_from_ms, hour_until_ms
    FROM events JOIN worst USING ({_KEY}) WHERE event IN {_AWAY + _BACK} AND at_ms < hour_until_ms
), turns AS (
    SELECT *, lag(away) OVER (PARTITION BY {_KEY} ORDER BY "offset", at_ms, away) AS before
    FROM changes QUALIFY before IS NULL OR before <> away
), times AS (
    SELECT *, greatest(at_ms, hour_from_ms) AS away_from_ms, least(hour_until_ms, coalesce(
        lead(at_ms) OVER (PARTITION BY {_KEY} ORDER BY "offset", at_ms, away), hour_until_ms)) AS away_until_ms
    FROM turns
)
SELECT {_KEY}, away_from_ms, away_until_ms FROM times WHERE away AND away_until_ms > away_from_ms ORDER BY ALL
"""
"""The times without members within the worst hours."""


def _timeline(
    key: GroupKey, rows: list[dict[str, Any]], empty: tuple[tuple[int, int], ...], limits: ReportLimits
) -> Timeline:
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


def _called(row: dict[str, Any]) -> str:
    """Return a member's display name: its id, with its client id where the member id does not begin with it."""
    member, client = row["member"] or "", row["client_id"] or ""
    return member if member.startswith(client) else f"{client} {member}"
