"""JSON values to an Arrow array: many at a time by Arrow's reader, and one by one where some of them are broken.

Arrow's reader takes lines. Before it sees a value, the value is checked to be one object, so that no value can become
two rows, or a part of another's. In the columns for a JSON Schema objects are structs, or maps where they have no
properties of their own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy
import pyarrow as pa
import pyarrow.json

from kohort.client.decode.numba_bytes import bytes_at, compiled, is_utf8, numbers_at
from kohort.spark.schemas.wire_format import spans

np: Any = numpy

NOT_AN_OBJECT = "it is not one JSON object in UTF-8, with at most 256 levels inside"
MOST_DEPTH = 256
"""Brackets around a value: Arrow's reader calls itself for each, and would end the process by its stack."""

_BLOCK_BYTES = 1 << 20


_BRACE, _BRACKET, _CLOSING_BRACE, _CLOSING_BRACKET, _QUOTE, _BACKSLASH = b'{[}]"\\'
_BLANK, _LINE = b" \n"
_BLANKS = tuple(b" \n\r\t")


@compiled()
def _copy_object(source: Any, at: int, end: int, lines: Any, used: int) -> int:
    """Copy a value as a line if it is one object, by its brackets; return the place behind the line, or -1.

    Line breaks inside become blanks. Whether an object is JSON is the parser's matter.
    """
    begin, depth, is_closed, in_text, seen = at, 0, False, False, np.uint8(0)
    while at < end:
        byte = source[at]
        seen |= byte
        if in_text:
            if byte == _BACKSLASH and at + 1 < end:
                lines[used] = byte
                used += 1
                at += 1
                byte = source[at]
                seen |= byte
            elif byte == _QUOTE:
                in_text = False
            if byte < _BLANK:
                return -1
        elif byte in _BLANKS:
            byte = np.uint8(_BLANK)
        elif depth == 0:
            if byte != _BRACE or is_closed:
                return -1
            depth = 1
        elif byte in (_BRACE, _BRACKET):
            if depth >= MOST_DEPTH:
                return -1
            depth += 1
        elif byte in (_CLOSING_BRACE, _CLOSING_BRACKET):
            depth -= 1
            is_closed = depth == 0
        elif byte == _QUOTE:
            in_text = True
        lines[used] = byte
        used += 1
        at += 1
    if not is_closed or (seen >= 0x80 and not is_utf8(source, begin, end)):
        return -1
    lines[used] = _LINE
    return used + 1


@compiled()
def _copy_objects(source_at: int, starts_at: int, ends_at: int, count: int, lines_at: int, objects_at: int) -> int:
    """Copy each value that is one object as a line, and mark it; return the bytes of all lines."""
    source, lines, objects = bytes_at(source_at), bytes_at(lines_at), bytes_at(objects_at)
    starts, stops = numbers_at(starts_at), numbers_at(ends_at)
    used = 0
    for row in range(count):
        behind = _copy_object(source, starts[row], stops[row], lines, used)
        objects[row] = behind >= 0
        used = max(used, behind)
    return used


class JsonDecoder:
    """Decodes JSON objects to a struct."""

    def __init__(self, kind: pa.StructType) -> None:
        self.type = kind
        self._read_as = _with_texts(kind)
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(self._read_as)), unexpected_field_behavior="ignore"
        )
        self._has_map = _has_map(kind)

    def decode(self, values: pa.BinaryArray, rows: Any, skip: int) -> tuple[pa.Array, dict[int, str]]:
        """Return one value for each of the rows, and what is wrong by its place where it is none: null there."""
        starts, ends = spans(values)
        starts, ends = np.ascontiguousarray(starts[rows] + skip), np.ascontiguousarray(ends[rows])
        lines = np.empty(int((ends - starts).sum()) + len(rows) + 1, np.uint8)
        objects = np.zeros(len(rows) + 1, np.uint8)
        used = _copy_objects(
            *(values.buffers()[2].address if len(rows) else 0, starts.ctypes.data, ends.ctypes.data, len(rows)),
            *(lines.ctypes.data, objects.ctypes.data),
        )
        places = np.flatnonzero(objects[: len(rows)])
        wrong = {int(place): NOT_AN_OBJECT for place in np.flatnonzero(objects[: len(rows)] == 0)}
        text = lines[:used].tobytes()
        parts = self._parts(text, places, wrong)
        found = pa.concat_arrays([part for part, _ in parts]) if parts else pa.nulls(0, self.type)
        if not wrong:
            return found, wrong
        order = np.full(len(rows), -1, np.int64)
        if parts:
            order[np.concatenate([where for _, where in parts])] = np.arange(len(found))
        return found.take(pa.array(order, mask=order < 0)), wrong

    def _parts(self, text: bytes, places: Any, wrong: dict[int, str]) -> list[tuple[pa.Array, Any]]:
        """Return arrays with the places of their values; what cannot be parsed is added to `wrong`.

        Lines that fail together are parsed by halves.
        """
        if not len(places):
            return []
        try:
            return [(self._parsed(text, len(places)), places)]
        except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError) as error:
            if len(places) == 1:
                wrong[int(places[0])] = _sentence(error)
                return []
        middle = len(places) // 2
        cut = _after_line(text, middle)
        return self._parts(text[:cut], places[:middle], wrong) + self._parts(text[cut:], places[middle:], wrong)

    def _parsed(self, text: bytes, count: int) -> pa.Array:
        if self._has_map:
            objects = [json.loads(line) for line in text.splitlines()]
            return _converted(pa.array(objects, self._read_as), self.type)
        table = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, len(text) + 1)),
            parse_options=self._options,
        )
        if table.num_rows != count:
            raise ValueError(NOT_AN_OBJECT)
        columns = [pa.concat_arrays(table[name].chunks) for name in self.type.names]
        read = pa.StructArray.from_arrays(columns, fields=list(self._read_as))
        read.validate(full=True)  # the reader takes a decimal of more digits than its type has
        return _converted(read, self.type)


