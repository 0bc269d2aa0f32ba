"""Batches to append and logs to look at, for the tests of the log."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.log.disk import Disk
from kohort.log.partition_log import Appended, PartitionLog
from kohort.log.segments import LogConfig
from kohort.wire.record_batches import Record, check_batch, decode_batch, encode_batch, iter_batches

DIRECTORY = "orders-0"
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)
"""Segments of a dozen batches, an index entry for every second one."""


def batch(count: int = 1, *, size: int = 50, timestamp_ms: int = 1000, fill: bytes = b"v", **header: int) -> bytes:
    """Return a batch of `count` records, timestamps one apart, as a producer sends it."""
    rows = [Record(0, timestamp_ms + n, b"k", fill * size) for n in range(count)]
    return encode_batch(rows, **header)  # type: ignore[arg-type]


def open_log(disk: Disk, config: LogConfig = SMALL, now_ms: int = 0) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, config, now_ms)


def append(log: PartitionLog, *batches: bytes, leader_epoch: int = 0, now_ms: int = 0) -> Appended:
    return log.append(batches or [batch()], leader_epoch=leader_epoch, now_ms=now_ms)


def fill(log: PartitionLog, batches: int = 60) -> int:
    """Append batches of one to five records, record n bearing the timestamp 1000 + n; return how many records."""
    for n in range(batches):
        end = log.log_end_offset
        append(log, batch(n % 5 + 1, timestamp_ms=1000 + end, fill=b"%d" % (n % 10)))
    return log.log_end_offset


def rows(views: Iterable[memoryview]) -> list[Record]:
    """Decode what a read returned; every batch must be whole and sound."""
    found: list[Record] = []
    for view in views:
        for _header, one in iter_batches(view, strict=True):
            check_batch(one)
            found += decode_batch(one)
    return found


def everything(log: PartitionLog, max_bytes: int = 500, up_to: int | None = None) -> list[Record]:
    """Read a log from its start in steps, as a consumer does."""
    offset, found = log.log_start_offset, list[Record]()
    while views := log.read(offset, max_bytes, up_to=up_to):
        found += [row for row in rows(views) if row.offset >= offset]
        offset = found[-1].offset + 1
    return found


def overwrite(disk: Disk, path: str, position: int, content: bytes) -> None:
    """Put other bytes in a file, as a failing medium does."""
    file = disk.open(path)
    damaged = bytearray(file.read(0, file.size))
    damaged[position : position + len(content)] = content
    file.truncate(0)
    file.append([damaged])
    file.close()


def names(disk: Disk, suffix: str) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(suffix)]
