"""`kohort dlq`: what is in a dead-letter topic, and each record back to where it came from, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.commands import Commands, Outcome

from kohort.testing import EmbeddedBroker
from kohort.wire.record_batches import CorruptBatch

ALL = ("--from-beginning", "--timeout-ms", "300", "--json")


def letter(value: str, kind: str, topic: str | None = "orders", **more: str) -> str:
    """Return a dead letter as a line of `produce --json`."""
    headers = {
        "own": "kept",
        "__connect.errors.topic": topic,
        "__connect.errors.partition": "3",
        "__connect.errors.offset": "17",
        "__connect.errors.connector.name": "billing",
        "__connect.errors.exception.class.name": kind,
        "__connect.errors.exception.message": f"no {value}",
        "kohort.error.attempts": "4",
    }
    given = {name: each for name, each in headers.items() if each is not None}
    return json.dumps({"key": "k", "value": value, "headers": given, "timestamp": 1_000, **more})


@pytest.fixture
def shared_broker() -> Iterator[EmbeddedBroker]:
    """Return a broker for each test: all use the same topics."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture
def letters(kohort: Commands) -> Commands:
    for topic in ("orders", "orders.dlq"):
        kohort("topics", "create", topic)
    kinds = ("builtins.ValueError", "builtins.TimeoutError", "builtins.ValueError")
    lines = "\n".join(letter(f"v{at}", kind) for at, kind in enumerate(kinds))
    assert kohort("produce", "orders.dlq", "--json", stdin=lines.encode()).status == 0
    return kohort


def documents(outcome: Outcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outcome.out.splitlines()]


def values(kohort: Commands, topic: str) -> list[str]:
    return [each["value"] for each in documents(kohort("consume", topic, *ALL))]


def test_a_list_counts_records_by_where_they_failed_and_why(letters: Commands) -> None:
    assert letters("dlq", "list", "orders.dlq").rows == [
        ["TOPIC", "GROUP", "EXCEPTION", "RECORDS"],
        ["orders", "billing", "builtins.ValueError", "2"],
        ["orders", "billing", "builtins.TimeoutError", "1"],
    ]
    (row,) = letters("dlq", "list", "orders.dlq", "--error", "Timeout", "--json").json
    assert row == {"topic": "orders", "group": "billing", "exception": "builtins.TimeoutError", "records": 1}


def test_a_letter_is_shown_with_where_it_came_from_and_why(letters: Commands) -> None:
    shown = letters("dlq", "show", "orders.dlq", "--max", "1").out
    assert shown.splitlines() == [
        "partition 0 offset 0, from orders-3 offset 17, group billing",
        "  builtins.ValueError: no v0",
        '  key "k"',
        '  value "v0"',
    ]
    (document,) = documents(letters("dlq", "show", "orders.dlq", "--error", "no v1", "--json"))
    assert document["error"]["attempts"] == "4"
    assert (document["value"], document["error"]["exception.class.name"]) == ("v1", "builtins.TimeoutError")


def test_each_record_is_replayed_once_with_its_own_headers_and_where_it_was(letters: Commands) -> None:
    assert letters("dlq", "replay", "orders.dlq").out == "replayed 3 records of orders.dlq\n"
    found = documents(letters("consume", "orders", *ALL))
    assert [each["value"] for each in found] == ["v0", "v1", "v2"]
    assert found[1]["headers"] == [["own", "kept"], ["kohort.replayed", "orders.dlq-0 offset 1"]]
    assert (found[1]["key"], found[1]["timestamp"]) == ("k", 1_000)
    assert letters("dlq", "replay", "orders.dlq").out == "replayed 0 records of orders.dlq\n"
    assert values(letters, "orders") == ["v0", "v1", "v2"]


def test_what_one_replay_leaves_out_a_later_one_finds(letters: Commands) -> None:
    outcome = letters("dlq", "replay", "orders.dlq", "--error", "TimeoutError", "--json")
    assert outcome.json == {"topic": "orders.dlq", "replayed": 1, "left_out": 2, "group": "orders.dlq.replay"}
    assert letters("dlq", "replay", "orders.dlq", "--max", "1").out == "replayed 1 record of orders.dlq, left out 1\n"
    assert letters("dlq", "replay", "orders.dlq").out == "replayed 1 record of orders.dlq\n"
    assert sorted(values(letters, "orders")) == ["v0", "v1", "v2"]


def test_another_group_replays_again_and_to_another_topic(letters: Commands) -> None:
    letters("topics", "create", "retry")
    letters("dlq", "replay", "orders.dlq")
    assert letters("dlq", "replay", "orders.dlq", "--group", "again", "--to", "retry").status == 0
    assert values(letters, "retry") == ["v0", "v1", "v2"]


def test_a_record_without_its_topic_needs_one_and_what_came_before_it_is_not_replayed_again(kohort: Commands) -> None:
    for topic in ("orders", "odd"):
        kohort("topics", "create", topic)
    lines = letter("good", "E") + "\n" + letter("bad", "E", topic=None)
    kohort("produce", "odd", "--json", stdin=lines.encode())
    outcome = kohort("dlq", "replay", "odd")
    assert outcome.status == 1
    assert "offset 1 of odd-0 has no header with the topic it came from: give --to TOPIC" in outcome.err
    assert kohort("dlq", "replay", "odd", "--to", "orders").out == "replayed 1 record of odd\n"
    assert values(kohort, "orders") == ["good", "bad"]


def test_the_letter_of_a_whole_batch_is_never_replayed(letters: Commands) -> None:
    batch = letter("bytes", f"{CorruptBatch.__module__}.{CorruptBatch.__qualname__}")
    assert letters("produce", "orders.dlq", "--json", stdin=batch.encode()).status == 0
    assert letters("dlq", "replay", "orders.dlq").out == "replayed 3 records of orders.dlq, left out 1\n"


@pytest.mark.parametrize("verb", ["list", "show", "replay"])
def test_a_topic_that_does_not_exist_is_a_sentence(kohort: Commands, verb: str) -> None:
    outcome = kohort("dlq", verb, "nowhere")
    assert (outcome.status, outcome.out) == (2, "")
    assert "nowhere" in outcome.err


def test_where_no_record_is_meant_there_is_nothing(letters: Commands) -> None:
    assert letters("dlq", "list", "orders").out == "orders has no such records\n"
    assert letters("dlq", "show", "orders.dlq", "--error", "no such").out == ""
    assert letters("dlq", "replay", "orders.dlq", "--from", "payments").out.startswith("replayed 0 records")
