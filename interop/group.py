"""Groups of member programs: start them, wait for what they report, and account for every record they read."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from interop import go_program, jars, java_member, node_program
from interop.account import Account
from interop.process import OWN_CODE, ROOT, Child
from kohort.model.errors import KafkaError
from kohort.sync import Consumer

LIBRARIES = ("librdkafka", "kafka_python", "aiokafka")  # by others, in Python; beside them stand java and kohort
NEWEST_JAVA = "newest_java"
"""The consumer of the newest Apache Kafka, which names cluster and node when it connects (KIP-1242)."""
IN_GO = ("kgo", "sarama", "kafka-go")
EVENTS = "__kohort_group_events"
Position = tuple[int, int]  # partition, offset
Pair = tuple[str, str]  # key, value


class Member(Account):
    """One member program and what it has reported so far."""

    def __init__(self, library: str, bootstrap: str, group: str, topic: str, folder: Path, settings: Mapping[str, str]):
        arguments = [bootstrap, group, topic, *(f"{key}={value}" for key, value in settings.items())]
        if library == "java":
            command = java_member.command(*arguments)
        elif library == NEWEST_JAVA:
            program = jars.compiled(java_member.NAME, pom=jars.NEWEST)
            command = jars.command(java_member.NAME, *arguments, classes=program, pom=jars.NEWEST)
        elif library in IN_GO:
            command = [str(go_program.built(ROOT / "interop" / "go" / library)), *arguments]
        elif library == "kafkajs":
            command = [*node_program.command(ROOT / "interop" / library), *arguments]
        else:
            command = [sys.executable, "-m", f"interop.members.{library}", *arguments]
        output = folder / f"{library}-{time.monotonic_ns()}.jsonl"
        environment = {**os.environ, **OWN_CODE}
        self.child = Child(command, output, environment=environment, separate=True)
        super().__init__(
            f"{library} pid {self.child.pid}",
            is_native=settings.get("protocol") == "consumer",
            is_cooperative=settings.get("assignor") == "cooperative-sticky",
        )
        self.library = library
        self._seen = 0

    def read(self) -> None:
        """Take in the lines that it has printed since the last time."""
        with self.child.output.open("rb") as output:
            output.seek(self._seen)
            lines, newline, _ = output.read().rpartition(b"\n")
        if newline:
            for line in lines.split(b"\n"):
                self.take(json.loads(line.decode(errors="replace")))
            self._seen += len(lines) + 1

    def complaint(self) -> str:
        """Return the end of what it wrote on stderr, for a message."""
        return self.log()[-2000:]

    def ending(self) -> str:
        """Return how it ended, and its last troubles, for a message."""
        return f"exit code {self.child.process.returncode}, troubles {self.troubles[-3:]}, {self.complaint()}"

    def log(self) -> str:
        """Return what it wrote on stderr."""
        return self.child.output.with_suffix(".err").read_text(errors="replace")

    def leave(self) -> None:
        """Ask it to leave and wait until it has."""
        self.child.stop(30)
        self.read()
        assert self.has_left, f"{self.library} did not end cleanly: {self.complaint()}"
        self.owned = set()

    def turn(self) -> None:
        """Ask it to go on with the other protocol, as the same process."""
        self.child.signal(signal.SIGHUP)

    def kill(self) -> None:
        """End it as a crash would, with the processes that it has started."""
        self.child.crash()
        self.read()
        self.ended_s = time.monotonic()
        self.owned = set()


class Group:
    """Members of one group on one topic; a context manager that leaves no process behind."""

    def __init__(self, bootstrap: str, name: str, topic: str, partitions: int, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.topic = topic
        self.partitions = set(range(partitions))
        self.folder = folder
        self.are_troubles_expected = False
        self.members: list[Member] = []
        self.gone: list[Member] = []

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:  # all are ended, though one may not end in time
            for member in self.members:
                stack.callback(member.child.crash)

    def start(self, library: str, **settings: str) -> Member:
        """Start one member more."""
        member = Member(library, self.bootstrap, self.name, self.topic, self.folder, settings)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Let one member leave cleanly."""
        member.leave()
        self._forget(member)

    def kill(self, member: Member) -> None:
        """Kill one member."""
        member.kill()
        self._forget(member)

    def _forget(self, member: Member) -> None:
        self.members.remove(member)
        self.gone.append(member)

    def await_(self, true: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until something holds of what the members have reported."""
        deadline = time.monotonic() + timeout_s
        while True:
            for member in self.members:
                member.read()
            if true():
                return
            for member in self.members:
                assert member.child.is_running, f"{member.library} ended by itself: {member.ending()}"
                assert self.are_troubles_expected or not member.troubles, f"{member.library}: {member.troubles}"
            if time.monotonic() > deadline:
                self._ask_for_stacks()
                raise AssertionError(f"{what}: not within {timeout_s} s\n{self.state()}\n{self.events()}")
            time.sleep(0.02)

    def _ask_for_stacks(self) -> None:
        """Let the Python programs write on stderr where each of their threads is."""
        for member in self.members:
            if member.library not in ("java", "kafkajs"):
                member.child.signal(signal.SIGUSR1)
        time.sleep(0.3)

    def state(self) -> str:
        """Return what each member holds and has read, for a message."""
        return "\n".join(
            f"{m.name}: owns {sorted(m.owned)}, read {len(m.rows)}, committed {m.committed}, "
            f"refused {m.refusals}, troubles {m.troubles}, changes {m.changes[-4:]}, output {m.complaint()}"
            for m in self.gone + self.members
        )

    def event_log(self) -> list[dict[str, object]]:
        """Return what our coordinator recorded of the group."""
        with Consumer(EVENTS, bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            records = []
            while polled := consumer.poll(timeout_ms=1500, max_records=10_000):
                records += [record for batch in polled for record in batch]
        return [json.loads(bytes(r.value or b"")) for r in records if r.key == self.name.encode()]

    def events(self) -> str:
        """Return the coordinator's record, for a message; nothing where the broker is another's."""
        try:
            return "\n".join(map(str, self.event_log()))
        except KafkaError as error:
            return str(error)

    def settle(self, timeout_s: float = 40) -> None:
        """Wait until every partition has one owner and each member owns something, if there are enough partitions."""

        def is_settled() -> bool:
            owned = [partition for member in self.members for partition in member.owned]
            everyone = len(self.members) > len(self.partitions) or all(member.owned for member in self.members)
            return everyone and sorted(owned) == sorted(self.partitions)

        self.await_(is_settled, "every partition has one owner", timeout_s)

    def calm(self, still_s: float = 2, timeout_s: float = 60) -> None:
        """Wait until the group is settled and no member's partitions have changed for a while.

        A leader may rebalance once more just after it has assigned: kafka-python's does when its metadata came late.
        """
        seen: list[int] = []
        since = time.monotonic()

        def is_calm() -> bool:
            nonlocal seen, since
            changes = [len(member.changes) for member in self.members]
            if changes != seen:
                seen, since = changes, time.monotonic()
            return time.monotonic() - since > still_s

        self.settle(timeout_s)
        self.await_(is_calm, f"nothing changes for {still_s} s", timeout_s)

    def positions_read(self) -> Counter[Position]:
        """Return how often each record was read, over all members, those that are gone included."""
        return Counter((row[0], row[1]) for member in self.gone + self.members for row in member.rows)

    def committed(self) -> dict[int, int]:
        """Return the highest offset that was committed, per partition."""
        highest: dict[int, int] = {}
        for member in self.gone + self.members:
            for partition, offset in member.committed.items():
                highest[partition] = max(offset, highest.get(partition, 0))
        return highest

    def drain(self, written: Mapping[Position, Pair], timeout_s: float = 40) -> None:
        """Wait until every record written has been read and committed."""
        ends: dict[int, int] = {}
        for partition, offset in written:
            ends[partition] = max(offset + 1, ends.get(partition, 0))
        self.await_(
            lambda: all(self.committed().get(partition, 0) >= end for partition, end in ends.items()),
            f"{len(written)} records are committed",
            timeout_s,
        )

    def check(self, written: Mapping[Position, Pair], *, may_repeat: Sequence[Member] = ()) -> None:
        """Compare what was read with what was written, record by record.

        Only what a member of `may_repeat` had read and not committed when it was killed may have been read twice.
        """
        counts = self.check_read(written)
        uncommitted = {
            (row[0], row[1])
            for member in may_repeat
            for row in member.rows
            if row[1] >= member.committed.get(row[0], 0)
        }
        doubled = sorted(position for position, times in counts.items() if times > 1 and position not in uncommitted)
        assert not doubled, f"{len(doubled)} records were read twice: {doubled[:5]}\n{self.state()}"

    def check_read(self, written: Mapping[Position, Pair]) -> Counter[Position]:
        """Compare what was read with what was written, and return how often each record was read."""
        for member in self.gone + self.members:
            for partition, offset, key, value in member.rows:
                assert written.get((partition, offset)) == (key, value), f"{member.library} read {partition}@{offset}"
        counts = self.positions_read()
        lost = sorted(set(written) - set(counts))
        assert not lost, f"{len(lost)} records were never read: {lost[:5]}\n{self.state()}"
        return counts


def keyed(count: int, keys: int, start: int = 0) -> list[Pair]:
    """Return pairs whose values number the records of their key."""
    return [(f"key-{i % keys}", f"key-{i % keys}:{i // keys}") for i in range(start, start + count)]


def check_keys(written: Mapping[Position, Pair], *, is_ordered: bool = True) -> None:
    """Check that each key is on one partition, and its values there in the order in which they were sent.

    A producer without idempotence may reorder what it retries: of that only the partition is checked.
    """
    places: dict[str, set[int]] = {}
    latest: dict[str, int] = {}
    for (partition, _), (key, value) in sorted(written.items()):
        places.setdefault(key, set()).add(partition)
        number = int(value.rpartition(":")[2])
        assert not is_ordered or number > latest.get(key, -1), f"{key} is out of order on partition {partition}"
        latest[key] = number
    assert all(len(partitions) == 1 for partitions in places.values()), "a key is on two partitions"


def merged(parts: Iterable[Mapping[Position, Pair]]) -> dict[Position, Pair]:
    """Join what several producers wrote; no two may have been given the same place."""
    whole: dict[Position, Pair] = {}
    for part in parts:
        assert not whole.keys() & part.keys(), "two records were given the same offset"
        whole.update(part)
    return whole