def _with_texts(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts for its dates, of which Arrow's reader reads only numbers of days."""
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _with_texts(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_texts(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _with_texts(kind.item_type))
    return pa.string() if pa.types.is_date(kind) else kind


def _converted(read: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of `_with_texts(kind)` as values of `kind`. Raises ArrowInvalid for a text that is no date."""
    if read.type == kind:
        return read
    is_null = read.is_null()
    if pa.types.is_struct(kind):
        children = [_converted(part, each.type) for part, each in zip(read.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=is_null)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(read.offsets, _converted(read.values, kind.value_type), mask=is_null)
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(read.offsets, read.keys, _converted(read.items, kind.item_type), mask=is_null)
    return read.cast(kind)


def _after_line(text: bytes, lines: int) -> int:
    at = 0
    for _ in range(lines):
        at = text.index(b"\n", at) + 1
    return at


def _sentence(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"it does not parse: {text.removeprefix('JSON parse error: ')[:200]}"


# Columns of a JSON Schema

_PLAIN: Final = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_SCHEMA_DEPTH: Final = 64
_ADVICE: Final = "give the columns as schema, such as schema='id bigint, tags array<string>'"


def json_type(text: str, referenced: Mapping[str, str] | None = None) -> pa.StructType:
    """Return the type of the objects that a JSON Schema describes; `referenced` are schemas by their names.

    Raises ValueError for a schema that is none, or whose values have no common type.
    """
    documents = {"": _document(text)} | {name: _document(each) for name, each in (referenced or {}).items()}
    found = _Types(documents).of(documents[""], "", "value", 0)
    if not pa.types.is_struct(found):
        raise ValueError(f"a JSON Schema describes {found}, and a record's value has to be an object with properties")
    return found


class _Types:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def of(self, schema: Any, document: str, path: str, depth: int) -> pa.DataType:
        if depth > _SCHEMA_DEPTH:
            raise ValueError(f"{path}: a JSON Schema contains itself, or has more than {_SCHEMA_DEPTH} levels")
        if not isinstance(schema, dict):
            raise ValueError(f"{path}: a JSON Schema has {json.dumps(schema)[:60]} there: {_ADVICE}")
        if "$ref" in schema:
            inner, document = self._referenced(str(schema["$ref"]), document, path)
            return self.of(inner, document, path, depth + 1)
        kinds = _kinds(schema)
        for name in ("oneOf", "anyOf"):
            branches = [each for each in schema.get(name, ()) if each != {"type": "null"}]
            if len(branches) == 1 and not kinds:
                return self.of(branches[0], document, path, depth + 1)
        if len(kinds) == 1 and kinds[0] in _PLAIN:
            return _PLAIN[kinds[0]]
        if sorted(kinds) == ["integer", "number"]:
            return pa.float64()
        if kinds == ["array"]:
            return pa.list_(self.of(schema.get("items"), document, f"{path}[]", depth + 1))
        if kinds == ["object"] and isinstance(properties := schema.get("properties"), dict) and properties:
            return pa.struct(
                [(name, self.of(each, document, f"{path}.{name}", depth + 1)) for name, each in properties.items()]
            )
        if kinds == ["object"] and isinstance(values := schema.get("additionalProperties"), dict):
            return pa.map_(pa.string(), self.of(values, document, f"{path}.value", depth + 1))
        raise ValueError(f"{path}: a JSON Schema has {json.dumps(schema)[:60]} there, which has no one type: {_ADVICE}")

    def _referenced(self, reference: str, document: str, path: str) -> tuple[Any, str]:
        name, _, pointer = reference.partition("#")
        name = name or document
        if name not in self._documents:
            raise ValueError(f"{path}: a JSON Schema refers to {reference}, which the registry does not have with it")
        found = self._documents[name]
        for part in pointer.split("/")[1:]:
            step = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                raise ValueError(f"{path}: a JSON Schema refers to {reference}, which is not there")
            found = found[step]
        return found, name


def _has_map(kind: pa.DataType) -> bool:
    """Return whether a type is a map, or has one inside."""
    parts: Iterable[pa.Field] = [kind.field(index) for index in range(kind.num_fields)]
    return pa.types.is_map(kind) or any(_has_map(each.type) for each in parts)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type")
    if given is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if values and all(isinstance(each, str) or each is None for each in values):
            return ["string"]
        return ["object"] if "properties" in schema else []
    return [each for each in (given if isinstance(given, list) else [given]) if each != "null"]


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON Schema: it is not JSON ({error})") from None
