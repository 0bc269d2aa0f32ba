"""What the demo makes of the group's events and the workers' journals: rebalances, tenures, and who owned nothing."""

from __future__ import annotations

from kohort.demo.journal import Entry, Journal, read_journals
from kohort.demo.rebalances import Gap, Tenure, gaps, read_rebalances, tenures, unowned_partition_s
from kohort.model.ids import TopicPartition
from kohort.spark.rounds import OffsetRange, Round


def event(at_ms, name, generation=1, **more):
    return {"at_ms": at_ms, "group": "g", "event": name, "generation": generation, **more}


def cause(kind, member=None, detail=""):
    return {"kind": kind, "member": member, "detail": detail, "at_ms": 0}


EVENTS = [
    event(10, "member_joined", 0, member="m1", client="worker-a"),
    event(10, "round_opened", 0, cause=cause("member_joined", "m1")),
    event(11, "member_joined", 0, member="m2", client="worker-b"),
    event(12, "generation_formed"),
    event(15, "assignment_stored", assignments={"m1": {"t": [0, 1]}, "m2": {"t": [2]}}),
    event(90, "member_evicted", member="m1"),
    event(90, "round_opened", cause=cause("session_timeout", "m1", "no heartbeat for 6.0 s")),
    event(99, "assignment_stored", 2, assignments={"m2": {"t": [0, 1, 2]}}),
    event(200, "round_opened", 2, cause=cause("member_left", "m2")),
]


def entry(at_ms, worker, kind, *numbers, run=1):
    return Entry(at_ms, worker, run, kind, partitions=frozenset(TopicPartition("t", number) for number in numbers))


def test_a_rebalance_runs_from_the_opened_round_to_the_stored_assignment():
    first, second = read_rebalances([*EVENTS, event(1, "round_opened") | {"group": "other"}], "g")
    assert (first.opened_ms, first.assigned_ms, first.duration_ms, first.generation) == (10, 15, 5, 1)
    assert (first.cause, first.member, first.assignments) == (
        "member joined",
        "worker-a",
        {"worker-a": 2, "worker-b": 1},
    )
    assert (second.cause, second.member, second.detail) == ("session timeout", "worker-a", "no heartbeat for 6.0 s")
    assert (second.duration_ms, second.assignments) == (9, {"worker-b": 3})


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


def test_unowned_time_belongs_to_the_rebalance_that_ended_it():
    first, second = read_rebalances(EVENTS, "g")
    all_gaps = [Gap(0, 50, 99), Gap(1, 20, 100), Gap(2, 11, 16)]
    assert unowned_partition_s(first, second, all_gaps) == 0.005
    assert unowned_partition_s(second, None, all_gaps) == 0.129


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
