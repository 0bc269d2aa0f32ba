"""Seeds that once failed pass."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kohort.sim.swarm.seed_batch import replay_of, run_seed
from kohort.sim.swarm.seed_plan import draw_plan
from kohort.sim.swarm.world_run import run

CORPUS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "corpus.toml").read_text()).get("seed", [])


@pytest.mark.parametrize("case", CORPUS, ids=[f"{case['number']}-{case['invariant']}" for case in CORPUS])
def test_a_seed_that_once_failed_passes(case: dict[str, Any]) -> None:
    # Most are of before there were worlds with Kafka Streams.
    is_streams = case.get("streams", False)
    outcome = run_seed(case["number"], case.get("gateways", 0), case.get("producers", 0), streams=is_streams)
    assert outcome.broken is None, f"{outcome.broken}: {replay_of(outcome)}"


def test_a_leader_of_embedded_version_0_assigns_what_is_still_owned() -> None:
    plan = draw_plan(4252, streams=False)
    assert run(plan).broken is None
    first_leads = ("kohort.group.leader.by.version", "false")
    broken = run(plan._replace(settings=tuple(sorted({*plan.settings, first_leads})))).broken
    assert broken is not None
    assert broken.invariant == "NoDoubleOwnership"
