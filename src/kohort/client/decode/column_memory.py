"""Memory for Arrow columns that is reused as soon as the columns before are freed.

New memory costs a page fault for every 4 KiB, which is more than the decoding of what is put there. A block
is free when the references to it that are counted are ours alone, so columns may live as long as one likes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy

np: Any = numpy

ALIGNED = 64
"""Arrow asks for columns that begin at multiples of this."""

_LARGEST = 16 << 20
_MOST_BLOCKS = 4
_SMALLEST = 1 << 16


class ColumnMemory(threading.local):
    """A few blocks for each thread; what is larger than 16 MiB is never reused."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []

    def room(self, size: int) -> Callable[[int, Any], Any]:
        """Return a function that hands out aligned arrays `(bytes, type)`, `size` bytes in all."""
        block = self._block(size)
        begin = -block.ctypes.data % ALIGNED
        used = 0

        def take(length: int, kind: Any) -> Any:
            nonlocal used
            start = begin + used
            used = (used + length + ALIGNED - 1) & -ALIGNED
            part = block[start : start + length]
            assert part.nbytes == length, "a room has as many bytes as were requested"
            return part.view(kind)

        return take

    def _block(self, size: int) -> Any:
        for block, references in zip(self._blocks, _references(self._blocks), strict=True):
            # Not one that is much too large either: it would be occupied by a few rows.
            if size <= block.nbytes <= 4 * size + _SMALLEST and references == _NONE_BUT_OURS:
                return block
        if size > _LARGEST:
            return np.empty(size, np.uint8)
        block = np.empty(max(_SMALLEST, 1 << (size - 1).bit_length()), np.uint8)
        self._blocks.append(block)
        del self._blocks[:-_MOST_BLOCKS]
        return block


def _references(blocks: list[Any]) -> list[int]:
    """Return how many references there are to each block, with those that the counting itself takes."""
    return [sys.getrefcount(block) for block in blocks]


_NONE_BUT_OURS = _references([np.empty(1, np.uint8)])[0]
"""Measured, because interpreters differ in what they count of their own."""
