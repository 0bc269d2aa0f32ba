"""What the listener passes on of what Spark says: ends of batches and of queries, to readers of ours alone."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

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
