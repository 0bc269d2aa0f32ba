"""A log of groups, folded as it is and as a cleaner may leave it: what each fold gives must be what lives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kohort.group.coordinator_settings import GroupSettings
from kohort.group.shard import Shard, apply
from kohort.log.offsets_topic import Replay
from kohort.log.partition_log import PartitionLog
from kohort.wire.record_batches import BatchHeader, Record, iter_batches

READ_BYTES = 1 << 20


def batches_of(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a whole log. Raises CorruptBatch, StorageError."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        start = offset
        for view in log.read(offset, READ_BYTES, up_to=log.log_end_offset):
            for header, batch in iter_batches(view):
                yield header, batch
                offset = header.last_offset + 1
        if offset == start:
            return  # the last records were cleaned away


def records_of(log: PartitionLog) -> Iterator[Record]:
    """Yield the records of a whole log that count, as they took effect: those of a transaction at its commit.

    Raises CorruptBatch, CorruptOffsetsRecord, StorageError.
    """
    replay = Replay()
    for header, batch in batches_of(log):
        for row in replay.effective(header, batch):
            yield Record(*row)


def compacted(records: Sequence[Record], clean: int, horizon: int) -> list[Record]:
    """Return a log whose first `clean` records were cleaned: of each key only the last of them is left.

    Tombstones among the first `horizon` have been there so long that they are gone too.
    """
    last = {record.key: position for position, record in enumerate(records[:clean])}
    return [
        record
        for position, record in enumerate(records[:clean])
        if last[record.key] == position and (record.value is not None or position >= horizon)
    ] + list(records[clean:])


def raced(records: Sequence[Record], read: int) -> list[Record]:
    """Return a log as a loader sees it that had read the first `read` records when the cleaner put the rest in place.

    A later record has taken the place of some that the loader has not come to, a tombstone of what it has read among
    them (KAFKA-19862, KAFKA-21117). Tombstones that nothing has replaced are there: they outlive every loader.
    """
    last = {record.key: position for position, record in enumerate(records)}
    rest = (record for position, record in enumerate(records) if position >= read and last[record.key] == position)
    return [*records[:read], *rest]


def folded(records: Iterable[Record], settings: GroupSettings) -> Shard:
    """Return the shard that records give, one after the other. Raises CorruptOffsetsRecord, AssertionError."""
    shard, replay = Shard(settings), Replay()
    for record in records:
        event = replay.event_of(record)
        if event is not None:
            apply(shard, event)
    return shard
