"""What a partition knows of its producers (KIP-98): who may append what next, what is a repetition, what is open.

The last five batches of each producer id are remembered: one that comes again is a duplicate and gets its old answer.
A transaction is open from its first batch to its marker; no reader of committed records gets beyond the first of these.
Snapshots (`<offset>.snapshot`, Kafka's own format) save reading the log again at start; like Kafka's they have only
the last batch of each producer. No sequence is demanded of a producer id that is not known (KIP-360).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kohort.log.disk import Disk, StorageError, read_file, replace_file
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.crc32c import crc32c
from kohort.wire.record_batches import BatchHeader, Marker, TimestampType

NO_PRODUCER_ID = -1
_REMEMBERED_BATCHES = 5  # a Java producer has at most five requests in flight
_LARGEST_SEQUENCE = (1 << 31) - 1
_MOST_AWAITED = 1000  # producers that wait for a moment; the oldest one is forgotten

_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1


class Duplicate(NamedTuple):
    """A batch that the log already has: answer with these, append nothing."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    """-1 where the records bear their creators' times, and after a restart."""


class AbortedTransaction(NamedTuple):
    """An entry of a log's index of aborted transactions: all batches of a producer between two offsets.

    `last_offset` is its marker's. At the time of that, everything before `last_stable_offset` had ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerView(NamedTuple):
    """What a partition knows of one producer, for DescribeProducers; -1 where there is nothing."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


class CorruptSnapshot(ValueError):
    """Bytes that are not a producer snapshot."""


class _ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    append_time_ms: int


