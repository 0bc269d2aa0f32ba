"""Unix control socket of a streaming query, for this user's processes on this host alone.

Spark calls the reader in one process and the listeners of the session in another. The listeners use the socket to
report that a batch is done, long before the next one is asked for, and that the query has ended; other readers of the
application ask what this one reads. The sockets are in a directory that only this user may enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from kohort.model.errors import KafkaError
from kohort.spark.membership.stream_offset import StreamOffset

log = logging.getLogger(__name__)

_LONGEST = 1 << 26
_PATIENCE_S = 10.0
_LOOK_S = 0.02
_YOUNG_S = 60.0
"""Seconds in which a door that does not listen may still be about to."""


class Visited(Protocol):
    """The member behind a door."""

    async def finish(self, end: StreamOffset) -> None:
        """Commit the batch that ends there, if it is open."""
        ...

    async def leave(self, reason: str) -> None:
        """Leave the group."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Return what other readers of the application ask for."""
        ...


class Door:
    """One reader's door; its `name` is in every offset that the reader gives to Spark."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self._server: asyncio.Server | None = None

    async def open(self, member: Visited) -> None:
        """Let the application in. Where a socket cannot be made, the reader does without."""

        async def received(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                    writer.write(await _obey(member, json.loads(await reader.readline())) + b"\n")
            except KafkaError as error:
                log.warning("the reader %s could not do what it was told: %s", self.name, error.text)
            finally:
                writer.close()

        try:
            path = place(self.name)
            make_private(path.parent)
            remove_deserted(path.parent)
            self._server = await asyncio.start_unix_server(received, path, limit=_LONGEST)
        except (OSError, NotImplementedError) as error:
            log.warning("batches are only committed when the next one is asked for: %s", error)

    def close(self) -> None:
        """Let nobody in any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
            place(self.name).unlink(missing_ok=True)


def place(name: str) -> Path:
    """Return where a door is."""
    return directory() / f"{name}.door"


def directory() -> Path:
    """Return the directory of this user's control sockets: in XDG_RUNTIME_DIR, else among the temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and is_private(Path(runtime)):
        return Path(runtime) / "kohort"
    return Path(tempfile.gettempdir()) / f"kohort-{os.getuid()}"


def make_private(folder: Path) -> None:
    """Make a directory that only this user may enter. Raises PermissionError where there is another one."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not is_private(folder):
        raise PermissionError(f"{folder} is not a directory of user {os.getuid()} with mode 0700: remove it")


def is_private(folder: Path) -> bool:
    """Return whether this is a directory, no link, that is this user's and that no other user may enter."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def remove_deserted(folder: Path) -> None:
    """Remove the doors of readers that were killed: nobody listens behind them."""
    for path in folder.glob("*.door"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as door:
            if time.time() - path.stat().st_mtime < _YOUNG_S:
                continue
            door.settimeout(_PATIENCE_S)
            try:
                door.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)


def tell_done(name: str, end: Mapping[str, Any]) -> bool:
    """Say that Spark is done with the batch that ends at `end`; return whether the reader heard it."""
    return _say(name, {"done": dict(end)})


def tell_ended(name: str) -> bool:
    """Say that the query has ended; return whether the reader was still there."""
    return _say(name, {"ended": True})


def wait_until_left(name: str, patience_s: float = _PATIENCE_S) -> bool:
    """Wait until a reader whose query was stopped has left its group: Spark does not. Return whether it has."""
    deadline_s = time.monotonic() + patience_s
    while place(name).exists():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_S)
    return True


async def _obey(member: Visited, said: Mapping[str, Any]) -> bytes:
    if "done" in said:
        await member.finish(StreamOffset.from_json(said["done"]))
    elif "ended" in said:
        await member.leave("the query has ended")
    elif "describe" in said:
        return json.dumps(member.describe()).encode()
    return b""


def _say(name: str, what: Mapping[str, Any]) -> bool:
    if not name or not is_private(directory()) or not place(name).exists():
        return False
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(_PATIENCE_S)
        try:
            door.connect(str(place(name)))
            door.sendall(json.dumps(what).encode() + b"\n")
            return door.recv(1) == b"\n"
        except OSError as error:
            log.info("the reader %s does not listen: %s", name, error)
            return False
