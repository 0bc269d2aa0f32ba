"""Requests with one long list each, made from their schemas; the entries of a list differ from each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kohort.wire.message import is_present
from kohort.wire.message_schemas import Field
from kohort.wire.message_schemas import Struct as Shape

Path = tuple[str, ...]

_USUAL = {"acks": -1, "group_id": "readers", "response_partition_limit": 2000}
"""What a request needs to be more than refused."""


def wide_requests(cls: Any, version: int, count: int) -> Iterator[tuple[str, Any]]:
    """Yield, for each list that a request has at any depth, its name and a request in which it has `count` entries."""
    for path in _lists(cls.SCHEMA.struct, version):
        yield ".".join(path), _struct(cls, cls.SCHEMA.struct, version, path, count)


def _lists(shape: Shape, version: int, before: Path = ()) -> Iterator[Path]:
    for field in shape.fields:
        if not is_present(field, version):
            continue
        if field.is_array:
            yield (*before, field.name)
        if isinstance(field.element, Shape):
            yield from _lists(field.element, version, (*before, field.name))


def _struct(cls: Any, shape: Shape, version: int, path: Path, count: int, number: int = -1) -> Any:
    values = {}
    for field in shape.fields:
        if not is_present(field, version):
            continue
        if path and field.name == path[0]:
            values[field.name] = _long(cls, field, version, path[1:], count)
        elif field.name in _USUAL:
            values[field.name] = _USUAL[field.name]
        elif field.element in ("str", "uuid", "i32") and not field.is_array and not field.nullable and number >= 0:
            values[field.name] = _value(field, number)
    return cls(**values)


def _long(cls: Any, field: Field, version: int, rest: Path, count: int) -> Any:
    if not isinstance(field.element, Shape):
        return [_value(field, number) for number in range(count)]
    inner, shape = getattr(cls, field.element.name), field.element
    if not field.is_array:
        return _struct(inner, shape, version, rest, count)
    return [_struct(inner, shape, version, rest, count, number) for number in range(1 if rest else count)]


def _value(field: Field, number: int) -> Any:
    match field.element:
        case "str":
            return f"name-{number}"
        case "uuid":
            return number.to_bytes(16, "big")
        case "bytes" | "records":
            return b""
        case "i32" | "i64":
            return number
        case "bool":
            return False
    return number % 100
