"""The demo's course of events: broker, backlog, two workers, live flights, a kill, a takeover, a restart, the end.

Every step waits for what it needs to see, never for a time, so the story is the same on a slow machine.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from demo.children import Child, ChildFailed
from demo.feed import Feed
from demo.flights import ALL_FLIGHTS, read_flights
from demo.journal import Entry, Kind, read_journals
from demo.ownership import WorkerRun
from demo.task import Task
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import fetch_committed
from kohort.client.cluster.list_offsets import list_ends
from kohort.client.cluster.offset_specs import LATEST
from kohort.client.producer.producer import Producer
from kohort.model.ids import TopicPartition

GROUP = "delays"
TOPIC = "flights"
WORKERS = ("a", "b")
VICTIM = "a"
QUERIES = ("b",)
"""Workers that are queries of Structured Streaming; the others are loops of rounds."""

_LOOK_S = 0.05
_SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True)
class Script:
    """How large and how fast the demo is. Times are milliseconds unless named otherwise."""

    out: Path
    rows: int = ALL_FLIGHTS
    partitions: int = 12
    backlog_share: float = 0.5
    """Part of the flights that is in the topic before the workers start; the rest arrives while they run."""
    rows_per_s: float = 6_000
    max_rows_per_round: int = 8_000
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 1_000
    patience_s: float = 300
    """How long any single step may take."""


class Meter(Protocol):
    """Progress of one step."""

    def advance(self, steps: int = 1) -> None:
        """Count steps."""


class Show(Protocol):
    """Where the demo says what happens."""

    def say(self, sentence: str) -> None:
        """Print one sentence."""

    def meter(self, title: str, total: int | None, unit: str) -> AbstractContextManager[Meter]:
        """Show the progress of a step."""


@dataclass(frozen=True, slots=True)
class Sample:
    """How far the group was behind at one moment."""

    at_ms: int
    end: int
    committed: int

    @property
    def lag(self) -> int:
        """Records written and not yet committed."""
        return self.end - self.committed


@dataclass(slots=True)
class Story:
    """All that happened, for the proof and the report."""

    script: Script
    placed: dict[int, dict[int, int]] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    deaths: dict[WorkerRun, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    events: list[dict[str, object]] = field(default_factory=list)
    load_s: float = 0.0
    preloaded: int = 0
    is_clean_shutdown: bool = True

    @property
    def journal_directory(self) -> Path:
        """Where the workers write what they do."""
        return self.script.out / "journal"

    @property
    def table_directory(self) -> Path:
        """The Delta table that the workers write."""
        return self.script.out / "flights"

    @property
    def log_directory(self) -> Path:
        """Where the processes log."""
        return self.script.out / "logs"


class Stalled(RuntimeError):
    """A step of the demo did not come to its end in time."""


class Play:
    """One performance of the script."""

    def __init__(self, script: Script, show: Show) -> None:
        self.story = Story(script)
        self.script = script
        self.show = show
        self.children: dict[str, Child] = {}
        self.runs = dict.fromkeys(WORKERS, 0)
        self.bootstrap_servers = ""

    async def perform(self) -> Story:
        """Play it. Raises ChildFailed, Stalled, KafkaError; no process is left behind, whatever happens."""
        self._clear()
        try:
            await self._broker()
            async with AsyncExitStack() as stack:
                producer = await stack.enter_async_context(Producer(self.bootstrap_servers, linger_ms=20))
                cluster = await stack.enter_async_context(Cluster(self.bootstrap_servers))
                admin = await stack.enter_async_context(Admin(self.bootstrap_servers))
                await admin.create_topic(TOPIC, partitions=self.script.partitions)
                feed = Feed(producer, TOPIC, read_flights(self.script.rows))
                self.story.placed = feed.placed
                await self._load_backlog(feed)
                await self._start_workers()
                async with self._watching(cluster):
                    await self._live(feed)
            await self._stop_workers()
            self.story.entries = self._journal()
            self.story.events = await asyncio.to_thread(read_events, self.bootstrap_servers)
            self.children.pop("broker").terminate()
        finally:
            for child in self.children.values():
                child.kill()
        return self.story

    # The acts

    async def _broker(self) -> None:
        arguments = ["kohort", "broker", "--data", str(self.script.out / "broker"), "--host", "127.0.0.1"]
        child = self._spawn("broker", [*arguments, "--port", "0"])
        started = time.monotonic()

        def is_ready() -> bool:
            for line in child.log.read_text(errors="replace").splitlines():
                if line.startswith("kohort broker ready on "):
                    self.bootstrap_servers = line.rsplit(" ", 1)[1]
            return bool(self.bootstrap_servers)

        await self._until(is_ready, "the broker did not start")
        self.show.say(f"broker ready on {self.bootstrap_servers} after {time.monotonic() - started:.2f} s")

    async def _load_backlog(self, feed: Feed) -> None:
        backlog = int(self.script.rows * self.script.backlog_share)
        started = time.monotonic()
        with self.show.meter("loading flights", backlog, "flights") as meter:
            self.story.preloaded = await feed.send(backlog, sent=meter.advance)
        self.story.load_s = time.monotonic() - started
        rate = self.story.preloaded / self.story.load_s
        self.show.say(f"{self.story.preloaded:,} flights loaded in {self.story.load_s:.1f} s ({rate:,.0f}/s)")

    async def _start_workers(self) -> None:
        started = time.monotonic()
        for worker in WORKERS:
            self._start_worker(worker)
        await self._until(
            lambda: all(self._owned(worker) for worker in WORKERS),
            "the workers did not get their partitions",
            "starting two Spark workers",
        )
        shares = " and ".join(f"{self._owned(worker)}" for worker in WORKERS)
        self.show.say(f"two workers share the group after {time.monotonic() - started:.1f} s: {shares} partitions")

    async def _live(self, feed: Feed) -> None:
        """Let the rest of the flights arrive while a worker dies, is replaced by the other, and comes back."""
        rows = self.script.rows
        # The last flights wait for the restarted worker, so that it has something to do.
        reserve = rows // 10
        arriving = asyncio.create_task(
            feed.send(rows - self.story.preloaded - reserve, rows_per_s=self.script.rows_per_s)
        )
        try:
            await self._until(
                self._is_caught_in_a_round, f"worker {VICTIM} has no round to be killed in", "waiting for rounds"
            )
            died_ms = self._kill_victim()
            everything = self.script.partitions
            survivor = next(worker for worker in WORKERS if worker != VICTIM)
            await self._until(
                lambda: self._owned(survivor, since_ms=died_ms) == everything,
                f"worker {survivor} did not take over",
                "waiting for the session to time out",
            )
            took_s = time.time() - died_ms / 1000
            self.show.say(f"worker {survivor} took over all {everything} partitions {took_s:.1f} s after the kill")
            self._start_worker(VICTIM)
            await self._until(
                lambda: self._owned(VICTIM) > 0, f"worker {VICTIM} did not come back", f"restarting worker {VICTIM}"
            )
            self.show.say(f"worker {VICTIM} is back with {self._owned(VICTIM)} partitions")
            await arriving
            await feed.send(reserve, rows_per_s=self.script.rows_per_s)
        finally:
            arriving.cancel()
        await self._drain(feed)

    async def _drain(self, feed: Feed) -> None:
        samples = self.story.samples
        seen = samples[-1].committed
        with self.show.meter("reading the rest", feed.sent - seen, "flights") as meter:

            def is_drained() -> bool:
                nonlocal seen
                meter.advance(samples[-1].committed - seen)
                seen = samples[-1].committed
                return samples[-1].end == seen == feed.sent

            await self._until(is_drained, "the workers did not finish")

    async def _stop_workers(self) -> None:
        workers = {name: child for name, child in self.children.items() if name != "broker"}
        for child in workers.values():
            child.terminate()
        for name, child in workers.items():
            self.story.is_clean_shutdown &= await asyncio.to_thread(child.wait, 30)
            del self.children[name]

    # What the acts use

    def _clear(self) -> None:
        shutil.rmtree(self.story.table_directory, ignore_errors=True)
        for name in ("broker", "journal", "logs", "checkpoint"):
            shutil.rmtree(self.script.out / name, ignore_errors=True)
            (self.script.out / name).mkdir(parents=True)

    def _spawn(self, name: str, arguments: list[str]) -> Child:
        child = Child(name, arguments, self.story.log_directory / f"{name}.log")
        self.children[name] = child
        return child

    def _start_worker(self, worker: str) -> None:
        self.runs[worker] += 1
        task = Task(
            worker=worker,
            run=self.runs[worker],
            bootstrap_servers=self.bootstrap_servers,
            topic=TOPIC,
            group_id=GROUP,
            table=str(self.story.table_directory),
            journal=str(self.story.journal_directory),
            max_rows_per_round=self.script.max_rows_per_round,
            session_timeout_ms=self.script.session_timeout_ms,
            heartbeat_interval_ms=self.script.heartbeat_interval_ms,
            checkpoint=str(self.script.out / "checkpoint" / f"{worker}-{self.runs[worker]}"),
            is_query=worker in QUERIES,
        )
        self._spawn(f"worker-{worker}-{task.run}", ["demo.worker", task.to_json()])

    def _journal(self) -> list[Entry]:
        return read_journals(self.story.journal_directory)

    def _last(self, worker: str, *kinds: Kind) -> Entry | None:
        run = self.runs[worker]
        mine = [each for each in self._journal() if (each.worker, each.run) == (worker, run) and each.kind in kinds]
        return mine[-1] if mine else None

    def _owned(self, worker: str, since_ms: int = 0) -> int:
        last = self._last(worker, "assigned", "revoked", "lost")
        return len(last.partitions) if last and last.kind == "assigned" and last.at_ms >= since_ms else 0

    def _is_in_a_round(self) -> bool:
        """Say whether the victim has committed a round and is in the middle of another."""
        done = self._last(VICTIM, "committed")
        last = self._last(VICTIM, "began", "committed", "refused", "revoked")
        return done is not None and last is not None and last.kind == "began"

    def _is_caught_in_a_round(self) -> bool:
        """Let the victim stand still in the middle of a round: until it is killed, it might have been done with it."""
        if not self._is_in_a_round():
            return False
        self._victim.freeze()
        if self._is_in_a_round():
            return True
        self._victim.freeze(is_frozen=False)
        return False

    @property
    def _victim(self) -> Child:
        return self.children[f"worker-{VICTIM}-{self.runs[VICTIM]}"]

    def _kill_victim(self) -> int:
        child = self._victim
        del self.children[child.name]
        at_ms = child.kill()
        self.story.deaths[VICTIM, self.runs[VICTIM]] = at_ms
        begun = self._last(VICTIM, "began")
        rows = begun.rows if begun else 0
        self.show.say(f"worker {VICTIM} killed with kill -9 (pid {child.pid}) in a round of {rows:,} rows")
        return at_ms

    async def _until(self, holds: Callable[[], bool], otherwise: str, title: str = "") -> None:
        """Wait until `holds()`; raise ChildFailed when a process ends meanwhile, Stalled when it takes too long."""
        deadline = time.monotonic() + self.script.patience_s
        with self.show.meter(title or "waiting", None, "checks") as meter:
            while not holds():
                for child in self.children.values():
                    child.check()
                if time.monotonic() > deadline:
                    raise Stalled(f"{otherwise} within {self.script.patience_s:.0f} s; see {self.story.log_directory}")
                meter.advance()
                await asyncio.sleep(_LOOK_S)

    @asynccontextmanager
    async def _watching(self, cluster: Cluster) -> AsyncIterator[None]:
        """Sample the group's lag meanwhile."""
        partitions = [TopicPartition(TOPIC, number) for number in range(self.script.partitions)]

        async def watch() -> None:
            while True:
                committed = await fetch_committed(cluster, GROUP, partitions)
                ends = await list_ends(cluster, partitions, LATEST)
                self.story.ends = [ends[partition] for partition in partitions]
                done = sum(each.offset for each in committed.values())
                self.story.samples.append(Sample(time.time_ns() // 1_000_000, sum(self.story.ends), done))
                await asyncio.sleep(_SAMPLE_S)

        watcher = asyncio.create_task(watch())
        try:
            yield
            if watcher.done():
                watcher.result()
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)


def read_events(bootstrap_servers: str) -> list[dict[str, object]]:
    """Return the records of the broker's topic of group events."""
    import json

    from kohort.client.consumer.range_reader import read_ranges
    from kohort.client.decode.arrow_decoder import to_arrow

    partition = TopicPartition("__kohort_group_events", 0)
    end = asyncio.run(_end_of(bootstrap_servers, partition))
    found: list[dict[str, object]] = []
    for _, buffer, _ in read_ranges(bootstrap_servers, [(partition, 0, end)]):
        found += [json.loads(value) for value in to_arrow(buffer, *partition, stop_offset=end)["value"].to_pylist()]
    return found


async def _end_of(bootstrap_servers: str, partition: TopicPartition) -> int:
    async with Cluster(bootstrap_servers) as cluster:
        return (await list_ends(cluster, [partition], LATEST))[partition]


__all__ = ["ChildFailed", "Play", "Sample", "Script", "Show", "Stalled", "Story"]
