"""Every example runs, and prints what is kept beside it; those that are tests pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("cookbook/*.py")])
SCRIPTS = [path for path in PROGRAMS if not path.name.startswith("test_")]
SPARK = [path for path in SCRIPTS if "kohort.spark" in path.read_text(encoding="utf-8")]
PLAIN = [path for path in SCRIPTS if path not in SPARK]
TESTS = [path for path in PROGRAMS if path.name.startswith("test_")]


def run(*command: str, timeout_s: int = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=EXAMPLES, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def kept(script: Path) -> str:
    return script.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", PLAIN, ids=lambda path: path.name)
def test_an_example_prints_what_is_kept_beside_it(script: Path) -> None:
    outcome = run(str(script))
    assert (outcome.stdout, outcome.stderr) == (kept(script), "")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the output of each example on Spark is: they run one after the other on one Java."""
    folder = tmp_path_factory.mktemp("printed")
    root, scripts = EXAMPLES.parent, [str(script) for script in SPARK]
    command = [sys.executable, "-m", "tests.integration.scripts_in_turn", str(folder), *scripts]
    outcome = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=400, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return folder


@pytest.mark.spark
@pytest.mark.timeout(420)
@pytest.mark.parametrize("script", SPARK, ids=lambda path: path.name)
def test_an_example_on_spark_prints_what_is_kept_beside_it(script: Path, printed: Path) -> None:
    assert (printed / script.name).read_text(encoding="utf-8") == kept(script)


@pytest.mark.parametrize("module", TESTS, ids=lambda path: path.name)
def test_an_example_of_a_test_passes(module: Path) -> None:
    outcome = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--kohort-seeds", "3", str(module))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
