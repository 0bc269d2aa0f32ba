"""Instances of a Kafka Streams application that counts the records of each key (`java/CountingStream.java`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interop import jars
from interop.committed import read_committed
from interop.process import Child
from interop.waiting import eventually

POM = "streams-pom.xml"
STREAMS_PROTOCOL = "group.protocol=streams"
"""Instances with this setting are members of a streams group (KIP-1071): the broker has their timeouts."""

TIMEOUTS = ("session.timeout.ms=6000", "heartbeat.interval.ms=1000")
SETTINGS = (
    # Each count is written, whatever the version calls it: with a cache, the last ones of a commit only.
    "statestore.cache.max.bytes=0",
    "cache.max.bytes.buffering=0",
)


class Application:
    """An application; its instances have folders for their state, by number, that survive them."""

    def __init__(self, bootstrap: str, name: str, folder: Path, partitions: int, settings: Sequence[str]) -> None:
        self.bootstrap = bootstrap
        self.topic = name
        self.counts = f"{name}-counts"
        self.partitions = partitions
        self.started: list[Child] = []
        self._folder = folder
        self._settings = settings

    @property
    def group_id(self) -> str:
        """The group of the instances."""
        return f"counting-{self.topic}"

    def start(self, state: int, *settings: str, version: str = "", restored_per_s: int = 0) -> Child:
        """Start an instance with a state folder, of another version of Kafka than the pom's where one is given.

        `restored_per_s` bounds how many records a second its stores and copies take, as large state does.
        """
        pom = f"{POM}@{version}" if version else POM
        main = "SlowlyRestoringStream" if restored_per_s else "CountingStream"
        program = jars.compiled(main, pom=pom)
        where = [self.bootstrap, self.group_id, self.topic, self.counts, str(self._folder / f"state-{state}")]
        own = (*self._settings, *settings)
        timeouts = () if STREAMS_PROTOCOL in own else TIMEOUTS
        command = jars.command(main, *where, *SETTINGS, *timeouts, *own, classes=program, pom=pom)
        command.insert(1, f"-Drestored.records.per.second={restored_per_s}")
        self.started.append(Child(command, self._folder / f"instance-{len(self.started)}.log"))
        return self.started[-1]

    def read_counts(self, bootstrap: str = "") -> list[tuple[str, int]]:
        """Return the committed output, each key with its count, in order within each key."""
        found = read_committed(bootstrap or self.bootstrap, self.counts, self.partitions)
        return [(each.key, int(each.value)) for each in found]

    def await_counts(self, keys: int, each: int, timeout_s: float = 90, bootstrap: str = "") -> None:
        """Wait until every key was counted so often at least."""

        def is_counted() -> bool:
            last = dict(self.read_counts(bootstrap))
            return len(last) == keys and all(count >= each for count in last.values())

        eventually(is_counted, True, timeout_s)


def running(instance: Child) -> None:
    """Wait until an instance has its tasks."""
    eventually(lambda: instance.text().rpartition("state ")[2].startswith("RUNNING"), True, 90)


@contextmanager
def application(bootstrap: str, name: str, folder: Path, partitions: int, *settings: str) -> Iterator[Application]:
    """Yield an application without instances; those that are started are closed with the block."""
    found = Application(bootstrap, name, folder, partitions, settings)
    try:
        yield found
        for each in found.started:
            each.stop()
    except BaseException as error:
        error.add_note("\n".join(each.text()[-1500:] for each in found.started[-4:]))
        raise
    finally:
        for each in found.started:
            if each.is_running:
                each.kill()
