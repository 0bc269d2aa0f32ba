"""The small text files beside the segments, most of them Kafka's: read whole, replaced whole.

`partition.metadata` and `leader-epoch-checkpoint` are Kafka's own. `log-start-offset-checkpoint` and
`cleaner-offset-checkpoint` have Kafka's form but lie in the partition's directory. `clean-shutdown` is ours: it
states what the last segment was when the log was closed, and is removed before the log changes, so that a start that
finds it may skip recovery. `lost-offsets` is written by `kohort log repair`: first and last offset of each known gap.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from kohort.log.disk import Disk, StorageError, read_file, replace_file
from kohort.model.ids import NO_TOPIC_ID, parse_topic_id, topic_id_text

PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = "clean-shutdown"
LOST_OFFSETS = "lost-offsets"

UNDEFINED = (-1, -1)


def write_topic_id(disk: Disk, directory: str, topic_id: bytes, *, durable: bool) -> None:
    """Write `partition.metadata`."""
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    replace_file(disk, f"{directory}/{PARTITION_METADATA}", text.encode(), durable=durable)


def read_topic_id(disk: Disk, directory: str) -> bytes:
    """Return the topic id of a partition's directory; NO_TOPIC_ID where the file is missing or has none."""
    try:
        lines = read_file(disk, f"{directory}/{PARTITION_METADATA}").decode().split("\n")
        return next(parse_topic_id(line.split(": ")[1]) for line in lines if line.startswith("topic_id: "))
    except (StorageError, ValueError, StopIteration, IndexError):
        return NO_TOPIC_ID


def write_rows(disk: Disk, path: str, rows: list[str], *, durable: bool) -> None:
    """Replace a checkpoint. Raises StorageError."""
    replace_file(disk, path, "\n".join(["0", str(len(rows)), *rows, ""]).encode(), durable=durable)


def read_rows(disk: Disk, path: str) -> list[list[int]]:
    """Return the rows of numbers of a checkpoint. Raises StorageError, and ValueError when it is malformed."""
    version, count, *rows = read_file(disk, path).decode().split("\n")
    if int(version) != 0 or int(count) > len(rows):
        raise ValueError(f"{path} is no checkpoint of version 0")
    return [[int(word) for word in row.split()] for row in rows[: int(count)]]


def write_offset(disk: Disk, directory: str, name: str, offset: int, *, durable: bool) -> None:
    """Remember one offset: where the log starts, or up to where it was cleaned."""
    write_rows(disk, f"{directory}/{name}", [str(offset)], durable=durable)


def read_offset(disk: Disk, directory: str, name: str) -> int:
    """Return a remembered offset; 0 where there is none."""
    try:
        return max(read_rows(disk, f"{directory}/{name}")[0][0], 0)
    except (StorageError, ValueError, IndexError):
        return 0


class CleanShutdown(NamedTuple):
    """What a log was when it was closed."""

    last_segment: int
    size: int
    log_end_offset: int
    max_timestamp: int
    max_timestamp_offset: int

    def write(self, disk: Disk, directory: str) -> None:
        """Write the file. It need not be durable: without it a log is recovered, which is only slower."""
        write_rows(disk, f"{directory}/{CLEAN_SHUTDOWN}", [" ".join(map(str, self))], durable=False)

    @classmethod
    def read(cls, disk: Disk, directory: str) -> CleanShutdown | None:
        try:
            return cls(*read_rows(disk, f"{directory}/{CLEAN_SHUTDOWN}")[0])
        except (StorageError, ValueError, IndexError, TypeError):
            return None


class LeaderEpochs:
    """At which offset each leader epoch began (KIP-101), stored in `leader-epoch-checkpoint`."""

    def __init__(self, disk: Disk, directory: str, *, durable: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._durable = durable
        self._entries: list[tuple[int, int]] = []

    def load(self) -> None:
        """Read the file; one that is missing or malformed counts as empty."""
        try:
            rows = read_rows(self._disk, f"{self._directory}/{LEADER_EPOCHS}")
            self._entries = sorted((epoch, start) for epoch, start in rows)
        except (StorageError, ValueError):
            self._entries = []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 where there is none."""
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Store that `epoch` begins at `start_offset`; an epoch that is not new changes nothing."""
        if epoch > self.latest:
            self._replace([*self._entries, (epoch, start_offset)])

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (the largest epoch up to `epoch`, where it ended), as OffsetForLeaderEpoch answers; or (-1, -1)."""
        if epoch == self.latest and epoch >= 0:
            return epoch, log_end_offset
        at = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        if epoch < 0 or at == len(self._entries):
            return UNDEFINED
        return (self._entries[at - 1][0] if at else epoch), self._entries[at][1]

    def truncate_start(self, offset: int) -> None:
        """Forget the epochs that ended at or before the new log start offset."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        if at:
            remaining = [(self._entries[at - 1][0], max(offset, self._entries[at - 1][1])), *self._entries[at:]]
            if remaining != self._entries:
                self._replace(remaining)

    def truncate_end(self, offset: int) -> None:
        """Forget the epochs that began at or after the new log end offset."""
        remaining = [entry for entry in self._entries if entry[1] < offset]
        if remaining != self._entries:
            self._replace(remaining)

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        rows = [f"{epoch} {start}" for epoch, start in entries]
        write_rows(self._disk, f"{self._directory}/{LEADER_EPOCHS}", rows, durable=self._durable)
        self._entries = entries  # not before: a full disk must leave memory and file alike
