"""Lag in records and seconds: the vectors of docs/lag-vectors.json, and what a look costs that is not the first."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.lag_vectors import VECTORS, VectorBroker

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Cluster
from kohort.client.cluster.lag_reader import REREAD_MS, LagReader
from kohort.client.cluster.offset_specs import ISOLATION
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag, LagReason
from kohort.sync import Admin, Producer
from kohort.wire.apis import Api
from kohort.wire.messages import FetchRequest

ONLY = TopicPartition("t", 0)
NAMED = {vector["name"]: vector for vector in VECTORS}
LAGGING = NAMED["the age of the first unread record, two hours"]


async def looks(broker: VectorBroker, vector: dict[str, Any], *changes: Any) -> list[Lag]:
    """Look once, then once after each change of the broker; a change may return how many milliseconds passed."""
    now_ms: int = vector["now_ms"]
    async with broker, Cluster(broker.address) as cluster:
        reader = LagReader(cluster, lambda: now_ms)
        found = []
        for change in (lambda: None, *changes):
            now_ms += change() or 0
            broker.asked.clear()
            found.append((await reader.read("g", [ONLY], ISOLATION[vector["isolation_level"]]))[ONLY])
        return found


def look(vector: dict[str, Any], **how: Any) -> Lag:
    (found,) = asyncio.run(looks(VectorBroker(vector, **how), vector))
    return found


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_every_vector_is_met(vector: dict[str, Any]) -> None:
    found = look(vector)
    assert {"records": found.records, "seconds": found.seconds, "reason": found.reason} == vector["lag"]
    assert not found.is_bound


def test_a_group_that_stands_still_reads_nothing_again() -> None:
    broker = VectorBroker(LAGGING)
    first, second = asyncio.run(looks(broker, LAGGING, lambda: None))
    assert first == second
    (fetch,) = broker.requests(FetchRequest)
    (asked,) = fetch.topics[0].partitions
    assert asked.fetch_offset == 3  # the end: only what is new would come


def test_records_that_come_behind_a_group_that_stands_still_are_counted() -> None:
    broker = VectorBroker(LAGGING)
    log = LAGGING["log"]
    more = {"base_offset": 3, "last_offset": 4, "leader_epoch": 0, "records": [[3, 0], [4, 0]]}
    grown = log | {"high_watermark": 5, "last_stable_offset": 5, "batches": [*log["batches"], more]}
    first, second = asyncio.run(looks(broker, LAGGING, lambda: setattr(broker, "log", grown)))
    assert (first.records, second.records, second.is_bound) == (2, 4, False)
    assert first.seconds == second.seconds == 7200


def test_a_commit_that_moves_is_looked_at_again() -> None:
    broker = VectorBroker(LAGGING)
    moved = LAGGING["committed"] | {"offset": 2}
    first, second = asyncio.run(looks(broker, LAGGING, lambda: setattr(broker, "committed", moved)))
    assert (first.records, first.seconds, second.records, second.seconds) == (2, 7200, 1, 1)


def test_retention_that_deletes_the_oldest_unread_record_is_noticed() -> None:
    broker = VectorBroker(LAGGING)
    shorter = LAGGING["log"] | {"start": 2}
    first, second = asyncio.run(looks(broker, LAGGING, lambda: setattr(broker, "log", shorter)))
    assert (first.records, first.seconds, first.deleted) == (2, 7200, 0)
    assert (second.records, second.seconds, second.deleted) == (1, 1, 1)


def test_a_record_that_a_cleaner_takes_behind_a_group_that_stands_still_is_noticed_later() -> None:
    broker = VectorBroker(LAGGING)
    batch = LAGGING["log"]["batches"][0]
    cleaned = LAGGING["log"] | {"batches": [batch | {"records": batch["records"][2:]}]}
    changes = (lambda: setattr(broker, "log", cleaned), lambda: REREAD_MS)
    _, soon, later = asyncio.run(looks(broker, LAGGING, *changes))
    assert (soon.records, soon.seconds) == (2, 7200)
    assert (later.records, later.seconds) == (1, 1 + REREAD_MS / 1000)


def test_a_topic_that_is_created_again_between_two_looks_is_noticed() -> None:
    broker = VectorBroker(LAGGING)
    other = LAGGING["log"] | {"topic_id": "B"}
    _, second = asyncio.run(looks(broker, LAGGING, lambda: setattr(broker, "log", other)))
    assert (second.records, second.seconds, second.reason) == (None, None, LagReason.TOPIC_RECREATED)


def test_without_read_on_the_topic_records_are_bounded_and_seconds_unknown() -> None:
    found = look(LAGGING, denied=frozenset({Api.FETCH}))
    assert (found.records, found.is_bound, found.seconds) == (2, True, None)
    assert found.reason is LagReason.NOT_AUTHORIZED


def test_a_cleaner_that_takes_the_committed_offset_leaves_the_lag_of_the_next_record(tmp_path: Path) -> None:
    """Keys 0 to 9 are written twice, an hour apart, and the topic is compacted: the first ten records are gone."""
    now_ms = time.time_ns() // 1_000_000
    settings: dict[str, Any] = {"log_cleaner_backoff_ms": 20, "log_cleaner_min_cleanable_ratio": 0.0}
    with EmbeddedBroker(tmp_path, **settings) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1, configs={"cleanup.policy": "compact", "segment.bytes": "1048576"})
        with Producer(broker.bootstrap_servers) as producer:
            for hours, value in ((2, b"old"), (1, b"new"), (0, b"x" * 300_000)):
                for key in range(10):
                    producer.send("t", value, key=b"%d" % key, timestamp_ms=now_ms - hours * 3_600_000)
        admin.reset_offsets("g", {ONLY: 3})
        offset = 3
        while offset == 3:
            with Admin(broker.bootstrap_servers) as another:
                lag = another.lag("g")[ONLY]
            assert lag.oldest is not None
            offset = lag.oldest.offset
        assert lag.seconds is not None
        assert lag.oldest.offset > 9
        assert lag.seconds < 2 * 3_600


def test_more_aborted_records_than_a_look_reads_are_read_by_the_next_ones() -> None:
    """Of a long aborted transaction each look reads a part; the first record behind it is found in the end."""
    sizes = range(0, 400, 2)
    aborted = [
        {
            "base_offset": at,
            "last_offset": at + 1,
            "leader_epoch": 0,
            "producer_id": 7,
            "records": [[at, 0], [at + 1, 0]],
        }
        for at in sizes
    ]
    marker = {
        "base_offset": 400,
        "last_offset": 400,
        "leader_epoch": 0,
        "producer_id": 7,
        "marker": "abort",
        "records": [[400, 0]],
    }
    now_ms = LAGGING["now_ms"]
    last = {"base_offset": 401, "last_offset": 401, "leader_epoch": 0, "records": [[401, now_ms - 5000]]}
    vector = LAGGING | {
        "isolation_level": "read_committed",
        "committed": LAGGING["committed"] | {"offset": 0},
        "log": LAGGING["log"] | {"high_watermark": 402, "last_stable_offset": 402, "batches": [*aborted, marker, last]},
    }

    class OneByOne(VectorBroker):
        def _read(self, answer: Any, offset: int, limit: int, end: int) -> None:
            super()._read(answer, offset, min(limit, 1500), end)

    first, *later = asyncio.run(looks(OneByOne(vector), vector, *[lambda: None] * 4))
    assert (first.seconds, first.reason) == (None, LagReason.NO_RECORD_YET)
    assert first.is_bound
    assert (later[-1].records, later[-1].seconds, later[-1].is_bound) == (1, 5, False)
