"""`kohort sim`: one world printed or drawn, many counted, and failures with the command that repeats them."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Generator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kohort.cli import sim
from kohort.cli.main import main, parser_for
from kohort.cli.terminal.output import table
from kohort.sim.scenario.fault_menu import MENU
from kohort.sim.scenario.world_plan import Broken, WorldOutcome
from kohort.sim.swarm.seed_plan import draw_plan

NOTHING = ["--only", "none", "--until", "2"]
"""A world in which no program starts: it is over at once."""


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def outcome(seed: int, invariant: str | None = "Withholding") -> WorldOutcome:
    broken = None if invariant is None else Broken(invariant, "t-0 is granted twice", 5_000_000, 70)
    return WorldOutcome(seed, broken, 100, 9_000_000, 1_000_000, 80, {"kill": 1}, {}, {"Withholding": 3}, {})


def options(*words: str) -> Namespace:
    return parser_for(["sim"]).parse_args(["sim", *words])


def test_a_plan_is_printed_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "5", "--plan"]) == 0
    assert shown(capsys).startswith(f"seed 5: {len(draw_plan(5).steps)} steps")


def test_a_run_that_passes_is_printed_and_its_last_line_reports_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "5", *NOTHING]) == 0
    lines = shown(capsys).splitlines()
    assert lines[0].split() == ["TIME", "EVENT", "WHO", "WHAT", "REST"]
    assert lines[-1].startswith("seed 5: passed")


def test_a_picture_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "world.svg"
    assert main(["sim", "--seed", "5", *NOTHING, "--log", "none", "--picture", str(path)]) == 0
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert len(shown(capsys).splitlines()) == 1


def test_a_failure_is_printed_with_the_command_that_reproduces_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim.print_outcome(options("--seed", "5"), outcome(5), "kohort sim --seed 5 --only 2") == 1
    assert shown(capsys).splitlines() == [
        "seed 5: Withholding broken at 5.000000 s, event 70",
        "  t-0 is granted twice",
        "smaller: kohort sim --seed 5 --only 2",
    ]


def test_many_worlds_are_summed_up_in_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    worlds = (outcome(seed) for seed in (9, 7, 8))
    assert sim.print_summary(options("--seeds", "3", "--no-shrink"), worlds) == 1
    lines = shown(capsys).splitlines()
    assert "  kohort sim --seed 9" in lines
    assert lines[-1].startswith("3 seeds: 3 failed; 300 events")
    assert table(("invariant", "worlds", "compared", "broken"), [("Withholding", 3, 9, 3)]).splitlines()[1] in lines


def test_json_of_many_worlds_has_its_documented_fields(capsys: pytest.CaptureFixture[str]) -> None:
    worlds = (outcome(seed) for seed in (0, 1))
    assert sim.print_summary(options("--seeds", "2", "--no-shrink", "--json"), worlds) == 1
    document = json.loads(shown(capsys))
    assert (document["seeds"], document["failed"], document["invariants"]["Withholding"]["broken"]) == (
        2,
        2,
        2,
    )
    assert [failure["replay"] for failure in document["failures"]] == [
        "kohort sim --seed 0",
        "kohort sim --seed 1",
    ]


def test_ctrl_c_ends_with_the_summary_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> Generator[WorldOutcome, None, None]:
        yield outcome(1, None)
        raise KeyboardInterrupt

    assert sim.print_summary(options("--seeds", "10"), interrupted()) == 130
    last = shown(capsys).splitlines()[-1]
    assert last.startswith("1 seeds: all passed")
    assert last.endswith("; interrupted")


@pytest.mark.parametrize(
    "words", [["--seed", "1", "--jobs", "2"], ["--seeds", "1", "--only", "3"], ["--seed", "1", "--only", "999"]]
)
def test_what_does_not_go_together_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", *words]) == 2
    assert capsys.readouterr().err.startswith("kohort: ")


@pytest.mark.parametrize(("text", "microseconds"), [("12.5", 12_500_000), ("1", 1_000_000)])
def test_times_of_the_world_are_seconds(text: str, microseconds: int) -> None:
    assert sim.seconds_us(text) == microseconds


def test_every_step_of_the_menu_is_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "simulation.md").read_text(encoding="utf-8")
    missing = [fault.name for fault in MENU if f"`{fault.name.removesuffix(' member')}`" not in guide]
    assert not missing
