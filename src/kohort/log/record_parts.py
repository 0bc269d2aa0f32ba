"""The parts that the records of `__consumer_offsets` have in common: how a key and a value begin, and their texts."""

from __future__ import annotations

from struct import Struct

from kohort.model.cause import Cause, CauseKind
from kohort.wire.codec import MalformedMessage

LOADED = Cause(CauseKind.COORDINATOR_LOADED, -1)
"""Why something happened that only the log knows of."""

_SHORT = Struct(">h")
short = _SHORT.pack


def text(content: str) -> bytes:
    """Return a text as keys hold it: length, then UTF-8. Raises struct.error, UnicodeEncodeError."""
    octets = content.encode()
    return short(len(octets)) + octets


def read_text(key: bytes, position: int) -> tuple[str, int]:
    """Read a text of a key; return it and the position after it. Raises MalformedMessage."""
    if len(key) < position + 2:
        raise MalformedMessage("the key ends in the middle of a name")
    (length,) = _SHORT.unpack_from(key, position)
    end = position + 2 + length
    if length < 0 or end > len(key):
        raise MalformedMessage("the key ends in the middle of a name")
    try:
        return key[position + 2 : end].decode(), end
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a name is not UTF-8: {error}") from error


def read_version(value: bytes, newest: int) -> int:
    """Return the version of a value, which must be one that is known. Raises MalformedMessage."""
    if len(value) < 2:
        raise MalformedMessage("the value ends before its version")
    (version,) = _SHORT.unpack_from(value)
    if not 0 <= version <= newest:
        raise MalformedMessage(f"value version {version} is not known, {newest} is the newest")
    return int(version)
