"""Queries for the timelines of a report: ownership intervals in the worst hour of a group.

The worst hour is the one with most unowned partition time, or else most rebalances. The partitions shown are those that
changed owners most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.fleet.queries import Query, quoted
from kohort.fleet.report.fleet_report import GroupKey, Limits, Span, Timeline, TimelineRow, key_of
from kohort.fleet.schema import HOUR_MS, KEY

_KEY = quoted(*KEY)
_AWAY = ("emptied", "deleted", "expired")
_BACK = ("joined", "rejoined")


def timelines_of(query: Query, keys: Sequence[GroupKey], limits: Limits) -> tuple[Timeline, ...]:
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
    key: GroupKey, rows: list[dict[str, Any]], empty: tuple[tuple[int, int], ...], limits: Limits
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
