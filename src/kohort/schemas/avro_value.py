"""One Avro value as Python's, by the schema of its writer, or resolved to the one of its reader.

Tables of values are decoded by `kohort.spark.schemas`, by the same rules. A record may have anything in it. What is
read is bounded by `VALUES`: an array of nulls has a length and no bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from kohort.schemas.avro_schema import MISSING, Array, Avro, Enum, Fixed, Map, Primitive, Record, Union, label

VALUES = 10_000
"""In one record of a page, those within others included."""
_NATIVE_VALUES = 10_000_000

ItemT = TypeVar("ItemT")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEPS = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}

_WIDER = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
"""What a reader may read a primitive type as, the nearest first."""


def avro_value(schema: Avro, content: bytes) -> Any:
    """Return what JSON can have; bytes are hex, dates, times and decimals texts. Raises ValueError."""
    return _whole(_Reader(content, VALUES), schema, None)


def native_value(writer: Avro, content: bytes, reader: Avro | None = None) -> Any:
    """Return a value of Python: bytes, Decimal, date, time, datetime and UUID for logical types. Raises ValueError.

    With `reader` it is resolved as Avro's specification requires, but for names of types, which need not be the same.
    """
    return _whole(_NativeReader(content, _NATIVE_VALUES), writer, reader)


def _whole(reader: _Reader, schema: Avro, resolved: Avro | None) -> Any:
    try:
        value = reader.value(schema, resolved)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    if reader.at != reader.size:
        raise ValueError(f"{reader.size - reader.at:,} bytes are left behind the value")
    return value


class _Reader:
    def __init__(self, content: bytes, values: int) -> None:
        self._content = content
        self._most = self._left = values
        self.size = len(content)
        self.at = 0

    def value(self, node: Avro, reader: Avro | None = None) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {self._most:,} values")
        if isinstance(node, Union):
            return self.value(node.branches[self._index(len(node.branches))], reader)
        if isinstance(reader, Union):
            reader = _branch(node, reader)
        match node, reader:
            case Primitive(), None:
                return self._primitive(node)
            case Primitive(kind), Primitive(wanted) if wanted in _WIDER.get(kind, (kind,)):
                return _widened(self._primitive(node), kind, wanted)
            case Fixed(), None | Fixed():
                return self.from_bytes(node, self._take(node.size))
            case Enum(), None:
                return node.symbols[self._index(len(node.symbols))]
            case Enum(), Enum():
                symbol = node.symbols[self._index(len(node.symbols))]
                if symbol not in reader.symbols and reader.default is None:
                    raise ValueError(f"the reader's {label(reader)} has no symbol {symbol}, and no default")
                return symbol if symbol in reader.symbols else reader.default
            case Record(), None:
                return {each.name: self.value(each.type) for each in node.fields}
            case Record(), Record():
                return self._record(node, reader)
            case Array(), None | Array():
                items = None if reader is None else reader.items
                return list(self._blocks(lambda: self.value(node.items, items)))
            case Map(), None | Map():
                values = None if reader is None else reader.values
                return dict(self._blocks(lambda: (self._text(), self.value(node.values, values))))
        assert reader is not None, "every type is read without a reader's schema"
        raise ValueError(f"the reader's schema has {label(reader)} where {label(node)} was written")

    def from_bytes(self, node: Primitive | Fixed, content: bytes) -> Any:
        """Return bytes, or what their logical type makes of them."""
        return content.hex(" ") if node.logical != "decimal" else format(_decimal(node, content), "f")

    def moment(self, logical: str, number: int) -> Any:
        """Return a date or a time as ISO 8601 has it."""
        found = _moment(logical, number)
        return found if isinstance(found, int) else found.isoformat()

    def text(self, node: Primitive, text: str) -> Any:
        """Return a text, or what its logical type makes of it."""
        del node
        return text

    def _record(self, node: Record, reader: Record) -> dict[str, Any]:
        found: dict[str, Any] = {}
        by_name = {name: each for each in reader.fields for name in (*each.aliases, each.name)}
        for field in node.fields:
            mine = by_name.get(field.name)
            value = self.value(field.type, None if mine is None else mine.type)
            if mine is not None:
                found[mine.name] = value
        for field in reader.fields:
            if field.name not in found:
                if field.default is MISSING:
                    raise ValueError(f"its writer has no field {field.name}, and the reader's has no default")
                found[field.name] = _default(field.type, field.default)
        return {field.name: found[field.name] for field in reader.fields}

    def _primitive(self, node: Primitive) -> Any:
        match node.kind:
            case "null":
                return None
            case "boolean":
                return bool(self._take(1)[0])
            case "int" | "long":
                return self.moment(node.logical, self._long()) if node.logical else self._long()
            case "float" | "double":
                size, code = (4, "<f") if node.kind == "float" else (8, "<d")
                return struct.unpack(code, self._take(size))[0]
            case "bytes":
                return self.from_bytes(node, self._take(self._long()))
            case _:
                return self.text(node, self._text())

    def _blocks(self, item: Callable[[], ItemT]) -> Iterator[ItemT]:
        while count := self._long():
            if count < 0:
                self._long()  # how many bytes the block has
            for _ in range(abs(count)):
                yield item()

    def _text(self) -> str:
        return self._take(self._long()).decode()

    def _index(self, count: int) -> int:
        found = self._long()
        if not 0 <= found < count:
            raise ValueError(f"{found} is none of {count} branches or symbols")
        return found

    def _long(self) -> int:
        found = shift = 0
        while True:
            byte = self._take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than ten bytes")

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= self.size - self.at:
            raise ValueError(f"{size:,} bytes are expected at byte {self.at:,} of {self.size:,}")
        self.at += size
        return self._content[self.at - size : self.at]


class _NativeReader(_Reader):
    def from_bytes(self, node: Primitive | Fixed, content: bytes) -> Any:
        return content if node.logical != "decimal" else _decimal(node, content)

    def moment(self, logical: str, number: int) -> Any:
        return _moment(logical, number)

    def text(self, node: Primitive, text: str) -> Any:
        return UUID(text) if node.logical == "uuid" else text


def _branch(node: Avro, reader: Union) -> Avro:
    """Return the branch of a reader's union that reads a type: the same, else the nearest that is wider."""
    kinds = _WIDER.get(node.kind, (node.kind,)) if isinstance(node, Primitive) else ()
    for kind in kinds:
        for each in reader.branches:
            if isinstance(each, Primitive) and each.kind == kind:
                return each
    same = [each for each in reader.branches if not isinstance(node, Primitive) and type(each) is type(node)]
    named = [each for each in same if _names(each) & _names(node)]
    for each in (*named, *same):
        return each
    raise ValueError(f"the reader's union has no branch for {label(node)}")


