"""`kohort fleet` as it is typed: the demo in a process of its own, and on its tables every other verb."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fleets.__main__ import RECORDED_GROUPS

from kohort.cli.main import main
from kohort.fleet.findings import NAMES

pytestmark = pytest.mark.timeout(900)

FLEET = [sys.executable, "-m", "kohort", "fleet"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet") / "demo"


@pytest.fixture(scope="module")
def demo(out: Path) -> dict[str, Any]:
    """What the demo reports."""
    demo = ["demo", "--out", str(out), "--json"]
    outcome = subprocess.run([*FLEET, *demo], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    stages = ("read the records", "applied the rules", "gathered the report")
    for stage in stages:
        assert f"kohort: {stage}" in outcome.stderr
    assert "Spark" not in outcome.stderr
    return dict(json.loads(outcome.stdout))


def files(directory: Path) -> dict[Path, int]:
    """The files below a directory, by when they were written."""
    return {file: file.stat().st_mtime_ns for file in directory.rglob("*") if file.is_file()}


def test_the_demo_goes_from_a_recorded_fleet_to_its_report(demo: dict[str, Any], out: Path) -> None:
    assert demo["is_new"]
    assert demo["quarantined"] == 0
    truth = json.loads((out / "log" / "truth.json").read_text())
    assert demo["records"] == truth["records"]
    scores = {score["finding"]: score for score in demo["scores"]}
    expected = {finding for _, known, _, _ in truth["groups"].values() for finding in known}
    assert {finding for finding, score in scores.items() if score["right"]} == expected == set(NAMES)
    assert all(score["precision"] == score["recall"] == 1 for score in scores.values())
    page = (out / "report.html").read_text(encoding="utf-8")
    assert demo["headline"] in page
    assert page.count("data-plot=") > 3


def test_a_run_on_what_was_read_changes_nothing(
    demo: dict[str, Any], out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = files(out / "tables")
    assert main(["fleet", "run", "--tables", f"{out / 'tables'}", f"demo={out / 'log'}"]) == 0
    printed = capfd.readouterr()
    assert f"nothing new: {out / 'tables'} stays as run {demo['run']} left it" in printed.out
    assert files(out / "tables") == before


def test_a_report_is_one_document_too(demo: dict[str, Any], out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "report", "--tables", f"{out / 'tables'}", "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert written["headline"] == demo["headline"]
    assert written["read"]["records"] == demo["records"]
    assert written["totals"]["groups"] == len(written["groups"]) == RECORDED_GROUPS
    assert main(["fleet", "findings", "--tables", f"{out / 'tables'}", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    by_rule = {rule["rule"]: sum(rule["severities"].values()) for rule in written["rules"]}
    assert sum(by_rule.values()) == len(listed) == demo["findings"]


def test_a_demo_begins_anew_and_takes_nothing_else_away(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It removes what a demo wrote; a directory with other things in it is refused."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "notes.txt").write_text("mine")
    assert main(["fleet", "demo", "--out", str(tmp_path)]) == 2
    assert "is not empty" in capfd.readouterr().err
    assert (tmp_path / "log" / "notes.txt").read_text() == "mine"
