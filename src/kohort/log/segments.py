"""The segments of one log in order, and who reads them: the only place that adds and removes one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from kohort.log.disk import Disk, StorageError
from kohort.log.reading import Reader
from kohort.log.segment import Segment


class SegmentLeftBehind(StorageError):
    """A segment could be neither made nor taken back: the next open finds it, empty, or does not."""


class Segments(Sequence[Segment]):
    """The segments of a directory, oldest first; the last one is active. `bases` are their base offsets."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._segments: list[Segment] = []
        self.bases: list[int] = []
        self._reader = Reader()

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, at: int) -> Segment: ...

    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...

    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        return self._segments[at]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment:
        """The one that takes appends."""
        return self._segments[-1]

    @property
    def size(self) -> int:
        """Bytes in all of them."""
        return sum(segment.size for segment in self._segments)

    def segment(self, base_offset: int, index_interval_bytes: int) -> Segment:
        """Return a segment of this directory that is not among these yet."""
        return Segment(self._disk, self._directory, base_offset, index_interval_bytes)

    def take(self, bases: Sequence[int], index_interval_bytes: int) -> None:
        """Take up the segments that the directory has."""
        self.bases = list(bases)
        self._segments = [self.segment(base, index_interval_bytes) for base in bases]

    def begin(self, base_offset: int, index_interval_bytes: int, *, durable: bool) -> Segment:
        """Make an empty segment, from now on the active one. Raises StorageError: nothing of it is left.

        Raises SegmentLeftBehind where its file may be there and could not be taken back.
        """
        segment = self.segment(base_offset, index_interval_bytes)
        segment.create()
        if durable:
            try:
                self._disk.flush_directory(self._directory)
            except StorageError:
                _take_back(segment)
                raise
        self._segments.append(segment)
        self.bases.append(segment.base_offset)
        self._reader.forget()  # the end of the one before it is where nobody reads on
        return segment

    def remove_first(self) -> Segment:
        """Take the oldest out, and return it; its files are the caller's to remove."""
        segment = self._segments[0]
        self._segments, self.bases = self._segments[1:], self.bases[1:]
        self._reader.forget()
        return segment

    def remove_last(self) -> Segment:
        """Take the newest out, and return it; its files are the caller's to remove."""
        segment = self._segments[-1]
        self._segments, self.bases = self._segments[:-1], self.bases[:-1]
        self._reader.forget()
        return segment

    def replace(self, first: int, count: int, segment: Segment) -> None:
        """Put one segment in the place of `count`, whose files are gone."""
        for old in self._segments[first : first + count]:
            old.close()
        self._segments = [*self._segments[:first], segment, *self._segments[first + count :]]
        self.bases = [each.base_offset for each in self._segments]
        self._reader.forget()

    def close(self) -> None:
        """Let go of all files."""
        for segment in self._segments:
            segment.close()
        self._reader.forget()

    def clear(self) -> None:
        """Let go of all files and forget the segments."""
        self.close()
        self._segments, self.bases = [], []

    def at(self, offset: int) -> int:
        """Return which segment would hold an offset."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def read(
        self, offset: int, limit: int, max_bytes: int, *, is_log_end: bool, at_least_one: bool
    ) -> list[memoryview]:
        """Return batches from the one that holds `offset` up to `limit`, of one segment only (see `Reader`)."""
        return self._reader.read(
            self._segments, self.bases, offset, limit, max_bytes, is_log_end=is_log_end, at_least_one=at_least_one
        )


def _take_back(segment: Segment) -> None:
    try:
        segment.remove()
    except StorageError as error:
        raise SegmentLeftBehind(error.errno, error.strerror, error.filename) from error
