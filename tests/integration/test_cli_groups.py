"""`kohort groups` on a running broker, with members that are alive and members that left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.integration.commands import Commands


def made(kohort: Commands, name: str, count: int = 6, partitions: int = 2, began_ms: int | None = None) -> None:
    """Make a topic of `count` records, and a group of the same name that has read half of each partition."""
    kohort("topics", "create", name, "--partitions", str(partitions))
    began_ms = 1_700_000_000_000 if began_ms is None else began_ms
    lines = "".join(
        f'{{"value": "{n}", "partition": {n % partitions}, "timestamp": {began_ms + n * 1000}}}\n' for n in range(count)
    )
    assert kohort("produce", name, "--json", stdin=lines.encode()).status == 0
    outcome = kohort("groups", "reset-offsets", name, "--topic", name, "--to-offset", str(count // 4), "--execute")
    assert outcome.status == 0, outcome.err


@contextmanager
def member(kohort: Commands, topic: str, group: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a member that has written at least one record of the topic."""
    process = kohort.start("consume", topic, "--group", group, "--from-beginning")
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def committed(kohort: Commands, group: str) -> list[int | None]:
    return [row["committed"] for row in kohort("groups", "describe", group, "--json").json["offsets"]]


def test_a_group_without_members_shows_its_lag(kohort: Commands) -> None:
    week_ago_ms = time.time_ns() // 1_000_000 - (7 * 24 * 60 + 270) * 60_000
    made(kohort, "lagging", count=8, began_ms=week_ago_ms)
    assert kohort("groups", "describe", "lagging").out == (
        f"lagging: classic, Empty, 0 members, coordinator {kohort.address}\n\n"
        "TOPIC    PARTITION  COMMITTED  END  LAG  LAG SECONDS  MEMBER\n"
        "lagging          0          2    4    2  7 d 4 h           -\n"
        "lagging          1          2    4    2  7 d 4 h           -\n"
    )
    listed = kohort("groups", "list").out
    assert "GROUP  " in listed
    assert ["lagging", "classic", "Empty", "-", "0", "4", "7", "d", "4", "h", "-"] in [
        line.split() for line in listed.splitlines()
    ]
    assert "LAG" not in kohort("groups", "list", "--no-lag").out


