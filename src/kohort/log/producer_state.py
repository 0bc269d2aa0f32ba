"""What a partition knows of its idempotent producers (KIP-98): who may append what next, and what is a repetition.

The last five batches of each producer id are remembered: one that comes again is a duplicate and gets its old answer.
Snapshots (`<offset>.snapshot`, Kafka's own format) save reading the log again at start; like Kafka's they keep only
the last batch of each producer. No sequence is demanded of a producer id that is not known (KIP-360).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kohort.log.disk import Disk, StorageError, read_file, replace_file
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.crc32c import crc32c
from kohort.wire.record_batches import BatchHeader, TimestampType

NO_PRODUCER_ID = -1
_KEPT_BATCHES = 5  # a Java producer has at most five requests in flight
_LARGEST_SEQUENCE = (1 << 31) - 1

_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1


class Duplicate(NamedTuple):
    """A batch that the log already has: answer with these, append nothing."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    """-1 where the records bear their creators' times, and after a restart."""


class CorruptSnapshot(ValueError):
    """Bytes that are not a producer snapshot."""


class _Batch(NamedTuple):
    base_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    append_time_ms: int


class _Producer:
    """What is known of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[_Batch] = deque(maxlen=_KEPT_BATCHES)
        self.timestamp = -1
        self.coordinator_epoch = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence `count` records after `sequence`: after the largest int32 comes 0."""
    return (sequence + count) & _LARGEST_SEQUENCE


class Producers:
    """The producer ids of one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Judge a batch that a client wants appended: None means that it may be.

        Raises KafkaError INVALID_PRODUCER_EPOCH from a producer that was superseded, and OUT_OF_ORDER_SEQUENCE_NUMBER
        when a batch before this one is missing, INVALID_RECORD for a producer id without a sequence.
        """
        producer_id, epoch, first = header.producer_id, header.producer_epoch, header.base_sequence
        if producer_id < 0:
            return None
        if first < 0 or epoch < 0:
            text = f"producer {producer_id} sent epoch {epoch} and sequence {first}: neither may be negative"
            raise KafkaError(ErrorCode.INVALID_RECORD, text)
        known = self._producers.get(producer_id)
        if known is None:
            return None
        if epoch == known.epoch:
            last = sequence_after(first, header.last_offset_delta)
            for batch in known.batches:
                if batch.base_sequence == first and batch.last_sequence == last:
                    return Duplicate(batch.last_offset - batch.offset_delta, batch.last_offset, batch.append_time_ms)
        elif epoch < known.epoch:
            text = f"producer {producer_id} sent epoch {epoch}, its epoch here is {known.epoch}: it has been superseded"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        expected = 0 if epoch > known.epoch else sequence_after(known.last_sequence, 1)
        # A producer of which only control batches are left may go on with any sequence.
        if first != expected and (known.batches or epoch > known.epoch):
            text = f"producer {producer_id} epoch {epoch} sent sequence {first}, expected {expected}"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return None

    def update(self, header: BatchHeader, now_ms: int = -1) -> None:
        """Learn of a batch that the log now has, with its offsets there. Learning of one twice changes nothing."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        producer = self._producers.get(producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            producer = self._producers[producer_id] = _Producer(header.producer_epoch)
        # Records may bear times of long ago; what counts for expiry is when the producer last sent something.
        producer.timestamp = max(producer.timestamp, header.max_timestamp, now_ms)
        if header.is_control or header.base_sequence < 0:
            return
        last = sequence_after(header.base_sequence, header.last_offset_delta)
        if last == producer.last_sequence:
            return
        append_time_ms = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        producer.batches.append(
            _Batch(header.base_sequence, last, header.last_offset, header.last_offset_delta, append_time_ms)
        )

    def last_offsets(self) -> dict[int, tuple[int, int | None]]:
        """Return each producer's epoch and the last offset of its data, None where only markers are known."""
        return {
            producer_id: (producer.epoch, producer.batches[-1].last_offset if producer.batches else None)
            for producer_id, producer in self._producers.items()
        }

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers that have been silent for `expiration_ms`."""
        silent = [key for key, producer in self._producers.items() if now_ms - producer.timestamp >= expiration_ms]
        for key in silent:
            del self._producers[key]

    def snapshot(self) -> bytes:
        """Return the state as Kafka writes it into `<offset>.snapshot`."""
        rows = []
        for producer_id, producer in sorted(self._producers.items()):
            last = producer.batches[-1] if producer.batches else _Batch(-1, -1, -1, 0, -1)
            rows.append(
                _SNAPSHOT_ENTRY.pack(
                    producer_id, producer.epoch, last.last_sequence, last.last_offset, last.offset_delta,
                    producer.timestamp, producer.coordinator_epoch, -1,
                )
            )  # fmt: skip
        body = Struct(">i").pack(len(rows)) + b"".join(rows)
        return Struct(">hI").pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    def restore(self, content: bytes) -> None:
        """Take over the state of a snapshot. Raises CorruptSnapshot, and then changes nothing."""
        if len(content) < _SNAPSHOT_HEAD.size:
            raise CorruptSnapshot("too short")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
        if version != _SNAPSHOT_VERSION or crc32c(content[6:]) != crc:
            raise CorruptSnapshot(f"version {version} or CRC wrong")
        if len(content) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise CorruptSnapshot(f"{len(content)} bytes cannot hold {count} producers")
        restored: dict[int, _Producer] = {}
        for row in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, _transaction = row
            producer = restored[producer_id] = _Producer(epoch)
            producer.timestamp, producer.coordinator_epoch = timestamp, coordinator_epoch
            if last_sequence >= 0:
                first = (last_sequence - delta) & _LARGEST_SEQUENCE
                producer.batches.append(_Batch(first, last_sequence, last_offset, delta, -1))
        self._producers = restored


class ProducerSnapshots:
    """The snapshot files of one log, each named by the offset up to which it holds."""

    def __init__(self, disk: Disk, directory: str, *, durable: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._durable = durable
        self.offsets: list[int] = []
        """Of the files that exist, sorted."""

    def restore(self, producers: Producers, offset: int) -> int:
        """Load the newest sound snapshot up to `offset`; return where it ends, 0 without one."""
        for snapshot in reversed([known for known in self.offsets if known <= offset]):
            try:
                producers.restore(read_file(self._disk, self._path(snapshot)))
            except (CorruptSnapshot, StorageError):
                continue
            return snapshot
        return 0

    def write(self, producers: Producers, offset: int, segment_bases: Iterable[int]) -> None:
        """Write a snapshot for `offset`; of the older ones only those that begin a segment stay."""
        replace_file(self._disk, self._path(offset), producers.snapshot(), durable=self._durable)
        kept = {*segment_bases, offset}
        for old in self.offsets:
            if old not in kept:
                self._disk.remove(self._path(old))
        self.offsets = sorted({*(old for old in self.offsets if old in kept), offset})

    def remove(self, offset: int) -> None:
        """Remove the snapshot of a segment that goes."""
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"
