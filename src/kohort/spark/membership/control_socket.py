"""Unix control socket of a streaming query, for this user's processes on this host alone.

Spark calls the reader in one process and the listeners of the session in another. The listeners use the socket to
report that a batch is finished, long before Spark requests the next one, and that the query has ended; other readers of
the application request what this one reads, and programs its lag. The sockets are in a directory that only this user
may enter.
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

from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.spark.membership.stream_offset import StreamOffset

log = logging.getLogger(__name__)

_LONGEST_LINE = 1 << 26
_TIMEOUT_S = 10.0
_POLL_S = 0.02
_YOUNG_S = 60.0
"""Age below which a socket that refuses connections may belong to a reader that is starting."""


class Controlled(Protocol):
    """The member that a control socket belongs to."""

    async def finish(self, end: StreamOffset) -> None:
        """Commit the batch that ends there, if it is open."""

    async def leave(self, reason: str) -> None:
        """Leave the group."""

    def describe(self) -> Mapping[str, Any]:
        """Return what other readers of the application compare with themselves."""

    async def lags(self) -> Mapping[TopicPartition, Lag]:
        """Return how far the group is behind in each owned partition. Raises KafkaError."""


class ControlSocket:
    """The control socket of one reader; its `name` is in every offset that the reader returns to Spark."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self._server: asyncio.Server | None = None

    async def open(self, member: Controlled) -> None:
        """Listen, and pass requests to `member`. Where no socket can be made, log it and work without one."""

        async def received(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                    writer.write(await _answer(member, json.loads(await reader.readline())) + b"\n")
            except KafkaError as error:
                log.warning("reader %s: a request on its control socket failed: %s", self.name, error.text)
            finally:
                writer.close()

        try:
            path = socket_path(self.name)
            make_private(path.parent)
            remove_stale(path.parent)
            self._server = await asyncio.start_unix_server(received, path, limit=_LONGEST_LINE)
        except (OSError, NotImplementedError) as error:
            log.warning("no control socket, so that a batch is committed when Spark requests the next one: %s", error)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
            socket_path(self.name).unlink(missing_ok=True)


def socket_path(name: str) -> Path:
    """Return the path of a reader's control socket."""
    return directory() / f"{name}.socket"


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


def remove_stale(folder: Path) -> None:
    """Remove the sockets of readers that were killed: no process listens on them."""
    for path in folder.glob("*.socket"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            if time.time() - path.stat().st_mtime < _YOUNG_S:
                continue
            connection.settimeout(_TIMEOUT_S)
            try:
                connection.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)


def report_finished(name: str, end: Mapping[str, Any]) -> bool:
    """Report that Spark has finished the batch that ends at `end`; return whether the reader confirmed it."""
    return _request(name, {"done": dict(end)}) is not None


def report_ended(name: str) -> bool:
    """Report that the query has ended; return whether the reader was still a member and confirmed it."""
    return _request(name, {"ended": True}) is not None


def request_lags(name: str) -> dict[TopicPartition, Lag]:
    """Return how far the group is behind in each partition that a reader owns. Raises KafkaError."""
    if (answer := _request(name, {"lags": True})) is None:
        text = (
            f"no reader answers at {socket_path(name)}: its query has ended, or runs in a driver on another host or of"
            " another user; Admin.lag(group) has the lag of any group"
        )
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
    found = json.loads(answer)
    if "error" in found:
        raise KafkaError(ErrorCode(found["code"]), found["error"])
    return {TopicPartition(topic, number): Lag.from_json(lag) for topic, number, lag in found["lags"]}


def wait_until_left(name: str) -> bool:
    """Wait until a reader whose query was stopped has left its group: Spark does not. Return whether it has."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while socket_path(name).exists():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


async def _answer(member: Controlled, request: Mapping[str, Any]) -> bytes:
    if "done" in request:
        await member.finish(StreamOffset.from_json(request["done"]))
    elif "ended" in request:
        await member.leave("the query has ended")
    elif "describe" in request:
        return json.dumps(member.describe()).encode()
    elif "lags" in request:
        try:
            lags = await member.lags()
        except KafkaError as error:
            return json.dumps({"error": error.text, "code": int(error.code)}).encode()
        return json.dumps({"lags": [(*each, lag.to_json()) for each, lag in lags.items()]}).encode()
    return b""


def _request(name: str, request: Mapping[str, Any]) -> bytes | None:
    """Return the line that a reader answers, None where it does not."""
    if not name or not is_private(directory()) or not socket_path(name).exists():
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(str(socket_path(name)))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
            return line if line.endswith(b"\n") else None
        except OSError as error:
            log.info("reader %s does not answer on its control socket: %s", name, error)
            return None