def test_a_producers_clock_that_is_ahead_is_named(kohort: Commands) -> None:
    made(kohort, "early", count=8, began_ms=time.time_ns() // 1_000_000 + 30 * 60_000)
    described = kohort("groups", "describe", "early")
    assert described.rows[3:][0][:6] == ["early", "0", "2", "4", "2", "-"]
    assert "lag of early:0,1: the oldest unread record has a timestamp in the future" in described.err
    (first, _) = kohort("groups", "describe", "early", "--json").json["offsets"]
    assert (first["lag"], first["lag_seconds"], first["lag_reason"]) == (2, None, "clock_ahead")


def test_a_live_member_is_shown_with_what_it_owns(kohort: Commands) -> None:
    made(kohort, "lively")
    with member(kohort, "lively", "lively"):
        kohort.until_state("lively", "Stable")
        described = kohort("groups", "describe", "lively", "--json").json
        (only,) = described["members"]
        assert (described["state"], described["protocol"]) == ("Stable", "range")
        assert only["assigned"] == {"lively": [0, 1]}
        assert only["host"] == "/127.0.0.1"  # as Kafka writes a host without a name
        assert (described["coordinator"], described["generation"]) == (kohort.address, 1)
        assert described["last_rebalance"]["cause"]["kind"] == "member_joined"
        assert [row["member"] for row in described["offsets"]] == [only["member"]] * 2
        shown = kohort("groups", "describe", "lively", "--members")
        assert "COMMITTED" not in shown.out
        assert shown.rows[-1][-1] == "lively:0,1"
        both = kohort("groups", "describe", "lively", "--members", "--offsets").out
        assert "COMMITTED" in both
        assert "ASSIGNED" in both
        refused = kohort("groups", "describe", "lively", "--topology")
        assert (refused.status, refused.out) == (1, "")
        assert "'lively' is a classic group: only streams groups have a topology" in refused.err


def test_a_group_shows_why_it_rebalanced_last(kohort: Commands) -> None:
    made(kohort, "past")
    with member(kohort, "past", "past"):
        kohort.until_state("past", "Stable")
        first = kohort("groups", "describe", "past").out.splitlines()
        where = f"coordinator {kohort.address}"
        assert first[0] == f"past: classic, Stable, 1 member, assignor range, generation 1, {where}"
        assert first[1].endswith("Z, generation 0→1: kohort joined")
    kohort.until_state("past", "Empty")
    last = kohort("groups", "describe", "past").out.splitlines()
    assert last[0] == f"past: classic, Empty, 0 members, generation 2, {where}"
    assert "generation 1→2: kohort left (" in last[1]


def test_a_group_with_members_is_neither_deleted_nor_reset(kohort: Commands) -> None:
    made(kohort, "busy")
    with member(kohort, "busy", "busy"):
        for words in (
            ("delete", "busy", "--yes"),
            ("reset-offsets", "busy", "--topic", "busy", "--to-earliest", "--execute"),
        ):
            outcome = kohort("groups", *words)
            assert outcome.status == 1
            assert "group busy has a member and cannot be" in outcome.err
            assert "stop them first" in outcome.err
        assert kohort("groups", "describe", "busy", "--json").json["state"] == "Stable"


def test_a_deleted_group_is_gone_with_its_offsets(kohort: Commands) -> None:
    made(kohort, "going")
    assert kohort("groups", "delete", "--yes", "going").out == "deleted going\n"
    outcome = kohort("groups", "describe", "goin")
    assert (outcome.status, "going" in outcome.err.replace("'goin'", "")) == (2, False)


@pytest.mark.parametrize(
    ("aim", "offsets"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [4, 4]),
        (("--to-offset", "3"), [3, 3]),
        (("--to-offset", "99"), [4, 4]),
        (("--shift-by", "-1"), [1, 1]),
        (("--shift-by", "1000"), [4, 4]),
        (("--to-datetime", "2023-11-14T22:13:23Z"), [2, 1]),
        (("--to-datetime", "2030-01-01"), [4, 4]),
    ],
)
def test_each_target_option_moves_the_offsets_only_with_execute(
    kohort: Commands, aim: tuple[str, ...], offsets: list[int]
) -> None:
    name = "aim" + "".join(aim).replace(":", "")
    made(kohort, name, count=8)
    plan = kohort("groups", "reset-offsets", name, "--topic", name, *aim)
    assert [int(row[3]) for row in plan.rows[1:]] == offsets
    assert plan.err.splitlines()[-1] == "kohort: nothing was changed: add --execute to write these offsets"
    assert committed(kohort, name) == [2, 2]
    done = kohort("groups", "reset-offsets", name, "--all-topics", *aim, "--execute", "--json").json
    assert (done["executed"], [row["new"] for row in done["offsets"]]) == (True, offsets)
    assert committed(kohort, name) == offsets


def test_a_reset_may_name_partitions_and_a_group_that_does_not_exist_yet(kohort: Commands) -> None:
    made(kohort, "ready")
    outcome = kohort("groups", "reset-offsets", "newborn", "--topic", "ready:1", "--to-latest", "--execute")
    assert outcome.rows == [["TOPIC", "PARTITION", "COMMITTED", "NEW"], ["ready", "1", "-", "3"]]
    assert [(row["partition"], row["committed"]) for row in offsets_of(kohort, "newborn")] == [(1, 3)]


def offsets_of(kohort: Commands, group: str) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = kohort("groups", "describe", group, "--json").json["offsets"]
    return rows


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("--topic", "planned:2", "--to-earliest"), 2, "topic 'planned' has partitions 0 to 1, and no 2"),
        (("--topic", "plannde", "--to-earliest"), 2, "there is no topic 'plannde': did you mean 'planned'?"),
        (("--all-topics", "--to-earliest"), 1, "group other has committed nothing: name the partitions with --topic"),
        (("--topic", "planned", "--shift-by", "1"), 1, "planned-0 has no committed offset to shift"),
    ],
)
def test_a_reset_that_cannot_be_planned_prints_the_reason(
    kohort: Commands, words: tuple[str, ...], status: int, sentence: str
) -> None:
    made(kohort, "planned")
    outcome = kohort("groups", "reset-offsets", "other", *words)
    assert (outcome.status, outcome.out) == (status, "")
    assert sentence in outcome.err


