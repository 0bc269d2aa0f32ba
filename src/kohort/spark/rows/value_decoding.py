"""Rows whose values are decoded on the way into Spark, where they are Arrow already: no task passes them on for it.

Bad records stay, with a null value and their reason in the column `error`, or leave the rows for the dead-letter topic.
"""

from __future__ import annotations

import logging
from types import TracebackType

import pyarrow as pa

from kohort.spark.rows.read_settings import ReadSettings

log = logging.getLogger(__name__)


def decoded_schema(schema: pa.Schema, settings: ReadSettings) -> pa.Schema:
    """Return the schema of `DecodedRows` for rows with this one, which has headers if the settings have."""
    if settings.decoding is None:
        return schema
    from kohort.spark.schemas.bad_record import ERROR

    decoded = schema.set(schema.get_field_index("value"), pa.field("value", settings.decoding.type))
    return decoded if settings.dead_letter_topic else decoded.append(pa.field("error", ERROR))


class DecodedRows:
    """Decodes the rows of one task or round; leave it to have everything in the dead-letter topic."""

    def __init__(self, settings: ReadSettings) -> None:
        self.dead_letters = 0
        self._settings = settings
        if settings.decoding is None:
            return
        from kohort.spark.rows.dead_letters import DeadLetters
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
        """Return rows with decoded values; `damage` says what is wrong with a row that is a whole record batch.

        Raises KafkaError, RegistryUnavailable.
        """
        settings = self._settings
        if settings.decoding is None:
            return rows
        from kohort.spark.schemas.bad_record import BadRecord, Reason, error_column

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
