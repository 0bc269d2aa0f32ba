"""File descriptors of a process: how many it may have, and how they are shared by connections and log files.

Both come out of one limit of the system (`ulimit -n`). Logs have their own part, so that a group's log can be opened
however many clients connect.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import NamedTuple

SPARE = 48
"""What neither clients nor logs get: files that are open for a moment, libraries, a socket that is being refused."""

MOST_FILES = 4096
"""Descriptors of log files beyond which more would save nothing."""

_UNLIMITED = (1 << 20, 10_240)
"""What is asked for where the hard limit is none: macOS takes no more than `kern.maxfilesperproc`, or OPEN_MAX."""


class Budget(NamedTuple):
    """How the descriptors of a process are shared."""

    limit: int
    """The soft limit of the process."""
    connections: int
    files: int


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in _UNLIMITED if hard == resource.RLIM_INFINITY else (hard,):
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return


def budget() -> Budget:
    """Share what the process has not used yet."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = max(_UNLIMITED)
    return share(limit, _in_use())


def share(limit: int, in_use: int) -> Budget:
    """Return how `limit` descriptors are shared, of which some are in use: half for logs, the rest for clients."""
    free = max(limit - in_use - SPARE, 8)
    files = min(MOST_FILES, free // 2)
    return Budget(limit, free - files, files)


def _in_use() -> int:
    for directory in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(directory))
    return 16
