"""The report of a stream: bounded in memory and in size, whatever a stream has seen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import count

import pytest

from kohort.client.membership.user_callbacks import Callbacks
from kohort.drawing.ownership_drawing import RateColumns, ValueLine
from kohort.model.ids import TopicPartition
from kohort.spark.membership.group_progress import GroupProgress
from kohort.spark.report import SAMPLES, HistoryListener, StreamHistory, drawing_of, stream_report

PROGRESS = GroupProgress("delays & <b>", "member-1", 4, 2, 30, 20, 3, 7)


@pytest.fixture
def times() -> Iterator[int]:
    """Milliseconds: each call of the clock comes a second after the one before."""
    return count(1_700_000_000_000, 1000)


def partitions(number: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("flights", each) for each in range(number))


def test_a_history_has_when_each_partition_was_owned_and_calls_the_users_listener(times: Iterator[int]) -> None:
    history = StreamHistory(lambda: next(times))
    seen: list[str] = []
    listener = HistoryListener(
        history,
        Callbacks(lambda _: seen.append("assigned"), lambda _: seen.append("revoked"), lambda _: seen.append("lost")),
    )
    first, second = sorted(partitions(2))
    asyncio.run(listener.on_partitions_assigned(partitions(2)))
    asyncio.run(listener.on_partitions_revoked(frozenset({first})))
    asyncio.run(listener.on_partitions_lost(partitions(2)))
    start = history.started_ms
    assert history.tenures == [(first, start + 1000, start + 2000), (second, start + 1000, start + 3000)]
    assert [text for _, text in history.changes] == ["+2", "-1", "lost 1"]
    assert seen == ["assigned", "revoked", "lost"]


def test_samples_of_a_long_run_are_thinned_and_its_last_rows_stay(times: Iterator[int]) -> None:
    history = StreamHistory(lambda: next(times))
    for number in range(20 * SAMPLES):
        history.sample(number, number, 0)
    assert SAMPLES / 4 < len(history.samples) <= SAMPLES
    assert history.samples[0].at_ms == history.started_ms
    assert history.samples[-1].offsets == 20 * SAMPLES - 1


def test_the_drawing_has_the_rows_of_a_round_in_the_column_of_their_time(times: Iterator[int]) -> None:
    history = StreamHistory(lambda: next(times))
    history.add(partitions(2))
    history.sample(50, 0, 0)
    history.sample(20, 30, 0)
    history.sample(0, 50, 0)
    drawing = drawing_of(history)
    lag, rate = drawing.panels
    assert isinstance(lag, ValueLine)
    assert isinstance(rate, RateColumns)
    assert rate.values == {"this member": {2: 0, 3: 30, 4: 20}}
    assert [each for _, each in lag.points] == [0, 50, 20, 0]
    end_ms = history.started_ms + 4000
    assert [(lane.name, [span.until_ms for span in lane.spans]) for lane in drawing.groups[0].lanes] == [
        ("flights 0", [end_ms]),
        ("flights 1", [end_ms]),
    ]


def test_the_report_is_one_page_of_bounded_size_that_refers_to_nothing_outside(times: Iterator[int]) -> None:
    history = StreamHistory(lambda: next(times))
    for _ in range(50):
        history.add(partitions(3000))
        history.sample(30, 100, 7)
        history.remove(partitions(3000))
    text = stream_report(PROGRESS, history)
    assert len(text) < 2_000_000
    assert "Not drawn: 2,900 lanes" in text
    assert "delays &amp; &lt;b&gt;" in text
    outside = {each for each in re.findall(r'(?:href|src)="([^"]+)"', text) if not each.startswith(("#", "data:"))}
    assert outside == set()


def test_a_stream_that_never_owned_anything_has_a_report(times: Iterator[int]) -> None:
    text = stream_report(PROGRESS, StreamHistory(lambda: next(times)))
    assert "offsets read again by others" in text
