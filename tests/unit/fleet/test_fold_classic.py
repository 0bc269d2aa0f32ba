"""Classic groups: what two generations that differ say happened."""

from __future__ import annotations

from tests.unit.fleet.written_group import HOUR, START, Written

from kohort.fleet.fold.fold import state_of


def test_a_first_generation_is_joined_by_its_members_who_own_what_it_assigns() -> None:
    written = Written().generation(1, {"a": (0, 1), "b": (2,)}, formed_s_ago=0)
    assert written.summary() == [
        ("generation_formed", 1, None, ()),
        ("joined", 1, "a", ()),
        ("joined", 1, "b", ()),
        ("generation_synced", 1, None, ()),
        ("assigned", 1, "a", ("flights-0", "flights-1")),
        ("assigned", 1, "b", ("flights-2",)),
        ("settled", 1, None, ()),
    ]
    assert state_of(written.group) == "Stable"


def test_members_at_the_beginning_of_a_truncated_log_are_not_counted_as_joined() -> None:
    written = Written().generation(40, {"a": (0,)})
    assert [each.cause for each in written.events if each.event == "joined"] == ["log_begins"]
    assert [hour.joined for hour in written.all_hours()] == [0]


def test_partitions_of_an_eager_group_are_unowned_from_the_forming_to_the_assignment() -> None:
    written = Written().generation(1, {"a": (0, 1)}).after(60)
    written.after(2).generation(2, {"a": (0,), "b": (1,)}, formed_s_ago=2)
    (hour,) = written.all_hours()
    assert hour.unowned_partition_ms == 2 * 2_000
    assert (hour.rebalances, hour.rebalance_ms_total) == (2, 2_000)
    assert (hour.partitions_moved, hour.partitions_kept) == (1, 1)
    assert [(each.member_id, each.partition.partition) for each in written.ended] == [("a", 0), ("a", 1)]


def test_a_cooperative_move_takes_two_generations_and_is_one_rebalance() -> None:
    written = Written().generation(1, {"a": (0, 1)}, strategy="cooperative-sticky").after(60)
    written.generation(2, {"a": (0,), "b": ()}, owned={"a": (0, 1)}, strategy="cooperative-sticky")
    assert written.group.running is not None
    written.after(3).generation(3, {"a": (0,), "b": (1,)}, owned={"a": (0,)}, strategy="cooperative-sticky")
    (hour,) = written.all_hours()
    assert hour.unowned_partition_ms == 3_000
    assert (hour.rebalances, hour.partitions_moved, hour.partitions_kept) == (2, 1, 1)
    assert written.summary("revoked", "assigned")[1:] == [
        ("revoked", 2, "a", ("flights-1",)),
        ("assigned", 3, "b", ("flights-1",)),
    ]
    assert [(each.member_id, each.partition.partition) for each in written.ended] == [("a", 1)]


def test_generations_that_are_missing_formed_in_vain() -> None:
    written = Written().generation(1, {"a": (0,)}).after(60).generation(4, {"a": (0,), "b": ()})
    assert [hour.rebalances_failed for hour in written.all_hours()] == [2]


def test_generations_that_may_be_missing_between_two_runs_are_not_counted_as_failed() -> None:
    written = Written().generation(1, {"a": (0,)}).after(60).generation(4, {"a": (0,), "b": ()}, is_gap=True)
    assert [hour.rebalances_failed for hour in written.all_hours()] == [0]


def test_a_generation_that_never_got_its_assignment_failed() -> None:
    written = Written().generation(1, {"a": (0,)}).after(60)
    written.generation(2, {"a": (), "b": ()}, is_synced=False)
    assert state_of(written.group) == "CompletingRebalance"
    written.after(10).generation(3, {"a": (0,), "b": ()})
    assert ("generation_failed", 2, None, ()) in written.summary()
    (hour,) = written.all_hours()
    assert (hour.rebalances, hour.rebalances_failed, hour.unowned_partition_ms) == (2, 1, 10_000)


