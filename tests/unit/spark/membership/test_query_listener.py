"""What the listener passes on of what Spark says: ends of batches and of queries, to readers of ours alone."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kohort.spark.membership.group_progress import GroupProgress
from kohort.spark.membership.query_listener import MemberListener

END = {"version": 1, "group": "g", "batch": 3, "reader": "ab"}


def progress(*offsets: str | None, run: str = "run") -> Any:
    sources = [SimpleNamespace(endOffset=each) for each in offsets]
    return SimpleNamespace(progress=SimpleNamespace(runId=run, sources=sources))


def test_only_the_reader_of_a_source_receives_its_batch() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    listener = MemberListener(lambda reader, end: bool(calls.append((reader, end))))
    listener.onQueryProgress(progress(json.dumps(END), "17", None, '{"flights": {"0": 3}}', "no json"))
    assert calls == [("ab", END)]


def test_the_readers_of_a_query_are_notified_of_its_end_once() -> None:
    calls: list[str] = []
    listener = MemberListener(lambda *_: True, lambda reader: bool(calls.append(reader)))
    listener.onQueryProgress(progress(json.dumps(END)))
    listener.onQueryProgress(progress(json.dumps(END | {"reader": "cd"}), run="another"))
    for _ in range(2):
        listener.onQueryTerminated(SimpleNamespace(runId="run"))
    assert calls == ["ab"]


def test_progress_in_the_group_is_logged_at_info(caplog: pytest.LogCaptureFixture) -> None:
    reached = GroupProgress("delays", "member-1", 4, 2, 30, 20, 3, 7)
    event = progress(json.dumps(END))
    event.progress.name, event.progress.id = "totals", "1"
    event.progress.sources[0].latestOffset = json.dumps({"group": "delays", "generation": 4} | reached.to_json())
    with caplog.at_level(logging.INFO):
        MemberListener(lambda *_: True).onQueryProgress(event)
    assert f"query totals: {reached}" in caplog.text
