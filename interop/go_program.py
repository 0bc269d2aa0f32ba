"""Programs in Go: built on first use, and again when their sources have changed."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

from interop.unavailable import Unavailable

BUILD = Path(__file__).resolve().parent.parent / "build" / "go"
_building = threading.Lock()  # tests that run beside each other would all compile the same packages


def built(sources: Path) -> Path:
    """Build the program of a folder, which Go does in no time when nothing has changed. Raises `Unavailable`."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable(f"Go is not installed, and {sources.name} is a Go program: https://go.dev/doc/install")
    target = BUILD / sources.name
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-o", str(target), "."]
    with _building:
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise Unavailable(f"{sources.name} does not build: {done.stderr.strip()[-300:]}")
    return target
