"""Which records of a partition have finished, though not in order, which wait for an attempt, and how commits list it.

A commit is the lowest unfinished offset; its metadata lists the finished offsets above it, so the next owner of the
partition skips them. The text is printable, since tools show it: `kohort1:` and base64 (URL alphabet, no padding) of
varints: the committed offset, then the lengths of runs of offsets from it on, unfinished and finished in turn; then
what waits, if it fits: a full stop and base64 of a time in seconds, and for each record the offsets since the one
before, twice its attempts and whether its lane waits too, and the seconds after that time. The law: an offset is listed
only if its record has finished; one without a record (compacted, a marker) has, once what follows it is read.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

PREFIX = "kohort1:"
METADATA_BYTES = 4_096
"""The default of a broker's `offset.metadata.max.bytes`."""

_MOST_RUNS = 10_000
"""More than fit into any metadata of 4,096 bytes: what claims more is invalid."""


class Waiting(NamedTuple):
    """A record that has failed. `due_ms` is when its next attempt is due, `has_lane` whether its lane waits for it."""

    attempts: int
    due_ms: int
    has_lane: bool


class NotRuns(ValueError):
    """A commit's metadata that is no list of finished offsets of this version, or belongs to another offset."""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
        elif shift > 63:
            raise NotRuns("a number is longer than 64 bits")
    if shift:
        raise NotRuns("the last number is cut off")


def metadata_of(
    offset: int, finished: Iterable[range], limit: int = METADATA_BYTES, waiting: Mapping[int, Waiting] | None = None
) -> str:
    """Return the metadata of a commit at `offset`: as many of the finished ranges above it, in order, as fit.

    Behind them is what waits, as far as there is room. `limit` is in bytes. Where nothing fits, the text is empty.
    """
    data, at = _varint(offset), offset
    fits = (limit - len(PREFIX)) * 3 // 4
    is_empty = True
    for run in finished:
        more = _varint(run.start - at) + _varint(len(run))
        if len(data) + len(more) > fits:
            break
        data += more
        at, is_empty = run.stop, False
    text = PREFIX + _text_of(data)
    if waiting and (behind := _waiting_text(offset, waiting, limit - len(text) - 1)):
        return f"{text}.{behind}"
    return "" if is_empty else text


