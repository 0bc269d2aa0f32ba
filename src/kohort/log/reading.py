"""Whole batches out of segments, by offset and without copying.

A reader that goes on where its last read ended needs no look-up: those places are remembered. Everybody else pays a
bisection of the sparse index and a walk over a few headers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kohort.log.segment import Segment

_REMEMBERED = 64


class Reader:
    """Reads the segments of one log, whose list it is given each time."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[Segment, int]] = {}
        """Offset to the position where the batch that holds it begins, or will begin."""

    def forget(self) -> None:
        """Forget all places: segments were added or removed."""
        self._ends.clear()

    def read(
        self,
        segments: Sequence[Segment],
        bases: Sequence[int],
        offset: int,
        limit: int,
        max_bytes: int,
        *,
        is_log_end: bool,
        at_least_one: bool,
    ) -> list[memoryview]:
        """Return batches from the one that holds `offset` up to the offset `limit`, of one segment only.

        `is_log_end` says that nothing lies beyond `limit`.
        """
        found = self._ends.get(offset) or _find(segments, bases, offset)
        if found is None:
            return []
        segment, start = found
        end = segment.size if is_log_end else self._end(segment, limit)
        following = limit
        if end - start > max_bytes:
            step = segment.border(start, start + max_bytes)
            assert step is not None, "where a read ends before its segment does, a batch crosses its end"
            end, following = step.position, step.base_offset
            if end == start:
                if not at_least_one:
                    return []
                end, following = start + step.size, step.last_offset + 1
        if end <= start:
            return []
        if end < segment.size or segment is segments[-1]:
            self._remember(following, segment, end)
        return [segment.log.read(start, end - start)]

    def _end(self, segment: Segment, limit: int) -> int:
        """Return where the batches below the offset `limit` end in a segment."""
        found = self._ends.get(limit)
        if found is not None and found[0] is segment:
            return found[1]
        step = segment.find(limit)
        return segment.size if step is None else step.position

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self._ends) >= _REMEMBERED:
            del self._ends[next(iter(self._ends))]
        self._ends[offset] = segment, position


def _find(segments: Sequence[Segment], bases: Sequence[int], offset: int) -> tuple[Segment, int] | None:
    """Return where the batch lies that holds `offset`, or the first one after it."""
    at = max(bisect_right(bases, offset) - 1, 0)
    for segment in segments[at:]:
        step = segment.find(offset)
        if step is not None:
            return segment, step.position
    return None
