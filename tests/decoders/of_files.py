"""Targets that read the files of a data directory: logs, indexes, checkpoints, and the records that a broker keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from struct import pack_into

from tests.unit.log.workbench import DIRECTORY, SMALL, append, fill, open_log

from kohort.group.coordinator_settings import GroupSettings
from kohort.log.disk import StorageError, read_file
from kohort.log.group_replay import folded
from kohort.log.memory_disk import MemoryDisk
from kohort.log.offsets_topic import CorruptOffsetsRecord
from kohort.log.partition_log import PartitionLog
from kohort.log.transaction_records import read_event
from kohort.log.verification import verify
from kohort.node.configuration.config import Config
from kohort.node.metadata_log import DIRECTORY as METADATA
from kohort.node.node import Node
from kohort.wire.crc32c import crc32c
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import HEADER_SIZE, CorruptBatch, Marker, Record, encode_batch, encode_marker

NAMES = (
    *(
        f"{base:020d}{suffix}"
        for base in (0, 7)
        for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    ),
    "leader-epoch-checkpoint",
    "partition.metadata",
    "clean-shutdown",
    "lost-offsets",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    f"{0:020d}.log.cleaned",
    f"{0:020d}.log.swap",
)


def log_files(content: bytes) -> None:
    """Open a partition's log on files of any content, read all of it, append to it, and verify the files.

    The files stand after each other, each behind a byte that selects its name and two of its length. In the first byte
    a bit decides whether CRCs are made right.
    """
    disk = _disk(content)
    with suppress(StorageError):
        verify(disk, DIRECTORY)
    with suppress(StorageError, CorruptBatch):
        log = PartitionLog.open(disk, DIRECTORY, SMALL, 1000)
        _read_all(log)
        append(log)
        _read_all(log)
        log.roll()
        log.close()
        again = PartitionLog.open(disk, DIRECTORY, SMALL, 1000)
        assert again.log_end_offset == log.log_end_offset, "a log that was closed is found as it was"


def _read_all(log: PartitionLog) -> None:
    offset = log.log_start_offset
    while views := log.read(offset, 1 << 16):
        log.aborted_transactions(offset, views)
        before, offset = offset, log.log_end_offset
        if offset <= before:
            break


def _disk(content: bytes) -> MemoryDisk:
    disk, at = MemoryDisk(), 1
    disk.make_directory(DIRECTORY)
    while at + 3 <= len(content):
        name, size = NAMES[content[at] % len(NAMES)], int.from_bytes(content[at + 1 : at + 3], "big")
        part = bytearray(content[at + 3 : at + 3 + size])
        if content[0] & 1 and ".log" in name:
            _make_crcs_right(part)
        file = disk.open(f"{DIRECTORY}/{name}", create=True)
        file.append([part])
        at += 3 + size
    return disk


def _make_crcs_right(part: bytearray) -> None:
    at = 0
    while at + HEADER_SIZE <= len(part):
        size = 12 + int.from_bytes(part[at + 8 : at + 12], "big")
        if size < HEADER_SIZE or at + size > len(part):
            return
        pack_into(">I", part, at + 17, crc32c(memoryview(part)[at + 21 : at + size]))
        at += size


def some_log_files() -> Iterator[bytes]:
    for batches, is_closed in ((3, True), (3, False), (40, True)):
        disk = MemoryDisk()
        log = open_log(disk)
        fill(log, batches)
        append(log, encode_batch([Record(0, 0, b"k", b"v")], producer_id=5, producer_epoch=0, base_sequence=0))
        log.append([encode_marker(5, 0, Marker(False, 0), 1000)], leader_epoch=1, now_ms=0) if batches < 4 else None
        if is_closed:
            log.close()
        found = b"\1"
        for name in disk.list(DIRECTORY):
            if name in NAMES:
                part = bytes(read_file(disk, f"{DIRECTORY}/{name}"))
                found += bytes([NAMES.index(name)]) + len(part).to_bytes(2, "big") + part
        yield found


def offsets_records(content: bytes) -> None:
    """Fold records of `__consumer_offsets`. A sequence that no coordinator writes may break an invariant."""
    with suppress(CorruptOffsetsRecord, AssertionError):
        folded(list(_records(content)), GroupSettings())


def transaction_records(content: bytes) -> None:
    """Read records of `__transaction_state`."""
    for record in _records(content):
        with suppress(MalformedMessage):
            read_event(record.key, record.value)


def _records(content: bytes) -> Iterator[Record]:
    """Yield records: the lengths of key and value, a byte each; a length of 255 is a null."""
    at, offset = 0, 0
    while at + 2 <= len(content):
        sizes, parts = content[at : at + 2], list[bytes | None]()
        at += 2
        for size in sizes:
            parts.append(None if size == 255 else content[at : at + size])
            at += 0 if size == 255 else size
        yield Record(offset, 1000, parts[0], parts[1])
        offset += 1


def _line(key: bytes, value: bytes | None) -> bytes:
    return bytes([len(key), 255 if value is None else len(value)]) + key + (value or b"")


def some_offsets_records() -> Iterator[bytes]:
    group = b"\0\1g"
    yield _line(b"\0\1" + group + b"\0\1t\0\0\0\0", b"\0\3" + bytes(8) + b"\0\0\0\0" + b"\0\0" + bytes(8))
    yield _line(b"\0\2" + group, b"\0\3\0\x08consumer" + b"\0\0\0\1" + b"\xff\xff" * 2 + bytes(8) + b"\0\0\0\0")
    for record_type in range(18):
        yield _line(bytes([0, record_type]) + group, b"\0\0\0\0\0\1\0\0") + _line(bytes([0, record_type]) + group, None)


def some_transaction_records() -> Iterator[bytes]:
    yield _line(b"\0\0\0\1x", b"\0\0" + bytes(8) + b"\0\0" + b"\0\0\1\0" + b"\0" + b"\xff\xff\xff\xff" + bytes(16))
    yield _line(b"\0\0\0\1x", b"\0\1" + bytes(8) + b"\0\0" + b"\0\0\1\0" + b"\1" + b"\1" + bytes(17))


def metadata_log(content: bytes) -> None:
    """Start a node on a metadata log whose entries are lines of any bytes."""
    disk = MemoryDisk()
    records = [Record(0, 1000, None, line) for line in content.split(b"\n")]
    with suppress(StorageError):
        disk.make_directory(METADATA)
        disk.open(f"{METADATA}/{0:020d}.log", create=True).append([encode_batch(records)])
        Node(Config({}), disk, bytes, 1000).start(1000)


def some_metadata_logs() -> Iterator[bytes]:
    yield b'{"type":"cluster","id":"x"}\n{"type":"epoch","epoch":3}\n{"type":"producer_ids","until":9}'
    yield b'{"type":"topic","name":"t","id":"00000000000000000000000000000001","configs":{},"partitions":1,"epoch":0}'
    yield b'{"type":"topic_config","topic":"t","name":"retention.ms","value":"5"}\n{"type":"delete","name":"t"}'
    yield b'{"type":"broker_config","name":"num.partitions","value":"3"}\n{"type":"future"}'
    yield b'{"type":"acl","acl":["TOPIC","t","LITERAL","User:a","*","READ","ALLOW"],"exists":true}'
    keys = b'"salt":"","stored_key":"","server_key":"","iterations":4096'
    yield b'{"type":"scram_credential","user":"a","mechanism":"SCRAM-SHA-256",' + keys + b"}"
    yield b'{"type":"group_config","group":"g","name":"consumer.session.timeout.ms","value":"45000"}'
