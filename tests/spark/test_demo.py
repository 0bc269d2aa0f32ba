"""The demo is interrupted; `make interop` plays its story to the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DEMO = [sys.executable, "-m", "demo"]


def running(mark: str) -> list[str]:
    """The command lines of processes that mention `mark`."""
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if mark in line]


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEMO, "--rows", "20000", "--out", tmp_path / "out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "flights loaded" in line)
        demo.send_signal(signal.SIGINT)
        _, remarks = demo.communicate(timeout=240)
    assert demo.returncode == 130
    assert "every process of the demo has ended" in remarks
    assert not running(str(tmp_path))
