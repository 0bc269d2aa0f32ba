"""One real PostgreSQL server on loopback, with a fresh database: a context manager."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.ports import free_port
from interop.process import Child
from interop.unavailable import Unavailable

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # The machine is not switched off in these tests; processes are killed, which what is in the page cache survives.
    "fsync": "off",
    "max_connections": "60",
}


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL: of PATH, or where pg_config says. Raises Unavailable."""
    if found := shutil.which(name):
        return found
    if config := shutil.which("pg_config"):
        folder = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        if (path := Path(folder) / name).is_file():
            return str(path)
    raise Unavailable(f"there is no {name}: install PostgreSQL's server (on Debian: postgresql)")


class Postgres:
    """A server that `crash` ends as a fault would, and `start` brings back with what it had committed."""

    def __init__(self) -> None:
        self._starts = 0
        self.directory = Path(tempfile.mkdtemp(prefix="kohort-postgres-"))
        self.port = free_port()
        self.child: Child | None = None

    def __enter__(self) -> Self:
        initdb = program("initdb")
        if user := unprivileged():
            shutil.chown(self.directory, user)
        made = subprocess.run(
            [initdb, "-D", str(self._files), "-U", "kohort", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            capture_output=True,
            text=True,
            user=user,
            cwd=self.directory,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stdout}{made.stderr}")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.child is not None:
            self.child.crash()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def conninfo(self) -> str:
        """What libpq needs to connect."""
        return f"host=127.0.0.1 port={self.port} user=kohort dbname=postgres"

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        command = [program("postgres"), "-D", str(self._files), "-p", str(self.port)]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        if user := unprivileged():
            command = ["setpriv", f"--reuid={user}", "--clear-groups", "--", *command]
        self.child = Child(command, self.directory / "server.log")
        # The log has the lines of earlier starts too.
        self._starts += 1
        self.child.wait_for(lambda text: text.count("ready to accept connections") >= self._starts, "PostgreSQL", 60)

    def crash(self) -> None:
        """End the server and all its backends at once."""
        assert self.child is not None, "what runs can crash"
        self.child.crash()

    @property
    def _files(self) -> Path:
        return self.directory / "data"


def unprivileged() -> str | None:
    """Return the user that runs the server where we are root, as which it refuses to run."""
    if os.getuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
