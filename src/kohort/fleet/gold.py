"""Gold tables: one row per group and hour (`group_hours`), and one row per group with its latest state (`groups`).

Hours are sums of parts (`fold/hours.py`): the parts that this run found, and the published rows of the same days. The
lag of an hour is known only where end offsets were read in that hour: `__consumer_offsets` does not contain them.
"""

from __future__ import annotations

from kohort.fleet.queries import columns_of, query_over, quoted, struct_of
from kohort.fleet.schema import (
    GROUP_HOURS,
    GROUPS,
    HOUR_MS,
    HOUR_PARTS,
    RECORDS,
    SETTLED,
    STATE_COMMITS,
    STATE_GROUPS,
    STATE_OPEN,
    TOPICS,
)
from kohort.fleet.silver import IS_COMMIT
from kohort.fleet.tables import Run

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
_LISTS = ("protocols", "embedded_versions")
_MERGED = ", ".join(
    [
        *(f'sum("{name}") AS "{name}"' for name in _SUMS),
        # Of two parts that end in the same instant the new one is later. A struct retains a value that is null.
        *(f'arg_max({struct_of([name])}, (last_at_ms, is_new))."{name}" AS "{name}"' for name in _AT_THE_END),
        *(f'list_sort(list_distinct(flatten(list("{name}")))) AS "{name}"' for name in _LISTS),
        "arg_max(slowest_member, rebalance_ms_max) FILTER (slowest_member IS NOT NULL) AS slowest_member",
        "max(rebalance_ms_max) AS rebalance_ms_max",
        "coalesce(min(members_min), 0) AS members_min",
        "coalesce(max(members_max), 0) AS members_max",
        "max(last_at_ms) AS last_at_ms",
        "max(lag) AS known_lag",
    ]
)
_GIVEN = "partitions_kept + partitions_moved"
HOURS = f"""
WITH parts AS (
    SELECT *, true AS is_new FROM new_parts
    UNION ALL BY NAME
    SELECT *, false AS is_new FROM hours WHERE day IN (SELECT day FROM new_parts)
), merged AS (
    SELECT source, "group", hour_ms, day, bucket, {_MERGED}
    FROM parts GROUP BY source, "group", hour_ms, day, bucket
), lags AS (
    SELECT source, "group", read_at_ms - read_at_ms % {HOUR_MS} AS hour_ms, sum(lag) AS lag
    FROM lagged WHERE lag IS NOT NULL GROUP BY ALL
)
SELECT {
    columns_of(
        GROUP_HOURS,
        lag="coalesce(lag, known_lag)",
        stickiness=f"CASE WHEN {_GIVEN} > 0 THEN partitions_kept / ({_GIVEN}) END",
        commit_rate=f"commits / {HOUR_MS // 1000}",
        unowned_partition_seconds="round(unowned_partition_seconds, 3)",
    )
}
FROM merged LEFT JOIN lags USING (source, "group", hour_ms)
"""

_PARTITION = quoted("source", "group", "topic", "topic_partition")
_NEW_COMMITS = f"""
SELECT {quoted(*(name for name in STATE_COMMITS.names if name not in ("committed_offset", "first_ms")))},
    CASE WHEN NOT tombstone THEN committed_offset END AS committed_offset, at_ms AS first_ms
"""
_LAST = [
    name for name in STATE_COMMITS.names if name not in ("source", "group", "topic", "topic_partition", "first_ms")
]
LAST_COMMITS = f"""
WITH commits AS (
    {_NEW_COMMITS} FROM records WHERE {IS_COMMIT}
    UNION ALL BY NAME {_NEW_COMMITS} FROM settled WHERE {IS_COMMIT}
    UNION ALL BY NAME FROM last_commits
), last AS (
    SELECT {_PARTITION}, min(first_ms) AS first_ms,
        arg_max({struct_of(_LAST)}, "offset") AS last
    FROM commits GROUP BY {_PARTITION}
)
SELECT {columns_of(STATE_COMMITS, **{name: f'last."{name}"' for name in _LAST})} FROM last
"""

LAGGED = """
SELECT commits.*, ends.read_at_ms, CASE WHEN ends[topic_partition + 1] >= 0
    THEN greatest(ends[topic_partition + 1] - committed_offset, 0) END AS lag
FROM last_commits AS commits LEFT JOIN (
    SELECT source, topic, max(read_at_ms) AS read_at_ms, arg_max(end_offsets, read_at_ms) AS ends
    FROM topics WHERE end_offsets IS NOT NULL GROUP BY source, topic
) AS ends USING (source, topic)
WHERE committed_offset IS NOT NULL
"""

ALL_GROUPS = f"""
WITH committed AS (
    SELECT source, "group", list_sort(list(DISTINCT topic)) AS committed_topics, count(*) AS committed_partitions,
        sum(lag) AS lag, min(first_ms) AS first_commit_ms, max(at_ms) AS last_commit_ms,
        min(expire_at_ms) FILTER (expire_at_ms >= 0) AS next_expiry_ms
    FROM lagged GROUP BY source, "group"
)
SELECT {columns_of(GROUPS, committed_partitions="coalesce(committed_partitions, 0)")}
FROM states LEFT JOIN committed USING (source, "group")
"""


def write_gold(run: Run) -> None:
    """Write the last commits, hours and groups of what this run has folded."""
    relations = {
        "records": run.written(RECORDS),
        "settled": run.written(SETTLED),
        "last_commits": run.rows(STATE_COMMITS),
    }
    with query_over({name: rows.dataset() for name, rows in relations.items()}) as query:
        run.store(STATE_COMMITS, query.batches(LAST_COMMITS))
        run.put(STATE_COMMITS)
    relations = {
        "last_commits": run.rows(STATE_COMMITS),
        "topics": run.rows(TOPICS),
        "new_parts": run.written(HOUR_PARTS),
        "hours": run.rows(GROUP_HOURS),
        "states": run.written(STATE_GROUPS),
    }
    with query_over({name: rows.dataset() for name, rows in relations.items()}) as query:
        query.put("lagged", LAGGED)
        run.store(GROUP_HOURS, query.batches(HOURS))
        run.put_days(GROUP_HOURS)
        run.store(GROUPS, query.batches(ALL_GROUPS))
        run.put(GROUPS)


def replace_states(run: Run) -> None:
    """Replace the states of groups, and their open intervals, of which this run has new ones; all others stay."""
    new = run.written(STATE_GROUPS).dataset()
    for table in (STATE_OPEN, STATE_GROUPS):
        if not run.is_empty(table):
            with query_over({"old": run.rows(table).dataset(), "new": new}) as query:
                rows = query.batches(f'SELECT {quoted(*table.names)} FROM old ANTI JOIN new USING (source, "group")')
                run.store(table, rows)
        run.put(table)
