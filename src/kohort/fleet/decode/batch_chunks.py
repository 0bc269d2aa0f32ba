"""Valid batches of a log as chunks of uncompressed records; broken bytes go into quarantine.

After a broken batch reading continues at its end where its length is plausible, else at the next bytes that form a
batch with a correct CRC. Compressed batches are unpacked here. A chunk is small enough for the processor's cache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy

from kohort.fleet.decode import batch_scanner as walking
from kohort.fleet.decode.batch_scanner import (
    AT,
    ATTRIBUTES,
    BASE,
    BATCH_FIELDS,
    CODEC,
    CONTROL,
    COUNT,
    DELTA,
    END,
    PRODUCER,
    START,
)
from kohort.fleet.decode.quarantine import Fault, Quarantine
from kohort.wire.compression import Compression, CorruptCompression, decompress
from kohort.wire.record_batches import MAX_UNPACKED_BYTES

np: Any = numpy

CHUNK_BYTES: Final = 1 << 20
_MOST_BATCHES: Final = 1 << 15
_MOST_UNPACKED: Final = 64 << 20

_REASONS: Final = {
    walking.SHORT: "{rest} bytes at the end are too few for a batch header",
    walking.OLD_MAGIC: "a message of format v{magic}, which brokers before 0.11 wrote; only record batches are read",
    walking.NO_MAGIC: "magic {magic}: this is no record batch",
    walking.NO_LENGTH: "a batch length of {length} is less than a header",
    walking.CUT_OFF: "the file ends inside a batch, after {rest} of {whole} bytes",
    walking.TOO_LARGE: "a batch of {whole} bytes, larger than any that is read",
    walking.WRONG_CRC: "wrong CRC in the batch",
    walking.WRONG_COUNT: "the batch header has a count of {count} records, too many for its offsets or its size",
    walking.WRONG_OFFSET: "a batch at offset {base}",
    walking.WRONG_CODEC: "unknown compression {codec}",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Batches (rows of `batch_scanner.py`) and the bytes in which their records lie, none of them compressed."""

    source: Any
    batches: Any


class Outcomes:
    """Outcomes of the transactions in a stretch of a log, by its markers; scanned when first needed."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def of(self, producer: int, offset: int) -> int:
        """Return the outcome of a producer's write at an offset: 1 committed, 0 aborted, -1 without a marker."""
        offsets, kinds = self._ends.get(producer, ([], []))
        index = bisect_left(offsets, offset)
        return kinds[index] if index < len(offsets) else -1

    @cached_property
    def _ends(self) -> dict[int, tuple[list[int], list[int]]]:
        """The offsets and kinds of markers, by producer."""
        source = self._source
        ends: dict[int, tuple[list[int], list[int]]] = {}
        room, at, end, last = np.empty((4096, 3), np.int64), 0, len(source), 0
        while at < end:
            count, at, why = walking.markers(source.ctypes.data, at, end, room)
            for producer, offset, kind in room[:count].tolist():
                offsets, kinds = ends.setdefault(producer, ([], []))
                offsets.append(offset)
                kinds.append(kind)
                last = offset
            if why:
                at = _behind_fault(source, at, end, why, last)
        return ends


