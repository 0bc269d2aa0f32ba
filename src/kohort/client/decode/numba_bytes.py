"""Building blocks of code compiled by numba: the decorator with a cache, bare pointers to bytes, varints, records.

Bytes are reached through bare pointers, because numba counts references whenever an array is handed on, which costs
more than a record. Nothing checks bounds: every caller compares with an end.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba.extending
import numpy

_Function = TypeVar("_Function", bound=Callable[..., Any])

np: Any = numpy
_63_BITS = (1 << 63) - 1


def compiled(inline: str = "never") -> Callable[[_Function], _Function]:
    """Return numba's decorator, with a cache on disk where one can be written.

    A function is compiled anew where its module has changed, or a constant or a compiled function that it uses: numba
    itself compares its module alone.
    """

    def decorate(function: _Function) -> _Function:
        try:
            found: Any = numba.njit(nogil=True, cache=True, inline=inline)(function)
        except RuntimeError:  # neither beside this file nor in the user's directory can a cache be written
            return numba.njit(nogil=True, inline=inline)(function)  # type: ignore[no-any-return]
        file = found._cache._cache_file
        file._source_stamp = found.stamp = _stamp(function, file._source_stamp)
        return found  # type: ignore[no-any-return]

    return decorate


def _stamp(function: Callable[..., Any], own: object) -> bytes:
    """Return a digest of the stamp of a function's module, and of the constants and compiled functions that it uses.

    Pointers have no stamp: here that of `varint` stands for them, which is in their module.
    """
    used = [globals().get("varint"), *map(function.__globals__.get, function.__code__.co_names)]
    parts = [each if isinstance(each, int | tuple | np.ndarray) else getattr(each, "stamp", None) for each in used]
    return hashlib.sha256(pickle.dumps((own, parts))).digest()


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def bytes_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the bytes at an address."""
    return _pointer(numba.types.uint8)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def ends_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the int32 at an address."""
    return _pointer(numba.types.int32)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def numbers_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the int64 at an address."""
    return _pointer(numba.types.int64)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def floats_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the float32 at an address."""
    return _pointer(numba.types.float32)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def doubles_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the float64 at an address."""
    return _pointer(numba.types.float64)


def _pointer(kind: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return numba.types.CPointer(kind)(numba.types.int64), generate


@compiled(inline="always")
def varint(source: Any, at: int, end: int) -> tuple[int, int]:
    """Return a zigzag varint and the position behind it, which is -1 when the bytes end before it does."""
    if at >= end:
        return 0, -1
    byte = np.int64(source[at])
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 127
    shift = 7
    while shift < 70:
        at += 1
        if at >= end:
            return 0, -1
        byte = np.int64(source[at])
        value |= (byte & 127) << shift
        if byte < 128:
            if shift == 63 and byte > 1:
                return 0, -1
            return ((value >> 1) & _63_BITS) ^ -(value & 1), at + 1
        shift += 7
    return 0, -1


@compiled(inline="always")
def record_frame(source: Any, at: int, end: int, last_delta: int) -> tuple[int, int, int, int, int, int, int, int]:
    """Read the record that begins at a position, up to its headers, and check it against its bounds.

    Returns timestamp delta, offset delta, key length and start, value length and start, the record's end, and the
    number of its fault in `record_spans.FAULTS`, or 0.
    """
    # No parameter is assigned to: inlined, that could change the caller's variable.
    length, begin = varint(source, at, end)
    if begin < 0:
        return 0, 0, 0, 0, 0, 0, 0, 2
    if length < 1 or length > end - begin:
        return 0, 0, 0, 0, 0, 0, 0, 1
    stop = begin + length
    timestamp_delta, offset_at = varint(source, begin + 1, stop)
    if offset_at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 2
    offset_delta, length_at = varint(source, offset_at, stop)
    if length_at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 2
    if offset_delta < 0 or offset_delta > last_delta:
        return 0, 0, 0, 0, 0, 0, 0, 3
    key_length, key_at = varint(source, length_at, stop)
    if key_at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 2
    if key_length > stop - key_at:
        return 0, 0, 0, 0, 0, 0, 0, 4
    value_length, value_at = varint(source, key_at + max(key_length, 0), stop)
    if value_at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 2
    if value_length > stop - value_at:
        return 0, 0, 0, 0, 0, 0, 0, 5
    return timestamp_delta, offset_delta, key_length, key_at, value_length, value_at, stop, 0


@compiled()
def is_utf8(source: Any, at: int, end: int) -> bool:
    """Return whether bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF."""
    while at < end:
        first = source[at]
        if first < 0x80:
            at += 1
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if end - at <= more:
            return False
        second = source[at + 1]
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for index in range(2, more + 1):
            if source[at + index] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True
