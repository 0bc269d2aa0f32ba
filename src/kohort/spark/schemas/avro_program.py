"""Schema resolution: a writer's and a reader's Avro schema, compiled to a program that fills the reader's columns.

The rules are the specification's: fields by name or by the reader's aliases, defaults for fields that the writer lacks,
numbers widened, symbols of enums with the reader's default, unions branch by branch. What cannot be resolved is found
here, or, in a branch of a union, only in the records that have it. Two rules differ: names of records, enums and fixed
types are compared in unions only, and a timestamp is read in its writer's unit.
"""

from __future__ import annotations

import math
import struct
from array import array
from typing import Any, Final

from kohort.schemas.avro_schema import (
    MISSING,
    Array,
    Avro,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    label,
)
from kohort.spark.schemas.avro_columns import TEXT, AvroColumn, ColumnSet, without_null

# The decoder compares numbers: those that begin with a varint come first, those that add no value first and last.
SKIP_LONG, SKIP_BYTES, UNION, INT, LONG, SCALED, TO_FLOAT, TO_DOUBLE, ENUM, BYTES, DECIMAL_BYTES, *_REST = range(25)
FIXED, DECIMAL_FIXED, BOOL, FOUR, EIGHT, FLOAT_TO_DOUBLE, NULL, CONST, CONST_BYTES, MARK, NEXT, SKIP, JUMP, FAIL = _REST

WIDTH: Final = 6
"""Numbers of an instruction: its kind, its column, and up to four arguments."""

MOST_INSTRUCTIONS: Final = 200_000


class Unreadable(ValueError):
    """A writer's type that the reader's schema cannot read."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


_LEAST = {"null": 0, "float": 4, "double": 8}
"""Bytes of a primitive value at least, where that is not one."""

_COPIED = {
    ("boolean", "boolean"): BOOL,
    ("float", "float"): FOUR,
    ("float", "double"): FLOAT_TO_DOUBLE,
    ("double", "double"): EIGHT,
}
"""Instructions without arguments, by the writer's and the reader's type."""

_SKIPPED = {
    "int": (SKIP_LONG,),
    "long": (SKIP_LONG,),
    "bytes": (SKIP_BYTES,),
    "string": (SKIP_BYTES,),
    "boolean": (SKIP, -1, 1),
    "float": (SKIP, -1, 4),
    "double": (SKIP, -1, 8),
}
"""Instructions that pass over a value, by its type."""

_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Types that take a writer's values too, the nearest first."""


