"""Seeds that once failed pass."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kohort.sim.swarm.batch import run_seed

CORPUS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "corpus.toml").read_text()).get("seed", [])


@pytest.mark.parametrize("case", CORPUS, ids=[f"{case['number']}-{case['invariant']}" for case in CORPUS])
def test_a_seed_that_once_failed_passes(case: dict[str, Any]) -> None:
    outcome = run_seed(case["number"])
    assert outcome.broken is None, f"{outcome.broken}: kohort sim --seed {case['number']}"
