"""Messages to bytes and back. Each (message, version) is compiled when first used; its source is in `linecache`.

A field that a version lacks is dropped on encoding and has its default after decoding. A decoder raises
`MalformedMessage` and nothing else, whatever the bytes are, and takes no memory that their number does not justify.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kohort.wire.decoder_source import DecoderSource
from kohort.wire.encoder_source import EncoderSource
from kohort.wire.message import Message, execute, is_present
from kohort.wire.message_schemas import FIXED, Field, Struct
from kohort.wire.primitives import UnencodableMessage, UnsupportedVersion

MessageT = TypeVar("MessageT", bound=Message)

Buffer = bytes | bytearray | memoryview
"""What bytes are read from and written as."""


def encode(message: Message, version: int) -> bytes:
    """Return a message's bytes in a version. Raises `UnsupportedVersion`, `UnencodableMessage`."""
    parts: list[Buffer] = []
    try:
        message.ENCODERS[version](message, parts)
        return b"".join(parts)
    except Exception as error:
        _encode_again(message, version, parts, error)
    return b"".join(parts)


def gather(message: Message, version: int, parts: list[Buffer]) -> None:
    """Add a message's buffers to a list; record batches by reference. Raises as `encode` does."""
    try:
        message.ENCODERS[version](message, parts)
    except Exception as error:
        _encode_again(message, version, parts, error)


def decode(cls: type[MessageT], version: int, buffer: Buffer, position: int = 0) -> tuple[MessageT, int]:
    """Read a message; return it and the position after it. Raises `UnsupportedVersion`, `MalformedMessage`.

    `records` fields are views of `buffer`, whatever buffer it is; all other values are copies.
    """
    read = cls.DECODERS.get(version) or decoder(cls, version)
    return read(buffer, position)


def _encode_again(message: Message, version: int, parts: list[Buffer], error: Exception) -> None:
    """Encode in a version that is not compiled yet, or raise an error that names the field."""
    if isinstance(error, KeyError) and version not in message.ENCODERS:
        gatherer(message.__class__, version)
        gather(message, version, parts)
        if all(isinstance(part, Buffer) for part in parts):
            return
    raise UnencodableMessage(f"v{version}: {find_fault(message, version) or error}") from error


def gatherer(cls: type[MessageT], version: int) -> Callable[[MessageT, list[Buffer]], None]:
    """Return the compiled encoder, which adds a message's buffers to a list and checks nothing.

    Raises `UnsupportedVersion`; the function itself raises whatever a field of the wrong type leads to.
    """
    found = cls.ENCODERS.get(version)
    if found is None:
        found = cls.ENCODERS[version] = _compile(cls, version, "encode")
    return found


def decoder(cls: type[MessageT], version: int) -> Callable[[Buffer, int], tuple[MessageT, int]]:
    """Return the compiled decoder, which is what `decode` calls. Raises `UnsupportedVersion`."""
    found = cls.DECODERS.get(version)
    if found is None:
        found = cls.DECODERS[version] = _compile(cls, version, "decode")
    return found


def stepwise_decoder(
    cls: type[MessageT], version: int
) -> Callable[[Buffer, int, int], Generator[int, None, tuple[MessageT, int]]]:
    """Compile a decoder that does a step for each entry of a list, given a limit of entries.

    A step raises `MalformedMessage`, as `TooManyEntries` where the message has more of them.
    """
    return _compile(cls, version, "decode", is_stepwise=True)  # type: ignore[no-any-return]


def stepwise_gatherer(
    cls: type[MessageT], version: int
) -> Callable[[MessageT, list[Buffer]], Generator[int, None, None]]:
    """Compile an encoder as `gatherer` does, which does a step for each entry of a list."""
    return _compile(cls, version, "encode", is_stepwise=True)  # type: ignore[no-any-return]


def _compile(cls: type[Message], version: int, verb: str, *, is_stepwise: bool = False) -> Any:
    if version not in cls.VERSIONS:
        raise UnsupportedVersion(f"{cls.__name__} has the versions {cls.VERSIONS}, not {version}")
    source: DecoderSource | EncoderSource
    if verb == "decode":
        source = DecoderSource(cls.SCHEMA, version, cls, is_stepwise=is_stepwise)
    else:
        source = EncoderSource(cls.SCHEMA, version, is_stepwise=is_stepwise)
    steps = " in steps" if is_stepwise else ""
    execute(source.text, f"<kohort.wire {cls.__name__} v{version} {verb}{steps}>", source.namespace)
    return source.namespace[verb]


# -- the field by which a message cannot be encoded: looked for only after encoding has failed


def find_fault(message: Message, version: int) -> str | None:
    """Return the first field that does not fit its type in a version, as `path: what is wrong`, or None."""
    return _struct_fault(message.SCHEMA.struct, message, type(message).__name__, version)


def _struct_fault(shape: Struct, value: Any, path: str, version: int) -> str | None:
    for field in shape.fields:
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
    try:
        struct.pack(f">{FIXED[element]}", value)
    except struct.error:
        return f"{where}: {value} does not fit {element}"
    return None


def _text_fault(value: Any, where: str) -> str | None:
    if not isinstance(value, str):
        return f"{where}: a str is wanted, not {type(value).__name__}"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"{where}: {error}"
    return None