class AvroProgram:
    """What reads a writer's values into a reader's columns. Raises Unreadable.

    `code` are its instructions, `tables` and `constants` the numbers and bytes that they refer to, `paths` the place of
    each in the value, for messages. The first number is how many instructions there are. `lists` is how many lists and
    maps it has, `failures` are what `FAIL` stands for.
    """

    def __init__(self, writer: Avro, columns: ColumnSet, reader: Avro) -> None:
        self.code = array("q")
        self.tables = array("q", [0])
        self.constants = bytearray()
        self.lists = 0
        self.paths: list[str] = []
        self.failures: list[str] = []
        self._least: dict[int, int] = {}
        self.read(writer, reader, columns.root, "value")
        self.tables[0] = self.here

    @property
    def here(self) -> int:
        """The place of the next instruction."""
        return len(self.paths)

    def emit(self, kind: int, path: str, column: int = -1, *arguments: int) -> int:
        """Add an instruction and return its place."""
        if self.here >= MOST_INSTRUCTIONS:
            raise Unreadable(path, f"the schemas need more than {MOST_INSTRUCTIONS} instructions")
        self.code.extend((kind, column, *arguments, *(0,) * (WIDTH - 2 - len(arguments))))
        self.paths.append(path)
        return self.here - 1

    def patch(self, place: int, argument: int, value: int) -> None:
        """Change an argument of an instruction."""
        self.code[place * WIDTH + 2 + argument] = value

    def _least_bytes(self, kind: Avro) -> int:
        """Return how many bytes a value has at least."""
        if id(kind) not in self._least:
            match kind:
                case Primitive(plain):
                    least = _LEAST.get(plain, 1)
                case Fixed(size=size):
                    least = size
                case Record(_, _, fields):
                    least = sum(self._least_bytes(each.type) for each in fields)
                case _:
                    least = 1
            self._least[id(kind)] = least
        return self._least[id(kind)]

    # Reading

    def read(self, writer: Avro, reader: Avro, column: AvroColumn, path: str) -> None:
        """Read a value of the writer's type into a column of the reader's. Raises Unreadable."""
        if isinstance(writer, Union):
            self._branches([lambda each=each: self.read(each, reader, column, path) for each in writer.branches], path)
            return
        kind, has_null = without_null(reader)
        if writer == Primitive("null"):
            if not has_null:
                raise Unreadable(path, "the writer's null has no place in the reader's type")
            self.null(column, path)
            return
        if isinstance(kind, Union):
            self._member(writer, kind, column, path)
            return
        if isinstance(kind, Record) and isinstance(writer, Record):
            self._record(writer, kind, column, path)
        elif isinstance(kind, Array) and isinstance(writer, Array):
            item = column.members[0]
            self._list(column, writer.items, path, lambda: self.read(writer.items, kind.items, item, f"{path}[]"))
        elif isinstance(kind, Map) and isinstance(writer, Map):
            key, value = column.members

            def entry() -> None:
                self.emit(BYTES, f"{path}.key", key.number, 1)
                self.read(writer.values, kind.values, value, f"{path}.value")

            self._list(column, Primitive("string"), path, entry)
        else:
            self._leaf(writer, kind, column, path)

    def _branches(self, branches: list[Any], path: str) -> None:
        """Read one of several branches; one that the reader cannot read fails where a record has it."""
        start = len(self.tables)
        self.emit(UNION, path, -1, start, len(branches))
        self.tables.extend([0] * len(branches))
        ends = []
        reasons = []
        for index, branch in enumerate(branches):
            place, lists = self.here, self.lists
            self.tables[start + index] = place
            try:
                branch()
            except Unreadable as reason:
                del self.code[place * WIDTH :], self.paths[place:]
                self.lists = lists
                reasons.append(reason)
                self.emit(FAIL, path, -1, len(self.failures))
                self.failures.append(str(reason))
            ends.append(self.emit(JUMP, path))
        if len(reasons) == len(branches):
            raise reasons[-1]
        for place in ends:
            self.patch(place, 0, self.here)

    def _member(self, writer: Avro, reader: Union, column: AvroColumn, path: str) -> None:
        """Read into the member of a struct that stands for the reader's branch."""
        chosen = _branch(writer, reader)
        if chosen is None:
            raise Unreadable(path, f"the writer's {label(writer)} is none of the types of the reader's union")
        self.emit(MARK, path, column.number)
        for index, (branch, member) in enumerate(zip(reader.branches, column.members, strict=True)):
            if index == chosen:
                self.read(writer, branch, member, path)
            else:
                self.null(member, path)

    def _record(self, writer: Record, reader: Record, column: AvroColumn, path: str) -> None:
        self.emit(MARK, path, column.number)
        theirs = {each.name: each for each in writer.fields}
        target = {}
        for each, member in zip(reader.fields, column.members, strict=True):
            name = next((name for name in (each.name, *each.aliases) if name in theirs), None)
            if name is None:
                if each.default is MISSING:
                    raise Unreadable(f"{path}.{each.name}", "the writer has no such field, and it has no default")
                self.default(each.default, each.type, member, f"{path}.{each.name}")
            elif name in target:
                raise Unreadable(f"{path}.{each.name}", f"two fields of the reader are the writer's {name}")
            else:
                target[name] = each, member
        for written in writer.fields:
            if written.name in target:
                each, member = target[written.name]
                self.read(written.type, each.type, member, f"{path}.{each.name}")
            else:
                self.skip(written.type, f"{path}.{written.name}")

    def _list(self, column: AvroColumn | None, items: Avro, path: str, item: Any) -> None:
        self.lists += 1
        number, child = (-1, -1) if column is None else (column.number, column.members[0].number)
        place = self.emit(NEXT, path, number, self.lists, 0, self._least_bytes(items), child)
        item()
        self.emit(JUMP, path, -1, place)
        self.patch(place, 1, self.here)

    def _leaf(self, writer: Avro, reader: Avro, column: AvroColumn, path: str) -> None:
        number = column.number
        refusal = Unreadable(path, f"the writer's {label(writer)} cannot be read as {label(reader)}")
        if getattr(reader, "logical", "") == "decimal":
            self._decimal(writer, reader, number, path, refusal)
            return
        match writer, reader:
            case Primitive(kind), Primitive(wanted) if (kind, wanted) in _COPIED:
                self.emit(_COPIED[kind, wanted], path, number)
            case Primitive("int" | "long" as kind), Primitive("int" | "long" as wanted):
                if kind == "long" and wanted == "int":
                    raise refusal
                assert isinstance(writer, Primitive), "an int or a long"
                assert isinstance(reader, Primitive), "an int or a long"
                self._whole(writer, reader, column, path)
            case Primitive("int" | "long" as kind), Primitive("float" | "double" as wanted):
                self.emit(TO_FLOAT if wanted == "float" else TO_DOUBLE, path, number, int(kind == "int"))
            case Primitive("string" | "bytes"), Primitive("string" | "bytes" as wanted):
                self.emit(BYTES, path, number, int(wanted == "string"))
            case Fixed(size=size), Fixed(size=wanted):
                if size != wanted:
                    raise Unreadable(path, f"the writer's {label(writer)} has {size} bytes, and the reader's {wanted}")
                self.emit(FIXED, path, number, size)
            case Enum(), Enum():
                self._enum(writer, reader, number, path)
            case _:
                raise refusal

    def _whole(self, writer: Primitive, reader: Primitive, column: AvroColumn, path: str) -> None:
        unit = writer.logical if writer.logical.endswith(("-millis", "-micros")) else reader.logical
        if "timestamp-" in reader.logical:
            self.emit(SCALED, path, column.number, 1000 if unit.endswith("millis") else 1)
        elif "time-" in reader.logical and writer.logical.startswith("time-") and writer.logical != reader.logical:
            # millis in an int, micros in a long
            self.emit(SCALED, path, column.number, 1000)
        elif column.width == 8:
            self.emit(LONG, path, column.number, int(writer.kind == "int"))
        else:
            self.emit(INT, path, column.number)

    def _decimal(self, writer: Avro, reader: Any, number: int, path: str, refusal: Unreadable) -> None:
        if not isinstance(writer, Fixed) and writer != Primitive("bytes", *_decimal_of(writer)):
            raise refusal
        if getattr(writer, "logical", "") == "decimal" and writer.scale != reader.scale:
            raise Unreadable(path, f"the writer's decimals have scale {writer.scale}, and the reader's {reader.scale}")
        limit = len(self.tables)
        self.tables.extend(_halves(10**reader.precision))
        if isinstance(writer, Fixed):
            self.emit(DECIMAL_FIXED, path, number, writer.size, limit)
        else:
            self.emit(DECIMAL_BYTES, path, number, 0, limit)

    def _enum(self, writer: Enum, reader: Enum, number: int, path: str) -> None:
        otherwise = -1 if reader.default is None else reader.symbols.index(reader.default)
        start = len(self.tables)
        known = {symbol: index for index, symbol in enumerate(reader.symbols)}
        self.tables.extend(known.get(symbol, otherwise) for symbol in writer.symbols)
        self.emit(ENUM, path, number, start, len(writer.symbols))

    # Values that the writer does not have

    def null(self, column: AvroColumn, path: str) -> None:
        """Add null to a column, and to those inside it."""
        for each in column.beside():
            self.emit(NULL, path, each.number)

    def default(self, value: Any, reader: Avro, column: AvroColumn, path: str) -> None:
        """Add the default of a field, as its JSON gives it. Raises Unreadable."""
        wrong = Unreadable(path, f"its default {value!r} is no {label(reader)}")
        if isinstance(reader, Union):
            self._default_of_union(value, reader, column, path, wrong)
            return
        match reader:
            case Record(_, _, fields) if isinstance(value, dict):
                self.emit(MARK, path, column.number)
                for each, member in zip(fields, column.members, strict=True):
                    given = value.get(each.name, each.default)
                    if given is MISSING:
                        raise wrong
                    self.default(given, each.type, member, f"{path}.{each.name}")
            case Array(items) if isinstance(value, list):
                for each in value:
                    self.default(each, items, column.members[0], f"{path}[]")
                self.emit(MARK, path, column.number, column.members[0].number)
            case Map(values) if isinstance(value, dict):
                for name, each in value.items():
                    self._constant(name.encode(), column.members[0], path)
                    self.default(each, values, column.members[1], f"{path}.value")
                self.emit(MARK, path, column.number, column.members[0].number)
            case _:
                try:
                    found = _constant(value, reader, column)
                except (TypeError, ValueError, OverflowError, struct.error):
                    raise wrong from None
                self._constant(found, column, path)

    def _default_of_union(self, value: Any, reader: Union, column: AvroColumn, path: str, wrong: Unreadable) -> None:
        """Add the default of a union: the specification has it of the first branch, others of any."""
        kind, has_null = without_null(reader)
        if value is None:
            if not has_null:
                raise wrong
            self.null(column, path)
            return
        if not isinstance(kind, Union):
            self.default(value, kind, column, path)
            return
        for branch in kind.branches:
            place = self.here
            try:
                self.emit(MARK, path, column.number)
                for each, member in zip(kind.branches, column.members, strict=True):
                    if each is branch:
                        self.default(value, each, member, path)
                    else:
                        self.null(member, path)
            except Unreadable:
                del self.code[place * WIDTH :], self.paths[place:]
            else:
                return
        raise wrong

    def _constant(self, found: bytes, column: AvroColumn, path: str) -> None:
        if column.store == TEXT:
            self.emit(CONST_BYTES, path, column.number, len(self.constants), len(found))
            self.constants += found
        else:
            low, high = struct.unpack("<qq", found.ljust(16, b"\0"))
            self.emit(CONST, path, column.number, low, high)

    # Values that the reader does not want

    def skip(self, writer: Avro, path: str) -> None:
        """Skip a value."""
        match writer:
            case Primitive("null"):
                pass
            case Primitive(kind):
                instruction, *arguments = _SKIPPED[kind]
                self.emit(instruction, path, *arguments)
            case Enum():
                self.emit(SKIP_LONG, path)
            case Fixed(size=size):
                self.emit(SKIP, path, -1, size)
            case Record(_, _, fields):
                for each in fields:
                    self.skip(each.type, f"{path}.{each.name}")
            case Union(branches):
                self._branches([lambda each=each: self.skip(each, path) for each in branches], path)
            case Array(items):
                self._list(None, items, path, lambda: self.skip(items, f"{path}[]"))
            case Map(values):

                def entry() -> None:
                    self.emit(SKIP_BYTES, f"{path}.key")
                    self.skip(values, f"{path}.value")

                self._list(None, Primitive("string"), path, entry)


