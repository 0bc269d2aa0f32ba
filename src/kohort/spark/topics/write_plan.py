"""What the tasks of one round need to write it, what they report, and whether the round may be committed.

The law: a round is committed only if each of its tasks ran once, every record of it was acknowledged, and each
partition had one writer. EndTxn is answered before its markers are written: a second attempt that still writes then
would add records to the committed transaction. So an attempt after the first writes nothing, and the round is aborted.

Pure values and arithmetic, which are sent between the driver and the executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kohort.client.producer.accumulator import ProducerId
from kohort.model.errors import ErrorCode, KafkaError, error_for

REPORT_COLUMNS = "stage int, task int, attempt int, partition int, records bigint, code int, text string"
"""The columns of `TaskReport`."""

_REPEATED = frozenset(
    {
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""Codes with which a broker refuses a second writer of a partition, or a transaction that it cannot continue."""


class SecondAttempt(Exception):
    """A round cannot be committed, because a task of it ran more than once or lost its order: abort and repeat it."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """How the tasks of one round write: where, in which transaction, and from which sequence number of each partition.

    `producer` are arguments of `ProducerConfig`, `properties` the security settings in Kafka's names.
    """

    topic: str
    partitions: int
    transactional_id: str
    identity: ProducerId
    version: int
    sequences: Mapping[int, int]
    producer: Mapping[str, Any]
    properties: Mapping[str, str] = field(default_factory=dict)


class TaskReport(NamedTuple):
    """What one task wrote to one partition, all of it acknowledged (partition -1: nothing), or why it failed."""

    stage: int
    task: int
    attempt: int
    partition: int = -1
    records: int = 0
    code: int = ErrorCode.NONE
    text: str = ""


class StageProgress(NamedTuple):
    """What Spark knows of a stage: which attempt of it runs, and how many of its tasks are complete or have failed."""

    attempt: int
    tasks: int
    completed: int
    failed: int


def records_written(reports: Iterable[TaskReport]) -> dict[int, int]:
    """Return how many records each partition was given. Raises SecondAttempt, and KafkaError where a task failed."""
    written: dict[int, int] = {}
    for report in reports:
        if report.attempt:
            raise SecondAttempt(f"task {report.task} was started {report.attempt + 1} times")
        if report.code:
            error = KafkaError(error_for(report.code), report.text)
            require_no_repeat(f"task {report.task}", error)
            raise error
        if report.partition in written:
            raise SecondAttempt(f"two tasks have written to partition {report.partition}")
        if report.partition >= 0:
            written[report.partition] = report.records
    return written


def require_no_repeat(who: str, error: KafkaError) -> None:
    """Raise SecondAttempt after an error that a second try under another epoch does not meet."""
    if error.code in _REPEATED:
        raise SecondAttempt(f"{who}: {error.text}") from error


def is_done_at_once(stage: StageProgress) -> bool:
    """Return whether every task of a stage is complete, each in one attempt. Raises SecondAttempt."""
    if stage.attempt:
        raise SecondAttempt(f"the stage was started {stage.attempt + 1} times: rows on their way to it were lost")
    if stage.failed:
        raise SecondAttempt(f"{stage.failed} attempts of its tasks failed")
    return stage.completed == stage.tasks
