"""`TransactionalTopic`: a function for `GroupStream.run` and `foreachBatch` that writes each row to a topic once.

The records of a round and the offsets they were made from are one transaction, which all tasks of the round write:
consumers with `read_committed` see both or neither. The group's offsets are the truth, so that a round that is repeated
after its commit writes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kohort.client.cluster.committed_offsets import REFUSALS, GroupMetadata
from kohort.client.errors import CommitFailed, TransactionAbortable, TransactionError, TransactionFatal
from kohort.client.producer.producer_config import CompressionType, ProducerConfig
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.into_table import ExactlyOnce
from kohort.spark.loop_thread import LoopThread
from kohort.spark.rows.read_settings import security
from kohort.spark.rows.record_frames import record_columns
from kohort.spark.rows.rounds import Round
from kohort.spark.running_query import running_query
from kohort.spark.running_session import is_remote, parallelism
from kohort.spark.tables.table import BATCHES
from kohort.spark.topics.round_transactions import CommittedPositions, Offsets, Origin, RoundTransactions
from kohort.spark.topics.write_plan import (
    REPORT_COLUMNS,
    SecondAttempt,
    StageProgress,
    TaskReport,
    WritePlan,
    is_done_at_once,
    records_written,
    require_no_repeat,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

RoundOffsets = tuple[GroupMetadata, Offsets]
"""Who commits which offsets with a round."""

MOST_TRIES = 10
"""How often a round is written until each of its tasks has run once, before it fails."""

ROWS_ON_DRIVER = 20_000
"""Rounds of up to this many rows are written by the application: below it, that is faster than a job's tasks."""

_PROGRESS_S = 10.0
_PROGRESS_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class _RunningWriter:
    thread: LoopThread
    transactions: RoundTransactions


class WriteSettings(TypedDict, total=False):
    """Settings of the producers in the tasks; `ProducerConfig` has their defaults and explains them."""

    batch_size: int
    client_id: str
    compression_type: CompressionType | None
    delivery_timeout_ms: int
    linger_ms: float
    max_block_ms: int
    max_request_size: int
    partitioner: Callable[[bytes, int], int]
    request_timeout_ms: int


