"""`kohort gateway` as its users start it: a process of its own in front of a cluster."""

from __future__ import annotations

import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.ports import free_port
from interop.process import Child

READY = "kohort gateway ready"


class KohortGateway:
    """A gateway in front of the cluster that `upstream` leads to; `options` are of the command line.

    In mode `rewrite` it stands before `nodes`, and clients begin at `bootstrap`. In the other modes `advertised` is the
    host by which brokers advertise it, and clients begin at `bootstrap`, which the cluster decides.
    """

    name = "apache"
    """Whose coordinator answers its clients."""

    def __init__(
        self,
        upstream: str,
        *options: str,
        wait_s: float = 120,
        mode: str = "rewrite",
        advertised: str = "127.0.0.1",
        bootstrap: str = "",
        nodes: Sequence[int] = (1,),
    ) -> None:
        self.upstream = upstream
        self.bootstrap = bootstrap or f"{advertised}:{free_port()}"
        self.options = options
        self.wait_s = wait_s
        self.mode = mode
        self.advertised = advertised
        self._metrics = f"127.0.0.1:{free_port()}"
        self.node_ports = {node: free_port() for node in nodes} if mode == "rewrite" else {}
        """By node, the port that stands for it in mode `rewrite`."""
        self._starts = 0

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="kohort-gateway.")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.stop()
        self._directory.cleanup()

    def start(self) -> None:
        """Start it, where it was before if it has ended, and return when it is ready."""
        command = [str(Path(sys.executable).parent / "kohort"), "gateway", "--bootstrap-servers", self.upstream]
        command += ["--mode", self.mode, "--metrics", self._metrics, "--listen-host", self.advertised]
        command += ["--advertised", self.bootstrap if self.mode == "rewrite" else self.advertised]
        for node, port in self.node_ports.items():
            command += ["--node-ports", f"{node}={port}"]
        self._starts += 1
        self.child = Child([*command, *self.options], Path(self._directory.name) / f"gateway-{self._starts}.log")
        self.child.wait_for(lambda text: READY in text, "kohort gateway", self.wait_s)

    def metric(self, name: str) -> float:
        """Return a metric of the gateway, all its labels added up."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.partition(" ")[0].partition("{")[0] == f"kohort_gateway_{name}"]
        assert found, f"there is no metric {name}"
        return sum(float(line.rpartition(" ")[2]) for line in found)
