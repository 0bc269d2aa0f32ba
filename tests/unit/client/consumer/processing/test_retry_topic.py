"""What a record carries in a retry topic, and what is read of it."""

from __future__ import annotations

import pytest

from kohort.client.consumer.finished_offsets import FinishedOffsets
from kohort.client.consumer.processing.retry_topic import ParkedRecord, headers_of, parked_of
from kohort.client.consumer.processing.schedule import PartitionWork, WorkItem
from kohort.client.record import Record
from kohort.model.ids import TopicPartition


def test_a_parked_record_is_read_as_it_came_with_its_attempts_and_when_it_is_due() -> None:
    record = Record("t", 3, 17, 1_000, b"k", b"v", (("own", None),))
    item = WorkItem(PartitionWork(TopicPartition("t", 3), FinishedOffsets(0)), record, None)
    item.attempts = 2
    parked = Record("t.retry", 0, 5, 1_000, b"k", b"v", tuple(headers_of(item, 9_000)))
    assert parked_of(parked) == ParkedRecord(record, 2, 9_000)


@pytest.mark.parametrize("headers", [(), (("kohort.retry.topic", b"t"),), (("kohort.retry.due.ms", b"soon"),)])
def test_what_another_program_wrote_is_no_parked_record(headers: tuple[tuple[str, bytes]]) -> None:
    assert parked_of(Record("t.retry", 0, 5, 1_000, b"k", b"v", headers)) is None
