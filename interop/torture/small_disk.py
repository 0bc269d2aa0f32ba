"""A disk of a given size that one process tree sees: a tmpfs in a mount namespace of its own, which can be filled.

Nothing is mounted where other processes look, and no privilege is needed: the namespace belongs to a user namespace
(`unshare`, `nsenter` of util-linux). Where the kernel forbids that, `Unavailable` is raised.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from interop.unavailable import Unavailable

_CHUNK = 64 << 20


class SmallDisk:
    """A mounted disk; `command` makes a program see it at `directory`, `path` is where this process reaches it."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        # The process that holds the namespace ends with its stdin, so that it cannot outlive this one.
        mount = f"mount -t tmpfs -o size={size} tmpfs {directory} && echo mounted && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline() != "mounted\n":
            raise Unavailable(f"no disk of its own: {self._holder.stderr.read().strip()}")
        self.path = Path(f"/proc/{self._holder.pid}/root{directory}")
        self._filler = self.path / "filler"

    def command(self, *command: str) -> list[str]:
        """Return the command line of a program that sees the disk; its process id is that of the program."""
        return ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self._holder.pid), *command]

    @property
    def free_bytes(self) -> int:
        """Return how much room there is."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self) -> None:
        """Leave no room."""
        with self._filler.open("ab") as filler:
            while (free := self.free_bytes) > 0:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), min(free, _CHUNK))
                except OSError:  # the broker has taken the rest
                    return

    def free(self) -> None:
        """Make room again."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Let the disk go, with what is on it."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()
