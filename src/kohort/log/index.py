"""The two sparse indexes beside a segment, in Kafka's format: offset to position, and timestamp to offset.

Both are kept whole in memory and written behind the log: a crash may lose their ends, and recovery makes them anew.
They are hints. Their user checks what it finds, and anything but growing entries ends the reading of a file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_IS_LITTLE_ENDIAN = array("h", [1]).tobytes()[0] == 1


class OffsetIndex:
    """Entries (last offset of a batch relative to the segment, position of that batch), both growing."""

    __slots__ = ("offsets", "positions", "saved")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")
        self.saved = 0
        """Entries that the file has."""

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Return the position of a batch that starts at or before the one with this offset."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def border_before(self, position: int) -> int:
        """Return the largest known position of a batch that is at most `position`."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def unsaved(self) -> bytes:
        """Return the entries that the file lacks, as it wants them."""
        start = self.saved
        return b"".join(map(_OFFSET_ENTRY.pack, self.offsets[start:], self.positions[start:]))

    @classmethod
    def parse(cls, content: memoryview, log_size: int) -> OffsetIndex | None:
        """Return the index that a file holds, or None when it cannot be trusted for a log of `log_size` bytes.

        Kafka fills the files of a running broker up with zeros; they end where the entries stop growing.
        """
        index = cls()
        words = array("i", bytes(content[: len(content) // 8 * 8]))
        if _IS_LITTLE_ENDIAN:
            words.byteswap()
        offsets, positions = words[::2], words[1::2]
        count = _growing(offsets, positions)
        if count and (offsets[0] < 0 or positions[0] < 0 or positions[count - 1] >= log_size):
            return None
        if any(offsets[count:]) or any(positions[count:]):
            return None
        index.offsets, index.positions, index.saved = offsets[:count], positions[:count], count
        return index


def _growing(offsets: array[int], positions: array[int]) -> int:
    """How many first entries grow in both columns."""
    last_offset = last_position = -1
    for at, (offset, position) in enumerate(zip(offsets, positions, strict=True)):
        if offset <= last_offset or position <= last_position:
            return at
        last_offset, last_position = offset, position
    return len(offsets)


class TimeIndex:
    """Entries (largest timestamp so far, last relative offset of its batch), timestamps growing."""

    __slots__ = ("offsets", "saved", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")
        self.saved = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, unless its timestamp is not larger."""
        if timestamp < 0 or (self.timestamps and timestamp <= self.timestamps[-1]):
            return
        self.timestamps.append(timestamp)
        self.offsets.append(relative_offset)

    @property
    def last(self) -> tuple[int, int]:
        """The largest timestamp and its batch's last relative offset; (-1, 0) where there is none."""
        return (self.timestamps[-1], self.offsets[-1]) if self.timestamps else (-1, 0)

    def offset_before(self, timestamp: int) -> int:
        """Return a relative offset in the batch, or before it, that first reaches `timestamp`."""
        at = bisect_right(self.timestamps, timestamp)
        return self.offsets[at - 1] if at else 0

    def unsaved(self) -> bytes:
        start = self.saved
        return b"".join(map(_TIME_ENTRY.pack, self.timestamps[start:], self.offsets[start:]))

    @classmethod
    def parse(cls, content: memoryview) -> TimeIndex | None:
        """Return the index that a file holds, or None when it cannot be trusted."""
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(content[: len(content) // 12 * 12]):
            if timestamp <= index.last[0] or offset < 0:
                if timestamp or offset:
                    return None
                break
            index.append(timestamp, offset)
        index.saved = len(index)
        return index
