"""`kohort.spark.decode`: a column of records' bytes as a column of values, with the reason where a record is bad."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from kohort.schemas.registry import Registered, RegistrySettings, registry_of
from kohort.spark.schemas.bad_record import ERROR_COLUMN, Reason, error_column
from kohort.spark.schemas.value_decoder import Decoding, Format, decoder_of
from kohort.spark.schemas.wire_format import HEADER, as_binary

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_BROKEN = "__kohort_broken"


def decoding(
    registry: str | Mapping[str, str] | None,
    *,
    subject: str | None = None,
    version: int | str = "latest",
    schema: str | StructType | None = None,
    value_format: Format | None = None,
) -> Decoding:
    """Return how values are decoded; the registry is asked for the subject's schema.

    Raises ValueError, SchemaUnknown, RegistryUnavailable.
    """
    if value_format not in (None, "avro", "json"):
        raise ValueError(f"value_format={value_format!r}: expected avro or json")
    settings = RegistrySettings.parse(registry) if registry is not None else None
    if (subject is None) == (schema is None):
        raise ValueError("the reader's schema is needed: either subject, such as flights-value, or schema")
    if schema is not None and value_format is None:
        raise ValueError("schema needs value_format: avro or json")
    if settings is None and (value_format != "json" or schema is None):
        raise ValueError("registry is missing: without one, only value_format=json with a schema can be decoded")
    if schema is None:
        assert settings is not None, "there is a registry to ask"
        assert subject is not None, "there is a subject to ask for"
        reader = registry_of(settings).version(subject, version)
        kinds: dict[str, Format] = {"AVRO": "avro", "JSON": "json"}
        if reader.kind not in kinds or (value_format is not None and value_format != kinds[reader.kind]):
            wanted = value_format or "avro or json"
            raise ValueError(f"the subject {subject} has a schema of {reader.kind.title()}: decode takes {wanted}")
        return Decoding.by_schema(kinds[reader.kind], reader, settings)
    assert value_format is not None, "a schema comes with its format"
    if isinstance(schema, str) and _is_json(schema, value_format):
        return Decoding.by_schema(value_format, Registered(-1, value_format.upper(), schema), settings)
    if value_format == "avro":
        raise ValueError("schema is no Avro schema in JSON")
    from pyspark.sql.types import StructType

    columns = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return Decoding.by_columns(columns.json(), settings)


def decode(
    column: Column | str,
    registry: str | Mapping[str, str] | None = None,
    *,
    subject: str | None = None,
    version: int | str = "latest",
    schema: str | StructType | None = None,
    value_format: Format | None = None,
) -> Column:
    """Return a struct of `value`, the decoded record, and `error`, which is null unless the record is bad.

    `registry` is the URL of a schema registry, or its settings by name (`schema.registry.url`, …); its records have
    the header of Confluent's serializers. The reader's schema is `version` of `subject`, such as `flights-value`, or
    `schema`: an Avro schema, a JSON Schema, or for JSON also columns (`"id bigint, name string"`), with `value_format`
    "avro" or "json". Without `registry`, values are JSON without a header.

    A null is a null value without an error. `error` is a struct of `reason` (`kohort.spark.Reason`), `message`,
    `schema_id` and `bytes`. Raises ValueError, SchemaUnknown, RegistryUnavailable, before Spark plans anything.
    """
    how = decoding(registry, subject=subject, version=version, schema=schema, value_format=value_format)
    return _json_column(column, how) if how.format == "json" else _avro_column(column, how)


def spark_type(kind: pa.DataType) -> DataType:
    """Return an Arrow type as Spark's."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def _avro_column(column: Column | str, how: Decoding) -> Column:
    """Return a column that Python processes of the executors compute, batch by batch."""
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import StructField, StructType

    def decoded(values: pa.Array) -> pa.Array:
        found, bad = decoder_of(how).decode(values)
        return pa.StructArray.from_arrays([found, error_column(as_binary(values), bad)], ["value", "error"])

    error = StructType.fromDDL(f"error {ERROR_COLUMN}")
    result = StructType([StructField("value", spark_type(how.type)), *error.fields])
    return arrow_udf(decoded, result)(column)


def _json_column(column: Column | str, how: Decoding) -> Column:
    """Return a column that Spark's own `from_json` computes, once the header is off."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    content = f.col(column) if isinstance(column, str) else column
    content = content.cast("binary")
    has_header = f.lit(True)
    number = f.lit(None).cast("int")
    body = content
    if how.registry is not None:
        has_header = (f.length(content) >= HEADER) & (f.substring(content, 1, 1) == f.lit(b"\0"))
        number = f.conv(f.hex(f.substring(content, 2, 4)), 16, 10).cast("int")
        body = f.substring(content, HEADER + 1, 2**31 - 1)
    columns = spark_type(how.type)
    assert isinstance(columns, StructType), "a JSON value is an object"
    parsed = f.from_json(
        body.cast("string"),
        StructType([*columns.fields, StructField(_BROKEN, StringType())]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN},
    )
    is_broken = parsed.isNull() | parsed[_BROKEN].isNotNull()
    reason = f.when(~has_header, Reason.NOT_WIRE_FORMAT.value).when(is_broken, Reason.BROKEN_VALUE.value)
    message = f.when(~has_header, f.lit("it does not begin with a zero byte and the id of a schema")).otherwise(
        f.lit("its JSON does not parse, or does not fit the columns")
    )
    error = f.struct(
        reason.alias("reason"),
        message.alias("message"),
        f.when(has_header, number).alias("schema_id"),
        content.alias("bytes"),
    ).cast(ERROR_COLUMN)
    value = f.struct(*[parsed[field.name].alias(field.name) for field in columns.fields])
    is_good = content.isNotNull() & has_header & ~is_broken
    return f.struct(
        f.when(is_good, value).alias("value"),
        f.when(content.isNotNull() & ~is_good, error).alias("error"),
    )


def _is_json(text: str, value_format: Format) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return value_format == "avro" and text.strip().isidentifier()
    return value_format == "avro" or isinstance(found, dict)
