"""What the log of a Delta table says of our commits: whether their rows are still there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.tables.delta_log import Commit, app_id, id_number, id_text, parse_commit, read_commits, require_rows
from kohort.spark.tables.table import TableBroken, positions_at

P, Q = TopicPartition("flights", 0), TopicPartition("flights", 1)


def commit(offsets: dict[TopicPartition, int], group: str = "g") -> dict[str, Any]:
    return {"operation": "WRITE", "transactions": {app_id(group, each): at for each, at in offsets.items()}}


def restore(version: int) -> dict[str, Any]:
    return {"operation": "RESTORE", "parameters": {"version": str(version)}}


def check(found: dict[TopicPartition, int], *oldest_first: dict[str, Any]) -> None:
    commits = [Commit(at, 1_000_000 * at, **entry) for at, entry in enumerate(oldest_first)]
    require_rows("t", "g", positions_at(found), [P, Q], reversed(commits))


def test_commits_whose_rows_are_there() -> None:
    check({})
    check({P: 20, Q: 5}, commit({P: 10, Q: 5}), {"operation": "OPTIMIZE"}, commit({P: 20}), commit({P: 99}, "other"))
    check({P: 20}, {"operation": "WRITE"}, commit({P: 20}), restore(1))


def test_rows_that_a_restore_took_away() -> None:
    with pytest.raises(TableBroken, match=r"t was restored .* of group g of flights-0 below offset 20 are gone"):
        check({P: 20, Q: 5}, commit({P: 10, Q: 5}), commit({P: 20}), restore(0))


def test_offsets_that_were_set_after_a_restore_count() -> None:
    check({P: 10, Q: 5}, commit({P: 10, Q: 5}), commit({P: 20}), restore(0), commit({P: 10}))


def test_restores_that_a_later_restore_undid() -> None:
    check({P: 20, Q: 5}, commit({Q: 5}), commit({P: 20}), restore(0), restore(1))
    with pytest.raises(TableBroken, match="below offset 20 are gone"):
        check({P: 20, Q: 5}, commit({Q: 5}), commit({P: 20}), restore(0), {"operation": "WRITE"}, restore(3))


def test_a_restore_to_a_time() -> None:
    first, second = (datetime.fromtimestamp(each / 1000, UTC).isoformat() for each in (500_000, 1_500_000))
    back = {"operation": "RESTORE", "parameters": {"timestamp": second, "version": None}}
    check({P: 20, Q: 5}, commit({Q: 5}), commit({P: 20}), back)
    with pytest.raises(TableBroken, match="below offset 20 are gone"):
        check({P: 20, Q: 5}, commit({Q: 5}), commit({P: 20}), {**back, "parameters": {"datetime": first}})


def test_offsets_that_expired() -> None:
    with pytest.raises(TableBroken, match="flights-1 up to offset 5, and its offset there is None: application trans"):
        check({P: 20}, commit({P: 20, Q: 5}))


def log_of(commits: int, first: int = 0) -> dict[str, bytes]:
    lines = [{"commitInfo": {"operation": "WRITE", "timestamp": 5}}, {"add": {"path": "x"}}]
    return {
        f"_delta_log/{version:020}.json": b"\n".join(
            json.dumps(each).encode() for each in [*lines, {"txn": {"appId": "a", "version": version}}]
        )
        for version in range(first, commits)
    }


def read_from(log: dict[str, bytes]) -> Any:
    def read(path: str) -> bytes:
        if path not in log:
            raise FileNotFoundError(path)
        return log[path]

    return read


def test_commits_are_read_from_the_newest_back_to_where_the_log_was_cleaned() -> None:
    found = list(read_commits(read_from(log_of(300)), 299, 20))
    assert [each.version for each in found] == list(range(299, 19, -1))
    assert found[-1].transactions == {"a": 20}
    assert [each.version for each in read_commits(read_from(log_of(300, first=250)), 299, 0)][-1] == 250
    assert list(read_commits(read_from({}), 7, 0)) == []


def test_a_commit_without_information_is_one_of_another_tool() -> None:
    assert parse_commit(3, b'{"add":{"path":"txn"}}\n') == Commit(3)


@pytest.mark.parametrize("topic_id", ["9w3YQ1aBR0mzUq2vXk7Wlg", "__________-", "AAAAAAAAAAAA", "b", None])
def test_the_beginning_of_a_topics_id_is_a_version(topic_id: str | None) -> None:
    assert 0 <= id_number(topic_id) < 1 << 63
    assert id_text(id_number(topic_id)) == (topic_id and topic_id[:10])
