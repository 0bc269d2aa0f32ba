"""A group of members that a test steers, and what `explain` prints of it step by step."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop.group import IN_GO
from interop.process import OWN_CODE, Child

from interop import go_program, jars
from kohort import Admin, Producer
from kohort.client.errors import UnknownTopic
from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, conversion, title
from kohort.group.explain.rebalance_report import GroupReport, Rebalance
from kohort.sync import Consumer

EVENTS = "__kohort_group_events"
ROOT = Path(__file__).resolve().parents[2]
CALM_S = 1.5
PATIENCE_S = 60


class Steered:
    """One member program and the file of its commands."""

    def __init__(self, library: str, bootstrap: str, group: str, folder: Path, settings: dict[str, str]) -> None:
        self.commands = folder / f"{settings['client']}-{time.monotonic_ns()}.commands"
        self.commands.touch()
        arguments = [bootstrap, group, str(self.commands), *(f"{key}={value}" for key, value in settings.items())]
        if library in IN_GO:  # takes no commands
            usual = ("assignor=range", "metadata_ms=500")
            command = [str(go_program.built(ROOT / "interop" / "go" / library)), bootstrap, group, settings["topics"]]
            command += [*usual, *arguments[3:]]
        elif library == "java":
            command = jars.command("SteeredMember", *arguments, classes=jars.compiled("SteeredMember"))
        else:
            command = [sys.executable, "-m", f"interop.steered.{library}", *arguments]
        output = self.commands.with_suffix(".jsonl")
        self.child = Child(command, output, environment={**os.environ, **OWN_CODE}, separate=True)

    def order(self, line: str) -> None:
        """Append a command."""
        with self.commands.open("a") as commands:
            commands.write(line + "\n")

    def complaint(self) -> str:
        """Return what it has printed, for a message."""
        errors = self.child.output.with_suffix(".err").read_text(errors="replace")
        return f"{self.child.text()[-500:]}\n{errors[-2500:]}"


class SteeredGroup:
    """Members of one library in one group, and its events; a context manager that leaves no process behind."""

    def __init__(self, library: str, bootstrap: str, name: str, folder: Path) -> None:
        self.library, self.bootstrap, self.name, self.folder = library, bootstrap, name, folder
        self.members: list[Steered] = []
        self._explanation = Explanation(name)
        self._changed_s = time.monotonic()
        self._events: list[dict[str, Any]] = []
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.child.crash()
        if self._consumer is not None:
            self._consumer.stop()

    def _reader(self) -> Consumer:
        """Return a consumer of the events, whose topic the first member of all groups makes."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self._consumer is None:
            reader = Consumer(EVENTS, bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
            try:
                reader.start()
            except UnknownTopic:
                assert time.monotonic() < deadline_s, "no group has had an event"
            else:
                self._consumer = reader
        return self._consumer

    def start(self, client: str, **settings: str) -> Steered:
        """Start a member."""
        given = {"client": client, "topics": f"{self.library}-a", **settings}
        self.members.append(Steered(self.library, self.bootstrap, self.name, self.folder, given))
        return self.members[-1]

    def close(self, member: Steered) -> None:
        """Let a member end cleanly."""
        member.child.stop(30)
        self.members.remove(member)

    def kill(self, member: Steered) -> None:
        """End a member as a crash would."""
        member.child.crash()
        self.members.remove(member)

    def explained(self) -> GroupReport:
        """Take the events that have come, and return what is known of the group."""
        for batch in self._reader().poll(timeout_ms=100, max_records=10_000):
            for record in batch:
                if record.key == self.name.encode():
                    event = json.loads(bytes(record.value or b""))
                    self._events.append(event)
                    self._explanation.fold(event)
                    self._changed_s = time.monotonic()
        return self._explanation.report(time.time_ns() // 1_000_000)

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the events so far."""
        return self._events[since:]

    def until(self, true: Callable[[GroupReport], bool], what: str, calm_s: float = CALM_S) -> GroupReport:
        """Wait until something holds of the group, and no event has come for so long."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not true(explained := self.explained()) or time.monotonic() - self._changed_s < calm_s:
            is_alive = all(member.child.is_running for member in self.members)
            if time.monotonic() > deadline_s or not is_alive:
                output = "\n".join(member.complaint() for member in self.members)
                last = "\n".join(map(str, self._events[-12:]))
                raise AssertionError(f"{self.library}: {what}: not within {PATIENCE_S} s\n{output}\n{last}")
        return explained

    def step(self, act: Callable[[], object], members: int) -> str:
        """Do something, wait until a group of so many rests, and return the causes that are printed."""
        before = self.explained().total
        act()
        explained = self.until(
            lambda explained: explained.total > before and explained.running is None and explained.members == members,
            f"a rebalance ends with {members} members",
        )
        return causes(explained.rebalances[before:], Names(explained.identities))


def causes(rebalances: list[Rebalance], names: Names) -> str:
    """Return why rebalances were, in the words of `explain`, each clause once; members by their client ids."""
    clauses: dict[str, None] = {}
    for each in rebalances:
        why = title(each, names).partition(": ")[2].split(", then ")
        clauses |= dict.fromkeys([*why, *(conversion(one, names) for one in each.conversions)])
    explained = [re.sub(r"\b(m-\d)-[^\s,;()]+", r"\1", clause) for clause in clauses]
    return ", then ".join(dict.fromkeys(explained))


class Topics:
    """The topics of a cluster, changed by an administrator."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, name: str, partitions: int = 4) -> None:
        """Create a topic."""

        async def create() -> None:
            async with Admin(self._bootstrap) as admin:
                await admin.create_topic(name, partitions=partitions)

        asyncio.run(create())

    def write(self, name: str) -> None:
        """Write a record to each of the first four partitions."""

        async def write() -> None:
            async with Producer(bootstrap_servers=self._bootstrap) as producer:
                for partition in range(4):
                    await producer.send(name, b"record", partition=partition)

        asyncio.run(write())

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions."""

        async def grow() -> None:
            async with Admin(self._bootstrap) as admin:
                await admin.create_partitions(name, partitions)

        asyncio.run(grow())

    def delete(self, name: str) -> None:
        """Delete a topic."""

        async def delete() -> None:
            async with Admin(self._bootstrap) as admin:
                await admin.delete_topic(name)

        asyncio.run(delete())
