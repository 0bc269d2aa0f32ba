"""Two applications with state, each bound to a half of the partitions, killed at any moment: the result is that of one.

Polars and DuckDB read what they have stored, and a consumer of librdkafka reads the topics for a plain computation.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from interop.brokers import Broker
from interop.foreign_readers import duckdb
from interop.process import Child
from interop.waiting import eventually
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(3000), pytest.mark.spark]

PARTITIONS = 4
CLICKS, PAGES, STEP_MS = 400, 20, 1000
"""Of one phase: clicks, pages, and the time between two clicks."""

KILLS = ("begun", "stored", "begun", "stored")
"""After which line an application is killed: while it stores a batch, and before Spark has logged that as finished."""

SECONDS = 900.0
Result = Counter[tuple[Any, ...]]


class Clicks:
    """A producer of clicks and of the views that they come from, by page, in the order of their timestamps."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._rng = random.Random(11)
        self._sent = 0
        self._now_ms = int(time.time() - 6 * 3600) * 1000  # what is older than a week is deleted

    def send(self) -> None:
        """Send the clicks of a phase; every third one comes twice."""
        for _ in range(CLICKS):
            self._now_ms += STEP_MS
            page, click = b"page %d" % self._rng.randrange(PAGES), b"click %d" % self._sent
            self._sent += 1
            self._one(f"{self._topic}-views", page, click, self._now_ms - 20_000)
            for _ in range(2 if self._sent % 3 == 0 else 1):
                self._one(self._topic, page, click, self._now_ms)
        assert self._producer.flush(60) == 0

    def close_windows(self) -> None:
        """Send a record to each partition that is hours later: what was open before is emitted."""
        for topic in (self._topic, f"{self._topic}-views"):
            for partition in range(PARTITIONS):
                later = self._now_ms + 10_000_000
                self._producer.produce(topic, b"late %d" % partition, b"none", partition, timestamp=later)
        assert self._producer.flush(60) == 0

    def _one(self, topic: str, key: bytes, value: bytes, at_ms: int) -> None:
        self._producer.produce(topic, value, key, timestamp=at_ms)
        self._producer.poll(0)


def records(bootstrap: str, topic: str) -> Iterator[tuple[str, str, int]]:
    """Read a topic from its beginning to its end: page, click, timestamp in ms."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    for partition in range(PARTITIONS):
        consumer.assign([TopicPartition(topic, partition, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        for _ in range(end):
            found = consumer.poll(30)
            assert found is not None
            assert not found.error()
            yield found.key().decode(), found.value().decode(), found.timestamp()[1]
    consumer.close()


def expected(shape: str, bootstrap: str, topic: str) -> Result:
    """Compute the whole result from the topics."""
    clicks = list(records(bootstrap, topic))
    if shape == "windows":
        return Counter((page, at // 60_000 * 60) for page, _, at in clicks if page != "none")
    if shape == "unique":
        return Counter({(click,) for _, click, _ in clicks})
    views = Counter(view for _, view, _ in records(bootstrap, f"{topic}-views"))
    return Counter((click,) for _, click, _ in clicks for _ in range(views[click]))


def by_polars(shape: str, folder: Path) -> Result:
    polars = pytest.importorskip("polars")
    frame = polars.read_delta(str(folder / "table"))
    if shape == "windows":
        found: Result = Counter()
        for page, start, n in frame.select("page", polars.col("start").dt.epoch("s"), "n").iter_rows():
            assert (page, start) not in found, "a window is emitted once"
            found[page, start] = n
        return found
    return Counter(frame.select("id").iter_rows())


def by_duckdb(shape: str, folder: Path) -> Result:
    connection = duckdb("delta")
    table = f"delta_scan('{folder}/table')"
    if shape == "windows":
        rows = connection.execute(f"SELECT page, epoch(start)::BIGINT, sum(n) FROM {table} GROUP BY ALL").fetchall()
        return Counter({(page, start): int(n) for page, start, n in rows})
    return Counter(connection.execute(f"SELECT id FROM {table}").fetchall())


class Application:
    """One of the two applications, which is killed with all of its processes."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.interop.stateful_job", *arguments]
        self._folder = folder
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        self._folder.mkdir(exist_ok=True)
        self._child = Child(self._command, self._folder / f"{self._starts}.out")

    def printed(self) -> str:
        """Return what it has printed since its start; what only a busy machine has ended is started again."""
        if not self._child.is_running:
            assert "Python worker failed to connect back" in self._child.text(), self._child.text()[-3000:]
            self.start()
        return self._child.text()

    def crash(self) -> None:
        self._child.crash()

    def stop(self) -> None:
        self._child.stop()


@pytest.mark.parametrize("shape", ["windows", "join", "unique"])
def test_two_bound_applications_that_are_killed_give_the_result_of_one(
    shape: str, broker: Broker, name: str, tmp_path: Path
) -> None:
    need("librdkafka")
    for topic in (name, f"{name}-views"):
        create_topic(broker.bootstrap, topic, PARTITIONS)
    clicks = Clicks(broker.bootstrap, name)
    jobs = [
        Application((shape, broker.bootstrap, name, part, str(tmp_path)), tmp_path / part.replace("/", "-of-"))
        for part in ("1/2", "2/2")
    ]
    try:
        for number, line in enumerate(KILLS):
            clicks.send()
            victim, times = jobs[number % 2], 1 + number % 3
            eventually(lambda: min(victim.printed().count(line), times), times, SECONDS)  # noqa: B023
            victim.crash()
            victim.start()
        clicks.close_windows()
        whole = expected(shape, broker.bootstrap, name)

        def stored() -> int:
            assert all(each.printed() is not None for each in jobs)
            return by_polars(shape, tmp_path).total()

        eventually(stored, whole.total(), SECONDS, every_s=1)
    finally:
        for each in jobs:
            each.stop()
    assert by_polars(shape, tmp_path) == whole
    assert by_duckdb(shape, tmp_path) == whole