def _waiting_text(offset: int, waiting: Mapping[int, Waiting], limit: int) -> str:
    due_s = {at: -(-each.due_ms // 1000) for at, each in waiting.items()}
    first_s, before = min(due_s.values()), offset
    data, fits, is_empty = _varint(first_s), limit * 3 // 4, True
    for at, each in sorted(waiting.items()):
        more = _varint(at - before) + _varint(2 * each.attempts + each.has_lane) + _varint(due_s[at] - first_s)
        if len(data) + len(more) > fits:
            break
        data, before, is_empty = data + more, at, False
    return "" if is_empty else _text_of(data)


def waiting_of(offset: int, metadata: str) -> dict[int, Waiting]:
    """Return the records that wait for an attempt at a committed offset, by their offsets. Raises `NotRuns`."""
    if not (text := metadata.removeprefix(PREFIX).partition(".")[2]):
        return {}
    first_s, *numbers = _numbers_of(text) or [0, 0]
    if len(numbers) % 3:
        raise NotRuns("what waits is cut off")
    found: dict[int, Waiting] = {}
    for since, attempts, after_s in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        offset += since
        found[offset] = Waiting(attempts // 2, (first_s + after_s) * 1000, bool(attempts % 2))
    return found


def finished_of(offset: int, metadata: str) -> list[range]:
    """Return the finished ranges above a committed offset that its metadata lists. Raises `NotRuns`."""
    if not metadata.startswith(PREFIX):
        raise NotRuns("it was not written by this client, or by another version of it")
    numbers = _numbers_of(metadata.removeprefix(PREFIX).partition(".")[0])
    if not numbers or numbers[0] != offset:
        raise NotRuns(f"it belongs to offset {numbers[0] if numbers else 'none'}, not to {offset}")
    if len(numbers) % 2 == 0 or len(numbers) > _MOST_RUNS or 0 in numbers[2:]:
        raise NotRuns("its runs are not unfinished and finished in turn")
    found, at = [], offset
    for unfinished, finished in zip(numbers[1::2], numbers[2::2], strict=True):
        found.append(range(at + unfinished, at + unfinished + finished))
        at += unfinished + finished
    if at >= 2**63:
        raise NotRuns("its runs end behind the largest offset")
    return found


def shortened(offset: int, metadata: str, limit: int) -> str:
    """Return the metadata of a commit at `offset` cut to at most `limit` bytes. Raises `NotRuns`."""
    return metadata_of(offset, finished_of(offset, metadata), limit, waiting_of(offset, metadata))


def _text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _numbers_of(text: str) -> list[int]:
    try:
        data = b64decode((text + "=" * (-len(text) % 4)).encode("ascii"), altchars=b"-_", validate=True)
    except ValueError as error:
        raise NotRuns(f"it is not base64: {error}") from None
    return list(_varints(data))


class FinishedOffsets:
    """The unfinished records of one partition, and by them the finished ones.

    `next_offset` is behind the last record that was taken. What a former owner finished above it is in `_ahead`.
    `waiting` are the unfinished records that have failed, by their offsets. While `is_full`, no more may be taken.
    """

    def __init__(
        self,
        offset: int,
        finished: Iterable[range] = (),
        limit: int = METADATA_BYTES,
        waiting: Mapping[int, Waiting] | None = None,
    ) -> None:
        self.next_offset = offset
        self.waiting = dict(waiting or {})
        self.is_full = False
        self.limit = limit
        self._open: dict[int, None] = {}
        self._ahead = list(finished)

    def take(self, offsets: Iterable[int], next_offset: int) -> list[int]:
        """Take the records at ascending `offsets`, all below `next_offset`; return those that have not finished yet."""
        taken: list[int] = []
        ahead = iter(self._ahead)
        skipped = next(ahead, None)
        for offset in offsets:
            while skipped is not None and skipped.stop <= offset:
                skipped = next(ahead, None)
            if skipped is None or offset < skipped.start:
                taken.append(offset)
        self._ahead = [run for run in self._ahead if run.stop > next_offset]
        self._open.update(dict.fromkeys(taken))
        self.next_offset = next_offset
        return taken

    def finish(self, offset: int) -> None:
        """Count the record at `offset` as finished."""
        del self._open[offset]
        if self.waiting:
            self.waiting.pop(offset, None)

    @property
    def unfinished(self) -> int:
        """How many records that were taken have not finished."""
        return len(self._open)

    @property
    def offset(self) -> int:
        """What to commit: the lowest unfinished offset."""
        return next(iter(self._open), self.next_offset)

    def finished(self) -> Iterator[range]:
        """Yield the finished ranges above `offset`, in order."""
        start = None
        for low, high in pairwise([*self._open, self.next_offset]):
            if high > low + 1:
                start = low + 1
                if high == self.next_offset:
                    break
                yield range(start, high)
                start = None
        for run in self._ahead:
            # The last run of what was taken, and what a former owner finished behind it, may be one.
            if run.start <= self.next_offset:
                yield range(self.next_offset if start is None else start, run.stop)
                start = None
            else:
                if start is not None:
                    yield range(start, self.next_offset)
                    start = None
                yield run
        if start is not None:
            yield range(start, self.next_offset)

    def metadata(self) -> str:
        """Return the metadata of a commit at `offset`; `limit` 0 leaves it empty."""
        return metadata_of(self.offset, self.finished(), self.limit, self.waiting)

    def lower_limit(self, refused: int) -> bool:
        """Halve `limit` because the broker refused metadata of `refused` bytes; return whether it fell.

        A commit whose metadata was written before the limit fell shows nothing new.
        """
        if refused > self.limit:
            return False
        self.limit //= 2
        return True

    @property
    def room(self) -> int:
        """How many more records may be taken so that whatever finishes next, the finished ones fit into a commit.

        Behind each of n unfinished records begins at most one run of finished ones. A run of k takes at most
        1 + k / 128 bytes, and no more than the whole span takes. Where commits take no metadata, nothing needs room.
        """
        if self.is_full:
            return 0
        if not self.limit:
            return _MOST_RUNS
        fits = (self.limit - len(PREFIX)) * 3 // 4 - len(_varint(self.offset))
        span = self.next_offset - self.offset + sum(map(len, self._ahead))
        by_width = fits // (2 * len(_varint(span + fits)))
        by_span = (fits - span // 128) * 128 // 257
        return max(0, max(by_width, by_span) - len(self._open) - len(self._ahead))