class TransactionalTopic:
    """Writes rows to one topic, each round in one transaction with the offsets of its rows (KIP-98, KIP-447).

    `rows(frame)` makes the rows to write out of those that were read: the columns `value`, and optionally `key`,
    `headers` and `partition`, as in Spark's own sink; without it key, value and headers are copied. `transactional_id`
    stays the same when a job is started again, and no two jobs that run have the same: the later one fences the other.
    `group` is for `foreachBatch`: the name under which the cluster has what is written, which is not the query's own
    group; a GroupStream commits the offsets of its group. `transaction_timeout_ms` covers the longest round.
    `rows_on_driver` is the size up to which the application itself writes a round, without a shuffle.
    `properties` are the security settings in Kafka's names, and `producer` further settings, with the meanings and
    defaults of `Producer`'s. Use it as a context manager, or `close` it. Raises TypeError and ValueError for settings
    that do not exist or do not go together.
    """

    def __init__(
        self,
        topic: str,
        rows: Callable[[DataFrame], DataFrame] | None = None,
        *,
        bootstrap_servers: str,
        transactional_id: str,
        group: str | None = None,
        transaction_timeout_ms: int = 300_000,
        rows_on_driver: int = ROWS_ON_DRIVER,
        properties: Mapping[str, str] | None = None,
        **producer: Unpack[WriteSettings],
    ) -> None:
        if unknown := producer.keys() - WriteSettings.__optional_keys__:
            names = ", ".join(sorted(WriteSettings.__optional_keys__))
            raise TypeError(f"TransactionalTopic has no setting {min(unknown)!r}: of a producer's it takes {names}")
        self.topic = topic
        self.group = group
        self._rows = rows
        self._rows_on_driver = rows_on_driver
        self._properties = dict(properties or {})
        self._producer: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **producer}
        self._config = ProducerConfig(
            **self._producer,
            **security(self._properties),
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        self._running: _RunningWriter | None = None

    def __enter__(self) -> TransactionalTopic:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> None:
        """Fence earlier jobs of the transactional id, and end what they left open; a second time does nothing.

        Raises `UnknownTopic`, `TransactionFatal`, and `KafkaError` where the cluster does not answer.
        """
        self._started()

    def close(self) -> None:
        """Abort what is open, and end every connection. It may be used again, and is started then."""
        running, self._running = self._running, None
        if running is None:
            return
        try:
            running.thread.call(running.transactions.stop())
        except TransactionError as error:
            log.warning("topic %s: %s", self.topic, error.text)
        finally:
            running.thread.close()

    def __call__(self, frame: DataFrame, batch: Round | int) -> None:
        """Write a micro-batch of `foreachBatch`, without the rows that are written already.

        Raises `KafkaError`, and OtherTopic where what is written under the name of `group` is another query's.
        """
        if isinstance(batch, Round):
            raise TypeError("a GroupStream writes to a TransactionalTopic by run(topic), which commits its offsets")
        if self.group is None:
            raise ValueError('a TransactionalTopic in foreachBatch needs a name for its offsets: give it group="…"')
        query = running_query(frame, batch)
        if query is None:
            ExactlyOnce(self._positions(self.group, {}), None, self.group).add_rows(frame)
            return
        if self.group in query.groups:
            raise ValueError(
                f"group={self.group!r} is the group.id of the query's source, which commits what is read: give the"
                " TransactionalTopic a group of its own, which names what is written"
            )
        if (source := query.source_group) is None:
            origins = {f"{BATCHES}query": Origin(query.id)}
        else:
            origins = {each.topic: Origin(query.topic_ids.get(each.topic, ""), source) for each in query.spans}
        ExactlyOnce(self._positions(self.group, origins), None, source or self.group).add_batch(frame, query)

    def write_round(self, frame: DataFrame, size: float, offsets: Callable[[], RoundOffsets]) -> None:
        """Write a round of about `size` rows, and commit them with what `offsets()` returns when all are acknowledged.

        Raises CommitFailed where the group refuses the offsets: nothing was written then. Raises `KafkaError`.
        """
        try:
            self._write(frame, size, offsets)
        except TransactionAbortable as error:
            if error.code in REFUSALS:
                raise CommitFailed(error.code, (-1, ""), error.text) from error
            raise

    # The inside

    def _started(self) -> _RunningWriter:
        if self._running is None:
            thread = LoopThread("kohort transactions")
            start = RoundTransactions.start(self._config, self.topic, self._producer, self._properties)
            try:
                self._running = _RunningWriter(thread, thread.call(start))
            except BaseException:
                thread.close()
                raise
        return self._running

    def _positions(self, group: str, origins: Mapping[str, Origin]) -> CommittedPositions:
        def committed(partitions: Collection[TopicPartition]) -> Offsets:
            running = self._started()  # from now on no other job writes these commits
            return running.thread.call(running.transactions.committed(group, partitions))

        def write(frame: DataFrame, size: float, offsets: Offsets) -> None:
            self._write(frame, size, lambda: (GroupMetadata(group), offsets))

        return CommittedPositions(self.topic, group, committed, write, origins)

    def _write(self, frame: DataFrame, size: float, offsets: Callable[[], RoundOffsets]) -> None:
        """Write rows until a try succeeds in which each task has run once."""
        rows = self._made(frame)
        is_small = size <= self._rows_on_driver
        for left in reversed(range(MOST_TRIES)):
            try:
                self._try(rows, offsets, is_small=is_small)
            except SecondAttempt as reason:
                if not left:
                    raise
                log.warning("topic %s: a round is aborted and written again: %s", self.topic, reason)
            else:
                return

    def _try(self, rows: DataFrame, offsets: Callable[[], RoundOffsets], *, is_small: bool) -> None:
        running = self._started()
        thread, transactions = running.thread, running.transactions
        try:
            plan = thread.call(transactions.begin())
            written = _written(rows, plan, self._config.partitioner, is_small=is_small)
            thread.call(transactions.commit(written, *offsets()))
        except BaseException as error:
            self._abort(running, error)
            raise

    def _abort(self, running: _RunningWriter, error: BaseException) -> None:
        """Abort after an error; raise the one that fences this job in its place."""
        try:
            running.thread.call(running.transactions.abort())
        except TransactionFatal as fatal:
            if fatal is not error:
                raise fatal from error
        except TransactionError as unanswered:
            log.warning("topic %s: the abort after %r: %s", self.topic, error, unanswered.text)
        if not running.transactions.is_usable:
            self.close()  # the next use begins after the end of what is open

    def _made(self, frame: DataFrame) -> DataFrame:
        if self._rows is None:
            return frame.select(*(name for name in ("key", "value", "headers") if name in frame.columns))
        rows = self._rows(frame)
        if "topic" in rows.columns:
            text = f"the rows have a column topic, and are written to {self.topic!r}"
            raise ValueError(f"{text}: select key, value, headers and, to choose it, partition")
        return rows


def _written(
    rows: DataFrame, plan: WritePlan, partitioner: Callable[[bytes, int], int], *, is_small: bool
) -> Mapping[int, int]:
    """Write rows, here or by tasks; return how many each partition was given. Raises SecondAttempt, `KafkaError`."""
    from kohort.spark.topics.task_writer import TargetPartitions, TaskWriter, by_target, record_rows, write

    spark = rows.sparkSession
    if is_remote(spark):
        raise ValueError("a session of Spark Connect does not report how often a stage ran: use a classic session")
    targets = TargetPartitions(plan.partitions, plan.identity.epoch, partitioner)
    records = record_rows(rows, record_columns(rows.schema))
    if is_small:
        try:
            return write(plan, targets(iter(records.toArrow().to_batches())))
        except KafkaError as error:
            require_no_repeat("the application", error)
            raise
    placed = by_target(records, targets, min(plan.partitions, parallelism(spark)))
    done = placed.mapInArrow(TaskWriter(plan), REPORT_COLUMNS)
    reports = [TaskReport(*row) for row in done.collect()]
    written = records_written(reports)
    _require_one_attempt(spark, {each.stage for each in reports})
    return written


def _require_one_attempt(spark: SparkSession, stages: set[int]) -> None:
    """Raise SecondAttempt unless Spark reports that the stage which wrote ran once, and each of its tasks too.

    Spark reports it soon after the end of a job.
    """
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + _PROGRESS_S
    while time.monotonic() < deadline:
        found = [tracker.getStageInfo(stage) for stage in sorted(stages)]
        if len(found) != 1:
            raise SecondAttempt(f"{len(found)} stages wrote records")
        ran = found[0]
        if ran is not None and is_done_at_once(
            StageProgress(ran.currentAttemptId, ran.numTasks, ran.numCompletedTasks, ran.numFailedTasks)
        ):
            return
        time.sleep(_PROGRESS_POLL_S)
    raise SecondAttempt(f"Spark did not report within {_PROGRESS_S:g} s that its tasks ran once")
