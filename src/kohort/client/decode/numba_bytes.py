"""Building blocks of code compiled by numba: the decorator with a cache, bare pointers to bytes, varints.

Bytes are reached through bare pointers, because numba counts references whenever an array is handed on, which costs
more than a record. Nothing checks bounds: every caller compares with an end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba.extending
import numpy

_Function = TypeVar("_Function", bound=Callable[..., Any])

np: Any = numpy
_63_BITS = (1 << 63) - 1


def compiled(inline: str = "never") -> Callable[[_Function], _Function]:
    """Return numba's decorator, with a cache on disk where one can be written."""

    def decorate(function: _Function) -> _Function:
        try:
            return numba.njit(nogil=True, cache=True, inline=inline)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # neither beside this file nor in the user's directory can a cache be written
            return numba.njit(nogil=True, inline=inline)(function)  # type: ignore[no-any-return]

    return decorate


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
            return ((value >> 1) & _63_BITS) ^ -(value & 1), at + 1
        shift += 7
    return 0, -1
