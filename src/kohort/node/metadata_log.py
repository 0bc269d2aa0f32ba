"""The broker's own memory: topics, settings, producer ids, in one log that is replayed at start.

`__kohort_metadata-0` has record batches like any other partition; each value is one JSON object with a
`type`. What belongs together is one batch, so a crash leaves all of it or nothing. Its entries have no keys: when they
are many more than what they come to, that is written in their place.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kohort.log.disk import Disk, StorageError
from kohort.log.partition_log import PartitionLog
from kohort.log.recovery import DamagedLog
from kohort.log.segments import LogConfig
from kohort.node.disk_health import DiskHealth
from kohort.wire.record_batches import Record, decode_batch, encode_batch

DIRECTORY = "__kohort_metadata-0"

log = logging.getLogger("kohort.node")

Entry = dict[str, Any]


_NUMBERS, _LONG_NUMBERS = range(2**31), range(2**63)
_TEXT_OR_NULL = (str, type(None))
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "cluster": {"id": str},
    "epoch": {"epoch": _NUMBERS},
    "producer_ids": {"until": _LONG_NUMBERS},
    "broker_config": {"name": str, "value": _TEXT_OR_NULL},
    "group_config": {"group": str, "name": str, "value": _TEXT_OR_NULL},
    "acl": {"acl": list, "exists": bool},
    "scram_credential": {
        **dict.fromkeys(("user", "mechanism", "salt", "stored_key", "server_key"), str),
        "iterations": _NUMBERS,
    },
    "no_scram_credential": {"user": str, "mechanism": str},
    "topic": {"name": str, "id": str, "configs": dict, "partitions": _NUMBERS, "epoch": _NUMBERS},
    "grow": {"name": str, "partitions": _NUMBERS, "epoch": _NUMBERS},
    "delete": {"name": str},
    "topic_config": {"topic": str, "name": str, "value": _TEXT_OR_NULL},
}
"""By type of entry, the fields that are read of it: of which type, or in which range."""


class UnreadableEntry(StorageError):
    """An entry with a right checksum that is no JSON, or does not fit those before it."""


class MetadataLog:
    """The metadata log. Every `append` is on the medium itself when it returns, if it was opened with `fsync`."""

    def __init__(self, disk: Disk, health: DiskHealth) -> None:
        self._disk = disk
        self._health = health
        self._opened: PartitionLog | None = None
        self._fsync = False
        self.length = 0
        """Number of entries in the log, replayed and appended ones."""

    def open(self, now_ms: int, *, fsync: bool) -> None:
        """Open the log. Raises StorageError, with advice where the log is damaged."""
        config = LogConfig(
            retention_bytes=-1,
            retention_ms=-1,
            max_message_bytes=LogConfig().segment_bytes,
            flush_policy="fsync" if fsync else "os",
        )
        try:
            self._opened = PartitionLog.open(self._disk, DIRECTORY, config, now_ms, strict=True)
        except DamagedLog as error:
            raise _refusal(error) from error
        if self._opened.recovery is not None and (sentence := self._opened.recovery.sentence):
            log.warning("recovered the metadata log after it was not closed: %s", sentence)
        self._fsync = fsync

    @property
    def _log(self) -> PartitionLog:
        assert self._opened is not None, "metadata changes only while its log is open"
        return self._opened

    def replay(self, apply: Callable[[Entry], None]) -> None:
        """Apply every entry in the order it was written. Raises StorageError, also for one that cannot be applied."""
        start = self._log.log_start_offset
        try:
            for _, batch in self._log.checked_batches():
                for record in decode_batch(batch):
                    if record.offset >= start and record.value is not None:
                        self.length += 1
                        _apply_one(record, apply)
        except (DamagedLog, UnreadableEntry) as error:
            raise _refusal(error) from error

    def append(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Write entries that belong together. Raises StorageError."""
        if not entries:
            return
        records = [
            Record(at, now_ms, None, json.dumps(entry, separators=(",", ":")).encode(), ())
            for at, entry in enumerate(entries)
        ]
        batch = encode_batch(records)
        try:
            if self._log.failure is not None:
                self._opened = self._log.reopened(now_ms)
            self._log.append([batch], leader_epoch=0, now_ms=now_ms)
            if self._fsync:
                self._log.flush()
        except StorageError as error:
            self._health.refused(error, len(batch))
            raise
        self.length += len(entries)

    def replace(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Write what all entries come to, and let them go. Raises StorageError: then old ones may be there still.

        A log that has both gives the same state, so a crash at any point does no harm.
        """
        self._log.roll()
        start = self._log.log_end_offset
        self.append(entries, now_ms)
        self._log.flush()
        self._log.delete_records(start)
        self.length = len(entries)

    def close(self) -> None:
        """Flush and close the log, if it is open."""
        if self._opened is not None:
            self._opened.flush()
            self._opened.close()


def _apply_one(record: Record, apply: Callable[[Entry], None]) -> None:
    try:
        entry = json.loads(bytes(record.value or b""))
        for name, kind in _FIELDS.get(entry["type"], {}).items():
            value = entry[name]
            is_right = type(value) is int and value in kind if isinstance(kind, range) else isinstance(value, kind)
            if not is_right:
                raise TypeError(f"its {name} is {value!r:.80}")
        apply(entry)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        text = f"the entry at offset {record.offset} is none that this version of kohort can read ({error!r})"
        raise UnreadableEntry(errno.EINVAL, text, DIRECTORY) from error


def _refusal(error: StorageError) -> StorageError:
    advice = f"put the file back from a copy, or move the folder {DIRECTORY} away and create the topics anew"
    return StorageError(error.errno, f"{error.strerror}; it has all topics and settings: {advice}", error.filename)
