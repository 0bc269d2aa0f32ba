"""Apicurio Registry on loopback, in memory: a schema registry with Confluent's HTTP API. A context manager."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.jars import jars, java
from interop.ports import free_port
from interop.process import Child
from interop.waiting import eventually

POM = "registry-pom.xml"


def program() -> Path:
    """Return the jar to run, unpacking the distribution on first use. Raises `Unavailable`."""
    archive = next(jars(POM).glob("*.tar.gz"))
    target = archive.parent / "unpacked"
    if not target.is_dir():
        part = Path(tempfile.mkdtemp(dir=archive.parent))
        with tarfile.open(archive) as content:
            content.extractall(part, filter="data")
        try:
            part.rename(target)
        except OSError:  # another process came first
            shutil.rmtree(part)
    return next(target.glob("*-runner.jar"))


class ApicurioRegistry:
    """A registry that has nothing registered."""

    def __init__(self) -> None:
        self._port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="apicurio-"))
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Where it has Confluent's API."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        options = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
        command = [java(), *options, f"-Dquarkus.http.port={self._port}", "-jar", str(program())]
        self._child = Child(command, self._folder / "apicurio.log")
        try:
            eventually(self._answers, expected=True, timeout_s=180)
        except BaseException:
            self._child.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._child is not None, "it was started"
        self._child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._child is not None, "it was started"
        assert self._child.is_running, self._child.text()[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False
