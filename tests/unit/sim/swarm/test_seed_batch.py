"""Many worlds add up to one tally, whatever order they end in."""

from __future__ import annotations

import gc
import json
import signal

import pytest

from kohort.sim.scenario.world_plan import Broken, WorldOutcome
from kohort.sim.swarm.seed_batch import Tally, read_outcome, run_in_order, run_seeds


def outcome(seed: int, invariant: str | None = None) -> WorldOutcome:
    broken = None if invariant is None else Broken(invariant, "it is so", 2_000_000, 70)
    return WorldOutcome(
        seed, broken, 100, 3_600_000_000, 4_000_000, 80, {"kill": 2}, {"kill": 1}, {"Withholding": 5, "NoDefect": 0}, {}
    )


def test_worlds_add_up() -> None:
    tally = Tally()
    for each in (outcome(2), outcome(1, "Withholding"), outcome(0)):
        tally.add(each)
    assert tally.faults() == [("kill", 3, 6, 3)]
    assert tally.invariants() == [("NoDefect", 0, 0, 0), ("Withholding", 3, 15, 1)]
    assert tally.summary() == "3 seeds: 1 failed; 300 events in 3.0 virtual hours"
    assert [failure["replay"] for failure in tally.as_json()["failures"]] == ["kohort sim --seed 1"]


def test_a_tally_without_failures_reports_it() -> None:
    tally = Tally()
    tally.add(outcome(1))
    assert tally.summary().startswith("1 seeds: all passed")


def test_processes_run_the_worlds_that_one_would() -> None:
    assert sorted(run_seeds(range(3), 2)) == list(run_seeds(range(3), 1))


def test_processes_that_are_ended_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """A command ends by KeyboardInterrupt on a signal, and a process of the batch has its handler when it begins."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        worlds = run_seeds(range(64), 2)
        next(worlds)
        del worlds  # its end ends the processes
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capfd.readouterr().err == ""


def test_garbage_is_collected_again_after_a_batch() -> None:
    for _ in run_in_order(range(1)):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_outcome_comes_back_from_its_json() -> None:
    for each in (outcome(1), outcome(2, "Withholding")):
        assert read_outcome(json.dumps(each)) == each
