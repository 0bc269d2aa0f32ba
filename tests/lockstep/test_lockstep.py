"""A small lockstep, of which `make lockstep` is the large one: the sides differ only where the table says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from interop.unavailable import Unavailable
from tests.lockstep import assignors, authorizer, streams_groups, streams_tasks, tasks, transactions
from tests.lockstep.apache import Apache
from tests.lockstep.differences import TABLE
from tests.lockstep.run import again, run, shrink

from interop import jars

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def kafka() -> Iterator[Apache]:
    yield from started("pom.xml")


@pytest.fixture(scope="module")
def newest() -> Iterator[Apache]:
    yield from started(jars.NEWEST)


def started(pom: str) -> Iterator[Apache]:
    """Yield the coordinator of a pom's jars."""
    try:
        theirs = Apache(pom)
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield theirs
    theirs.close()


@pytest.mark.parametrize("seed", range(12))
def test_coordinators_differ_only_as_listed(kafka: Apache, seed: int) -> None:
    found = run(kafka, seed)
    assert found.failure is None, found.reason
    assert len(found.steps) > 100


@pytest.mark.parametrize("seed", range(12, 18))
def test_coordinator_of_the_newest_kafka_differs_only_as_listed(newest: Apache, seed: int) -> None:
    found = run(newest, seed)
    assert found.failure is None, found.reason


def test_one_seed_is_one_run(kafka: Apache) -> None:
    lines: list[list[str]] = [[], []]
    steps = run(kafka, 3).steps
    for each in lines:
        again(kafka, 3, steps, each.append)
    assert lines[0] == lines[1]


def test_difference_that_is_not_listed_fails_and_is_shrunk_to_what_it_needs(
    kafka: Apache, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlisted = "a generation is stored when it forms"
    monkeypatch.setattr("tests.lockstep.pair.TABLE", tuple(each for each in TABLE if each.name != unlisted))
    failed = next(found for seed in range(20) if (found := run(kafka, seed)).failure is not None)
    short = shrink(kafka, failed)
    assert 1 <= len(short.steps) <= 4
    assert "GroupStored" in short.reason


@pytest.fixture(scope="module")
def kafkas_transactions() -> Iterator[transactions.Kafkas]:
    try:
        theirs = transactions.Kafkas()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield theirs
    theirs.close()


@pytest.mark.parametrize("seed", range(12))
def test_transaction_coordinators_differ_only_as_listed(kafkas_transactions: transactions.Kafkas, seed: int) -> None:
    found = transactions.run(kafkas_transactions, seed)
    assert found.failure is None, found.failure
    assert len(found.steps) > 50


def test_unlisted_difference_of_transactions_fails_and_is_shrunk(
    kafkas_transactions: transactions.Kafkas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.lockstep.transactions.TRANSACTIONS", ())
    failed = next(found for seed in range(5) if (found := transactions.run(kafkas_transactions, seed)).failure)
    short = transactions.shrink(kafkas_transactions, failed)
    assert len(short.steps) <= 5
    assert short.failure is not None


@pytest.fixture(scope="module")
def kafkas_streams_groups() -> Iterator[Apache]:
    try:
        theirs = streams_groups.program()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield theirs
    theirs.close()


@pytest.mark.parametrize("seed", range(10))
def test_streams_groups_differ_only_as_listed(kafkas_streams_groups: Apache, seed: int) -> None:
    found = streams_groups.run(kafkas_streams_groups, seed)
    assert found.failure is None, found.failure
    assert len(found.steps) == streams_groups.STEPS or found.ended


def test_unlisted_difference_of_streams_groups_fails_and_is_shrunk(
    kafkas_streams_groups: Apache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.lockstep.streams_groups.STREAMS", ())
    failed = next(found for seed in range(5) if (found := streams_groups.run(kafkas_streams_groups, seed)).failure)
    short = streams_groups.shrink(kafkas_streams_groups, failed)
    assert len(short.steps) <= 4
    assert short.failure is not None


def test_assignors_are_no_worse_than_kafkas() -> None:
    try:
        java = assignors.Java()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        found = assignors.compare(java, 600)
    finally:
        java.close()
    assert not found.worse, "\n".join(found.worse)


def placements(of: ModuleType) -> Any:
    """Return how our placements of tasks compare to Kafka's, of which none may be worse."""
    try:
        java = of.Java()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        found = of.compare(java, 100)
    finally:
        java.close()
    assert not found.worse, "\n".join(found.worse)
    return found


def test_placements_of_tasks_are_no_worse_than_those_of_kafka_streams() -> None:
    found = placements(tasks)
    assert found.ours.moves < found.theirs.moves


def test_placements_of_streams_groups_are_no_less_even_than_kafkas() -> None:
    assert placements(streams_tasks).more_even


def test_authorizers_answer_every_question_alike() -> None:
    try:
        theirs = authorizer.Kafkas()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        runs = [authorizer.run(theirs, seed) for seed in range(5)]
    finally:
        theirs.close()
    assert [run.failure for run in runs if run.failure] == []
    answers = sum((run.answers for run in runs), Counter[str]())
    assert min(answers["0"], answers["1"]) > 1000, "both answers are common"
