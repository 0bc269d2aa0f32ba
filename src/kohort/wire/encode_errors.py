"""Finds the field that keeps a message from being encoded. Called only after encoding has failed."""

from __future__ import annotations

from typing import Any

from kohort.wire.message import Message, is_present
from kohort.wire.message_schemas import FIXED, Field, Struct

_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
_UNSIGNED_BITS = {"u16": 16, "u32": 32}


def find_fault(message: Message, version: int) -> str | None:
    """Return the first field that does not fit its type in a version, as `path: what is wrong`, or None."""
    return _struct_fault(message.SCHEMA.struct, message, type(message).__name__, version)


def _struct_fault(struct: Struct, value: Any, path: str, version: int) -> str | None:
    for field in struct.fields:
        if not is_present(field, version):
            continue
        where = f"{path}.{field.name}"
        if not hasattr(value, field.name):
            return f"{where}: {type(value).__name__} has no such field"
        if found := _field_fault(field, getattr(value, field.name), where, version):
            return found
    return None


def _field_fault(field: Field, value: Any, where: str, version: int) -> str | None:
    if value is None:
        may_be_null = version in field.nullable or field.default is None or field.blank_is_null or field.tag is not None
        return None if may_be_null else f"{where}: may not be null in this version"
    if not field.is_array:
        return _element_fault(field.element, value, where, version)
    if not isinstance(value, list | tuple):
        return f"{where}: a list is wanted, not {type(value).__name__}"
    faults = (_element_fault(field.element, each, f"{where}[{at}]", version) for at, each in enumerate(value))
    return next((fault for fault in faults if fault), None)


def _element_fault(element: str | Struct, value: Any, where: str, version: int) -> str | None:
    if isinstance(element, Struct):
        return _struct_fault(element, value, where, version)
    if element == "str":
        return _text_fault(value, where)
    if element in ("bytes", "records", "uuid"):
        buffers = value if element == "records" and isinstance(value, list) else [value]
        is_bytes = all(isinstance(each, bytes | bytearray | memoryview) for each in buffers)
        return None if is_bytes else f"{where}: bytes are wanted, not {type(value).__name__}"
    if element in ("bool", "f64"):
        return None
    assert element in FIXED, "every other type is a number"
    if not isinstance(value, int):
        return f"{where}: a number is wanted, not {type(value).__name__}"
    lowest, highest = _bounds(element)
    return None if lowest <= value <= highest else f"{where}: {value} does not fit {element}"


def _text_fault(value: Any, where: str) -> str | None:
    if not isinstance(value, str):
        return f"{where}: a str is wanted, not {type(value).__name__}"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"{where}: {error}"
    return None


def _bounds(element: str) -> tuple[int, int]:
    if element in _UNSIGNED_BITS:
        return 0, (1 << _UNSIGNED_BITS[element]) - 1
    half = 1 << (_BITS[element] - 1)
    return -half, half - 1
