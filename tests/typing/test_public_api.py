"""The public API as a type checker sees it: what is right passes, and each `type: ignore` is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytest.importorskip("mypy", reason="types are checked where the checker is installed")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("script", sorted(HERE.glob("*_api.py")), ids=lambda path: path.name)
def test_a_program_that_uses_the_api_is_well_typed(script: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--warn-unused-ignores",
        "--follow-imports=silent",
        str(script),
    ]
    outcome = subprocess.run(
        command, cwd=ROOT, env={"MYPYPATH": "src", "PATH": ""}, capture_output=True, text=True, timeout=170, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
