"""Columns of a table for an Avro schema: the same types as Spark's own `from_avro` gives.

A union of null and a type is that type, int and long are long, float and double are double; any other union is a struct
of `member0`, `member1` and so on, of which at most one is not null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from kohort.schemas.avro_schema import Array, Avro, Enum, Fixed, Map, Primitive, Record, Union, label

BOOLEAN, NUMBER, TEXT, STRUCT, LIST = range(5)
"""How a column is stored: a byte for each value, numbers of a width, ends and bytes, nothing, ends of its items."""

MOST_COLUMNS: Final = 10_000

_NUMBERS: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time-millis": pa.int32(),
    "time-micros": pa.int64(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


@dataclass(slots=True)
class AvroColumn:
    """One column, and the columns inside it.

    `number` is its place in the decoder's tables, `parent` that of the nearest list around it, or -1. `members` are the
    fields of a struct; a list has one, a map two, key and value. `avro` is what is read, without null. `width` are the
    bytes of a value, or of an end.
    """

    number: int
    parent: int
    type: pa.DataType
    store: int
    width: int
    avro: Avro
    is_nullable: bool
    members: list[AvroColumn] = field(default_factory=list)

    def beside(self) -> Iterator[AvroColumn]:
        """Yield this column and those inside it that have as many rows: not those inside lists."""
        yield self
        if self.store == STRUCT:
            for each in self.members:
                yield from each.beside()


class ColumnSet:
    """The columns of a reader's schema; `all` has them in the order of their numbers, parents first."""

    def __init__(self, schema: Avro) -> None:
        self.all: list[AvroColumn] = []
        self.root = self._add(schema, -1, "value")

    def _add(self, schema: Avro, parent: int, path: str, *, is_nullable: bool = False) -> AvroColumn:
        kind, has_null = without_null(schema)
        found = AvroColumn(len(self.all), parent, pa.null(), STRUCT, 0, kind, is_nullable or has_null)
        if found.number >= MOST_COLUMNS:
            raise ValueError(f"an Avro schema has more than {MOST_COLUMNS} columns")
        self.all.append(found)
        match kind:
            case Record(_, _, fields):
                if not fields:
                    raise ValueError(f"{path}: {label(kind)} has no fields: a table has no such column")
                members = {each.name: self._add(each.type, parent, f"{path}.{each.name}") for each in fields}
                self._struct(found, members)
            case Union(branches):
                members = {
                    f"member{index}": self._add(each, parent, f"{path}.member{index}", is_nullable=True)
                    for index, each in enumerate(branches)
                }
                self._struct(found, members)
            case Array(items):
                found.store, found.width = LIST, 4
                item = self._add(items, found.number, f"{path}[]")
                found.members = [item]
                found.type = pa.list_(pa.field("element", item.type, item.is_nullable))
            case Map(values):
                found.store, found.width = LIST, 4
                key = self._add(Primitive("string"), found.number, f"{path}.key")
                value = self._add(values, found.number, f"{path}.value")
                found.members = [key, value]
                found.type = pa.map_(key.type, pa.field("value", value.type, value.is_nullable))
            case _:
                found.type, found.store = _leaf(kind, path)
                if found.store == TEXT or isinstance(kind, Enum):  # numbers of symbols, until the column is complete
                    found.width = 4
                else:
                    found.width = 1 if found.store == BOOLEAN else found.type.bit_width // 8
        return found

    @staticmethod
    def _struct(column: AvroColumn, members: dict[str, AvroColumn]) -> None:
        column.store = STRUCT
        column.members = list(members.values())
        column.type = pa.struct([pa.field(name, each.type, each.is_nullable) for name, each in members.items()])


def without_null(schema: Avro) -> tuple[Avro, bool]:
    """Return a union as what remains of it beside null, and whether it has null."""
    if not isinstance(schema, Union):
        return schema, False
    rest = tuple(each for each in schema.branches if each != Primitive("null"))
    has_null = len(rest) < len(schema.branches)
    plain = {each.kind for each in rest if isinstance(each, Primitive) and not each.logical}
    if len(rest) == 1:
        return rest[0], has_null
    if len(plain) == len(rest) == 2 and plain in ({"int", "long"}, {"float", "double"}):
        return Primitive("long" if "long" in plain else "double"), has_null
    return (Union(rest) if rest else Primitive("null")), has_null


def _leaf(kind: Avro, path: str) -> tuple[pa.DataType, int]:
    match kind:
        case Primitive("null"):
            raise ValueError(f"{path}: it is always null: a table has no such column")
        case (Primitive() | Fixed()) as decimal if decimal.logical == "decimal":
            if decimal.precision > 38:
                raise ValueError(f"{path}: a decimal has {decimal.precision} digits: Spark's have at most 38")
            return pa.decimal128(decimal.precision, decimal.scale), NUMBER
        case Primitive("boolean"):
            return pa.bool_(), BOOLEAN
        case Primitive("string"):
            return pa.string(), TEXT
        case Primitive("bytes") | Fixed():
            return pa.binary(), TEXT
        case Enum():
            return pa.string(), NUMBER
        case Primitive(plain, logical):
            return _NUMBERS[logical or plain], NUMBER
    raise AssertionError("every other type has columns inside it")
