"""Whether a round may be committed, by what its tasks reported and what Spark knows of its stage."""

from __future__ import annotations

import pytest

from kohort.model.errors import ErrorCode, KafkaError
from kohort.spark.topics.write_plan import SecondAttempt, StageProgress, TaskReport, is_done_at_once, records_written


def report(task: int = 0, attempt: int = 0, partition: int = -1, records: int = 0, code: int = 0, text: str = ""):
    return TaskReport(4, task, attempt, partition, records, code, text)


def test_the_acknowledged_records_of_each_partition_are_counted():
    reports = [report(0, partition=0, records=5), report(0, partition=2, records=1), report(1)]
    assert records_written(reports) == {0: 5, 2: 1}


def test_a_second_attempt_of_a_task_ends_the_round_although_it_wrote_nothing():
    with pytest.raises(SecondAttempt, match="task 1 was started 2 times"):
        records_written([report(0, partition=0, records=5), report(1, attempt=1)])


def test_a_partition_with_two_writers_ends_the_round():
    with pytest.raises(SecondAttempt, match="two tasks have written to partition 3"):
        records_written([report(0, partition=3, records=5), report(1, partition=3, records=5)])


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.TRANSACTION_ABORTABLE])
def test_a_lost_order_of_records_repeats_the_round(code):
    with pytest.raises(SecondAttempt, match="task 7: out of order"):
        records_written([report(7, code=code, text="out of order")])


def test_any_other_error_of_a_task_is_raised():
    with pytest.raises(KafkaError, match="larger than") as error:
        records_written([report(code=ErrorCode.MESSAGE_TOO_LARGE, text="a record is larger than 1 MB")])
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_stage_is_done_when_all_its_tasks_are_and_none_failed():
    assert not is_done_at_once(StageProgress(attempt=0, tasks=3, completed=2, failed=0))
    assert is_done_at_once(StageProgress(attempt=0, tasks=3, completed=3, failed=0))


def test_a_stage_that_was_started_again_or_had_a_failed_task_ends_the_round():
    """A stage whose input was lost runs again, and there each task has its first attempt."""
    with pytest.raises(SecondAttempt, match="the stage was started 2 times"):
        is_done_at_once(StageProgress(attempt=1, tasks=3, completed=3, failed=0))
    with pytest.raises(SecondAttempt, match="1 attempts of its tasks failed"):
        is_done_at_once(StageProgress(attempt=0, tasks=3, completed=3, failed=1))
