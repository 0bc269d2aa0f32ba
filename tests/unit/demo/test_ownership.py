"""What the demo makes of the workers' journals: tenures, and when a partition had no owner."""

from __future__ import annotations

from demo.journal import Entry, Journal, read_journals
from demo.ownership import Gap, Tenure, gaps, tenures

from kohort.model.ids import TopicPartition
from kohort.spark.rows.rounds import OffsetRange, Round


def entry(at_ms, worker, kind, *numbers, run=1):
    return Entry(at_ms, worker, run, kind, partitions=frozenset(TopicPartition("t", number) for number in numbers))


def test_a_tenure_ends_with_the_revocation_or_the_death_of_its_worker():
    entries = [
        entry(15, "a", "assigned", 0, 1),
        entry(16, "b", "assigned", 2),
        entry(20, "a", "revoked", 1),
        entry(99, "b", "assigned", 0, 1),
    ]
    assert tenures(entries, {("a", 1): 50}) == [
        Tenure(0, "a", 1, 15, 50),
        Tenure(0, "b", 1, 99, None),
        Tenure(1, "a", 1, 15, 20),
        Tenure(1, "b", 1, 99, None),
        Tenure(2, "b", 1, 16, None),
    ]


def test_a_gap_lies_between_two_tenures_of_a_partition():
    owned = [
        Tenure(0, "a", 1, 15, 50),
        Tenure(0, "b", 1, 99, None),
        Tenure(1, "a", 1, 15, 20),
        Tenure(1, "b", 1, 20, 30),
    ]
    assert gaps(owned) == [Gap(0, 50, 99)]


def test_a_journal_is_read_back_without_the_line_that_a_kill_cut_off(tmp_path):
    journal = Journal(tmp_path, "a", 2)
    partition = TopicPartition("t", 3)
    journal.note("assigned", partitions=[partition])
    journal.note_round("began", Round(4, 7, (OffsetRange(partition, 10, 20),)))
    with (tmp_path / "a-2.jsonl").open("ab") as file:
        file.write(b'{"at_ms": 12, "wor')
    assigned, began = read_journals(tmp_path)
    assert (assigned.worker, assigned.run, assigned.kind, assigned.partitions) == ("a", 2, "assigned", {partition})
    assert (began.round_number, began.generation, began.rows, began.ranges) == (
        4,
        7,
        10,
        (OffsetRange(partition, 10, 20),),
    )