class Cutter:
    """Cuts bytes that lie at `position` of their file into chunks. `next_offset` is that after the last valid batch."""

    def __init__(self, wanted: tuple[int, int], quarantine: Quarantine, *, position: int | None = 0) -> None:
        self.next_offset = wanted[0]
        self._wanted = wanted
        self._quarantine = quarantine
        self._position = position

    def chunks(self, source: Any) -> Iterator[Chunk]:
        """Yield the chunks of a stretch of bytes; call it again with those that follow, cut between two batches."""
        end = len(source)
        address = source.ctypes.data
        room = np.empty((min(_MOST_BATCHES, end // walking.HEADER + 1), BATCH_FIELDS), np.int64)
        at = 0
        while at < end:
            count, at, why = walking.walk(address, at, end, self._wanted, room, CHUNK_BYTES, True)
            if count:
                batches = room[:count].copy()
                self.next_offset = max(self.next_offset, int((batches[:, BASE] + batches[:, DELTA]).max()) + 1)
                yield from self._unpacked(source, batches)
            if why:
                at = self._after_fault(source, at, end, why)
        if self._position is not None:
            self._position += end

    def _unpacked(self, source: Any, batches: Any) -> Iterator[Chunk]:
        """Yield batches unchanged, or unpacked where some are compressed."""
        if not (batches[:, ATTRIBUTES] & CODEC).any():
            yield Chunk(source, batches)
            return
        parts: list[bytes] = []
        rows: list[int] = []
        size = 0
        for row, batch in enumerate(batches):
            part = self._records(source, batch)
            if part is None:
                continue
            if size + len(part) > _MOST_UNPACKED and rows:
                yield Chunk(np.frombuffer(b"".join(parts), np.uint8), batches[rows])
                parts, rows, size = [], [], 0
            batches[row, START], batches[row, END] = size, size + len(part)
            parts.append(part)
            rows.append(row)
            size += len(part)
        if rows:
            yield Chunk(np.frombuffer(b"".join(parts), np.uint8), batches[rows])

    def _records(self, source: Any, batch: Any) -> bytes | None:
        records: bytes = source[batch[START] : batch[END]].tobytes()
        codec = int(batch[ATTRIBUTES]) & CODEC
        if not codec:
            return records
        try:
            unpacked = decompress(Compression(codec), records, MAX_UNPACKED_BYTES)
            if batch[COUNT] * walking.LEAST_RECORD <= len(unpacked):
                return unpacked
            # An impossible count: nothing is allocated for it.
            reason, kind = _REASONS[walking.WRONG_COUNT].format(count=int(batch[COUNT])), f"{walking.WRONG_COUNT}"
        except CorruptCompression as corrupt:
            reason, kind = f"the batch does not unpack: {corrupt}", f"{Compression(codec).name} does not unpack"
        sample = source[batch[AT] : batch[AT] + 64].tobytes()
        self._quarantine.add(Fault(reason, self.place(batch[AT]), int(batch[BASE]), sample), kind)
        return None

    def place(self, at: int) -> int | None:
        """Return where bytes of the stretch that is being cut lie in their file."""
        return None if self._position is None else self._position + int(at)

    def _after_fault(self, source: Any, at: int, end: int, why: int) -> int:
        """Put the broken bytes into quarantine; return where reading continues."""
        if not walking.is_zero(source.ctypes.data, at, end):  # zeros are a preallocated tail
            self._quarantine.add(self._fault(source[at : at + 64].tobytes(), at, end, why), f"{why}")
        return _behind_fault(source, at, end, why, self.next_offset)

    def _fault(self, head: bytes, at: int, end: int, why: int) -> Fault:
        base = int.from_bytes(head[:8], "big", signed=True)
        length = int.from_bytes(head[8:12], "big", signed=True)
        reason = _REASONS[why].format(
            rest=end - at,
            whole=length + 12,
            length=length,
            magic=head[16] if len(head) > 16 else None,
            count=int.from_bytes(head[57:61], "big", signed=True),
            base=base,
            codec=head[22] & CODEC if len(head) > 22 else None,
        )
        believable = why >= walking.OLD_MAGIC and 0 <= base < 1 << 62
        return Fault(reason, self.place(at), base if believable else None, head)


def _behind_fault(source: Any, at: int, end: int, why: int, least_offset: int) -> int:
    """Return where reading continues after the broken bytes at a position."""
    address = source.ctypes.data
    if walking.is_zero(address, at, end):
        return end
    following = at
    if why >= walking.TOO_LARGE:
        following = walking.behind(address, at, end)
    elif why == walking.OLD_MAGIC:
        following = walking.old_end(address, at, end)
    if following == at:
        following = walking.next_batch(address, at + 1, end, least_offset)
    return int(following)


def producers(batches: Any, outcomes: Outcomes) -> Any:
    """Return for each batch how its transaction ended: 1 committed, 0 aborted, -1 open, -2 where there is none."""
    ended = np.full(len(batches), -2, np.int64)
    for row in np.flatnonzero(batches[:, ATTRIBUTES] & walking.TRANSACTIONAL).tolist():
        if not int(batches[row, ATTRIBUTES]) & CONTROL:
            ended[row] = outcomes.of(int(batches[row, PRODUCER]), int(batches[row, BASE]))
    return ended
