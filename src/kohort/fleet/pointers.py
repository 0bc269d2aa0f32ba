"""Bare pointers for compiled functions: numba counts references whenever an array is handed on, which costs more than a
record. An address comes from `array.ctypes.data`, and whoever takes it keeps the array alive and its bounds.
"""

from __future__ import annotations

from typing import Any

import numba
import numba.extending


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
