"""Consumer, share and streams groups: epochs, targets, and each member's way to its own."""

from __future__ import annotations

import json

import pytest
from tests.unit.fleet.written_group import START, Written

from kohort.fleet.fold.fold import state_of
from kohort.fleet.fold.folded_group import group_from_json, group_to_json
from kohort.group.events import MemberState


def formed() -> Written:
    """A group of one member that owns three partitions."""
    return Written().joins("a").epoch(1).targets(1, a=(0, 1, 2)).has("a", 1, 0, 1, 2)


def test_a_first_member_joins_and_owns_its_target() -> None:
    written = formed()
    assert written.summary() == [
        ("joined", 1, "a", ()),
        ("epoch_bumped", 1, None, ()),
        ("target", 1, None, ()),
        ("assigned", 1, "a", ("flights-0", "flights-1", "flights-2")),
        ("settled", 1, None, ()),
    ]
    assert state_of(written.group) == "Stable"


def test_a_move_is_unowned_from_the_members_word_to_the_next_owners_grant() -> None:
    written = formed().after(60).joins("b").epoch(2).targets(2, a=(0, 1), b=(2,))
    written.has("b", 2, state=MemberState.UNRELEASED_PARTITIONS)
    written.has("a", 1, 0, 1, pending=(2,))
    assert state_of(written.group) == "Reconciling"
    written.after(5).has("a", 2, 0, 1).after(3).has("b", 2, 2)
    (hour,) = written.all_hours()
    assert hour.unowned_partition_ms == 3_000
    assert (hour.rebalances, hour.rebalance_ms_max) == (2, 8_000)
    assert (hour.partitions_moved, hour.partitions_kept) == (1, 2)
    assert hour.slowest_member == "client-b"
    assert written.summary("revoking", "revoked", "assigned")[1:] == [
        ("revoking", 1, "a", ("flights-2",)),
        ("revoked", 2, "a", ("flights-2",)),
        ("assigned", 2, "b", ("flights-2",)),
    ]


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_is_set_while_a_rebalance_runs_makes_it_no_longer(days: int) -> None:
    written = formed().after(60).joins("b").epoch(2).after(3).after(days * 86_400)
    written.targets(2, a=(0, 1, 2)).has("b", 2).after(2).has("a", 2, 0, 1, 2)
    assert [(hour.rebalances, hour.rebalance_ms_max) for hour in written.all_hours() if hour.rebalances] in (
        [(1, 0), (1, 2_000)],
        [(1, 2_000), (1, 0)],
    )


def test_tombstones_with_a_new_epoch_are_a_departure() -> None:
    written = formed().after(60).joins("b").epoch(2).targets(2).has("b", 2).has("a", 2, 0, 1, 2)
    written.after(60).goes("a").epoch(3).targets(3, b=(0, 1, 2)).after(1).has("b", 3, 0, 1, 2)
    assert written.summary("left", "lost") == [
        ("left", 2, "a", ()),
        ("lost", 2, "a", ("flights-0", "flights-1", "flights-2")),
    ]
    assert written.all_hours()[0].unowned_partition_ms == 3 * 1_000


def test_a_member_that_revoked_partitions_too_late_was_evicted_and_its_rebalance_failed() -> None:
    written = formed().after(60).joins("b").epoch(2).targets(2, a=(0,), b=(1, 2))
    written.has("b", 2, state=MemberState.UNRELEASED_PARTITIONS).has("a", 1, 0, pending=(1, 2))
    written.after(60).goes("a").epoch(3).targets(3, b=(0, 1, 2)).has("b", 3, 0, 1, 2)
    (evicted,) = [each for each in written.events if each.event == "evicted"]
    assert (evicted.member, evicted.cause) == ("a", "rebalance_timeout")
    (hour,) = written.all_hours()
    assert (hour.evicted, hour.left, hour.rebalances_failed) == (1, 0, 1)


def test_the_last_member_leaves_an_empty_group() -> None:
    written = formed().after(60).goes("a").epoch(2)
    assert [name for name, *_ in written.summary()][-5:] == ["left", "lost", "epoch_bumped", "emptied", "settled"]
    assert state_of(written.group) == "Empty"
    assert written.group.emptied_ms == START + 60_000


