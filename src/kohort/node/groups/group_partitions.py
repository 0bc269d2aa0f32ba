"""In which partition of `__consumer_offsets` each group is, remembered for those that were asked for lately."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.model.ids import LONGEST_CACHED_NAME, group_partition
from kohort.node.groups.offsets_partition import OffsetsPartition

MOST_GROUPS = 100_000
"""How many group ids are remembered."""


class GroupPartitions(dict[str, OffsetsPartition]):
    """The partition by group id, found when it is asked for; there have to be `partitions` by then.

    Of long ids only the last is remembered: to hash one of 32 KiB takes milliseconds, and a request asks several times.
    """

    def __init__(self, partitions: Sequence[OffsetsPartition]) -> None:
        super().__init__()
        self._partitions = partitions
        self._last_long: tuple[str, OffsetsPartition] | None = None

    def __missing__(self, group_id: str) -> OffsetsPartition:
        if self._last_long is not None and self._last_long[0] == group_id:
            return self._last_long[1]
        found = self._partitions[group_partition(group_id, len(self._partitions))]
        if len(group_id) > LONGEST_CACHED_NAME:
            self._last_long = group_id, found
        else:
            if len(self) >= MOST_GROUPS:
                self.clear()
            self[group_id] = found
        return found
