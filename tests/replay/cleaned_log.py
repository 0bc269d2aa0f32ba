"""The log of a group as it is and as the cleaner itself leaves it, folded and loaded, beside the group that lives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.group.coordinator_settings import GroupSettings
from kohort.group.shard import Shard, apply
from kohort.log.group_replay import batches_of, folded, records_of
from kohort.log.memory_disk import MemoryDisk
from kohort.log.offsets_topic import CorruptOffsetsRecord, Replay
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.sim.checks.replay_checks import differences
from kohort.wire.record_batches import CorruptBatch


def loaded(log: PartitionLog, settings: GroupSettings) -> Shard:
    """Return the shard that a broker loads from a log. Raises CorruptOffsetsRecord, AssertionError, StorageError."""
    shard, replay = Shard(settings), Replay()
    for header, batch in batches_of(log):
        replay.take(header, batch)
    for event in replay.events():
        apply(shard, event)
    return shard


def replay_differences(
    disk: MemoryDisk, directory: str, live: Shard, up_to: Iterable[int] = (), *, now_ms: int = 0
) -> list[str]:
    """Return the differences between the replayed log of a partition and its live state.

    The log is folded record by record, and loaded, as it is; then after the cleaner has been at it up to each of the
    offsets `up_to`, with tombstones and without.
    """
    found: list[str] = []
    for offset in (None, *up_to):
        twin = disk.clone()
        twin.fault = None
        log = PartitionLog.open(twin, directory, LogConfig(cleanup_policy=("compact",), delete_retention_ms=1), now_ms)
        for step in range(1 if offset is None else 3):
            if offset is not None and step:
                # The cleaner looks at what is clean again only when it finds something new.
                log.cleaner.first_dirty = 0
                log.compact(now_ms + 2 * step, roll=True, up_to=offset)
            how = "as it is" if offset is None else f"cleaned {step} times up to offset {offset}"
            found += [f"the log {how}: {text}" for text in _folds_of(log, live)]
    return found


def _folds_of(log: PartitionLog, live: Shard) -> Iterator[str]:
    try:
        yield from differences(live, folded(records_of(log), live.settings))
        yield from (f"as it is loaded, {text}" for text in differences(live, loaded(log, live.settings)))
    except (AssertionError, CorruptOffsetsRecord, CorruptBatch) as error:
        yield f"it cannot be folded: {error}"