def test_a_topic_that_was_deleted_still_shows_what_was_committed(kohort: Commands) -> None:
    made(kohort, "fading")
    kohort("topics", "delete", "--yes", "fading")
    outcome = kohort("groups", "describe", "fading")
    assert outcome.status in (0, 2), "the broker may drop the offsets of a deleted topic, and the group with them"
    assert "Traceback" not in outcome.err


def test_json_of_groups_has_its_documented_fields(kohort: Commands) -> None:
    made(kohort, "fields")
    (listed,) = [group for group in kohort("groups", "list", "--json").json if group["group"] == "fields"]
    fields = ["group", "type", "state", "protocol_type"]
    assert list(listed) == [*fields, "members", "lag", "lag_seconds", "lag_unknown_partitions", "last_rebalance"]
    (plain,) = [group for group in kohort("groups", "list", "--no-lag", "--json").json if group["group"] == "fields"]
    assert list(plain) == fields
    described = kohort("groups", "describe", "fields", "--json").json
    past = ["generation", "last_rebalance", "rebalances_avoided", "refused"]
    identity = ["group", "type", "state", "protocol_type", "protocol"]
    assert list(described) == [*identity, "coordinator", *past, "members", "offsets"]
    assert [described[name] for name in past] == [None] * 4, "it never had a member"
    lag = ["lag", "lag_seconds", "lag_is_bound", "lag_reason"]
    assert list(described["offsets"][0]) == ["topic", "partition", "committed", "end", *lag, "member"]
    assert "offsets" not in kohort("groups", "describe", "fields", "--members", "--json").json
    assert kohort("groups", "delete", "--yes", "fields", "--json").json == {"group": "fields", "deleted": True}


def test_watch_prints_again_until_a_signal_and_ends_with_0(kohort: Commands) -> None:
    made(kohort, "watched")
    table = kohort.start("groups", "describe", "watched", "--watch", "--interval", "100ms")
    lines = kohort.start("groups", "list", "--watch", "--interval", "100ms", "--json")
    assert table.stdout is not None
    assert lines.stdout is not None
    headings = 0
    while headings < 2:
        headings += table.stdout.readline().startswith(b"watched: classic, Empty")
    for _ in range(2):
        assert "watched" in [row["group"] for row in json.loads(lines.stdout.readline())]
    assert kohort("groups", "delete", "--yes", "watched").status == 0
    assert table.stderr is not None
    assert b"group 'watched'" in table.stderr.readline(), "that it is gone, whichever request of a look finds it out"
    for process in (table, lines):
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (0, b"")
    assert kohort("groups", "describe", "no such group", "--watch").status == 2


def test_top_once_is_a_table_and_a_document_and_the_screen_needs_a_terminal(
    kohort: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(kohort, "topped")
    with member(kohort, "topped", "topped"):
        kohort.until_state("topped", "Stable")
        (row,) = [each for each in kohort("top", "--once", "--json").json if each["group"] == "topped"]
        numbers = ["members", "lag", "lag_is_least", "lag_seconds", "unowned_partition_s"]
        past = ["rebalancing", "last_cause", "last_rebalance_ms", "is_inferred"]
        assert list(row) == ["group", "type", "state", "protocol", *numbers, *past]
        assert (row["state"], row["members"], row["is_inferred"]) == ("Stable", 1, False)
        assert row["last_cause"].endswith("joined")
        table = kohort("top", "--once")
    assert table.rows[0][:2] == ["GROUP", "TYPE"]
    assert ["topped", "classic", "range", "Stable", "1"] in [each[:5] for each in table.rows]
    assert kohort("top", "--json").status == 2
    screen = kohort("top")
    assert (screen.status, "kohort top --once prints a table" in screen.err) == (2, True)
    monkeypatch.delitem(sys.modules, "kohort.console.top.top_app", raising=False)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    assert "kohort[top]" in kohort("top").err
    gone = kohort("top", "--once", "--bootstrap-server", "127.0.0.1:1")
    assert (gone.status, "no broker answers at 127.0.0.1:1" in gone.err) == (1, True)
