"""The checker of histories finds each broken promise by its name, and none in a history that kept them all."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.checks.commits import check_commits, check_rising
from interop.torture.checks.reads import check_reads
from interop.torture.checks.records import check_records
from interop.torture.checks.transactions import check_copies, check_transactions
from interop.torture.history import (
    Append,
    Commit,
    GroupHistory,
    Logged,
    OffsetFetch,
    Reader,
    Transaction,
    Writer,
    take_lines,
)


def names(found: Iterable[Anomaly]) -> list[Name]:
    return [anomaly.name for anomaly in found]


def writer(*appends: Append, is_exact: bool = True, name: str = "w") -> Writer:
    return Writer(name, "t", is_exact, appends={0: list(appends)})


def log(*values: str) -> dict[tuple[str, int], list[Logged]]:
    """Return a log of one partition; a value in parentheses is that of an aborted transaction."""
    return {("t", 0): [Logged(at, value.strip("()"), not value.startswith("(")) for at, value in enumerate(values)]}


A, B = Append(0, 1.0, 2.0, 0), Append(1, 3.0, 4.0, 1)
UNANSWERED = Append(1, 3.0)


@pytest.mark.parametrize(
    ("written", "stored", "broken"),
    [
        (writer(A, B), log("w:0:0", "w:0:1"), []),
        (writer(A, UNANSWERED), log("w:0:0"), []),
        (writer(A, UNANSWERED), log("w:0:0", "w:0:1"), []),
        (writer(A, is_exact=False), log("w:0:0", "w:0:0"), []),
        (writer(A), log("w:0:0", "w:0:0"), [Name.DOUBLED_RECORD]),
        (writer(A, B), log("w:0:0"), [Name.LOST_RECORD]),
        (writer(A, B), {}, [Name.LOST_RECORD, Name.LOST_RECORD]),
        (writer(A), log("w:0:0", "x:0:0"), [Name.RECORD_FROM_NOWHERE]),
        (writer(Append(0, 1.0, 2.0, 1), UNANSWERED), log("w:0:0", "w:0:1"), [Name.MOVED_RECORD]),
        # Sent together, so only the numbers show the order that the producer promised.
        (
            writer(Append(0, 1.0, 2.0, 1), Append(1, 1.0, 2.0, 0)),
            log("w:0:1", "w:0:0"),
            [Name.REORDERED_RECORDS],
        ),
        (writer(Append(0, 1.0, 2.0, 1), Append(1, 1.0, 2.0, 0), is_exact=False), log("w:0:1", "w:0:0"), []),
        # The second has no outcome, but was sent after the first had been acknowledged.
        (writer(Append(0, 1.0, 2.0, 1), UNANSWERED), log("w:0:1", "w:0:0"), [Name.REORDERED_RECORDS]),
        # The same time for both: neither order is wrong.
        (writer(Append(0, 1.0, 4.0, 1), UNANSWERED), log("w:0:1", "w:0:0"), []),
    ],
)
def test_what_was_acknowledged_is_in_the_log_in_its_order(written: Writer, stored: dict, broken: list[Name]) -> None:
    assert names(check_records([written], stored)) == broken


def test_the_order_of_two_writers_is_that_of_real_time() -> None:
    first, second = writer(Append(0, 1.0, 2.0, 1), name="v"), writer(Append(0, 3.0, 4.0, 0))
    assert names(check_records([first, second], log("w:0:0", "v:0:0"))) == [Name.REORDERED_RECORDS]
    assert names(check_records([first, writer(Append(0, 1.5, 4.0, 0))], log("w:0:0", "v:0:0"))) == []


def rows(*offsets: int, values: str = "abcde") -> list[tuple[int, int, str, str]]:
    return [(0, offset, "", values[offset]) for offset in offsets]


@pytest.mark.parametrize(
    ("spans", "broken"),
    [
        ([rows(0, 1, 2)], []),
        ([rows(1, 2), rows(0, 1)], []),  # another assignment may begin anywhere
        ([rows(0, 2)], [Name.SKIPPED_RECORDS, Name.UNREAD_RECORD]),
        ([rows(0, 1, 0, 1, 2)], [Name.REREAD_RECORDS]),
        ([rows(0, 1)], [Name.UNREAD_RECORD]),
        ([rows(0, 1, 2, values="axcde")], [Name.VANISHED_RECORD]),
        ([rows(0, 1, 2, 3)], [Name.VANISHED_RECORD]),
    ],
)
def test_what_was_read_is_in_the_log(spans: list[list[tuple[int, int, str, str]]], broken: list[Name]) -> None:
    group = GroupHistory("g", "t", [Reader("r", "t", spans=spans)], [OffsetFetch(0, 3, 8.0, 9.0)])
    assert names(check_reads(group, log("a", "b", "c"))) == broken


@pytest.mark.parametrize(("offsets", "broken"), [((0, 2), []), ((0, 1, 2), [Name.ABORTED_RECORD_READ])])
def test_a_read_committed_consumer_skips_what_was_aborted(offsets: tuple[int, ...], broken: list[Name]) -> None:
    group = GroupHistory("g", "t", [Reader("r", "t", True, [rows(*offsets)])], [OffsetFetch(0, 3, 8.0, 9.0)])
    assert names(check_reads(group, log("a", "(b)", "c"))) == broken


EARLY, LATE = Commit(0, 5, 1.0, 2.0), Commit(0, 9, 3.0, 4.0)


@pytest.mark.parametrize(
    ("commits", "fetched", "broken"),
    [
        ([EARLY, LATE], (9, 5.0, 6.0), []),
        ([EARLY, LATE], (5, 5.0, 6.0), [Name.LOWERED_COMMIT]),
        ([EARLY, LATE], (-1, 5.0, 6.0), [Name.LOWERED_COMMIT]),
        ([EARLY, LATE], (5, 3.5, 6.0), []),  # asked while the later one was under way
        ([EARLY, LATE], (7, 5.0, 6.0), [Name.COMMIT_FROM_NOWHERE]),
        ([EARLY, LATE], (9, 2.2, 2.5), [Name.COMMIT_FROM_NOWHERE]),  # answered before it was sent
        ([EARLY, Commit(0, 9, 3.0)], (5, 9.0, 9.5), []),  # the later one never took effect
        ([EARLY, Commit(0, 9, 3.0)], (9, 9.0, 9.5), []),  # or it did
        ([Commit(0, 5, 1.0), LATE], (5, 9.0, 9.5), []),  # a lost request that arrived late
        ([Commit(0, 5, 1.0, 3.5), LATE], (5, 9.0, 9.5), []),  # both at once: either may be the last
        ([], (-1, 5.0, 6.0), []),
        ([], (3, 5.0, 6.0), [Name.COMMIT_FROM_NOWHERE]),
    ],
)
def test_committed_offsets_keep_the_last_acknowledged_commit(
    commits: list[Commit], fetched: tuple[int, float, float], broken: list[Name]
) -> None:
    group = GroupHistory("g", "t", [Reader("r", "t", commits=commits)], [OffsetFetch(0, *fetched)])
    assert names(check_commits(group)) == broken


def test_offsets_of_transactions_never_go_back() -> None:
    fetches = [OffsetFetch(0, 5, 1.0, 2.0), OffsetFetch(0, 9, 1.5, 2.5), OffsetFetch(0, 5, 3.0, 4.0)]
    assert names(check_rising(GroupHistory("g", "t", fetches=fetches))) == [Name.LOWERED_COMMIT]
    assert names(check_rising(GroupHistory("g", "t", fetches=fetches[:2]))) == []


@pytest.mark.parametrize(
    ("is_committed", "stored", "broken"),
    [
        (True, ("w:0:0", "w:0:1"), []),
        (False, ("(w:0:0)", "(w:0:1)"), []),
        (False, (), []),
        (None, (), []),
        (None, ("w:0:0", "w:0:1"), []),
        (None, ("w:0:0",), [Name.TORN_TRANSACTION]),
        (True, ("w:0:0", "(w:0:1)"), [Name.TORN_TRANSACTION]),
        (True, ("(w:0:0)", "(w:0:1)"), [Name.LOST_TRANSACTION]),
        (False, ("w:0:0", "w:0:1"), [Name.ABORTED_TRANSACTION_VISIBLE]),
    ],
)
def test_a_transaction_is_visible_as_a_whole_or_not_at_all(
    is_committed: bool | None, stored: tuple[str, ...], broken: list[Name]
) -> None:
    wrote = Writer("w", "t", True, True, transactions=[Transaction([(0, 0), (0, 1)], is_committed)])
    assert names(check_transactions(wrote, log(*stored))) == broken


@pytest.mark.parametrize(
    ("copies", "broken"),
    [
        (("0@0", "0@2"), []),
        (("0@0", "(0@2)", "0@2"), []),
        (("0@0",), [Name.LOST_COPY]),
        (("0@0", "0@2", "0@2"), [Name.DOUBLED_COPY]),
        (("0@0", "0@2", "0@3"), [Name.DOUBLED_COPY]),  # copied, but its offset was not committed with it
    ],
)
def test_a_copy_is_visible_where_its_offset_is_committed(copies: tuple[str, ...], broken: list[Name]) -> None:
    group = GroupHistory("g", "t", fetches=[OffsetFetch(0, 3, 1.0, 2.0)])
    stored = log("a", "(b)", "c", "d") | {("copied", 0): log(*copies)["t", 0]}
    assert names(check_copies(group, "copied", stored)) == broken


def test_histories_are_read_from_lines_and_a_torn_last_line_is_left_out() -> None:
    events = [
        {"event": "append", "partition": 0, "first": 0, "count": 2, "at_s": 1.0},
        {"event": "begin", "records": [[0, 0], [0, 1]], "at_s": 1.1},
        {"event": "appended", "partition": 0, "number": 1, "offset": 8, "at_s": 2.0},
        {"event": "end", "outcome": "aborted", "at_s": 2.1},
    ]
    wrote = Writer("w", "t")
    take_lines(wrote, [*(json.dumps(each) + "\n" for each in events), '{"event": "appen'])
    assert wrote.appends == {0: [Append(0, 1.0), Append(1, 1.0, 2.0, 8)]}
    assert wrote.acknowledged == 1
    assert wrote.transactions == [Transaction([(0, 0), (0, 1)], False)]


def test_a_commit_without_a_confirmation_is_of_unknown_outcome() -> None:
    events = [
        {"event": "committing", "offsets": {"0": 5}, "at_s": 1.0},
        {"event": "refused", "error": "x", "at_s": 1.5},
        {"event": "committing", "offsets": {"0": 5, "1": 7}, "at_s": 2.0},
        {"event": "committed", "offsets": {"0": 5, "1": 7}, "at_s": 3.0},
        {"event": "owns", "partitions": [], "why": "revoked", "at_s": 3.1},
        {"event": "read", "records": [[1, 2, "k", "v"]], "at_s": 3.2},
        {"event": "committing", "offsets": {"1": 8}, "at_s": 4.0},
    ]
    reader = Reader("r", "t")
    take_lines(reader, map(json.dumps, events))
    assert reader.commits == [Commit(0, 5, 1.0), Commit(0, 5, 2.0, 3.0), Commit(1, 7, 2.0, 3.0), Commit(1, 8, 4.0)]
    assert reader.spans == [[], [(1, 2, "k", "v")]]
