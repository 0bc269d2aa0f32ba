"""Our broker as its users start it, a process of its own, with the face that `interop.kafka.ApacheKafka` has."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.process import Child

READY = re.compile(r"kohort broker ready on (\S+:\d+)")
DEFAULTS = {"offsets.topic.num.partitions": "8", "group.initial.rebalance.delay.ms": "0"}


class KohortBroker:
    """A `kohort broker` process on a free loopback port."""

    name = "kohort"

    def __init__(self, settings: Mapping[str, str] | None = None, *, wait_s: float = 30) -> None:
        self.settings = {**DEFAULTS, **(settings or {})}
        self.wait_s = wait_s
        self.ready_ms = 0.0
        self.bootstrap = ""
        self.directory = Path()
        self._starts = 0

    def prepare(self) -> Path:
        """Return the folder in which the first start will look for data."""
        if self.directory == Path():
            self.directory = Path(tempfile.mkdtemp(prefix="kohort-broker."))
        return self.logs

    def start(self) -> Self:
        """Start the broker, on the data of an earlier start where there are any."""
        self.prepare()
        self._starts += 1
        # On its old port, so that clients find it again.
        port = self.bootstrap.rpartition(":")[2] or "0"
        program = Path(sys.executable).parent / "kohort"
        command = [str(program), "broker", "--data", str(self.logs), "--port", port]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self.child = Child(command, self.directory / f"broker-{self._starts}.log")
        try:
            ready = self.child.wait_for(lambda text: READY.search(text) is not None, "kohort broker", self.wait_s)
        except RuntimeError:
            self.remove()
            raise
        self.ready_ms = 1000 * ready
        found = READY.search(self.child.text())
        assert found is not None
        self.bootstrap = found.group(1)
        return self

    @property
    def is_started(self) -> bool:
        """Whether it was ever started."""
        return self._starts > 0

    @property
    def logs(self) -> Path:
        """The folder of the partition logs."""
        return self.directory / "data"

    def stop(self) -> None:
        """Stop the broker; its data stay until `remove`."""
        self.child.stop()

    def kill(self) -> None:
        """End it without warning, as the kernel would."""
        self.child.kill()

    def remove(self) -> None:
        """Remove its data and logs."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.remove()
