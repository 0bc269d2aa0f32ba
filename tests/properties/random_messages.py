"""Messages made at random from their schemas: every field that a version has, edge values more often than others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from kohort.wire import messages
from kohort.wire.message import Message
from kohort.wire.message_schemas import Field, Struct, Versions, headlines

TEXTS = ("", "a", "orders", "ü", "\N{EURO SIGN}" * 40, "x" * 126, "x" * 127, "x" * 128, "\N{PILE OF POO}", "\0")
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u16": 17, "u32": 33}


def message_versions() -> list[tuple[type[Message], int]]:
    """Return every message in every version."""
    return [(getattr(messages, name), version) for name, head in headlines().items() for version in head.versions]


Number = Callable[[Field, Random], int]


def any_number(field: Field, random: Random) -> int:
    """Return a number that fits the field's type."""
    half = 1 << (BITS[str(field.element)] - 1)
    lowest = 0 if str(field.element).startswith("u") else -half
    return random.choice((0, 1, lowest, half - 1, random.randint(lowest, half - 1)))


def random_message(
    cls: type[Message], version: int, random: Random, number: Number = any_number, *, is_extended: bool = True
) -> Any:
    """Return a message as it comes back from the wire in a version: what that lacks has its default.

    Without `is_extended`, so have the fields that only this project knows.
    """
    return _Maker(version, cls.FLEXIBLE, random, number, is_extended).struct(cls, cls.SCHEMA.struct)


class _Maker:
    def __init__(self, version: int, flexible: Versions, random: Random, number: Number, is_extended: bool) -> None:
        self._is_extended = is_extended
        self._version = version
        self._is_flexible = version in flexible
        self._random = random
        self._number = number

    def struct(self, cls: type[Any], shape: Struct) -> Any:
        present = [
            field
            for field in shape.fields
            if self._version in field.versions and (self._is_extended or not field.is_extension)
        ]
        made = cls(
            **{
                field.name: self._value(cls, field)
                for field in present
                if field.tag is None or (self._is_flexible and self._random.random() < 0.5)
            }
        )
        for field in present:
            value = getattr(made, field.name)
            is_struct = isinstance(field.element, Struct) and not field.is_array
            # A tagged struct that holds its defaults is not sent, so it comes back as none.
            if field.tag is not None and is_struct and value is not None and self._version not in field.nullable:
                setattr(made, field.name, None if value == type(value)() else value)
        return made

    def _value(self, cls: type[Any], field: Field) -> Any:
        is_nullable = self._version in field.nullable
        if is_nullable and self._random.random() < 0.3:
            return None
        if not field.is_array:
            value = self._element(cls, field)
            return value or None if field.blank_is_null and is_nullable else value
        is_number = isinstance(field.element, str) and field.element in BITS
        length = self._random.choice((0, 1, 2, 3, 63, 64, 130) if is_number else (0, 1, 1, 2, 3))
        return [self._element(cls, field) for _ in range(length)]

    def _element(self, cls: type[Any], field: Field) -> Any:
        random, element = self._random, field.element
        if isinstance(element, Struct):
            return self.struct(getattr(cls, element.name), element)
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
                return self._number(field, random)
