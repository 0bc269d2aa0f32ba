"""Runs `kohort` commands in this process, or as a process of their own where signals and pipes matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from kohort.cli.main import main


class Outcome(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        assert self.out, (self.status, self.err)
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line on stdout."""
        return [line.split() for line in self.out.splitlines()]


class Commands:
    """Commands against one cluster."""

    def __init__(
        self,
        address: str,
        capture: pytest.CaptureFixture[bytes],
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.address = address
        self.capture = capture
        self.directory = directory
        self.monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: bytes = b"") -> Outcome:
        """Run one command in this process."""
        given = self.directory / "stdin"
        given.write_bytes(stdin)
        self.capture.readouterr()
        with given.open() as file, self.monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            patch.setenv("KOHORT_BOOTSTRAP", self.address)
            patch.setenv("KOHORT_TRACEBACK", "1")
            try:
                status = main(list(words))
            except SystemExit as refusal:
                status = int(str(refusal.code))
        out, err = self.capture.readouterr()
        return Outcome(status, out.decode(), err.decode())

    def until_state(self, group: str, state: str) -> None:
        """Wait until the events of a group have been written that bring it to this state: they linger a moment."""
        deadline_s = time.monotonic() + 20
        while not self("explain", group, "--last", "0").out.startswith(f"{group}: {state},"):
            assert time.monotonic() < deadline_s, f"no event shows that {group} is {state}"

    def start(self, *words: str, stdout: int | IO[bytes] = subprocess.PIPE, **more: Any) -> subprocess.Popen[bytes]:
        """Start one command as a process with pipes, with more arguments of `Popen`."""
        return subprocess.Popen(
            [sys.executable, "-m", "kohort", *words],
            env={**os.environ, "KOHORT_BOOTSTRAP": self.address},
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            **more,
        )


def json_lines(records: Sequence[dict[str, Any]]) -> bytes:
    """Return records as `produce --json` reads them."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)
