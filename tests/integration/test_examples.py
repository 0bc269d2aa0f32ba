"""Every example runs, and prints what is kept beside it; those that are tests pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
TESTS = sorted(EXAMPLES.glob("test_*.py"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=EXAMPLES, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_prints_what_is_kept_beside_it(script: Path) -> None:
    outcome = run(script.name)
    assert (outcome.stdout, outcome.stderr) == (script.with_suffix(".txt").read_text(encoding="utf-8"), "")


@pytest.mark.parametrize("module", TESTS, ids=lambda path: path.name)
def test_an_example_of_a_test_passes(module: Path) -> None:
    outcome = run("-m", "pytest", "-q", "-p", "no:cacheprovider", module.name)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