def _branch(writer: Avro, reader: Union) -> int | None:
    """Return which branch of a union reads a writer's type: one of its name, else of its kind, else a wider one."""
    places = list(enumerate(reader.branches))
    if isinstance(writer, Record | Enum | Fixed):
        same = [(at, each) for at, each in places if isinstance(each, type(writer))]
        for is_short in (False, True):
            for at, each in same:
                assert isinstance(each, Record | Enum | Fixed), "it is of the writer's kind"
                if _names((writer.name,), is_short) & _names((each.name, *each.aliases), is_short):
                    return at
        return same[0][0] if len(same) == 1 else None
    if found := [at for at, each in places if each == writer]:
        return found[0]
    if isinstance(writer, Array | Map):
        return next((at for at, each in places if isinstance(each, type(writer))), None)
    assert isinstance(writer, Primitive), "a writer's union is read branch by branch"
    kinds = (writer.kind, *_WIDER.get(writer.kind, ()))
    plain = [(at, each.kind) for at, each in places if isinstance(each, Primitive)]
    return next((at for kind in kinds for at, other in plain if other == kind), None)


def _names(names: tuple[str, ...], is_short: bool) -> set[str]:
    return {name.rpartition(".")[2] if is_short else name for name in names}


def _decimal_of(writer: Avro) -> tuple[str, int, int]:
    return getattr(writer, "logical", ""), getattr(writer, "precision", 0), getattr(writer, "scale", 0)