def _names(node: Avro) -> set[str]:
    return {node.name, *node.aliases} if isinstance(node, Record | Enum | Fixed) else set()


def _widened(value: Any, kind: str, wanted: str) -> Any:
    if kind == wanted or (kind, wanted) == ("int", "long"):
        return value
    if wanted in ("float", "double"):
        return float(value)
    if wanted == "bytes":
        return value.encode() if isinstance(value, str) else value
    return value.decode() if isinstance(value, bytes) else value


def _default(node: Avro, given: Any) -> Any:
    """Return the value of a default in JSON: bytes are a text there, and a union's is of its first branch."""
    match node:
        case Union(branches):
            return _default(branches[0], given)
        case Record():
            return {each.name: _default(each.type, given.get(each.name, each.default)) for each in node.fields}
        case Array(items):
            return [_default(items, each) for each in given]
        case Map(values):
            return {name: _default(values, each) for name, each in given.items()}
        case Fixed() | Primitive("bytes"):
            content = given.encode("latin-1")
            return _decimal(node, content) if node.logical == "decimal" else content
        case Primitive("int" | "long", logical) if logical:
            return _moment(logical, given)
        case Primitive("float" | "double"):
            return float(given)
        case Primitive("string", "uuid"):
            return UUID(given)
    return given


def _decimal(node: Primitive | Fixed, content: bytes) -> Decimal:
    number = int.from_bytes(content, signed=True)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -node.scale))


def _moment(logical: str, number: int) -> Any:
    """Return a date, a time or a datetime; the number where it is none, or beyond the year 9999."""
    kind, _, unit = logical.rpartition("-")
    try:
        if logical == "date":
            return (EPOCH + timedelta(days=number)).date()
        if kind == "time":
            return (EPOCH + number * STEPS[unit]).time()
        if kind in ("timestamp", "local-timestamp"):
            return (EPOCH + number * STEPS[unit]).replace(tzinfo=UTC if kind == "timestamp" else None)
    except OverflowError:
        pass
    return number


# Writing


def avro_bytes(schema: Avro, value: Any) -> bytes:
    """Return the bytes of a value, of those types that `native_value` returns. Raises ValueError, with the field."""
    out = bytearray()
    try:
        _write(out, schema, value, "value")
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    return bytes(out)


