"""One child process of ours: started in its own session, watched through /proc, ended by its own process id."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

ROOT = Path(__file__).resolve().parent.parent

OWN_CODE = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
"""Part of the environment of Python programs that run the code of this tree, whatever is installed."""


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started in their turn."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def _has_memory(pid: int) -> bool:
    """Whether a process has memory: one that has ended has none, though its parent has not waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def cpu_s(pid: int, *, with_ended: bool = False) -> float:
    """Return the CPU seconds that a process has used, user and system; those of its ended children too if wanted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / CLOCK_TICKS


class Child:
    """A child process whose output goes to a file; `stop` ends it by SIGTERM, `kill` by SIGKILL."""

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str] | None = None,
        separate: bool = False,
    ) -> None:
        self.output = output
        self.started = time.monotonic()
        # Appended to, because processes that it starts may write lines of their own to the same file.
        with output.open("ab") as out:
            errors = output.with_suffix(".err").open("ab") if separate else subprocess.STDOUT
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
            if separate:
                errors.close()  # type: ignore[union-attr]

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def text(self) -> str:
        """Return everything that it has printed so far."""
        return self.output.read_text(errors="replace")

    def descendants(self) -> list[int]:
        """Return the processes that it has started, and those that they have started in their turn, parents first."""
        return descendants(self.pid)

    def rss_mib(self) -> float:
        """Return its resident memory in MiB, as the kernel counts it."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu_s(self) -> float:
        """Return the CPU seconds it has used, user and system."""
        return cpu_s(self.pid)

    def wait_for(self, seen: Callable[[str], bool], what: str, timeout_s: float) -> float:
        """Wait until its output satisfies a predicate and return the seconds since its start.

        Raises `RuntimeError` with its output when it ends first or does not get there in time.
        """
        while not seen(self.text()):
            if not self.is_running:
                raise RuntimeError(f"{what}: exit code {self.process.returncode}\n{self.text()[-4000:]}")
            if time.monotonic() - self.started > timeout_s:
                text = self.text()[-4000:]
                self.kill()
                raise RuntimeError(f"{what}: not within {timeout_s:.0f} s\n{text}")
            time.sleep(0.005)
        return time.monotonic() - self.started

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.is_running:
            self.process.send_signal(number)

    def stop(self, timeout_s: float = 20) -> int:
        """End it by SIGTERM, by SIGKILL when that takes too long, and return its exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End it by SIGKILL and return its exit code."""
        self.signal(signal.SIGKILL)
        return self.process.wait(60)

    def crash(self) -> None:
        """End it and all its descendants by SIGKILL, as a machine that loses its power would."""
        self.signal(signal.SIGSTOP)  # so that it starts none while they are listed
        started = self.descendants()
        for pid in reversed(started):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.kill()
        # A server that is started again at once must not find memory or files that they still have.
        while any(map(_has_memory, started)):
            time.sleep(0.005)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Run the block, then wait; end at Ctrl-C or SIGTERM, whichever the process gets, wherever it stands."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        yield
        threading.Event().wait()
