"""The demo's other processes: started with their own log, watched, killed, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
"""The clone: Spark's Python processes import the package `demo` too."""


class ChildFailed(RuntimeError):
    """A process ended by itself; the text has the end of its log."""


class Child:
    """One process with all it starts. Its output goes to `log`."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name, self.log = name, log
        with log.open("wb") as output:
            # A session of its own: Ctrl-C reaches the demo alone, and a kill takes Spark's Java along.
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])},
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def check(self) -> None:
        """Raise ChildFailed if the process has ended."""
        if self._process.poll() is not None:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
            raise ChildFailed(
                f"{self.name} ended with status {self._process.returncode}; {self.log} ends with:\n{last}"
            )

    def freeze(self, *, is_frozen: bool = True) -> None:
        """Let it and all it started stand still, or go on."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGSTOP if is_frozen else signal.SIGCONT)

    def kill(self) -> int:
        """End it and all it started as `kill -9` does; return when, in milliseconds since the epoch."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        at_ms = time.time_ns() // 1_000_000
        self._process.wait()
        return at_ms

    def terminate(self) -> None:
        """Ask it to end."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def wait(self, patience_s: float) -> bool:
        """Wait for its end and return whether it ended well; after `patience_s` it is killed."""
        try:
            status = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        # Python workers of Spark may outlive their parent for a moment.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return status == 0

    @property
    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None
