"""Envelopes of change records: Debezium's (`before`, `after`, `op`), and plain ones, whose value is the row.

A frame of records becomes one of rows: the fields of the row, `__deleted`, `__op`, `__ts_ms` and `__source` of
Debezium, the place of the record, and `__error`, null unless the record is no change. Values are JSON in bytes or text,
or a decoded struct; the key is JSON, one bare value, or a struct. Either may be inside `{"schema": …, "payload": …}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.spark.tables.changes.row_change import DELETED, ERROR, PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

ENVELOPES = ("debezium", "plain")

_TRUNCATED = (
    "op t: the source table was truncated, which no change of a row expresses. Delete its rows from the table, and set"
    " the offsets behind this record (set_offsets)"
)
_CORRUPT = "_corrupt_record"

Fields = Mapping[str, "Column"]


def opened(frame: DataFrame, envelope: str, keys: Sequence[str], schema: str | StructType | None) -> DataFrame:
    """Return the changes in records of a frame; `schema` is the row's, which a decoded value brings along.

    Raises ValueError.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    fields, row, error = _read(frame.schema["value"].dataType, envelope, schema)
    if missing := [each for each in keys if each not in row.names]:
        raise ValueError(f"merge_on: the row has no column {', '.join(missing)}; it has {', '.join(row.names)}")
    is_tombstone = sql.col("value").isNull()
    error = sql.when(~is_tombstone, error)
    if "error" in frame.columns:  # a value that could not be decoded is null, and deletes nothing
        text = sql.concat(sql.lit("its value was not decoded: "), sql.col("error").cast("string"))
        error = sql.coalesce(sql.when(is_tombstone & sql.col("error").isNotNull(), text), error)
    key = _key_fields(frame, StructType([row[each] for each in keys]))
    if envelope == "plain":
        is_deleted, old, new, extra = is_tombstone, None, fields, {}
    else:
        op, none = fields["op"], sql.lit(None)
        is_deleted = is_tombstone | sql.coalesce(op == "d", sql.lit(False))
        old, after = fields.get("before"), fields["after"]
        new = {each: after[each] for each in row.names}
        extra = {"__op": op, "__ts_ms": fields.get("ts_ms", none), "__source": fields.get("source", none)}

    def column(name: str) -> Column:
        if name not in keys:
            return sql.when(~is_deleted, new[name])
        former = key[name] if old is None else sql.coalesce(old[name], key[name])
        return sql.when(is_deleted, former).otherwise(new[name])

    columns = {name: column(name) for name in row.names} | extra | {DELETED: is_deleted, ERROR: error}
    columns |= {f"__{each}": sql.col(each) for each in PLACE}
    return frame.select(*(found.alias(name) for name, found in columns.items()))


def _read(kind: DataType, envelope: str, schema: str | StructType | None) -> tuple[Fields, StructType, Column]:
    """Return the fields of a value, the columns of its row, and why it is no change."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import LongType, MapType, StringType, StructType

    value = sql.col("value")
    is_debezium = envelope == "debezium"
    if isinstance(kind, StructType):
        is_wrapped = {"schema", "payload"} <= set(kind.names)
        body, at = (kind["payload"].dataType, value["payload"]) if is_wrapped else (kind, value)
        fields = {each: at[each] for each in body.names}
        row = body["after"].dataType if is_debezium else body
        is_json = sql.lit(True)
    elif schema is None:
        raise ValueError(f'envelope="{envelope}" needs schema="…", the columns of the row, or a value that is decoded')
    else:
        row = body = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        if is_debezium:
            body = StructType().add("before", row).add("after", row).add("op", StringType()).add("ts_ms", LongType())
            body = body.add("source", MapType(StringType(), StringType()))
        fields, is_json = _parsed(value, body)
    error = sql.when(~is_json, sql.lit("its value is no JSON of the schema"))
    if is_debezium:
        op = fields["op"]
        unknown = sql.concat(sql.lit("its op is none of c, u, r and d: "), sql.coalesce(op, sql.lit("null")))
        error = sql.coalesce(error, sql.when(op == "t", sql.lit(_TRUNCATED)))
        error = sql.coalesce(error, sql.when(op.isNull() | ~op.isin("c", "u", "r", "d"), unknown))
    return fields, row, error


def _parsed(text: Column, body: StructType) -> tuple[dict[str, Column], Column]:
    """Return the fields of JSON, which may be inside a payload, and whether it is JSON of these types."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructType

    may_be_wrapped = "payload" not in body.names
    shape = StructType([*body.fields]).add(_CORRUPT, StringType())
    if may_be_wrapped:
        shape = shape.add("payload", body)
    parsed = sql.from_json(text.cast("string"), shape, {"columnNameOfCorruptRecord": _CORRUPT})
    fields = {each: parsed[each] for each in body.names}
    if may_be_wrapped:
        inside = parsed["payload"]
        fields = {each: sql.when(inside.isNotNull(), inside[each]).otherwise(at) for each, at in fields.items()}
    return fields, sql.coalesce(parsed[_CORRUPT].isNull(), sql.lit(False))


def _key_fields(frame: DataFrame, wanted: StructType) -> dict[str, Column]:
    """Return the columns of the key in a record's key; null where it has none of them."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructType

    if "key" not in frame.columns:
        return {each.name: sql.lit(None).cast(each.dataType) for each in wanted}
    kind, key = frame.schema["key"].dataType, sql.col("key")
    if isinstance(kind, StructType):
        return {each.name: key[each.name] if each.name in kind.names else sql.lit(None) for each in wanted}
    text = key.cast("string")
    fields, _ = _parsed(text, wanted)
    if len(wanted) == 1:  # one value by itself, as JSON or as text
        (field,) = wanted
        inside = sql.from_json(sql.concat(sql.lit('{"v":'), text, sql.lit("}")), StructType().add("v", StringType()))
        bare = sql.coalesce(inside["v"], text).try_cast(field.dataType)
        fields = {field.name: sql.when(text.startswith("{"), fields[field.name]).otherwise(bare)}
    return fields
