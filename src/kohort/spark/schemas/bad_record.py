"""Bad records: why a record's bytes are no value, as a column beside the value, and as rows for a dead-letter topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Reason(StrEnum):
    """Why a record is bad."""

    NOT_WIRE_FORMAT = "not_wire_format"
    """It does not begin with a zero byte and the id of a schema."""
    UNKNOWN_SCHEMA = "unknown_schema"
    """The registry has no schema with its id."""
    INCOMPATIBLE_SCHEMA = "incompatible_schema"
    """The reader's schema cannot read what its writer's schema describes."""
    BROKEN_VALUE = "broken_value"
    """Its bytes do not follow its schema."""
    DAMAGED_BATCH = "damaged_batch"
    """It is a whole record batch, at its first offset, whose checksum is wrong or whose records cannot be read."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One bad record: its place among the decoded values, the reason, a sentence, and the id of its schema or -1."""

    place: int
    reason: Reason
    message: str
    schema_id: int = -1


ERROR = pa.struct(
    [("reason", pa.string()), ("message", pa.string()), ("schema_id", pa.int32()), ("bytes", pa.binary())]
)
"""The column beside values; null where the value is valid. `bytes` are those of the bad record."""

ERROR_COLUMN = "struct<reason: string, message: string, schema_id: int, bytes: binary>"


def dead_letter_headers(
    record: Mapping[str, Any], *, group: Any, reason: Any, kind: Any, message: Any, schema_id: Any
) -> dict[str, Any]:
    """Return the headers of a bad record in a dead-letter topic: Kafka Connect's, which its tools read, and ours.

    Values are those of one record, or columns of a frame. `record` has its topic, partition and offset.
    """
    connect = {
        **record,
        "connector.name": group,
        "stage": "VALUE_CONVERTER",
        "class.name": "kohort.spark.decode",
        "exception.class.name": kind,
        "exception.message": message,
    }
    ours = {"kohort.error.reason": reason, "kohort.error.schema.id": schema_id}
    return {f"__connect.errors.{name}": value for name, value in connect.items()} | ours


def error_column(values: pa.BinaryArray, bad: list[BadRecord]) -> pa.StructArray:
    """Return `ERROR` for each of the decoded values."""
    if not bad:
        return pa.nulls(len(values), ERROR)
    found = pa.array(
        [
            {
                "reason": each.reason.value,
                "message": each.message,
                "schema_id": each.schema_id if each.schema_id >= 0 else None,
                "bytes": values[each.place].as_py(),
            }
            for each in bad
        ],
        ERROR,
    )
    places = [None] * len(values)
    for number, each in enumerate(bad):
        places[each.place] = number  # type: ignore[call-overload]
    return found.take(pa.array(places, pa.int32()))


_HEADERS = "array<struct<key: string, value: binary>>"


def dead_letters(frame: DataFrame, column: str, *, group: str = "") -> DataFrame:
    """Return the bad records of a frame, as `write.format("kohort")` writes them: key, value and headers.

    `column` is the one that `decode` made. `topic`, `partition`, `offset`, `key` and `headers` are used where the frame
    has them. Headers are those of the option `deadLetterTopic`; `group` becomes `connector.name`.
    """
    from pyspark.sql import functions as f

    error = f.col(f"`{column}`.error")
    present = {name: f.col(name) for name in ("topic", "partition", "offset") if name in frame.columns}
    added = dead_letter_headers(
        present,
        group=f.lit(group),
        reason=error.reason,
        kind=f.concat(f.lit("kohort.spark.Reason."), f.upper(error.reason)),
        message=error.message,
        schema_id=error.schema_id,
    )
    pairs = []
    for name, value in added.items():
        text = f.lit(value) if isinstance(value, str) else value.cast("string")
        pair = f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value"))
        pairs.append(f.when(text.isNotNull(), pair))
    headers = f.coalesce(f.col("headers"), f.array().cast(_HEADERS)) if "headers" in frame.columns else f.array()
    return frame.where(error.isNotNull()).select(
        (f.col("key") if "key" in frame.columns else f.lit(None)).cast("binary").alias("key"),
        error.bytes.alias("value"),
        f.concat(headers.cast(_HEADERS), f.array_compact(f.array(pairs)).cast(_HEADERS)).alias("headers"),
    )