def _halves(number: int) -> tuple[int, int]:
    """Return the lower and the upper 64 bits of a number, each as a signed one."""
    low, high = struct.unpack("<qq", number.to_bytes(16, "little", signed=True))
    return low, high


def _constant(value: Any, reader: Avro, column: AvroColumn) -> bytes:
    """Return a default as its column stores it. Raises TypeError, ValueError, OverflowError, struct.error."""
    if isinstance(reader, Enum) and isinstance(value, str):
        return struct.pack("<i", reader.symbols.index(value))
    if isinstance(reader, Fixed) or reader.kind == "bytes":  # type: ignore[union-attr]
        found = value.encode("latin-1")
        if isinstance(reader, Fixed) and len(found) != reader.size:
            raise ValueError
        if reader.logical != "decimal":  # type: ignore[union-attr]
            return bytes(found)
        number = int.from_bytes(found, "big", signed=True)
        if abs(number) >= 10**reader.precision:  # type: ignore[union-attr]
            raise ValueError
        return number.to_bytes(16, "little", signed=True)
    assert isinstance(reader, Primitive), "what has parts was handled before"
    match reader.kind:
        case "boolean" if isinstance(value, bool):
            return struct.pack("<B", value)
        case "string" if isinstance(value, str):
            return value.encode()
        case "int" | "long" if type(value) is int:
            is_millis = "timestamp-millis" in reader.logical
            struct.pack("<i" if reader.kind == "int" else "<q", value)
            return struct.pack("<i" if column.width == 4 else "<q", value * (1000 if is_millis else 1))
        case "float" | "double" if isinstance(value, int | float | str) and not isinstance(value, bool):
            real = float(value)
            if isinstance(value, str) and math.isfinite(real):
                raise ValueError
            return struct.pack("<f" if column.width == 4 else "<d", real)
    raise TypeError