def _write(out: bytearray, node: Avro, value: Any, path: str) -> None:
    match node:
        case Union(branches):
            for number, branch in enumerate(branches):
                if _fits(branch, value):
                    _write_long(out, number)
                    _write(out, branch, value, path)
                    return
        case Record() if isinstance(value, dict):
            for field in node.fields:
                if field.name not in value and field.default is MISSING:
                    raise ValueError(f"{path} has no {field.name}, which has no default")
                own = value[field.name] if field.name in value else _default(field.type, field.default)
                _write(out, field.type, own, f"{path}.{field.name}")
            return
        case Enum() if value in node.symbols:
            _write_long(out, node.symbols.index(value))
            return
        case Array(items) if isinstance(value, list | tuple):
            _write_blocks(out, value, lambda each: _write(out, items, each, f"{path}[]"))
            return
        case Map(values) if isinstance(value, dict):

            def write_pair(name: str) -> None:
                _write_bytes(out, name.encode())
                _write(out, values, value[name], f"{path}.{name}")

            _write_blocks(out, value, write_pair)
            return
        case Fixed() if _fits(node, value):
            content = value if isinstance(value, bytes) else _unscaled(node, value, path, node.size)
            if len(content) == node.size:
                out += content
                return
        case Primitive() if _fits(node, value):
            _write_primitive(out, node, value, path)
            return
    raise ValueError(f"{path} is {value!r:.80}, and {label(node)} is expected")


def _write_blocks(out: bytearray, items: Any, write: Callable[[Any], None]) -> None:
    if len(items):
        _write_long(out, len(items))
        for each in items:
            write(each)
    out.append(0)


def _write_primitive(out: bytearray, node: Primitive, value: Any, path: str) -> None:
    match node.kind:
        case "boolean":
            out.append(value)
        case "int" | "long":
            number = _number(node.logical, value)
            bits = 31 if node.kind == "int" else 63
            if not -(1 << bits) <= number < 1 << bits:
                raise ValueError(f"{path} is {number}, which is no {node.kind}")
            _write_long(out, number)
        case "float" | "double":
            out += struct.pack("<f" if node.kind == "float" else "<d", value)
        case "bytes":
            _write_bytes(out, value if isinstance(value, bytes) else _unscaled(node, value, path))
        case "string":
            _write_bytes(out, str(value).encode())


def _write_bytes(out: bytearray, content: bytes) -> None:
    _write_long(out, len(content))
    out += content


def _write_long(out: bytearray, number: int) -> None:
    left = (number << 1) ^ (number >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _number(logical: str, value: Any) -> int:
    """Return the number of a date or time; a number is one already."""
    if isinstance(value, int):
        return value
    if logical == "date":
        return (date(value.year, value.month, value.day) - EPOCH.date()).days
    if isinstance(value, time):
        value = datetime.combine(EPOCH.date(), value)
    return int(((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // STEPS[logical.rpartition("-")[2]])


def _unscaled(node: Primitive | Fixed, value: Decimal, path: str, size: int | None = None) -> bytes:
    number = value.scaleb(node.scale)
    if number != number.to_integral_value() or len(number.as_tuple().digits) > node.precision:
        raise ValueError(f"{path} is {value}, which does not fit decimal({node.precision}, {node.scale})")
    whole = int(number)
    try:
        return whole.to_bytes(size or (whole + (whole < 0)).bit_length() // 8 + 1, "big", signed=True)
    except OverflowError:
        raise ValueError(f"{path} is {value}, which does not fit into {size} bytes") from None


_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float, int),
    "double": (float, int),
    "bytes": (bytes,),
    "string": (str,),
}
_LOGICAL_TYPES: dict[str, tuple[type, ...]] = {"decimal": (Decimal,), "date": (date,), "uuid": (UUID,)}


def _fits(node: Avro, value: Any) -> bool:
    """Return whether a value can be of a type, as far as its own type shows."""
    match node:
        case Union(branches):
            return any(_fits(each, value) for each in branches)
        case Record():
            return isinstance(value, dict) and all(
                each.name in value or each.default is not MISSING for each in node.fields
            )
        case Map():
            return isinstance(value, dict)
        case Array():
            return isinstance(value, list | tuple)
        case Enum():
            return isinstance(value, str) and value in node.symbols
        case Fixed():
            return isinstance(value, (bytes, *_types_of(node.logical)))
        case Primitive(kind):
            is_boolean = isinstance(value, bool)
            return is_boolean == (kind == "boolean") and isinstance(value, (*_TYPES[kind], *_types_of(node.logical)))


def _types_of(logical: str) -> Iterable[type]:
    if logical.startswith("time-"):
        return (time,)
    return (datetime,) if "timestamp" in logical else _LOGICAL_TYPES.get(logical, ())
