"""The public API as mypy sees it: what is right passes, also what documents show, and each `type: ignore` is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.typing.shown_programs import ROOT, write_programs

pytest.importorskip("mypy", reason="types are checked where the checker is installed")
pytest.importorskip("pyspark", reason="the examples on Spark are checked with its types")


@pytest.mark.timeout(900)
def test_programs_that_use_the_api_are_well_typed_and_what_is_wrong_is_refused(tmp_path: Path) -> None:
    assert (ROOT / "src" / "kohort" / "py.typed").is_file(), "without it no type of the package is read"
    write_programs(tmp_path)
    # As a user would: strictly, and without the settings of this repository.
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent", "."]
    command.append(f"--cache-dir={ROOT / '.mypy_cache' / 'of_users'}")
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": ""}
    outcome = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=890, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
