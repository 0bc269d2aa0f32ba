"""How much of a compacted log may be cleaned now, and how much it wants to be: Kafka's rules, in whole segments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from kohort.log.log_config import LogConfig
from kohort.log.segment import Segment


class Cleanable(NamedTuple):
    """What the cleaner could do in one log. Below `first_dirty` it has been; from `end` on it may not go."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether the oldest record that was never cleaned is older than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        """Which part of what may be cleaned is dirty."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_worthwhile(self, min_ratio: float) -> bool:
        """Whether there is enough to do."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > min_ratio)


def cleanable(
    segments: Sequence[Segment], first_dirty: int, high_watermark: int, config: LogConfig, now_ms: int
) -> Cleanable:
    """Return what may be cleaned: never the active segment, and nothing that consumers may not see yet.

    The first segment with a record younger than min.compaction.lag.ms ends it. Raises StorageError.
    """
    if not segments:
        return Cleanable(0, 0, 0, 0, is_overdue=False)
    first_dirty = max(first_dirty, segments[0].base_offset)
    clean_bytes = dirty_bytes = 0
    oldest: Segment | None = None
    end = segments[0].base_offset
    for segment, following in pairwise(segments):
        if following.base_offset > high_watermark:
            break
        end = following.base_offset
        if following.base_offset <= first_dirty:
            clean_bytes += segment.size
            continue
        lag_ms = config.min_compaction_lag_ms
        if lag_ms > 0 and segment.max_timestamp[0] > now_ms - lag_ms:
            end = segment.base_offset
            break
        dirty_bytes += segment.size
        oldest = oldest or segment
    first = oldest.read_first_timestamp() if oldest is not None else None
    is_overdue = first is not None and first >= 0 and now_ms - first > config.max_compaction_lag_ms
    return Cleanable(first_dirty, max(end, first_dirty), clean_bytes, dirty_bytes, is_overdue)


def groups(segments: Sequence[Segment], end: int, max_bytes: int, max_span: int) -> list[list[Segment]]:
    """Return the segments below `end` in runs that make one segment each when cleaned; the last one is active."""
    found: list[list[Segment]] = []
    size = 0
    for segment, following in pairwise(segments):
        if segment.base_offset >= end:
            break
        fits = (
            found and size + segment.size <= max_bytes and following.base_offset - found[-1][0].base_offset < max_span
        )
        if fits:
            found[-1].append(segment)
            size += segment.size
        else:
            found.append([segment])
            size = segment.size
    return found
