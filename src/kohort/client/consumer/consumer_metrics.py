"""What a consumer measures: its polls and fetches here, its membership in `member.rebalance_metrics`.

Names as in Kafka's Java client.
"""

from __future__ import annotations

from collections.abc import Collection
from math import nan
from typing import Protocol

from kohort.member.rebalance_metrics import MEMBER_METRICS, RebalanceMetrics
from kohort.model.metric import Metric, MetricKind, MetricTable, Sampled, seconds_since


class Handlers(Protocol):
    """What `process` runs now."""

    @property
    def running(self) -> int:
        """How many calls of the handler run."""

    @property
    def unfinished(self) -> int:
        """How many records were taken and have not finished."""

    def longest_ms(self, now_ms: int) -> int:
        """Return for how long the oldest call runs; 0 where none does."""


class ConsumerMetrics:
    """The measurements. `handlers` are those of `process`, if it runs.

    `returned` is how many records were returned since the last poll ended.
    """

    def __init__(self, rebalances: RebalanceMetrics) -> None:
        self.rebalances = rebalances
        self.fetches = Sampled()
        self.throttles = Sampled()
        self.sizes = Sampled()
        self.records = Sampled()
        self.between_polls = Sampled()
        self.idle = Sampled()
        self.polled_ms: int | None = None
        self.returned = 0
        self.handlers: Handlers | None = None
        self.failures = Sampled()
        self.dead_letters = Sampled()
        self._between_ms = 0
        self._lags: Collection[int | None] = ()

    def fetched(self, began_s: float, now_s: float, size: int, throttle_ms: int) -> None:
        """Note that a Fetch was answered, with record batches of so many bytes."""
        now_ms = int(now_s * 1000)
        self.fetches.record((now_s - began_s) * 1000, now_ms)
        self.sizes.record(size, now_ms)
        self.throttles.record(throttle_ms, now_ms)

    def poll_began(self, now_ms: int) -> None:
        """Note that the user polls."""
        if self.polled_ms is not None:
            self._between_ms = now_ms - self.polled_ms
            self.between_polls.record(self._between_ms, now_ms)
        self.polled_ms = now_ms

    def poll_ended(self, now_ms: int) -> int:
        """Note that the poll returned, and the records since the last one (`returned`); return how long it took."""
        assert self.polled_ms is not None, "a poll that ended has begun"
        waited_ms = now_ms - self.polled_ms
        if passed_ms := waited_ms + self._between_ms:
            self.idle.record(waited_ms / passed_ms, now_ms)
        self.records.record(self.returned, now_ms)
        self.returned = 0
        return waited_ms

    def values(self, now_ms: int, lags: Collection[int | None]) -> dict[str, float]:
        """Return every metric of `CONSUMER_METRICS` by its name.

        `lags` are those of the partitions that are read, in offsets, None where one is unknown.
        """
        self._lags = lags
        return self.rebalances.values(now_ms) | _TABLE.values(self, now_ms)


def _add_rows(table: MetricTable[ConsumerMetrics]) -> None:
    table.gauge("assigned-partitions", lambda m, _: len(m._lags), "How many partitions this consumer reads now.")
    text = "How many offsets the partition that is furthest behind is behind."
    table.gauge("records-lag-max", lambda m, _: max((lag for lag in m._lags if lag is not None), default=nan), text)
    table.frequency("records-consumed", lambda m: m.records, "Records that `poll` returned", of_sum=True)
    what = "Bytes of record batches in answers to Fetch, compressed as they came"
    table.frequency("bytes-consumed", lambda m: m.sizes, what, of_sum=True, unit="bytes")
    text = "How many bytes of record batches an answer to Fetch had"
    table.averages("fetch-size", lambda m: m.sizes, text, unit="bytes")
    text = "How long the answer to a Fetch took, what the broker waited for records included,"
    table.averages("fetch-latency", lambda m: m.fetches, text)
    table.frequency("fetch", lambda m: m.fetches, "Fetches answered")
    table.averages("fetch-throttle-time", lambda m: m.throttles, "For how long a broker throttled this client")
    table.averages("time-between-poll", lambda m: m.between_polls, "How long it took from one poll to the next")
    text = "Since the user last called `poll`; −1 before the first time."
    table.gauge("last-poll-seconds-ago", lambda m, now_ms: seconds_since(m.polled_ms, now_ms), text, "s")
    text = "The share of time that the user spent in `poll`; the rest went into its own work."
    average = Metric("poll-idle-ratio-avg", MetricKind.AVERAGE, "ratio", "Kafka", text)
    table.add(average, lambda m, now_ms: m.idle.average(now_ms))
    text = "How many calls of the handler of `process` run."
    table.gauge("handlers-running", lambda m, _: m.handlers.running if m.handlers else 0, text, origin="kohort")
    text = (
        "How many records `process` has taken that have not finished: those of running handlers, and those that wait."
    )
    table.gauge("handlers-unfinished", lambda m, _: m.handlers.unfinished if m.handlers else 0, text, origin="kohort")
    text = "For how long the handler of `process` that began first runs."
    longest = Metric("handlers-longest", MetricKind.GAUGE, "ms", "kohort", text)
    table.add(longest, lambda m, now_ms: m.handlers.longest_ms(now_ms) if m.handlers else 0)
    table.frequency("handlers-failed", lambda m: m.failures, "Calls of the handler of `process` that failed")
    table.frequency("dead-letters", lambda m: m.dead_letters, "Records that `process` wrote to a dead-letter topic")


_TABLE = MetricTable[ConsumerMetrics]()
_add_rows(_TABLE)
CONSUMER_METRICS = (*MEMBER_METRICS, *_TABLE.metrics)
"""All that `Consumer.metrics()` returns, the membership's included."""
