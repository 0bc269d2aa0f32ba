"""Record values to an Arrow array by the reader's schema, with what is wrong where a record is bad.

A `Decoding` is made on the driver and sent to the executors; each of their processes makes one decoder of it. The law:
one bad record changes nothing for the others, and no record is called bad because the registry does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

import numpy
import pyarrow as pa

from kohort.schemas.avro_schema import parse_avro
from kohort.schemas.registry import Registered, RegistrySettings, SchemaUnknown, registry_of
from kohort.spark.schemas.avro_decoder import AvroDecoder, AvroReader
from kohort.spark.schemas.avro_program import Unreadable
from kohort.spark.schemas.bad_record import BadRecord, Reason
from kohort.spark.schemas.json_decoder import JsonDecoder, json_type
from kohort.spark.schemas.wire_format import HEADER, as_binary, present, schema_ids

np: Any = numpy

Format = Literal["avro", "json"]

COLUMNS: Final = "COLUMNS"
"""The kind of a reader's schema that is columns of Spark."""

MOST_DECODERS = 256
"""Writers' schemas whose programs a process caches."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What values are, and by which schema they are read.

    Without a `registry` values have no header. `reader` is the reader's schema, `type` its type in Arrow. `known` are
    schemas that the driver has looked up.
    """

    format: Format
    reader: Registered
    type: pa.DataType
    registry: RegistrySettings | None = None
    known: tuple[Registered, ...] = field(default=(), compare=False)

    @classmethod
    def by_schema(cls, value_format: Format, reader: Registered, registry: RegistrySettings | None) -> Decoding:
        """Return the decoding by a reader's schema. Raises ValueError for one that is no type of a column."""
        if value_format == "avro":
            kind = AvroReader(parse_avro(reader.text, reader.references)).type
        else:
            kind = json_type(reader.text, dict(zip(reader.names, reader.references, strict=True)))
        return cls(value_format, reader, kind, registry, (reader,) if reader.id >= 0 else ())

    def to_json(self) -> str:
        """Return it as the text that a Spark option carries."""
        registry = None if self.registry is None else asdict(self.registry)
        return json.dumps({"format": self.format, "reader": asdict(self.reader), "registry": registry})

    @classmethod
    def from_json(cls, text: str) -> Decoding:
        """Return the decoding of `to_json`. Raises ValueError."""
        try:
            found = json.loads(text)
            reader = Registered(**_with_tuples(found["reader"]))
            registry = RegistrySettings(**_with_tuples(found["registry"])) if found["registry"] else None
            value_format: Format = found["format"]
        except (KeyError, TypeError, ValueError):
            raise ValueError("the option decoding is for rounds: set valueSubject or valueSchema instead") from None
        if reader.kind == COLUMNS:
            return cls.by_columns(reader.text, registry)
        return cls.by_schema(value_format, reader, registry)

    @classmethod
    def by_columns(cls, columns: str, registry: RegistrySettings | None) -> Decoding:
        """Return the decoding of JSON to columns of Spark, which come as JSON."""
        from pyspark.sql.pandas.types import to_arrow_type
        from pyspark.sql.types import StructType

        kind = to_arrow_type(StructType.fromJson(json.loads(columns)), timezone="UTC")
        return cls("json", Registered(-1, COLUMNS, columns), kind, registry)


class ValueDecoder:
    """Decodes values in one process."""

    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding
        self._registry = registry_of(decoding.registry) if decoding.registry is not None else None
        if self._registry is not None:
            self._registry.learn(decoding.known)
        self._json = JsonDecoder(decoding.type) if decoding.format == "json" else None
        reader = decoding.reader
        self._avro = AvroReader(parse_avro(reader.text, reader.references)) if self._json is None else None
        self._decoders: dict[int, AvroDecoder | Unreadable] = {}

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[BadRecord]]:
        """Return a value for each record, null where it has none or is bad, and the bad ones in order.

        Raises RegistryUnavailable.
        """
        values = as_binary(values)
        bad: list[BadRecord] = []
        if self._registry is None:
            ids = np.where(present(values), 0, -1)
            groups = [0] if (ids == 0).any() else []
        else:
            ids = schema_ids(values)
            without_header = np.flatnonzero((ids < 0) & present(values))
            bad += [_not_wire_format(values, int(place)) for place in without_header]
            groups = [int(each) for each in np.unique(ids) if each >= 0]
        parts, places = [], []
        for number in groups:
            rows = np.flatnonzero(ids == number)
            found = self._group(values, rows, number, bad)
            if found is not None:
                parts.append(found)
                places.append(rows)
        bad.sort(key=lambda each: each.place)
        if len(parts) == 1 and len(parts[0]) == len(values):
            return parts[0], bad
        if not parts:
            return pa.nulls(len(values), self._decoding.type), bad
        order = np.full(len(values), -1, np.int64)
        order[np.concatenate(places)] = np.arange(sum(map(len, parts)))
        return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0)), bad

    def _group(self, values: pa.BinaryArray, rows: Any, number: int, bad: list[BadRecord]) -> pa.Array | None:
        """Decode the records of one schema; add the bad ones, and return None if all are."""
        skip, schema_id = (0, -1) if self._registry is None else (HEADER, number)
        if self._json is not None:
            found, wrong = self._json.decode(values, rows, skip)
        else:
            try:
                decoder = self._decoder(number)
            except SchemaUnknown as reason:
                bad += [BadRecord(int(row), Reason.UNKNOWN_SCHEMA, str(reason), number) for row in rows]
                return None
            if isinstance(decoder, Unreadable):
                text = f"the schema {number} cannot be read by the reader's schema: {decoder}"
                bad += [BadRecord(int(row), Reason.INCOMPATIBLE_SCHEMA, text, number) for row in rows]
                return None
            found, wrong = decoder.decode(values, rows, skip)
        for place, text in wrong.items():
            bad.append(BadRecord(int(rows[place]), Reason.BROKEN_VALUE, text, schema_id))
        return found

    def _decoder(self, number: int) -> AvroDecoder | Unreadable:
        """Return the decoder of a writer's schema, or why there is none. Raises SchemaUnknown, RegistryUnavailable."""
        if (found := self._decoders.get(number)) is not None:
            return found
        assert self._avro is not None, "JSON needs no writer's schema"
        assert self._registry is not None, "Avro has a registry"
        registered = self._registry.schema(number)
        made: AvroDecoder | Unreadable
        try:
            if registered.kind != "AVRO":
                raise ValueError(f"it is {registered.kind}, and no Avro schema")
            made = self._avro.decoder(parse_avro(registered.text, registered.references))
        except ValueError as reason:
            made = reason if isinstance(reason, Unreadable) else Unreadable("value", str(reason))
        while len(self._decoders) >= MOST_DECODERS:
            del self._decoders[next(iter(self._decoders))]
        self._decoders[number] = made
        return made


@lru_cache(maxsize=32)
def decoder_of(decoding: Decoding) -> ValueDecoder:
    """Return this process's decoder."""
    return ValueDecoder(decoding)


def _with_tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _not_wire_format(values: pa.BinaryArray, place: int) -> BadRecord:
    content = values[place].as_py()
    if len(content) < HEADER:
        text = f"it has {len(content)} bytes, and the header with the schema's id has {HEADER}"
    elif content[0]:
        text = f"it begins with the byte 0x{content[0]:02x}, and not with 0x00 and the id of a schema"
    else:
        text = "the id of its schema is negative"
    return BadRecord(place, Reason.NOT_WIRE_FORMAT, text)
