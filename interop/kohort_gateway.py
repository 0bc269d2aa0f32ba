"""`kohort gateway` as its users start it, in mode `rewrite`, a process of its own in front of a broker."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.kafka import free_port
from interop.process import Child

READY = "kohort gateway ready"


class KohortGateway:
    """A gateway in front of the node 1 that `upstream` leads to; `options` are of the command line."""

    def __init__(self, upstream: str, *options: str, wait_s: float = 30) -> None:
        self.upstream = upstream
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self.options = options
        self.wait_s = wait_s

    def __enter__(self) -> Self:
        command = [str(Path(sys.executable).parent / "kohort"), "gateway", "--bootstrap-servers", self.upstream]
        command += ["--mode", "rewrite", "--advertised", self.bootstrap, "--listen", "127.0.0.1"]
        command += ["--node-port", f"1={free_port()}", *self.options]
        self._directory = tempfile.TemporaryDirectory(prefix="kohort-gateway.")
        self.child = Child(command, Path(self._directory.name) / "gateway.log")
        self.child.wait_for(lambda text: READY in text, "kohort gateway", self.wait_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.stop()
        self._directory.cleanup()
