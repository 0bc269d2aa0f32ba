"""A terminal that a command runs in: keys are written to it, and what a person would see is read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType

import pyte

WAIT_S = 60
_QUERIES = re.compile(rb"\x1b\[(\?\d+\$p|[<>=]\d*u|>\d*q)")
"""Questions to terminals that pyte, which knows none of them, would draw."""


KOHORT = (sys.executable, "-m", "kohort")


class Terminal:
    """A command in a terminal of some size."""

    def __init__(self, *words: str, columns: int = 80, lines: int = 24, **environment: str) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        """All that the command has written."""
        self._fd, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(inner)
        self._inner = inner
        self.process = subprocess.Popen(
            words,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._inner)
        os.close(self._fd)

    @property
    def text(self) -> str:
        """The lines that are seen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def words(self) -> str:
        """All that is seen, its words separated by single blanks."""
        return " ".join(self.text.split())

    def press(self, *keys: str) -> None:
        """Write keys, one at a time; "enter", "tab" and "escape" by name."""
        for key in keys:
            os.write(self._fd, {"enter": "\r", "tab": "\t", "escape": "\x1b"}.get(key, key).encode())
            self._read(0.15)

    def until(self, *words: str) -> None:
        """Wait until these are seen."""
        deadline_s = time.monotonic() + WAIT_S
        while not all(each in self.words for each in words):
            assert time.monotonic() < deadline_s, f"{words} are not in\n{self.text}"
            assert self.process.poll() is None, self.text
            self._read(0.5)

    def ended(self) -> int:
        """Wait for the end of the command, and return its exit status."""
        deadline_s = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, self.text
            self._read(0.1)
        self._read(0.1)
        assert termios.tcgetattr(self._inner) == self.before, "the terminal is what it was"
        return self.process.returncode

    def _read(self, wait_s: float) -> None:
        while select.select([self._fd], [], [], wait_s)[0]:
            part = os.read(self._fd, 1 << 16)
            self.written += part
            self._stream.feed(_QUERIES.sub(b"", part))
            wait_s = 0.02
