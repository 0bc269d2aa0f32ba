"""Columns of a table for a JSON Schema: objects are structs, or maps where they have no properties of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

_PLAIN: Final = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_MOST_DEPTH: Final = 64
_ADVICE: Final = "give the columns as schema, such as schema='id bigint, tags array<string>'"


def json_type(text: str, referenced: Mapping[str, str] | None = None) -> pa.StructType:
    """Return the type of the objects that a JSON Schema describes; `referenced` are schemas by their names.

    Raises ValueError for a schema that is none, or whose values have no common type.
    """
    documents = {"": _parsed(text)} | {name: _parsed(each) for name, each in (referenced or {}).items()}
    found = _Types(documents).of(documents[""], "", "value", 0)
    if not pa.types.is_struct(found):
        raise ValueError(f"a JSON Schema describes {found}, and a record's value has to be an object with properties")
    return found


class _Types:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def of(self, schema: Any, document: str, path: str, depth: int) -> pa.DataType:
        if depth > _MOST_DEPTH:
            raise ValueError(f"{path}: a JSON Schema contains itself, or has more than {_MOST_DEPTH} levels")
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


def has_map(kind: pa.DataType) -> bool:
    """Return whether a type is a map, or has one inside."""
    parts: Iterable[pa.Field] = [kind.field(index) for index in range(kind.num_fields)]
    return pa.types.is_map(kind) or any(has_map(each.type) for each in parts)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type")
    if given is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if values and all(isinstance(each, str) or each is None for each in values):
            return ["string"]
        return ["object"] if "properties" in schema else []
    return [each for each in (given if isinstance(given, list) else [given]) if each != "null"]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON Schema: it is not JSON ({error})") from None
