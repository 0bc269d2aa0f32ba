"""Of a fleet whose truth is known, the rules find what is there and nothing else."""

from __future__ import annotations

import pytest
from tests.depth import PERCENT
from tests.fleets import generate
from tests.fleets.mistakes import mistakes
from tests.unit.fleet.facts_of_a_fleet import findings_of

from kohort.fleet.findings import NAMES
from kohort.fleet.ground_truth import Truth, unpack

PRECISION = RECALL = 0.95


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, set[tuple[str, str]]]:
    """The recorded fleet, or a larger one that is generated, which takes a minute."""
    directory = tmp_path_factory.mktemp("fleet") / "log"
    truth = unpack(directory) if PERCENT <= 100 else generate(directory, groups=160, seed=11)
    return truth, {(finding.group, finding.finding) for finding in findings_of(directory, truth.ended_ms)}


@pytest.mark.timeout(900)
def test_each_finding_is_precise_and_complete(fleet: tuple[Truth, set[tuple[str, str]]]) -> None:
    truth, found = fleet
    scores = {score.finding: score for score in truth.score(found)}
    assert set(scores) == set(NAMES)
    bad = [score for score in scores.values() if score.precision < PRECISION or score.recall < RECALL]
    assert not bad, "\n".join(mistakes(truth, found))


@pytest.mark.timeout(900)
def test_no_group_that_only_looks_ill_is_named(fleet: tuple[Truth, set[tuple[str, str]]]) -> None:
    truth, found = fleet
    assert sum(score.near_misses for score in truth.score(found)) >= 20
    assert [score.finding for score in truth.score(found) if score.fooled] == []
