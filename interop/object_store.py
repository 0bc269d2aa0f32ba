"""One S3-compatible object store on loopback, with conditional writes (versitygw): a context manager.

It is built on first use by Go, by its module's name, and keeps objects as files of a folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.jars import cache
from interop.ports import free_port
from interop.process import Child
from interop.unavailable import Unavailable

MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
BUCKET = "lake"
USER, PASSWORD = "kohort", "not-a-secret"


def program() -> Path:
    """Return the server's program, building it on first use. Raises `Unavailable`."""
    target = cache() / "versitygw" / VERSION
    if not (target / "versitygw").is_file():
        go = shutil.which("go")
        if go is None:
            raise Unavailable("Go is not installed, and versitygw is a Go program: https://go.dev/doc/install")
        command = [go, "install", f"{MODULE}@{VERSION}"]
        environment = {**os.environ, "GOBIN": str(target), "GOFLAGS": "-modcacherw"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise Unavailable(f"versitygw does not build: {done.stderr.strip()[-300:]}")
    return target / "versitygw"


class ObjectStore:
    """A store with one bucket, which `kill` ends as a fault would, and `start` brings back with what it had stored."""

    def __init__(self) -> None:
        self._port = free_port()
        self._starts = 0

    @property
    def endpoint(self) -> str:
        """Where its clients connect."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which clients of S3 find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self) -> None:
        """Start the server, and return when it serves."""
        self._starts += 1
        command = [str(self._program), "--port", f"127.0.0.1:{self._port}", "posix", str(self.folder)]
        environment = {**os.environ, "ROOT_ACCESS_KEY_ID": USER, "ROOT_SECRET_ACCESS_KEY": PASSWORD}
        output = self._directory / f"store-{self._starts}.log"
        self.child = Child(command, output, environment=environment)
        self.child.wait_for(lambda text: "listening on" in text, "versitygw", 30)

    def kill(self) -> None:
        """End the server as a crash would."""
        self.child.kill()

    @property
    def folder(self) -> Path:
        """Where its buckets are."""
        return self._directory / "buckets"

    def __enter__(self) -> Self:
        self._program = program()
        self._directory = Path(tempfile.mkdtemp(prefix="kohort-object-store."))
        (self.folder / BUCKET).mkdir(parents=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
