"""The application of a streaming query as the process of its reader observes it: its calls, and whether it still runs.

Spark notifies a source of no end. When the application has ended, this process has another parent. When a session is
stopped, Spark deletes the directory of its files (`SparkFiles`), whose name every process of a source receives.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

_TOUCH_S = 3600.0
"""How often the directory gets a new time: programs that clean up temporary files delete what is days old."""


class Application:
    """The application that started this process; `files` is the directory of its session, None where there is none."""

    def __init__(self, files: Path | None) -> None:
        self._parent = os.getppid()
        self._files = files
        self._touched_s = float("-inf")

    @property
    def has_ended(self) -> bool:
        """Whether the application was killed or has ended."""
        return os.getppid() != self._parent

    def is_stopped(self) -> bool:
        """Return whether its session was stopped; also makes the session's directory look recently used."""
        if self._files is None:
            return False
        try:
            if time.monotonic() - self._touched_s > _TOUCH_S:
                os.utime(self._files)
                self._touched_s = time.monotonic()
            else:
                self._files.stat()
        except FileNotFoundError:
            return True
        except OSError:  # it is there, and may not be touched
            return False
        return False


def session_files() -> Path | None:
    """Return the directory that Spark deletes when it stops the session that this process works for, if there is one.

    Sessions of Spark Connect have directories of their own inside of it, which exist once they have files.
    """
    from pyspark import SparkFiles

    named = SparkFiles._root_directory
    if not named:
        return None
    folder = Path(named)
    return next(
        (each for each in (folder, folder.parent) if each.name.startswith("userFiles-") and each.is_dir()), None
    )


@dataclass(slots=True)
class Calls:
    """Spark's calls of one reader; times are those of the monotonic clock, which all processes of a machine share."""

    made_ns: int = field(default_factory=time.monotonic_ns)
    called_ns: int = 0
    is_planned: bool = False
    """Whether the last call planned a batch, and Spark has not read it yet."""

    def called(self) -> None:
        """Record a call by Spark."""
        self.called_ns = self.called_ns or time.monotonic_ns()
        self.is_planned = False
