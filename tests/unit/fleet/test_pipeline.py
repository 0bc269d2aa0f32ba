"""The fleet's pipeline: cut into runs, killed on the way and run again, its tables are those of one run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.fleet.written_group import START, TOPIC, Written

from kohort.fleet import pipeline
from kohort.fleet.bronze import InputRows
from kohort.fleet.schema import (
    COUNTS,
    DECODED,
    EVENTS,
    FINDINGS,
    GROUP_HOURS,
    GROUPS,
    OWNERSHIP,
    QUARANTINE,
    STATE_CHANGES,
    TOPICS,
)
from kohort.fleet.tables import Tables
from kohort.group.events import MemberState
from kohort.model.ids import topic_id_text

DERIVED = (EVENTS, OWNERSHIP, GROUP_HOURS, GROUPS, COUNTS, TOPICS)


def row(offset: int, at_ms: int, **values) -> dict:
    """Return a row of `bronze.read`."""
    place = {"source": "cluster", "partition": 7, "offset": offset, "at_ms": at_ms, "group": "orders"}
    day = at_ms // 86_400_000
    return dict.fromkeys(DECODED.names) | place | {"day": day, "bucket": 7, "tombstone": False} | values


def commit(offset: int, at_ms: int, committed: int, **values) -> dict:
    topic = {"topic": "flights", "topic_partition": 0, "topic_id": topic_id_text(TOPIC)}
    return row(offset, at_ms, record_type=1, committed_offset=committed, commit_at_ms=at_ms, **topic, **values)


def a_life() -> list[dict]:
    """Return the rows of a group that moves partitions for a while, with commits in between."""
    group = Written()
    group.joins("a").epoch(1).targets(1, a=(0, 1, 2)).has("a", 1, 0, 1, 2).after(600)
    group.joins("b").epoch(2).targets(2, a=(0, 1), b=(2,)).has("a", 1, 0, 1, pending=(2,))
    group.has("b", 2, state=MemberState.UNRELEASED_PARTITIONS).after(3_000)
    group.has("a", 2, 0, 1).after(20).has("b", 2, 2).after(300)
    group.goes("a").epoch(3).targets(3, b=(0, 1, 2)).after(5).has("b", 3, 0, 1, 2).after(9_000)
    group.goes("b").epoch(4)
    rows = []
    for each in group.records:
        rows_of = {"record_type": each.record_type, "tombstone": each.tombstone, "fields": each.fields}
        rows.append(row(0, each.at_ms, member=each.member, **rows_of))
        rows.append(commit(0, each.at_ms, 100 + each.offset))
    return rows


def a_log() -> list[dict]:
    """Return that life, around it commits of two transactions and how they end, and bytes that are none of a log."""
    opened = [
        commit(0, START, 5, group="payments", producer_id=9, producer_epoch=0, transaction="open"),
        commit(0, START, 6, group="payments", producer_id=8, producer_epoch=0, transaction="open"),
    ]
    ended = [
        row(0, START + 9, group=None, producer_id=9, transaction="committed"),
        row(0, START + 9, group=None, producer_id=8, transaction="aborted"),
    ]
    rows = [each | {"offset": offset} for offset, each in enumerate([*opened, *a_life(), *ended])]
    torn = {"source": "cluster", "file": "x.log", "reason": "torn", "position": 3}
    return [*rows, dict.fromkeys(DECODED.names) | torn]


def reader(rows: list[dict], line: str):
    """Return what reads these rows, from the positions on that are given, and a broker's log of one line."""

    def read(_, positions, __) -> InputRows:
        start = positions.get("cluster", {}).get(7, 0)
        wanted = [each for each in rows if each["offset"] is None or each["offset"] >= start]
        stop = max((each["offset"] for each in wanted if each["offset"] is not None), default=start - 1) + 1
        end = dict.fromkeys(DECODED.names) | {"source": "cluster", "partition": 7, "next_offset": stop}
        records = pa.Table.from_pylist([*wanted, end], schema=DECODED.arrow()).to_batches()
        values = {"source": "cluster", "file": "server.log", "position": 0, "at_ms": START, "text": line}
        lines = pa.Table.from_pylist([values], schema=STATE_CHANGES.arrow()).to_batches()
        return InputRows([lambda: iter(records)], None, ((STATE_CHANGES, lines),))

    return read


def nothing_found(*_):
    return []


def rows_of(directory: Path, table) -> list[str]:
    return sorted(repr(row) for batch in Tables(directory).rows(table).batches() for row in batch.to_pylist())


def small_rows(directory: Path, table) -> list[dict]:
    return Tables(directory).small_rows(table)


def files(directory: Path) -> dict[str, int]:
    return {str(file.relative_to(directory)): file.stat().st_mtime_ns for file in directory.rglob("*.parquet")}


