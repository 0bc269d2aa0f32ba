"""Which of a log's oldest segments its retention settings give up. Whole segments only, as in Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.log.log_config import LogConfig
from kohort.log.segment import Segment


def segments_to_delete(segments: Sequence[Segment], config: LogConfig, high_watermark: int, now_ms: int) -> int:
    """Return how many of the first segments go: too old, or more than `retention_bytes` without them.

    Nothing above the high watermark goes, nor an empty active segment. All of them means that the active one is full
    of records that are too old.
    """
    if not config.deletes or not segments:
        return 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes if config.retention_bytes >= 0 else 0
    count = 0
    for at, segment in enumerate(segments):
        is_active = at == len(segments) - 1
        if segment.size == 0 and is_active:
            break
        if not is_active and segments[at + 1].base_offset > high_watermark:
            break
        excess -= segment.size
        if not _is_old(segment, config, now_ms) and (excess < 0 or config.retention_bytes < 0):
            break
        count += 1
    return count


def _is_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    if config.retention_ms < 0:
        return False
    timestamp, _offset = segment.max_timestamp
    # Records without a time are as old as nobody knows: they are kept.
    return timestamp >= 0 and now_ms - timestamp > config.retention_ms