class _ProducerState:
    """What is known of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "is_lone_marker", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_lone_marker = False
        """Only a marker of it was left when the log was read again: its last sequence is not known."""
        self.batches: deque[_ProducedBatch] = deque(maxlen=_REMEMBERED_BATCHES)
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
        self._producers: dict[int, _ProducerState] = {}
        self._open: dict[int, int] = {}
        """By producer id, the first offset of its open transaction; in the order of these offsets."""
        self._awaited: dict[int, tuple[int, int]] = {}
        """By producer id, the epoch and lowest sequence of transactional batches that were refused for a moment."""
        self._ended: deque[tuple[int, int]] = deque()
        """The marker's and the first offset of transactions whose end may not be seen yet."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerView]:
        for producer_id, each in sorted(self._producers.items()):
            start = self._open.get(producer_id, -1)
            known = each.epoch, each.last_sequence, each.timestamp, each.coordinator_epoch
            yield ProducerView(producer_id, *known, start)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here, in this epoch."""
        return producer_id in self._open and self._producers[producer_id].epoch == epoch

    def first_unstable(self, high_watermark: int) -> int | None:
        """Return the first offset of the transactions whose end lies not below the high watermark, or None."""
        while self._ended and self._ended[0][0] < high_watermark:
            self._ended.popleft()
        firsts = [first for _, first in self._ended]
        if self._open:
            firsts.append(next(iter(self._open.values())))
        return min(firsts, default=None)

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
        awaited_epoch, awaited = self._awaited.get(producer_id, (-1, -1))
        if epoch == awaited_epoch and first > awaited:
            text = f"producer {producer_id} epoch {epoch} sent sequence {first}, {awaited} has to be sent again first"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
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
        # After a marker that raised the epoch (KIP-890) the first batch has sequence 0: a later one that overtakes it,
        # as when it is sent again after CONCURRENT_TRANSACTIONS, is refused until it has come.
        is_free = known.is_lone_marker and not known.batches and epoch == known.epoch
        if first != expected and not is_free:
            text = f"producer {producer_id} epoch {epoch} sent sequence {first}, expected {expected}"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return None

    def await_again(self, header: BatchHeader) -> None:
        """Note a transactional batch that is refused until its partition is added to the transaction.

        Batches behind it may arrive when that is done. As in Kafka they are out of order until it has been sent again,
        or else an unknown producer, of which any sequence is accepted, would lose its first batch.
        """
        producer_id, epoch, first = header.producer_id, header.producer_epoch, header.base_sequence
        awaited_epoch, awaited = self._awaited.pop(producer_id, (-1, -1))
        if epoch == awaited_epoch:
            first = min(first, awaited)
        self._awaited[producer_id] = max(epoch, awaited_epoch), first if epoch >= awaited_epoch else awaited
        if len(self._awaited) > _MOST_AWAITED:
            del self._awaited[next(iter(self._awaited))]

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Judge a marker that a coordinator wants written. One that comes again is no error.

        Raises KafkaError INVALID_PRODUCER_EPOCH where a producer with a larger epoch has come since, and
        TRANSACTION_COORDINATOR_FENCED where another coordinator has taken over.
        """
        known = self._producers.get(producer_id)
        if known is None:
            return
        if epoch < known.epoch:
            text = f"a marker of producer {producer_id} has epoch {epoch}, its epoch here is {known.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        if coordinator_epoch < known.coordinator_epoch:
            text = f"a marker has coordinator epoch {coordinator_epoch}, {known.coordinator_epoch} wrote here since"
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, text)

    def update(self, header: BatchHeader, now_ms: int = -1, marker: Marker | None = None) -> AbortedTransaction | None:
        """Learn of a batch that the log now has, with its offsets there. Learning of one twice changes nothing.

        `marker` is that of a control batch. Returns the transaction that it aborts, if it aborts one.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        self._awaited.pop(producer_id, None)
        aborted = self._transaction(header, marker) if header.is_transactional else None
        self._learn(header, now_ms, marker)
        return aborted

    def replay(self, header: BatchHeader, now_ms: int, marker: Marker | None) -> AbortedTransaction | None:
        """Do what `update` does with a batch of a log that is read again, whose first batches may be deleted.

        A producer of which only a marker is left may send any sequence, like one that is not known.
        """
        is_new = header.producer_id not in self._producers
        aborted = self.update(header, now_ms, marker)
        if is_new and header.is_control and header.producer_id >= 0:
            self._producers[header.producer_id].is_lone_marker = True
        return aborted

    def _transaction(self, header: BatchHeader, marker: Marker | None) -> AbortedTransaction | None:
        """Begin or end the producer's transaction."""
        producer_id = header.producer_id
        if not header.is_control:
            self._open.setdefault(producer_id, header.base_offset)
            return None
        if marker is None:
            return None
        first = self._open.pop(producer_id, None)
        if first is None:
            return None
        marker_offset = header.base_offset
        self._ended.append((marker_offset, first))
        if marker.is_commit:
            return None
        stable = next(iter(self._open.values()), marker_offset + 1)
        return AbortedTransaction(producer_id, first, marker_offset, stable)

    def _learn(self, header: BatchHeader, now_ms: int, marker: Marker | None) -> None:
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            producer = self._producers[producer_id] = _ProducerState(header.producer_epoch)
        # Records may bear times of long ago; what counts for expiry is when the producer last sent something.
        producer.timestamp = max(producer.timestamp, header.max_timestamp, now_ms)
        if marker is not None:
            producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        if header.is_control or header.base_sequence < 0:
            return
        last = sequence_after(header.base_sequence, header.last_offset_delta)
        if last == producer.last_sequence:
            return
        append_time_ms = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        producer.batches.append(
            _ProducedBatch(header.base_sequence, last, header.last_offset, header.last_offset_delta, append_time_ms)
        )

    def last_offsets(self) -> dict[int, tuple[int, int | None]]:
        """Return each producer's epoch and the last offset of its data, None where only markers are known."""
        return {
            producer_id: (producer.epoch, producer.batches[-1].last_offset if producer.batches else None)
            for producer_id, producer in self._producers.items()
        }

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers that sent nothing for `expiration_ms` and have no open transaction."""
        expired = [
            key
            for key, producer in self._producers.items()
            if now_ms - producer.timestamp >= expiration_ms and key not in self._open
        ]
        for key in expired:
            del self._producers[key]

    def snapshot(self) -> bytes:
        """Return the state as Kafka writes it into `<offset>.snapshot`."""
        rows = []
        for producer_id, producer in sorted(self._producers.items()):
            last = producer.batches[-1] if producer.batches else _ProducedBatch(-1, -1, -1, 0, -1)
            rows.append(
                _SNAPSHOT_ENTRY.pack(
                    producer_id, producer.epoch, last.last_sequence, last.last_offset, last.offset_delta,
                    producer.timestamp, producer.coordinator_epoch, self._open.get(producer_id, -1),
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
            raise CorruptSnapshot(f"{len(content)} bytes are too few for {count} producers")
        restored: dict[int, _ProducerState] = {}
        starts: list[tuple[int, int]] = []
        for row in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, start = row
            producer = restored[producer_id] = _ProducerState(epoch)
            producer.timestamp, producer.coordinator_epoch = timestamp, coordinator_epoch
            if last_sequence >= 0:
                first = (last_sequence - delta) & _LARGEST_SEQUENCE
                producer.batches.append(_ProducedBatch(first, last_sequence, last_offset, delta, -1))
            if start >= 0:
                starts.append((start, producer_id))
        self._producers = restored
        self._open = {producer_id: start for start, producer_id in sorted(starts)}
        self._ended.clear()


class ProducerSnapshots:
    """The snapshot files of one log, each named by the offset up to which it is valid."""

    def __init__(self, disk: Disk, directory: str, *, durable: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._durable = durable
        self.offsets: list[int] = []
        """Of the files that exist, sorted."""

    def restore(self, producers: Producers, offset: int) -> int:
        """Load the newest valid snapshot up to `offset`; return where it ends, 0 without one."""
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
        retained = {*segment_bases, offset}
        for old in self.offsets:
            if old not in retained:
                self._disk.remove(self._path(old))
        self.offsets = sorted({*(old for old in self.offsets if old in retained), offset})

    def remove(self, offset: int) -> None:
        """Remove the snapshot of a segment that goes."""
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"
