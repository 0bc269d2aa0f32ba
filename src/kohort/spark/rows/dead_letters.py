"""The dead-letter topic: records that cannot be decoded, as they were, with where they came from and why in headers.

The headers have the names of Kafka Connect's dead-letter queue, so that its tools read them. The law: what was sent is
written before `close` returns, and a topic that cannot be written raises. A task that Spark runs again sends again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kohort.client.producer.accumulator import Delivery
from kohort.client.producer.producer import Producer
from kohort.model.errors import KafkaError
from kohort.spark.loop_thread import LoopThread
from kohort.spark.rows.read_settings import ReadSettings, security
from kohort.spark.schemas.bad_record import BadRecord, dead_letter_headers

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_MOST_BYTES = 1 << 30
"""The largest request: the topic's `max.message.bytes` is what limits a record."""
_MOST_OPEN = 1000


class DeadLetters:
    """Writes to the dead-letter topic of one task or round; connects when there is something to write."""

    def __init__(self, settings: ReadSettings) -> None:
        self.count = 0
        self._settings = settings
        self._thread: LoopThread | None = None
        self._producer: Producer | None = None
        self._open: list[Delivery] = []
        self._reasons: Counter[tuple[str, str]] = Counter()

    def send(self, rows: pa.RecordBatch, bad: Iterable[BadRecord]) -> None:
        """Send the bad ones of these rows, which have all columns of a topic and headers. Raises KafkaError."""
        try:
            for each in bad:
                row = rows.slice(each.place, 1).to_pylist()[0]
                self._started.call(self._send(row, each))
                self.count += 1
                self._reasons[f"{row['topic']}-{row['partition']}", each.reason.value] += 1
        except KafkaError as error:
            raise self._refused(error) from None

    def close(self) -> None:
        """Return when everything is written. Raises KafkaError."""
        thread, producer = self._thread, self._producer
        if thread is None or producer is None:
            return
        self._thread = self._producer = None
        try:
            thread.call(producer.flush())
            self._check()
        except KafkaError as error:
            raise self._refused(error) from None
        finally:
            try:
                thread.call(producer.stop(timeout_ms=0))
            finally:
                thread.close()
        for (partition, reason), number in sorted(self._reasons.items()):
            log.warning(
                "group %s: %d records of %s are in the dead-letter topic %s: %s",
                *(self._settings.group_id, number, partition, self._settings.dead_letter_topic, reason),
            )

    @property
    def _started(self) -> LoopThread:
        if self._thread is None:
            settings = self._settings
            producer = Producer(
                settings.bootstrap_servers,
                client_id=settings.client_id,
                allow_auto_create_topics=False,
                max_request_size=_MOST_BYTES,
                **security(settings.properties),
            )
            thread = LoopThread("kohort dead letters")
            try:
                thread.call(producer.start())
            except BaseException:
                thread.close()
                raise
            self._thread, self._producer = thread, producer
        return self._thread

    async def _send(self, row: dict[str, Any], bad: BadRecord) -> None:
        assert self._producer is not None, "it is started"
        kept = [(each["key"], each["value"]) for each in row["headers"] or ()]
        stamp = row["timestamp"]
        self._open.append(
            await self._producer.send(
                self._settings.dead_letter_topic,
                row["value"],
                row["key"],
                timestamp_ms=None if stamp is None else max(0, round(stamp.timestamp() * 1000)),
                headers=[*kept, *self._why(row, bad)],
            )
        )
        if len(self._open) >= _MOST_OPEN:
            await self._producer.flush()
            self._check()

    def _why(self, row: dict[str, Any], bad: BadRecord) -> list[tuple[str, bytes]]:
        found = dead_letter_headers(
            {name: row[name] for name in ("topic", "partition", "offset")},
            group=self._settings.group_id,
            reason=bad.reason.value,
            kind=f"kohort.spark.Reason.{bad.reason.name}",
            message=bad.message,
            schema_id=bad.schema_id if bad.schema_id >= 0 else None,
        )
        return [(name, str(value).encode()) for name, value in found.items() if value is not None]

    def _check(self) -> None:
        """Forget what is written. Raises the KafkaError of what was not."""
        for each in self._open:
            each.result()
        self._open.clear()

    def _refused(self, error: KafkaError) -> KafkaError:
        topic = self._settings.dead_letter_topic
        return KafkaError(
            error.code,
            f"the dead-letter topic {topic} cannot be written: {error.text}. Nothing of this batch is committed: create"
            f" the topic, or allow this client to write to it, and run the query again",
        )