def test_a_static_member_that_pauses_revokes_what_it_had_and_its_successor_has_it_again() -> None:
    written = Written().joins("a", "host-1").epoch(1).targets(1, a=(0, 1)).has("a", 1, 0, 1).after(60)
    written.has("a", -2, 0, 1).after(4).goes("a").joins("b", "host-1").has("b", 1, 0, 1)
    assert written.summary("paused", "rejoined", "left", "evicted", "joined")[1:] == [
        ("paused", 1, "a", ("flights-0", "flights-1")),
        ("rejoined", 1, "b", ()),
    ]
    (hour,) = written.all_hours()
    assert (hour.unowned_partition_ms, hour.rebalances) == (2 * 4_000, 2)
    assert (hour.partitions_moved, hour.partitions_kept) == (0, 2)


def test_a_classic_group_becomes_a_consumer_group_without_a_member_leaving() -> None:
    written = Written().generation(3, {"a": (0, 1)}).after(60).deleted()
    written.joins("a").epoch(3).targets(3, a=(0, 1)).has("a", 3, 0, 1)
    assert written.summary("left", "deleted", "converted", "lost", "joined")[1:] == [("converted", 3, None, ())]
    assert [each.until_ms for each in written.ended] == []
    assert written.group.kind == "consumer"
    assert state_of(written.group) == "Stable"


def test_a_consumer_group_becomes_a_classic_one_without_a_member_leaving() -> None:
    written = formed().after(60).goes("a").append(3, None, None).generation(1, {"a": (0, 1, 2)})
    assert written.summary("left", "deleted", "converted", "lost") == [("converted", 1, None, ())]
    assert written.ended == []
    assert (written.group.kind, state_of(written.group)) == ("classic", "Stable")


def test_a_truncated_log_yields_no_event_that_it_does_not_contain() -> None:
    written = Written().joins("a").has("a", 9, 0).targets(9, a=(0,)).epoch(9)
    assert [(each.event, each.cause) for each in written.events] == [("joined", "log_begins")]
    assert [hour.rebalances for hour in written.all_hours()] == [0]
    written.after(5).joins("b").epoch(10)
    assert [name for name, *_ in written.summary()][1:] == ["joined", "epoch_bumped"]


def test_members_of_a_share_group_share_and_nothing_is_ever_unowned() -> None:
    written = Written()
    assignment = {"memberEpoch": 2, "assignedPartitions": [{"topicId": "T", "partitions": [0]}]}
    for member_id in ("a", "b"):
        written.append(10, member_id, json.dumps({"clientId": member_id, "subscribedTopicNames": ["t"]}))
    written.append(11, None, '{"epoch": 2}').append(12, None, '{"assignmentEpoch": 2}')
    for member_id in ("a", "b"):
        written.append(14, member_id, json.dumps(assignment))
    assert [name for name, *_ in written.summary()] == [
        "joined", "joined", "epoch_bumped", "target", "assigned", "assigned", "settled",
    ]  # fmt: skip
    assert written.group.ownership.owners == {}
    assert (written.group.kind, state_of(written.group)) == ("share", "Stable")


def test_the_tasks_of_a_streams_group_are_owned_like_partitions() -> None:
    written = Written().append(19, "a", '{"clientId": "s"}').append(17, None, '{"epoch": 2}')
    written.append(20, None, '{"assignmentEpoch": 2}')
    task = {"subtopologyId": "0", "partitions": [0, 3]}
    written.append(22, "a", json.dumps({"memberEpoch": 2, "state": 1, "activeTasks": [task]}))
    assert written.summary("assigned") == [("assigned", 2, "a", ("0_0", "0_3"))]
    assert (written.group.kind, state_of(written.group)) == ("streams", "Stable")


def test_a_member_of_a_streams_group_that_must_revoke_has_a_number_of_its_own() -> None:
    """1 is stable in its records, where it means to revoke in those of a consumer group."""
    written = (
        Written().append(19, "a", '{"clientId": "s", "rebalanceTimeoutMs": 60000}').append(17, None, '{"epoch": 2}')
    )
    written.append(20, None, '{"assignmentEpoch": 2}')
    written.append(22, "a", '{"memberEpoch": 2, "state": 2}').after(60)
    assert state_of(written.group) == "Reconciling"
    for kind in (22, 21, 19):
        written.append(kind, "a", None)
    written.append(17, None, '{"epoch": 3}')
    assert [event for event, *_ in written.summary("evicted", "left")] == ["evicted"]


def test_what_was_folded_comes_back_from_json_as_it_was() -> None:
    written = (
        formed().after(60).joins("b", "host-1").epoch(2).targets(2, a=(0, 1), b=(2,)).has("a", 1, 0, 1, pending=(2,))
    )
    text = group_to_json(written.group)
    assert group_to_json(group_from_json("cluster", "orders", text)) == text