def test_a_static_member_under_a_new_id_retains_what_it_had() -> None:
    written = Written().generation(1, {"a": (0, 1)}, instances={"a": "host-1"}).after(60)
    written.generation(1, {"b": (0, 1)}, instances={"b": "host-1"})
    assert written.summary()[-1] == ("rejoined", 1, "b", ())
    (hour,) = written.all_hours()
    assert (hour.rebalances, hour.left, hour.joined, hour.unowned_partition_ms) == (1, 0, 1, 0)


def test_a_static_member_that_is_missing_was_evicted_and_any_other_left() -> None:
    written = Written().generation(1, {"a": (0,), "b": (1,), "c": (2,)}, instances={"b": "host-1"}).after(60)
    written.generation(2, {"a": (0, 1, 2)})
    assert written.summary("evicted", "left", "lost") == [
        ("evicted", 2, "b", ()),
        ("lost", 2, "b", ("flights-1",)),
        ("left", 2, "c", ()),
        ("lost", 2, "c", ("flights-2",)),
    ]


def test_an_empty_group_owns_nothing_and_nothing_of_it_is_unowned() -> None:
    written = Written().generation(1, {"a": (0,)}).after(60).generation(2, {})
    assert written.summary()[-2:] == [("emptied", 2, None, ()), ("settled", 2, None, ())]
    written.after(600).commit()
    hours = written.all_hours()
    assert sum(hour.unowned_partition_ms for hour in hours) == 0
    assert (hours[-1].members_min, hours[-1].members_max) == (0, 1)
    assert state_of(written.group) == "Empty"
    written.after(60).deleted()
    assert (written.summary()[-1][0], state_of(written.group)) == ("deleted", "Dead")


def test_members_that_an_hour_begins_with_count_although_one_leaves_before_the_first_commit() -> None:
    written = Written().generation(1, {"a": (0,), "b": (1,)}).after(HOUR // 1000).generation(2, {"a": (0, 1)})
    assert [(hour.members_min, hour.members_max) for hour in written.all_hours()] == [(2, 2), (1, 2)]


def test_time_without_an_owner_is_split_where_the_hour_ends() -> None:
    written = Written().generation(1, {"a": (0,)}, strategy="cooperative-sticky").after(3000)
    written.generation(2, {"a": (), "b": ()}, owned={"a": (0,)}, strategy="cooperative-sticky")
    written.after(1000).generation(3, {"a": (), "b": (0,)}, strategy="cooperative-sticky")
    assert [(hour.hour_ms, hour.unowned_partition_ms) for hour in written.all_hours()] == [
        (START, 600_000),
        (START + HOUR, 400_000),
    ]


def test_a_clock_that_was_set_forward_and_back_counts_nothing() -> None:
    written = Written().generation(1, {"a": (0,)}, strategy="cooperative-sticky").after(60)
    written.generation(2, {"a": (), "b": ()}, owned={"a": (0,)}, strategy="cooperative-sticky")
    written.after(400 * 86_400).commit().after(-400 * 86_400).append(16, None, "{}")
    assert sum(hour.unowned_partition_ms for hour in written.all_hours()) == 0
    assert written.group.clock_ms == START + 60_000


def test_a_record_with_unexpected_fields_is_reported_as_unreadable_and_skipped() -> None:
    written = Written().append(2, None, '{"members": [7]}').append(2, None, "[]").append(8, "x", '{"memberEpoch": {}}')
    assert [each.event for each in written.events if each.event == "unreadable"] == ["unreadable"] * 3
    written.generation(1, {"a": (0,)})
    assert state_of(written.group) == "Stable"


def test_a_group_that_was_never_more_than_offsets_is_simple() -> None:
    written = Written().commit(7, deletions=2)
    assert state_of(written.group) == "Simple"
    assert [hour.commits for hour in written.all_hours()] == [7]
    assert written.summary() == [("expired", None, None, ())]


def test_a_group_of_which_only_tombstones_are_left_is_dead() -> None:
    written = Written().append(5, "a", None).append(3, None, None).commit(0, deletions=3)
    assert state_of(written.group) == "Dead"
    assert written.summary() == [("expired", None, None, ())]
