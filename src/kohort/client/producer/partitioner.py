"""Partitioner of the producer: by the key as Java's clients choose it, else one partition for a while.

Keyed records go to murmur2 of the key, so Python and Java producers put a key into the same partition. Records
without a key stick to a partition for one batch's worth of bytes (KIP-480, KIP-794), which fills batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kohort.client.cluster.metadata import PartitionView

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=4096)
def murmur2(key: bytes) -> int:
    """Return Java's `Utils.murmur2` of the bytes, as an unsigned 32-bit number."""
    length = len(key)
    code = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        part = (int.from_bytes(key[at : at + 4], "little") * _FACTOR) & _MASK
        part = ((part ^ (part >> 24)) * _FACTOR) & _MASK
        code = ((code * _FACTOR) & _MASK) ^ part
    if whole < length:
        code = ((code ^ int.from_bytes(key[whole:], "little")) * _FACTOR) & _MASK
    code = ((code ^ (code >> 13)) * _FACTOR) & _MASK
    return code ^ (code >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions`, as Java's default partitioner does."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@dataclass(eq=False)
class StickyPartitioner:
    """Where records without a key go, topic by topic. `random` returns numbers in [0, 1)."""

    batch_bytes: int
    random: Callable[[], float]
    _current: dict[str, tuple[int, int]] = field(default_factory=dict)

    def choose(self, topic: str, partitions: Mapping[int, PartitionView], size: int) -> int:
        """Return the partition for a record of `size` bytes, out of those that have a leader if any has."""
        partition, taken = self._current.get(topic, (-1, self.batch_bytes))
        found = partitions.get(partition)
        if taken >= self.batch_bytes or found is None or found.leader < 0:
            available = [number for number, view in partitions.items() if view.leader >= 0] or list(partitions)
            partition, taken = available[int(self.random() * len(available))], 0
        self._current[topic] = (partition, taken + size)
        return partition
