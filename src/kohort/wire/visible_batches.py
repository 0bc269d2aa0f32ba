"""Record batches of a fetched buffer that a reader of an isolation level may see (KIP-98)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.wire.compression import CompressionUnavailable
from kohort.wire.record_batches import (
    BatchHeader,
    ControlType,
    CorruptBatch,
    check_batch,
    control_type,
    decode_batch,
    iter_batches,
)


class RawBatch(NamedTuple):
    """One record batch as it came."""

    header: BatchHeader
    view: memoryview


class VisibleBatches(NamedTuple):
    """What a reader may see of a fetched buffer. `whole` spans `raw` where nothing between them is hidden.

    `next_offset` is the first offset that is still to be read; `fault` is why the bytes behind it cannot be.
    """

    raw: list[RawBatch]
    whole: memoryview | None
    next_offset: int
    fault: CorruptBatch | None = None


def visible_batches(
    records: memoryview,
    fetch_offset: int,
    aborted: Sequence[tuple[int, int]] | None,
    *,
    stop: int | None = None,
    check_crcs: bool = True,
    shows_control: bool = False,
) -> VisibleBatches:
    """Return the record batches of a fetched buffer that a reader may see.

    `aborted` are the (producer id, first offset) of aborted transactions, None for a reader that sees uncommitted
    records. Control batches are seen with `shows_control` only (KIP-98). What comes before a fault is returned with it;
    `stop` is the offset that no record reaches. The CRCs of batches that are not shown are checked here.
    """
    raw: list[RawBatch] = []
    next_offset = fetch_offset
    upcoming = sorted(aborted or (), key=lambda entry: entry[1])
    aborting: set[int] = set()
    at = position = start = end = 0
    fault: CorruptBatch | None = None
    try:
        for header, view in iter_batches(records):
            begin, position = position, position + len(view)
            base_offset, last_offset = header.base_offset, header.last_offset
            if last_offset < fetch_offset and next_offset == fetch_offset:
                continue
            if base_offset > last_offset or last_offset < next_offset or (stop is not None and last_offset >= stop):
                raise CorruptBatch(f"a batch declares the offsets {base_offset} to {last_offset}")
            while at < len(upcoming) and upcoming[at][1] <= last_offset:
                aborting.add(upcoming[at][0])
                at += 1
            is_hidden = header.is_control and not shows_control
            if is_hidden or (header.is_transactional and header.producer_id in aborting):
                if check_crcs:
                    check_batch(view)
                if header.is_control and header.producer_id in aborting and _ends_by_abort(view):
                    aborting.discard(header.producer_id)
            else:
                start = begin if not raw else start
                end = position
                raw.append(RawBatch(header, view))
            next_offset = last_offset + 1
    except (CorruptBatch, CompressionUnavailable) as error:
        fault = CorruptBatch(error.text)
    is_whole = raw and sum(len(view) for _, view in raw) == end - start
    return VisibleBatches(raw, records[start:end] if is_whole else None, next_offset, fault)


def _ends_by_abort(view: memoryview) -> bool:
    """Return whether a control batch aborts a transaction; a cleaner may have left it without its record."""
    return any(control_type(record) is ControlType.ABORT for record in decode_batch(view))
