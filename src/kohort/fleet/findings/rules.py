"""All rules about a group in the order of a report, and their run over the tables of a fleet.

A query collects the recent facts of each group, and the rules judge them. What only changes with new records was
computed when they were folded: commits that went back are events, and the state of a group has its last record and the
violations of its log. So a run with few new records only reads recent hours and events, and judges every group anew,
since most findings depend on the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any, Protocol

from kohort.fleet.findings import (
    competing_clients,
    groups_without_members,
    protocol_change,
    troubled_rebalances,
    uneven_assignment,
    unloadable_log,
)
from kohort.fleet.findings.facts import DEFAULTS, CommitOf, EventOf, Facts, Finding, HourOf, Thresholds, picked
from kohort.fleet.fold.folded_group import Violations
from kohort.fleet.queries import query_over, quoted, struct_of
from kohort.fleet.run_tasks import LocalTasks, Tasks
from kohort.fleet.schema import DAY_MS, EVENTS, GROUP_HOURS, GROUPS, KEY, LAST_DAY, STATE_GROUPS, Table
from kohort.fleet.table_files import StoredRows

Rule = Callable[[Facts, Thresholds], Iterator[Finding]]

RULES: Mapping[str, Rule] = {
    troubled_rebalances.STUCK: troubled_rebalances.stuck,
    troubled_rebalances.STORM: troubled_rebalances.storm,
    troubled_rebalances.LOOP: troubled_rebalances.loop,
    competing_clients.FLAPPING: competing_clients.flapping,
    competing_clients.ZOMBIES: competing_clients.rewound,
    unloadable_log.NAME: unloadable_log.find,
    groups_without_members.EXPIRING: groups_without_members.expiring,
    uneven_assignment.SKEWED: uneven_assignment.find,
    uneven_assignment.IDLE: uneven_assignment.find,
    protocol_change.EAGER: protocol_change.eager,
    groups_without_members.ABANDONED: groups_without_members.abandoned,
    competing_clients.REWOUND: competing_clients.rewound,
    protocol_change.READY: protocol_change.readiness,
    protocol_change.NOT_READY: protocol_change.readiness,
}
NAMES = tuple(RULES)
"""The names of all findings."""

JUDGED_EVENTS = (
    "joined",
    "left",
    "evicted",
    "rejoined",
    "generation_formed",
    "generation_synced",
    "epoch_bumped",
    "target",
    "revoking",
    "revoked",
    "settled",
    "emptied",
    "rewound",
)
"""The events that rules use."""


def judge(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Yield all findings about one group."""
    for find in dict.fromkeys(RULES.values()):
        for finding in find(facts, settings):
            yield finding._replace(evidence=picked(finding.evidence, settings.evidence_rows))


_OF_GROUPS = tuple(each.name for each in fields(Facts) if each.name in set(GROUPS.names) - set(KEY))
_GROUPS_AT_ONCE = 256


class StoredTables(Protocol):
    """Access to tables: of a run, or published ones."""

    def rows(self, table: Table) -> StoredRows: ...


def find_all(tables: StoredTables, tasks: Tasks | None = None, settings: Thresholds = DEFAULTS) -> list[Finding]:
    """Return the findings of all groups."""
    groups = tables.rows(GROUPS)
    with query_over({"groups": groups.dataset()}) as query:
        ends = {row["source"]: row["now_ms"] for row in query.rows(_ENDS)}
        places = query.rows("SELECT DISTINCT source, bucket FROM groups ORDER BY ALL")
    work = _Judging(groups, tables.rows(GROUP_HOURS), tables.rows(EVENTS), tables.rows(STATE_GROUPS), ends, settings)
    items = [(row["source"], row["bucket"]) for row in places if row["source"] in ends]
    found = [finding for each in (tasks or LocalTasks(1)).run(work.judge, items) for finding in each]
    return sorted(found, key=lambda finding: (finding.source, finding.group))


_ENDS = f"""
SELECT source, coalesce(max(last) FILTER (last <= epoch_ms(now()) + {DAY_MS}), max(last)) AS now_ms
FROM (SELECT source, greatest(last_seen_ms, coalesce(last_commit_ms, last_seen_ms)) AS last FROM groups)
GROUP BY source HAVING now_ms IS NOT NULL
"""
"""When the log of each source ends: its last record that is not in the future."""


_FACTS = f"""
WITH recent_hours AS (
    SELECT source, "group", list({struct_of(HourOf._fields)}) AS hours FROM hours
    WHERE source = $1 AND bucket = $2 AND day >= $3 AND hour_ms > $4 GROUP BY source, "group"
), recent_events AS (
    SELECT source, "group", list({struct_of(EventOf._fields)}) AS events FROM events
    WHERE source = $1 AND bucket = $2 AND day >= $3 AND at_ms > $4 AND event IN {JUDGED_EVENTS} GROUP BY source, "group"
)
SELECT {quoted(*KEY, *_OF_GROUPS)}, folded, hours, events
FROM (SELECT * FROM groups WHERE source = $1 AND bucket = $2)
JOIN (SELECT source, "group", folded FROM states WHERE source = $1 AND bucket = $2) USING (source, "group")
LEFT JOIN recent_hours USING (source, "group") LEFT JOIN recent_events USING (source, "group")
"""


@dataclass(frozen=True, slots=True)
class _Judging:
    """What tasks judge; it travels to them."""

    groups: StoredRows
    hours: StoredRows
    events: StoredRows
    states: StoredRows
    ends: Mapping[str, int]
    settings: Thresholds

    def judge(self, place: tuple[str, int]) -> list[Finding]:
        """Return the findings about the groups of a source's bucket."""
        now_ms = self.ends[place[0]]
        since_ms = now_ms - self.settings.look_back_ms
        names = ("groups", "hours", "events", "states")
        with query_over({name: getattr(self, name).dataset() for name in names}) as query:
            return [
                finding
                for batch in query.batches(_FACTS, *place, _day_of(since_ms), since_ms, rows=_GROUPS_AT_ONCE)
                for row in batch.to_pylist()
                for finding in judge(facts_from({**row, "now_ms": now_ms}), self.settings)
            ]


def _day_of(at_ms: int) -> date:
    return date(1970, 1, 1) + timedelta(days=min(max(at_ms, 0) // DAY_MS, LAST_DAY))


def facts_from(row: Mapping[str, Any]) -> Facts:
    """Return the facts of a group: its row of `groups` with the end of its log, its state, hours and events."""
    values = {name: row[name] for name in (*KEY, "now_ms", *_OF_GROUPS) if row[name] is not None}
    state: Mapping[str, Any] = json.loads(row["folded"])
    events = sorted((EventOf(**event) for event in row["events"] or ()), key=lambda event: (event.at_ms, event.offset))
    return Facts(
        **values,
        hours=sorted(HourOf(**hour) for hour in row["hours"] or ()),
        events=events,
        returns=sorted(
            (_commit_of(event) for event in events if event.event == "rewound"), key=lambda each: each.offset
        ),
        last_record=state["last_record"],
        subscriptions=state["subscriptions"],
        violations=Violations.from_json(state["violations"]),
    )


def _commit_of(event: EventOf) -> CommitOf:
    found = event.details
    return CommitOf(
        event.partition,
        event.offset,
        event.at_ms,
        found["topic"],
        found["partition"],
        found["to"],
        found["from"],
        found.get("producer"),
    )
