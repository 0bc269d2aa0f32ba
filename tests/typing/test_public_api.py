"""The public API as a type checker sees it: what is right passes, and each `type: ignore` is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = [[path] for path in sorted(HERE.glob("*_api.py"))]
SHOWN = [ROOT / "examples" / "first.py", *sorted((ROOT / "examples" / "cookbook").glob("*.py"))]
"""What the README and the cookbook show."""
pytest.importorskip("mypy", reason="types are checked where the checker is installed")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("scripts", [*PROGRAMS, SHOWN], ids=lambda paths: paths[0].name)
def test_a_program_that_uses_the_api_is_well_typed(scripts: list[Path]) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--warn-unused-ignores",
        "--follow-imports=silent",
        *map(str, scripts),
    ]
    outcome = subprocess.run(
        command, cwd=ROOT, env={"MYPYPATH": "src", "PATH": ""}, capture_output=True, text=True, timeout=170, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
