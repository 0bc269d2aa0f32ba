"""Where a consumer begins to read a partition: the group's committed offset, else what `auto_offset_reset` says.

One background task looks positions up, all that are missing at once, and tries again what may pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from kohort.client.cluster.retry import is_worth_a_retry
from kohort.client.consumer.partition_state import TrackedPartition
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

Committed = Callable[[Iterable[TopicPartition]], Awaitable[dict[TopicPartition, OffsetAndMetadata]]]

_POLICIES = {"earliest": EARLIEST, "latest": LATEST, "none": None}


def reset_policy(name: str) -> int | None:
    """Return the timestamp that `auto_offset_reset` stands for, None for "none". Raises ValueError."""
    try:
        return _POLICIES[name]
    except KeyError:
        raise ValueError(f"auto_offset_reset={name!r} is not 'earliest', 'latest' or 'none'") from None


class Positions:
    """Gives a position to every partition in `tracked` that has none.

    `found` is called when some got theirs, `moved` for each: the partition, the offset, and why that one.
    """

    def __init__(
        self,
        cluster: Cluster,
        tracked: Callable[[], Collection[TrackedPartition]],
        committed: Committed | None,
        *,
        policy: int | None,
        isolation: int,
        found: Callable[[], None],
        moved: Callable[[TopicPartition, int, str], None] = lambda *_: None,
    ) -> None:
        self._cluster = cluster
        self._tracked = tracked
        self._committed = committed
        self._policy = policy
        self._isolation = isolation
        self._found = found
        self._moved = moved
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Look for partitions without a position."""
        self._wanted.set()

    async def run(self) -> None:
        """Look positions up until cancelled."""
        waits = self._cluster.waits()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            missing = [entry for entry in self._tracked() if _is_missing(entry) and entry.error is None]
            if not missing:
                continue
            try:
                await self._look_up(missing)
                waits.reset()
            except KafkaError as error:
                if is_worth_a_retry(error):
                    log.info("positions are looked up again: %s", error)
                    self._wanted.set()
                    await asyncio.sleep(waits.next_s())
                else:
                    for entry in missing:
                        entry.error = entry.error or error
            self._found()

    async def _look_up(self, missing: list[TrackedPartition]) -> None:
        """Try the committed offsets, then the beginning or end, of partitions that nobody moved meanwhile."""
        asked = {entry.partition: (entry, entry.moves) for entry in missing}
        fresh = [entry.partition for entry in missing if not entry.is_reset_due]
        committed = await self._committed(fresh) if self._committed is not None and fresh else {}
        to_list: dict[TopicPartition, int] = {}
        for partition, (entry, moves) in asked.items():
            if entry.moves != moves:
                continue
            if (offset := committed.get(partition)) is not None:
                entry.move(offset.offset)
                self._moved(partition, offset.offset, "committed")
                entry.leader_epoch = entry.consumed_epoch = offset.leader_epoch
                entry.committed = offset.offset
                asked[partition] = (entry, entry.moves)
                continue
            timestamp = entry.reset_to if entry.is_reset_due else self._policy
            if timestamp is None:
                text = (
                    f"{partition} has no committed offset and auto_offset_reset is 'none': commit one, seek, or set"
                    " auto_offset_reset to 'earliest' or 'latest'"
                )
                entry.error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            else:
                to_list[partition] = timestamp
        if not to_list:
            return
        ends = await list_offsets(self._cluster, to_list, isolation=self._isolation)
        for partition in to_list:
            entry, moves = asked[partition]
            end = ends.get(partition)
            if entry.moves == moves and end is not None:
                entry.move(end.offset)
                self._moved(partition, end.offset, "reset")


def _is_missing(entry: TrackedPartition) -> bool:
    return entry.position is None or entry.is_reset_due
