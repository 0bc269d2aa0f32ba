"""A task's part of a round: it writes its partitions in the driver's transaction, and reports what was acknowledged.

It neither begins nor ends anything. An attempt after the first writes nothing: the first may have written already.
Before, other tasks choose the partition of each row, so that Spark can give each partition one task.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from kohort.client.producer.accumulator import ProducerId, record_size
from kohort.client.producer.partitioner import partition_for_key
from kohort.client.producer.producer_config import ProducerConfig
from kohort.client.producer.sender import BatchSender
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net.environment import wall_clock
from kohort.spark.loop_thread import LoopThread
from kohort.spark.rows.read_settings import security
from kohort.spark.rows.row_encoder import RowEncoder
from kohort.spark.topics.write_plan import TaskReport, WritePlan
from kohort.wire.record_batches import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD_COLUMNS = "key binary, value binary, headers array<struct<key: string, value: binary>>, target int"
"""The columns of a row whose partition is chosen."""


@dataclass(frozen=True, slots=True)
class TargetPartitions:
    """Adds the column `target`: the row's own partition, else that of its key as in Java, else one after another."""

    partitions: int
    first: int
    """Where rows without a key begin."""
    partitioner: Callable[[bytes, int], int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return a task's rows with their partitions. Raises ValueError for a partition that does not exist."""
        turns, first = count(self.first), self.first
        for batch in batches:
            keys, given = batch["key"], batch["partition"]
            if self.partitioner is partition_for_key:
                targets = RowEncoder(keys, batch["value"], 0).targets(self.partitions, first, given, turn_bytes=1)
                first += batch.num_rows
            else:
                own = zip(keys.to_pylist(), given.to_pylist(), strict=True)
                targets = [self._target(key, partition, turns) for key, partition in own]
            columns = [keys, batch["value"], batch["headers"], pa.array(targets, pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, ["key", "value", "headers", "target"])

    def _target(self, key: bytes | None, own: int | None, turns: Iterator[int]) -> int:
        if own is not None:
            if not 0 <= own < self.partitions:
                raise ValueError(f"a row's partition is {own}: the topic has partitions 0 to {self.partitions - 1}")
            return own
        if key is not None:
            return self.partitioner(key, self.partitions)
        return next(turns) % self.partitions


def record_rows(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Return the columns of a record for `TargetPartitions`, of which a frame has `columns`."""
    absent = {
        "key": "CAST(NULL AS binary) AS key",
        "headers": "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers",
        "partition": "CAST(NULL AS int) AS partition",
    }
    chosen = [f"CAST({name} AS binary) AS {name}" if name in ("key", "value") else name for name in columns]
    return frame.selectExpr(*chosen, *(text for name, text in absent.items() if name not in columns))


def by_target(rows: DataFrame, targets: TargetPartitions, tasks: int) -> DataFrame:
    """Return records with their `target`, all those of one partition in one of `tasks` tasks."""
    from pyspark.sql import functions

    return rows.mapInArrow(targets, RECORD_COLUMNS).repartitionById(tasks, functions.col("target") % tasks)


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """A function for `mapInArrow`: takes a task's records with their `target` partitions, and returns its reports."""

    plan: WritePlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a task's records; what fails is in the report, because Spark would start a failed task again."""
        context = TaskContext.get()
        assert context is not None, "a task of Spark calls this"
        task = TaskReport(context.stageId(), context.partitionId(), context.attemptNumber())
        if task.attempt:
            yield _rows([task])
            return
        try:
            written = write(self.plan, batches)
        except KafkaError as error:
            yield _rows([task._replace(code=int(error.code), text=error.text)])
        except (OSError, ValueError) as error:  # such as a certificate that is not on this machine
            yield _rows([task._replace(code=int(ErrorCode.UNKNOWN_SERVER_ERROR), text=f"a task: {error!r}")])
        else:
            reports = [task._replace(partition=each, records=number) for each, number in sorted(written.items())]
            yield _rows(reports or [task])


def write(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Counter[int]:
    """Write records, and return how many each partition was given once all are acknowledged. Raises KafkaError."""
    written: Counter[int] = Counter()
    filled = (each for each in batches if each.num_rows)
    if (first := next(filled, None)) is None:
        return written
    with closing(LoopThread("kohort transactional writer")) as thread:
        writer = thread.call(SharedTransactionWriter.start(plan))
        try:
            for batch in chain((first,), filled):
                written += thread.call(writer.write(batch))
        finally:
            thread.call(writer.stop())
    return written


class SharedTransaction:
    """The driver's transaction, as the sender of one task sees it."""

    def __init__(self, plan: WritePlan) -> None:
        self.transactional_id = plan.transactional_id
        self.identity: ProducerId = plan.identity
        self.version = plan.version
        self.refusal: KafkaError | None = None
        """The first error of a batch that was not written: nothing more is."""
        self._sequences = plan.sequences

    def may_write(self, partition: TopicPartition) -> bool:  # noqa: ARG002
        """Return True: the driver has added every partition of the topic."""
        return True

    def first_sequence(self, partition: TopicPartition) -> int:
        """Return the number that follows those of earlier rounds under the same producer epoch."""
        return self._sequences.get(partition.partition, 0)

    def fail_batch(self, error: KafkaError) -> None:
        """Record the first error."""
        self.refusal = self.refusal or error


class SharedTransactionWriter:
    """Writes records of the driver's transaction; made by `start`, ended by `stop`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._config = ProducerConfig(**plan.producer, **security(plan.properties))
        self._cluster = self._config.cluster()
        self._transaction = SharedTransaction(plan)
        self._sender = BatchSender(self._cluster, self._config, lambda _: None, self._transaction)
        self._task: asyncio.Task[None] | None = None
        self._now_ms = wall_clock()

    @classmethod
    async def start(cls, plan: WritePlan) -> SharedTransactionWriter:
        """Connect. Raises KafkaError."""
        writer = cls(plan)
        try:
            await writer._cluster.start()
            await writer._cluster.topic(plan.topic)
        except BaseException:
            await writer._cluster.close()
            raise
        writer._task = asyncio.create_task(writer._sender.run(), name="kohort sender")
        return writer

    async def write(self, rows: pa.RecordBatch) -> Counter[int]:
        """Write rows, and return how many each partition was given when all are acknowledged. Raises KafkaError."""
        chosen = rows["target"].to_numpy()
        if rows["headers"].null_count == rows.num_rows:
            encoder = RowEncoder(rows["key"], rows["value"], self._now_ms())
            for partition, records in encoder.batches(chosen.astype("int64")):
                self._require_room(len(records.payload))
                self._sender.append_encoded(TopicPartition(self._plan.topic, partition), records)
        else:
            self._append_one_by_one(rows)
        await self._sender.flush()
        if self._transaction.refusal is not None:
            raise self._transaction.refusal
        return Counter(chosen.tolist())

    def _append_one_by_one(self, rows: pa.RecordBatch) -> None:
        now_ms = self._now_ms()
        targets = [TopicPartition(self._plan.topic, number) for number in range(self._plan.partitions)]
        of = [rows[name].to_pylist() for name in ("target", "key", "value", "headers")]
        for target, key, value, headers in zip(*of, strict=True):
            pairs = tuple((header["key"], header["value"]) for header in headers or ())
            record = Record(0, now_ms, key, value, pairs)
            size = record_size(record)
            self._require_room(size)
            self._sender.append(targets[target], record, size)

    def _require_room(self, size: int) -> None:
        if size > self._config.max_request_size:
            text = f"a record of {size} bytes is larger than max_request_size={self._config.max_request_size}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    async def stop(self) -> None:
        """Send nothing more, and end every connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._sender.stop()
        await self._cluster.close()


def _rows(reports: list[TaskReport]) -> pa.RecordBatch:
    columns = dict(zip(TaskReport._fields, map(list, zip(*reports, strict=True)), strict=True))
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)


_SCHEMA = pa.schema(
    [
        ("stage", pa.int32()),
        ("task", pa.int32()),
        ("attempt", pa.int32()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("code", pa.int32()),
        ("text", pa.string()),
    ]
)
