"""A `kohort broker` process that is killed, stopped and started again, on a disk of its own where there is one."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

from interop.kohort_broker import READY
from interop.ports import free_port
from interop.process import Child
from interop.torture.small_disk import SmallDisk

SETTINGS = {
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,CUT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "log.retention.ms": "-1",
    # Small, so that segments are rolled and the internal topics are cleaned within minutes.
    "log.segment.bytes": "1048576",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.segment.bytes": "262144",
}
READY_S = 60


class FaultyBroker:
    """The broker. Clients reach it on `port`, or through a proxy, which its second listener names as its address."""

    def __init__(self, folder: Path, data: Path, disk: SmallDisk | None) -> None:
        self.port, self.behind_proxy = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.starts = 0
        self.is_stopped = False
        self._folder = folder
        self._data = data
        self._disk = disk

    def start(self, proxy_port: int) -> None:
        """Start it, or start it again; it is not ready when this returns."""
        self._proxy_port = proxy_port
        self._start()

    def _start(self) -> None:
        listeners = f"DIRECT://127.0.0.1:{self.port},CUT://127.0.0.1:{self.behind_proxy}"
        advertised = f"DIRECT://127.0.0.1:{self.port},CUT://127.0.0.1:{self._proxy_port}"
        given = SETTINGS | {"listeners": listeners, "advertised.listeners": advertised}
        command = [str(Path(sys.executable).parent / "kohort"), "broker", "--data", str(self._data)]
        command += [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        self.starts += 1
        self.child = Child(
            self._disk.command(*command) if self._disk else command, self._folder / f"broker-{self.starts}.log"
        )

    @property
    def is_ready(self) -> bool:
        """Whether clients can connect, by its output."""
        return self.child.is_running and READY.search(self.child.text()) is not None

    def wait_until_ready(self) -> None:
        """Wait until clients can connect. Raises RuntimeError with its output."""
        self.child.wait_for(lambda text: READY.search(text) is not None, "kohort broker", READY_S)

    def kill(self) -> None:
        """End it by SIGKILL, stopped or not."""
        self.child.kill()
        self.is_stopped = False

    def start_again(self) -> None:
        """Start it on the data that it left."""
        if not self.child.is_running:
            self._start()

    def stop(self) -> None:
        """Stop it by SIGSTOP."""
        self.child.signal(signal.SIGSTOP)
        self.is_stopped = self.child.is_running

    def go_on(self) -> None:
        """Let it go on after SIGSTOP."""
        self.child.signal(signal.SIGCONT)
        self.is_stopped = False

    def use(self) -> tuple[float, int]:
        """Return its resident memory in MiB and how many descriptors it has; zeros when it does not run."""
        with suppress(OSError):
            return self.child.rss_mib(), sum(1 for _ in Path(f"/proc/{self.child.pid}/fd").iterdir())
        return 0.0, 0

    def tracebacks(self) -> list[str]:
        """Return what it has logged with a traceback, over all starts."""
        found = []
        for log in sorted(self._folder.glob("broker-*.log")):
            before, _, after = log.read_text(errors="replace").partition("Traceback (most recent call last)")
            if after:
                found.append(f"{log.name}: {before[-300:]}{after[:3000]}")
        return found
