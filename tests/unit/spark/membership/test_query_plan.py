"""What a listener publishes of the plans of queries, and which plan the reader of a source claims."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort.spark.membership.query_listener import (
    claim,
    is_published,
    options_key,
    publish,
    stateful_operators,
    withdraw,
)

COUNT, NONE = frozenset({"Aggregate"}), frozenset[str]()
OPTIONS = {"subscribe": "clicks", "group.id": "g"}
KEY = options_key(OPTIONS)
APPLICATION = 1
"""A process that runs on every machine."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return runtime / "kohort"


class Children(tuple["Node", ...]):
    """A sequence of Scala, as py4j shows it."""

    def size(self) -> int:
        return len(self)

    def apply(self, number: int) -> Node:
        return self[number]


class Node:
    """A node of a logical plan, as py4j shows it; with options it is a source."""

    def __init__(self, name: str, *below: Node, options: dict[str, str] | None = None, source: str = "kohort") -> None:
        self._name, self._below, self._options, self._source = name, Children(below), options, source

    def nodeName(self) -> str:  # noqa: N802
        return self._name

    def children(self) -> Children:
        return self._below

    def isStreaming(self) -> bool:  # noqa: N802
        return self._options is not None or any(each.isStreaming() for each in self._below)

    def sourceName(self) -> str:  # noqa: N802
        return self._source

    def extraOptions(self) -> Node:  # noqa: N802
        return self

    def asCaseSensitiveMap(self) -> dict[str, str]:  # noqa: N802
        assert self._options is not None
        return self._options


def load(source: str = "kohort", **options: str) -> Node:
    return Node("StreamingRelationV2", options=OPTIONS | options, source=source)


def other() -> Node:
    return load(source="rate")


@pytest.mark.parametrize(
    ("plan", "operators"),
    [
        (load(), NONE),
        (Node("Project", Node("Filter", load())), NONE),
        (Node("Project", Node("Aggregate", Node("EventTimeWatermark", load()))), COUNT),
        (Node("Deduplicate", Node("Aggregate", load())), COUNT | {"Deduplicate"}),
        (Node("Join", load(), Node("LocalRelation")), NONE),
        (Node("Join", load(), other()), frozenset({"Join"})),
        (Node("Join", Node("Aggregate", load()), Node("LocalRelation")), COUNT),
        (Node("Union", load(), Node("Aggregate", other())), NONE),
        (Node("TransformWithStateInPySpark", load()), frozenset({"TransformWithStateInPySpark"})),
    ],
)
def test_operators_with_state_count_for_the_sources_below_them(plan: Node, operators: frozenset[str]) -> None:
    assert stateful_operators(plan) == {KEY: operators}


def test_sources_of_other_formats_are_none_of_ours_and_sources_of_a_join_differ_by_their_options() -> None:
    assert stateful_operators(Node("Aggregate", other())) == {}
    join = Node("Join", load(), Node("Deduplicate", load(subscribe="views")))
    views = options_key(OPTIONS | {"subscribe": "views"})
    assert stateful_operators(join) == {KEY: frozenset({"Join"}), views: frozenset({"Join", "Deduplicate"})}


def test_options_are_recognized_in_any_case_and_order_and_not_shown() -> None:
    turned: dict[str, Any] = {name.upper(): value for name, value in reversed(OPTIONS.items())}
    assert options_key(turned) == KEY
    assert "clicks" not in KEY


def test_a_reader_claims_the_plan_of_its_query_until_that_has_ended() -> None:
    assert claim(APPLICATION, KEY) is None
    publish(APPLICATION, "run", {KEY: COUNT})
    assert is_published("run")
    assert claim(APPLICATION + 1, KEY) is None
    assert claim(APPLICATION, "another") is None
    for _ in range(2):  # by each source of the query
        assert claim(APPLICATION, KEY) == COUNT
    withdraw(APPLICATION, "run")
    assert claim(APPLICATION, KEY) is None
    assert not is_published("run")


@contextmanager
def publishing(run: str, operators: frozenset[str]) -> Iterator[None]:
    thread = threading.Thread(target=publish, args=(APPLICATION, run, {KEY: operators}))
    thread.start()
    yield
    thread.join()


def test_two_queries_with_equal_options_each_have_their_own_plan() -> None:
    publish(APPLICATION, "first", {KEY: NONE})
    with publishing("second", COUNT):
        assert claim(APPLICATION, KEY) == NONE
    assert claim(APPLICATION, KEY) == COUNT


def test_a_plan_does_not_wait_for_a_query_that_has_ended_before_its_reader_began() -> None:
    publish(APPLICATION, "first", {KEY: NONE})
    with publishing("second", COUNT):
        withdraw(APPLICATION, "first")
    assert claim(APPLICATION, KEY) == COUNT


def test_equal_plans_wait_for_no_one_and_no_reader_takes_one_for_less_than_it_is() -> None:
    for run in ("first", "second"):
        publish(APPLICATION, run, {KEY: COUNT})
    assert claim(APPLICATION, KEY) == claim(APPLICATION, KEY) == COUNT
    publish(APPLICATION, "third", {KEY: NONE}, patience_s=0.0)
    assert claim(APPLICATION, KEY) == COUNT


def test_plans_of_applications_that_were_killed_are_removed(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    publish(ended.pid, "run", {KEY: COUNT})
    publish(APPLICATION, "run", {KEY: COUNT})
    assert [path.name for path in folder.iterdir()] == [f"{APPLICATION}-{KEY}-run.plan"]


def test_a_directory_that_others_may_enter_has_no_plans(folder: Path) -> None:
    publish(APPLICATION, "run", {KEY: COUNT})
    folder.chmod(0o755)
    assert claim(APPLICATION, KEY) is None
