"""`kohort.spark.dead_letters`: bad records that `decode` found in a frame, as rows for a dead-letter topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.spark.schemas.bad_record import dead_letter_headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    kept = f.coalesce(f.col("headers"), f.array().cast(_HEADERS)) if "headers" in frame.columns else f.array()
    return frame.where(error.isNotNull()).select(
        (f.col("key") if "key" in frame.columns else f.lit(None)).cast("binary").alias("key"),
        error.bytes.alias("value"),
        f.concat(kept.cast(_HEADERS), f.array_compact(f.array(pairs)).cast(_HEADERS)).alias("headers"),
    )
