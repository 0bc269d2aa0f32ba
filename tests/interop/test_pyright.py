"""What documents and examples show is well typed for users of pyright too; `tests/typing` asks mypy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.typing.shown_programs import ROOT, write_programs


@pytest.mark.timeout(300)
def test_pyright_finds_no_error_in_what_documents_and_examples_show(tmp_path: Path) -> None:
    write_programs(tmp_path)
    settings = {"pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")], "reportUnnecessaryTypeIgnoreComment": True}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=290, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
