"""The source, the sink and the rounds on the oldest PySpark that is allowed; `make test` runs them on the newest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from interop.spark_versions import OLDEST, python_with

ROOT = Path(__file__).parents[2]
SLOW = ("test_demo.py", "test_exactly_once_kills.py", "test_spread.py")
pytestmark = [pytest.mark.timeout(2400), pytest.mark.spark]


@pytest.fixture(scope="module")
def python() -> str:
    return str(python_with(OLDEST))


def test_tests_of_spark_pass_on_the_oldest_pyspark(python: str) -> None:
    shown = subprocess.run(
        [python, "-c", "import pyspark; print(pyspark.__version__)"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == OLDEST
    files = [path for path in (ROOT / "tests" / "spark").glob("test_*.py") if path.name not in SLOW]
    chosen = sorted(str(path) for path in files if not path.name.startswith("test_fleet"))
    outcome = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout[-6000:]
