"""What a producer measures of each request and each batch, and not of each record. Names as in Kafka's Java client."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.client.producer.accumulator import OutgoingBatch
from kohort.model.metric import Metric, MetricKind, MetricTable, Sampled


class ProducerMetrics:
    """The measurements. `buffer_bytes` is `buffer_memory`."""

    def __init__(self, buffer_bytes: int = 0) -> None:
        self.in_flight = 0
        self.requests = Sampled()
        self.throttles = Sampled()
        self.records = Sampled()
        self.sizes = Sampled()
        self.queue_times = Sampled()
        self.errors = Sampled()
        self.retries = Sampled()
        self.exhausted = Sampled()
        self._buffer_bytes = self._free_bytes = buffer_bytes
        self._waiting = 0

    def request_started(self, batches: Sequence[OutgoingBatch], now_s: float) -> None:
        """Note that a request with these batches is about to be sent."""
        now_ms = int(now_s * 1000)
        self.in_flight += 1
        self.records.record(sum(len(batch.records) for batch in batches), now_ms)
        for batch in batches:
            self.sizes.record(batch.size, now_ms)
            if batch.attempts == 1:
                self.queue_times.record((now_s - batch.created_s) * 1000, now_ms)

    def request_ended(self, began_s: float, now_s: float) -> None:
        """Note that the request has an answer, or will have none."""
        self.in_flight -= 1
        self.requests.record((now_s - began_s) * 1000, int(now_s * 1000))

    def values(self, now_ms: int, free_bytes: int, waiting: int) -> dict[str, float]:
        """Return every metric of `PRODUCER_METRICS` by its name; so many bytes of the buffer are free, calls wait."""
        self._free_bytes, self._waiting = free_bytes, waiting
        return _TABLE.values(self, now_ms)


def _add_rows(table: MetricTable[ProducerMetrics]) -> None:
    what = "Records that were sent, those of batches that were sent again included"
    table.frequency("record-send", lambda m: m.records, what, of_sum=True)
    table.frequency("record-error", lambda m: m.errors, "Records that were not written", of_sum=True)
    table.frequency("record-retry", lambda m: m.retries, "Records that are to be sent again", of_sum=True)
    table.averages("record-queue-time", lambda m: m.queue_times, "How long a batch waited until it was sent")
    text = "How many bytes a batch had before it was compressed,"
    table.averages("batch-size", lambda m: m.sizes, text, unit="bytes")
    text = "How many records a request had on average."
    average = Metric("records-per-request-avg", MetricKind.AVERAGE, "count", "Kafka", text)
    table.add(average, lambda m, now_ms: m.records.average(now_ms))
    table.averages("request-latency", lambda m: m.requests, "How long the answer to a Produce request took")
    table.frequency("request", lambda m: m.requests, "Produce requests that ended")
    table.gauge("requests-in-flight", lambda m, _: m.in_flight, "Produce requests that wait for their answers.")
    text = "For how long a broker throttled this client"
    table.averages("produce-throttle-time", lambda m: m.throttles, text)
    table.gauge("buffer-total-bytes", lambda m, _: m._buffer_bytes, "`buffer_memory`.", "bytes")
    table.gauge("buffer-available-bytes", lambda m, _: m._free_bytes, "Of it, what no record takes.", "bytes")
    table.gauge("waiting-threads", lambda m, _: m._waiting, "Calls of `send` that wait for room.")
    what = "Calls of `send` for which there was no room within `max_block_ms`"
    table.frequency("buffer-exhausted", lambda m: m.exhausted, what)


_TABLE = MetricTable[ProducerMetrics]()
_add_rows(_TABLE)
PRODUCER_METRICS = _TABLE.metrics
"""All that `Producer.metrics()` returns."""
