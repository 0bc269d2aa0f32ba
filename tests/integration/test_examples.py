"""Every example runs, and prints what is kept beside it; those that are tests pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
SPARK = [path for path in SCRIPTS if "kohort.spark" in path.read_text(encoding="utf-8")]
PLAIN = [path for path in SCRIPTS if path not in SPARK]
TESTS = sorted(EXAMPLES.glob("test_*.py"))


def run(*command: str, timeout_s: int = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=EXAMPLES, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def kept(script: Path) -> str:
    return script.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", PLAIN, ids=lambda path: path.name)
def test_an_example_prints_what_is_kept_beside_it(script: Path) -> None:
    outcome = run(script.name)
    assert (outcome.stdout, outcome.stderr) == (kept(script), "")


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.parametrize("script", SPARK, ids=lambda path: path.name)
def test_an_example_on_spark_prints_what_is_kept_beside_it(script: Path) -> None:
    """Java's own remarks on stderr are not ours to compare."""
    outcome = run(script.name, timeout_s=170)
    assert outcome.stdout == kept(script), outcome.stderr


@pytest.mark.parametrize("module", TESTS, ids=lambda path: path.name)
def test_an_example_of_a_test_passes(module: Path) -> None:
    outcome = run("-m", "pytest", "-q", "-p", "no:cacheprovider", module.name)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