def test_a_log_that_is_read_in_runs_one_of_them_killed_has_what_one_run_has(tmp_path):
    rows = a_log()
    once, parts = tmp_path / "once", tmp_path / "parts"
    summary = pipeline.run([], once, read=reader(rows, "after"), find=nothing_found)
    assert (summary.run, summary.records, summary.quarantined, summary.side_rows) == (1, len(rows) - 1, 1, 1)
    assert summary.positions == {"cluster": {7: len(rows) - 1}}

    def killed(*_):
        raise KeyboardInterrupt

    half = [*rows[:19], rows[-1]]
    pipeline.run([], parts, read=reader(half, "before"), find=nothing_found)
    groups = {group["group"] for group in small_rows(parts, GROUPS) if group["committed_partitions"]}
    assert groups == {"orders"}, "a commit counts when its transaction ends"
    with pytest.raises(KeyboardInterrupt):
        pipeline.run([], parts, read=reader(rows, "after"), find=killed)
    assert Tables(parts).positions == {"cluster": {7: 19}}
    pipeline.run([], parts, read=reader(rows, "after"), find=nothing_found)
    for table in DERIVED:
        assert rows_of(parts, table) == rows_of(once, table), table.path
    assert len(small_rows(parts, QUARANTINE)) == 1
    lines = small_rows(parts, STATE_CHANGES)
    assert sorted(each["text"] for each in lines) == ["after", "before"], "a broker's log was rotated"

    check_group_tables(once)
    before = files(once)
    again = pipeline.run([], once, read=reader(rows, "after"), find=nothing_found)
    assert (again.run, again.is_new) == (1, False)
    assert files(once) == before


def check_group_tables(directory: Path) -> None:
    """Hold the tables against what happened."""
    payments, group = sorted(small_rows(directory, GROUPS), key=lambda group: group["state"])[::-1]
    found = payments["state"], payments["committed_partitions"], payments["last_commit_ms"]
    assert found == ("Simple", 1, START)
    found = group["kind"], group["state"], group["members"], group["rebalances"]
    assert found == ("consumer", "Empty", 0, 4)
    every = sorted(small_rows(directory, GROUP_HOURS), key=lambda hour: hour["hour_ms"])
    assert [hour["commits"] for hour in every if hour["group"] == "payments"] == [1]
    hours = [hour for hour in every if hour["group"] == "orders"]
    assert [hour["hour_ms"] for hour in hours] == [START, START + 3_600_000, START + 10_800_000]
    assert [hour["unowned_partition_seconds"] for hour in hours] == [0.0, 20 + 2 * 5.0, 0.0]
    assert sum(hour["commits"] for hour in hours) == len(a_life()) // 2
    owned = [each for each in small_rows(directory, OWNERSHIP) if each["topic"] == "flights"]
    assert sorted((each["member"], each["topic_partition"]) for each in owned) == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2),
    ]  # fmt: skip


def findings_of(directory: Path, rows: list[dict]) -> list[tuple[str, str, float]]:
    """Read rows in one further run, and return what is found in all that was read."""
    given = [each | {"offset": offset} if each["offset"] is None else each for offset, each in enumerate(rows)]
    pipeline.run([], directory, read=reader(given, ""))
    return sorted((row["group"], row["finding"], row["value"]) for row in small_rows(directory, FINDINGS))


def test_a_zombie_close_behind_the_living_is_found_within_an_hour(tmp_path):
    """The producer of a group with members commits by transactions; the owner of one without members is unknown."""
    joined = Written().joins("a").epoch(1).targets(1, a=(0,)).has("a", 1, 0)
    members = [
        {"record_type": each.record_type, "member": each.member, "fields": each.fields} for each in joined.records
    ]
    rows = [row(None, START, **each) for each in members]
    # From the hour's least to its greatest offset, and yet not forward all the way.
    commits = [(100, None), (200, None), (150, 7), (300, None), (250, 7), (400, None), (350, 7), (500, None)]
    for number, (committed, producer_id) in enumerate(commits):
        ended = {"producer_id": producer_id, "transaction": None if producer_id is None else "committed"}
        rows.append(commit(None, START + 1000 * number, committed, **ended))
        rows.append(commit(None, START + 1000 * number, committed, group="ownerless"))
    expected = [("orders", "zombie_commits", 3.0), ("ownerless", "rewound_offsets", 3.0)]
    assert findings_of(tmp_path / "once", rows) == expected
    for stop in (14, len(rows)):
        found = findings_of(tmp_path / "runs", rows[:stop])
    assert found == expected, "the commit before is one of an earlier run"


def test_a_topic_that_was_made_anew_begins_again_at_its_first_offset(tmp_path):
    before, after = (topic_id_text(bytes(15) + bytes([number])) for number in (1, 2))
    rows = [
        commit(None, START + number, offset) | {"topic_id": topic_id}
        for number, (topic_id, offset) in enumerate([(before, 90), (after, 5), (after, 7), (after, 6)])
    ]
    assert findings_of(tmp_path, rows) == [("orders", "rewound_offsets", 1.0)]


@pytest.mark.parametrize(("missing", "findings"), [(0, 1), (1, 0)])
def test_a_log_is_checked_by_what_was_in_it_when_it_was_read(tmp_path, missing, findings):
    """A group that was classic when a run read it is one of the other kind by the next: its tombstone was cleaned."""
    classic = row(0, START, record_type=2, fields="{}")
    assert findings_of(tmp_path, [classic]) == []
    found = findings_of(tmp_path, [classic, row(1 + missing, START, record_type=3, fields="{}")])
    assert len([each for each in found if each[1] == "unloadable_log"]) == findings
