"""Messages made at random from their schemas: every field that a version has, edge values more often than others."""

from __future__ import annotations

from random import Random
from typing import Any

from kohort.wire import messages
from kohort.wire.message import Message
from kohort.wire.notation import Field, Struct
from kohort.wire.schemas import headlines

TEXTS = ("", "a", "orders", "ü", "\N{EURO SIGN}" * 40, "x" * 126, "x" * 127, "x" * 128, "\N{PILE OF POO}", "\0")
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u16": 17, "u32": 33}


def message_versions() -> list[tuple[type[Message], int]]:
    """Return every message in every version."""
    return [(getattr(messages, name), version) for name, head in headlines().items() for version in head.versions]


def random_message(cls: type[Message], version: int, random: Random) -> Any:
    """Return a message as it comes back from the wire in a version: what that lacks has its default."""
    return _struct(cls, cls.SCHEMA.struct, version, cls.SCHEMA.head.flexible, random)


def _struct(cls: type[Any], struct: Struct, version: int, flexible: Any, random: Random) -> Any:
    present = [field for field in struct.fields if version in field.versions]
    values = {
        field.name: _value(cls, field, version, flexible, random)
        for field in present
        if field.tag is None or (version in flexible and random.random() < 0.5)
    }
    made = cls(**values)
    for field in present:
        # A tagged struct that holds its defaults is not sent, so it comes back as none.
        if field.tag is not None and isinstance(field.element, Struct) and not field.is_array:
            value = getattr(made, field.name)
            if value is not None and version not in field.nullable and value == type(value)():
                setattr(made, field.name, None)
    return made


def _value(cls: type[Any], field: Field, version: int, flexible: Any, random: Random) -> Any:
    if version in field.nullable and random.random() < 0.3:
        return None
    if not field.is_array:
        value = _element(cls, field.element, version, flexible, random)
        return value or None if field.blank_is_null and version in field.nullable else value
    is_number = isinstance(field.element, str) and field.element in BITS
    length = random.choice((0, 1, 2, 3, 63, 64, 130) if is_number else (0, 1, 1, 2, 3))
    return [_element(cls, field.element, version, flexible, random) for _ in range(length)]


def _element(cls: type[Any], element: str | Struct, version: int, flexible: Any, random: Random) -> Any:
    if isinstance(element, Struct):
        return _struct(getattr(cls, element.name), element, version, flexible, random)
    match element:
        case "str":
            return random.choice(TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 10, 127, 128, 300)))
        case "uuid":
            return random.randbytes(16)
        case "bool":
            return random.random() < 0.5
        case "f64":
            return random.uniform(-1e9, 1e9)
        case _:
            half = 1 << (BITS[element] - 1)
            lowest = 0 if element.startswith("u") else -half
            return random.choice((0, 1, lowest, half - 1, random.randint(lowest, half - 1)))
