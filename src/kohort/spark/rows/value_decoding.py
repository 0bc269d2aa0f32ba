"""Rows whose values are decoded on the way into Spark, where they are Arrow already: no task passes them on for it.

Bad records stay, with a null value and their reason in the column `error`, or leave the rows for the dead-letter topic,
as they were, with where they came from and why in headers; these have the names of Kafka Connect's, so that its tools
read them. The law: what was sent is written before `close` returns, and a topic that cannot be written raises. A task
that Spark runs again sends again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.model.errors import KafkaError
from kohort.spark.rows.read_settings import ReadSettings, security
from kohort.spark.schemas.bad_record import ERROR, BadRecord, Reason, dead_letter_headers, error_column

if TYPE_CHECKING:
    from kohort.sync import Delivery, Producer

log = logging.getLogger(__name__)


def decoded_schema(schema: pa.Schema, settings: ReadSettings) -> pa.Schema:
    """Return the schema of `DecodedRows` for rows with this one, which has headers if the settings have."""
    if settings.decoding is None:
        return schema
    decoded = schema.set(schema.get_field_index("value"), pa.field("value", settings.decoding.type))
    return decoded if settings.dead_letter_topic else decoded.append(pa.field("error", ERROR))


class DecodedRows:
    """Decodes the rows of one task or round; leave it to have everything in the dead-letter topic."""

    def __init__(self, settings: ReadSettings) -> None:
        self.dead_letters = 0
        self._settings = settings
        if settings.decoding is None:
            return
        from kohort.spark.schemas.value_decoder import decoder_of

        self._decoder = decoder_of(settings.decoding)
        self._letters = DeadLetters(settings)

    def __enter__(self) -> DecodedRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settings.decoding is None:
            return
        try:
            self._letters.close()
        except Exception as refused:
            if error is None:
                raise
            log.warning("after %r: %s", error, refused)  # what made the block fail is the error to raise
        self.dead_letters = self._letters.count

    def of(self, rows: pa.RecordBatch, damage: str = "") -> pa.RecordBatch:
        """Return rows with decoded values; `damage` names the fault of a row that is a whole record batch.

        Raises KafkaError, RegistryUnavailable.
        """
        settings = self._settings
        if settings.decoding is None:
            return rows
        if damage:
            values, bad = pa.nulls(1, settings.decoding.type), [BadRecord(0, Reason.DAMAGED_BATCH, damage)]
        else:
            values, bad = self._decoder.decode(rows["value"])
        at = rows.schema.get_field_index("value")
        schema = rows.schema.set(at, pa.field("value", settings.decoding.type))
        columns = [*rows.columns[:at], values, *rows.columns[at + 1 :]]
        if not settings.dead_letter_topic:
            schema = schema.append(pa.field("error", error_column(rows["value"], bad).type))
            return pa.RecordBatch.from_arrays([*columns, error_column(rows["value"], bad)], schema=schema)
        found = pa.RecordBatch.from_arrays(columns, schema=schema)
        if bad:
            self._letters.send(rows, bad)
            is_good = [True] * rows.num_rows
            for each in bad:
                is_good[each.place] = False
            found = found.filter(pa.array(is_good))
        return found if settings.include_headers else found.drop_columns(["headers"])


_MOST_BYTES = 1 << 30
"""The largest request: the topic's `max.message.bytes` is what limits a record."""
_MOST_OPEN = 1000


class DeadLetters:
    """Writes to the dead-letter topic of one task or round; connects when there is something to write."""

    def __init__(self, settings: ReadSettings) -> None:
        self.count = 0
        self._settings = settings
        self._producer: Producer | None = None
        self._open: list[Delivery] = []
        self._reasons: Counter[tuple[str, str]] = Counter()

    def send(self, rows: pa.RecordBatch, bad: Iterable[BadRecord]) -> None:
        """Send the bad ones of these rows, which have all columns of a topic and headers. Raises KafkaError."""
        try:
            for each in bad:
                row = rows.slice(each.place, 1).to_pylist()[0]
                self._send(row, each)
                self.count += 1
                self._reasons[f"{row['topic']}-{row['partition']}", each.reason.value] += 1
        except KafkaError as error:
            raise self._refused(error) from None

    def close(self) -> None:
        """Return when everything is written. Raises KafkaError."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.flush()
            self._check()
        except KafkaError as error:
            raise self._refused(error) from None
        finally:
            producer.stop(timeout_ms=0)
        for (partition, reason), number in sorted(self._reasons.items()):
            log.warning(
                "group %s: %d records of %s are in the dead-letter topic %s: %s",
                *(self._settings.group_id, number, partition, self._settings.dead_letter_topic, reason),
            )

    @property
    def _started(self) -> Producer:
        if self._producer is None:
            from kohort.sync import Producer  # most rows have none

            settings = self._settings
            producer = Producer(
                settings.bootstrap_servers,
                client_id=settings.client_id,
                allow_auto_create_topics=False,
                max_request_size=_MOST_BYTES,
                **security(settings.properties),
            )
            self._producer = producer.__enter__()
        return self._producer

    def _send(self, row: dict[str, Any], bad: BadRecord) -> None:
        own = [(each["key"], each["value"]) for each in row["headers"] or ()]
        stamp = row["timestamp"]
        sent = self._started.send(
            self._settings.dead_letter_topic,
            row["value"],
            row["key"],
            timestamp_ms=None if stamp is None else max(0, round(stamp.timestamp() * 1000)),
            headers=[*own, *self._why(row, bad)],
        )
        self._open.append(sent)
        if len(self._open) >= _MOST_OPEN:
            self._started.flush()
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
