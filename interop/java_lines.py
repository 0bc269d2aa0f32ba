"""A Java program beside us that answers each line with a line."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from interop import jars


class JavaLines:
    """A running program: `NAME.java` of a folder. Raises `Unavailable` where it cannot be compiled or run."""

    def __init__(
        self, name: str, folder: Path = jars.HERE / "java", *, pom: str = "pom.xml", heap: str = jars.SHORT
    ) -> None:
        line = jars.command(name, classes=jars.compiled(name, folder, pom), heap=heap, pom=pom)
        self._name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors)

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._child.poll() is None

    def send(self, line: str) -> None:
        """Send one line; `receive` then returns the answer."""
        stdin = self._child.stdin
        assert stdin is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def receive(self) -> str:
        """Return the answer to the line that was sent. Raises RuntimeError with its errors when the program ended."""
        stdout = self._child.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            self._child.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{self._name} died: {self._errors.read()[-2000:].decode()}")
        return line.decode().strip()

    def ask(self, line: str) -> str:
        """Send one line and return the answer."""
        self.send(line)
        return self.receive()
