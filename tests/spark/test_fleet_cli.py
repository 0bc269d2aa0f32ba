"""`kohort fleet` as it is typed: the demo, and on its tables every other verb."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FLEET = [sys.executable, "-m", "kohort.cli", "fleet"]


def typed(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run one command line."""
    outcome = subprocess.run([*FLEET, *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == status, outcome.stderr
    return outcome


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet") / "demo"


@pytest.fixture(scope="module")
def demo(out: Path) -> dict[str, Any]:
    """What the demo of a small fleet says."""
    outcome = typed("demo", "--groups", "60", "--seed", "3", "--out", out, "--json", "--master", "local[2]")
    for stage in ("made 60 groups", "read the records", "looked for what is wrong", "gathered the report"):
        assert f"kohort: {stage}" in outcome.stderr
    return dict(json.loads(outcome.stdout))


def files(directory: Path) -> dict[Path, int]:
    """The files below a directory, by when they were written; but for the lock, which has nothing in it."""
    return {file: file.stat().st_mtime_ns for file in directory.rglob("*") if file.is_file() and file.name != "lock"}


def test_the_demo_goes_from_a_made_fleet_to_its_report(demo: dict[str, Any], out: Path) -> None:
    assert demo["is_new"]
    assert demo["quarantined"] == 0
    truth = json.loads((out / "log" / "truth.json").read_text())
    assert demo["records"] == truth["records"]
    scores = {score["finding"]: score for score in demo["scores"]}
    expected = {finding for _, known, _, _ in truth["groups"].values() for finding in known}
    assert {finding for finding, score in scores.items() if score["right"]} == expected
    page = (out / "report.html").read_text(encoding="utf-8")
    assert demo["headline"] in page
    assert page.count("data-plot=") > 3


def test_a_run_on_what_was_read_changes_nothing(demo: dict[str, Any], out: Path) -> None:
    before = files(out / "tables")
    outcome = typed("run", "--tables", out / "tables", f"demo={out / 'log'}", "--master", "local[2]")
    assert f"nothing new: {out / 'tables'} stays as run {demo['run']} left it" in outcome.stdout
    assert files(out / "tables") == before


def test_a_report_is_one_document_too(demo: dict[str, Any], out: Path) -> None:
    outcome = typed("report", "--tables", out / "tables", "--json", "--master", "local[2]")
    written = json.loads(outcome.stdout)
    assert written["headline"] == demo["headline"]
    assert written["read"]["records"] == demo["records"]
    assert written["totals"]["groups"] == len(written["groups"]) == 60
    listed = json.loads(typed("findings", "--tables", out / "tables", "--json").stdout)
    by_rule = {rule["rule"]: sum(rule["severities"].values()) for rule in written["rules"]}
    assert sum(by_rule.values()) == len(listed) == demo["findings"]


def test_a_demo_begins_anew_and_takes_nothing_else_away(demo: dict[str, Any], out: Path) -> None:
    """It removes what a demo wrote; a directory with other things in it is refused."""
    assert demo["run"] == 1
    other = out.parent / "mine"
    (other / "log").mkdir(parents=True)
    (other / "log" / "notes.txt").write_text("mine")
    outcome = typed("demo", "--groups", "1", "--out", other, status=2)
    assert "is not empty" in outcome.stderr
    assert (other / "log" / "notes.txt").read_text() == "mine"
