"""Avro schemas: JSON text into nodes, with named types resolved and logical types checked.

A logical type that the specification does not allow at its place is ignored, as the specification requires. A record
that contains itself is refused unless it is asked for: a table has no such column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

MISSING: Final = object()
"""The default of a field that has none."""

MOST_DEPTH: Final = 64
"""Levels of a schema: deeper ones are refused before Python's stack ends."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type. `logical` is a logical type that is legal here, or an empty string."""

    kind: str
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    aliases: tuple[str, ...]
    size: int
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """One of several symbols; `default` is read for a symbol that the reader does not know."""

    name: str
    aliases: tuple[str, ...]
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class Array:
    """A list of items."""

    items: Avro


@dataclass(frozen=True, slots=True)
class Map:
    """Values by strings."""

    values: Avro


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    type: Avro
    default: Any = MISSING


@dataclass(frozen=True, slots=True)
class Record:
    """A record. One that contains itself does so in `fields` too, so it has no hash, and cannot be compared."""

    name: str
    aliases: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[Avro, ...]


Avro = Primitive | Fixed | Enum | Array | Map | Record | Union
Named = Fixed | Enum | Record


def parse_avro(text: str, referenced: Iterable[str] = (), *, may_recur: bool = False) -> Avro:
    """Parse a schema; `referenced` are the texts of schemas whose named types it uses. Raises ValueError.

    `may_recur` is whether a record may contain itself.
    """
    parser = _Parser(may_recur)
    for each in (*referenced, text):
        try:
            document = json.loads(each)
        except RecursionError:
            raise ValueError("it is no Avro schema: its JSON is nested too deeply") from None
        except ValueError as error:
            if each.strip() not in PRIMITIVES:
                raise ValueError(f"it is no Avro schema: it is not JSON ({error})") from None
            document = each.strip()
        found = parser.parse(document, "", 0)
    return found


def label(node: Avro) -> str:
    """Return what a message calls a type."""
    if isinstance(node, Record | Enum | Fixed):
        return f"{type(node).__name__.lower()} {node.name}"
    if isinstance(node, Primitive):
        return node.logical or node.kind
    return type(node).__name__.lower()


class _Parser:
    def __init__(self, may_recur: bool) -> None:
        self._may_recur = may_recur
        self._named: dict[str, Named | None] = {}
        """Named types by their full names; None while a type is being read."""

    def parse(self, given: Any, namespace: str, depth: int) -> Avro:
        if depth > MOST_DEPTH:
            raise ValueError(f"an Avro schema is nested more than {MOST_DEPTH} levels deep")
        if isinstance(given, str):
            return self._by_name(given, namespace)
        if isinstance(given, list):
            branches = tuple(self.parse(each, namespace, depth + 1) for each in given)
            if not branches or any(isinstance(each, Union) for each in branches):
                raise ValueError("a union in an Avro schema has at least one type, and none of them is a union")
            return Union(branches)
        if not isinstance(given, dict) or "type" not in given:
            raise ValueError(f"an Avro schema has {_short(given)} where a type is expected")
        match given["type"]:
            case "record" | "error":
                return self._record(given, namespace, depth)
            case "enum":
                return self._enum(given, namespace)
            case "fixed":
                return self._fixed(given, namespace)
            case "array":
                return Array(self.parse(_part(given, "items", "array"), namespace, depth + 1))
            case "map":
                return Map(self.parse(_part(given, "values", "map"), namespace, depth + 1))
            case str(kind) if kind in PRIMITIVES:
                return _primitive(kind, given)
            case inner:
                return self.parse(inner, namespace, depth + 1)

    def _by_name(self, name: str, namespace: str) -> Avro:
        if name in PRIMITIVES:
            return Primitive(name)
        for full in (_full(name, namespace), name):
            if full in self._named:
                found = self._named[full]
                if found is None:
                    raise ValueError(f"the Avro type {full} contains itself: a column cannot have such a type")
                return found
        raise ValueError(f"an Avro schema names the type {name}, which is not defined before")

    def _begin(self, given: Mapping[str, Any], namespace: str) -> tuple[str, str, tuple[str, ...]]:
        """Return a named type's full name, the namespace inside it and its aliases, and mark it as being read."""
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"an Avro schema has a {given['type']} without a name")
        own = given.get("namespace")
        full = _full(name, own if isinstance(own, str) else namespace)
        if full in self._named:
            raise ValueError(f"an Avro schema defines {full} twice")
        self._named[full] = None
        inside = full.rpartition(".")[0]
        return full, inside, tuple(_full(alias, inside) for alias in _words(given, "aliases"))

    def _record(self, given: Mapping[str, Any], namespace: str, depth: int) -> Record:
        full, inside, aliases = self._begin(given, namespace)
        found = Record(full, aliases, ())
        if self._may_recur:
            self._named[full] = found
        fields = []
        for each in _part(given, "fields", full):
            if not isinstance(each, dict) or not isinstance(each.get("name"), str) or "type" not in each:
                raise ValueError(f"the Avro record {full} has {_short(each)} where a field is expected")
            kind = self.parse(each["type"], inside, depth + 1)
            fields.append(Field(each["name"], _words(each, "aliases"), kind, each.get("default", MISSING)))
        if len({each.name for each in fields}) < len(fields):
            raise ValueError(f"the Avro record {full} has two fields of one name")
        object.__setattr__(found, "fields", tuple(fields))  # they may have the record itself in them
        self._named[full] = found
        return found

    def _enum(self, given: Mapping[str, Any], namespace: str) -> Enum:
        full, _, aliases = self._begin(given, namespace)
        symbols = _words(given, "symbols")
        default = given.get("default")
        if not symbols or (default is not None and default not in symbols):
            raise ValueError(f"the Avro enum {full} has no symbols, or a default that is none of them")
        found = Enum(full, aliases, symbols, default)
        self._named[full] = found
        return found

    def _fixed(self, given: Mapping[str, Any], namespace: str) -> Fixed:
        full, _, aliases = self._begin(given, namespace)
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
            raise ValueError(f"the Avro type {full} is fixed, and its size is {_short(size)}")
        decimal = _decimal(given, _digits_in(size)) if given.get("logicalType") == "decimal" else None
        found = Fixed(full, aliases, size, *(("decimal", *decimal) if decimal else ()))
        self._named[full] = found
        return found


_LOGICAL: Final = {
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("string", "uuid"),
}


def _primitive(kind: str, given: Mapping[str, Any]) -> Primitive:
    logical = given.get("logicalType")
    if kind == "bytes" and logical == "decimal" and (decimal := _decimal(given, 10**9)):
        return Primitive(kind, "decimal", *decimal)
    return Primitive(kind, str(logical)) if (kind, logical) in _LOGICAL else Primitive(kind)


def _decimal(given: Mapping[str, Any], most: int) -> tuple[int, int] | None:
    precision, scale = given.get("precision"), given.get("scale", 0)
    if type(precision) is int and type(scale) is int and 0 < precision <= most and 0 <= scale <= precision:
        return precision, scale
    return None


def _digits_in(size: int) -> int:
    """Return how many decimal digits always fit into so many bytes."""
    return len(str((1 << (8 * min(size, 100) - 1)) - 1)) - 1 if size else 0


def _part(given: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in given or (name == "fields" and not isinstance(given[name], list)):
        raise ValueError(f"the Avro type {what} has no {name}")
    return given[name]


def _words(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = given.get(name, ())
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"an Avro schema has {_short(found)} as {name}: it takes a list of names")
    return tuple(found)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _short(given: Any) -> str:
    text = json.dumps(given, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
