"""Changes played in virtual time: what the production state machines make of them, and what that costs."""

from __future__ import annotations

import pytest
from tests.unit.what_if.groups import forecast, group

from kohort.assign.server.catalog import server_assignors
from kohort.group.migration.migration_plan import Cost, Goal, Limits, LiveGroup, MemberKind, Restart, make_plan
from kohort.what_if.change import Pace, PlannedChange, Restarts
from kohort.what_if.forecast import Forecast
from kohort.what_if.group_facts import GroupFacts, Times
from kohort.what_if.simulation import costs_of

THREE = ("m-1", "m-2", "m-3")
ROLL = PlannedChange(restarts=(Restarts(),))
KINDS = {
    "eager": group(*THREE),
    "cooperative": group(*THREE, assignor="cooperative-sticky"),
    "consumer": group(*THREE, kind="consumer"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_group_that_is_rolled_is_even_again_and_each_restart_is_two_rebalances(kind: str) -> None:
    found = forecast(KINDS[kind], ROLL, away_ms=20_000)
    assert (found.is_settled, found.failures) == (True, ())
    assert (found.after.least, found.after.most, found.rebalances) == (4, 4, 6)
    assert 60_000 <= found.duration_ms < 75_000


@pytest.mark.parametrize("kind", KINDS)
def test_static_members_that_are_rolled_keep_their_partitions_unread_meanwhile(kind: str) -> None:
    assignor = {"cooperative": "cooperative-sticky"}.get(kind, "")
    native = "consumer" if kind == "consumer" else "classic"
    found = forecast(group(*THREE, kind=native, assignor=assignor, is_static=True), ROLL, away_ms=20_000)
    assert (found.moves, found.rounds) == (0, 0)
    assert found.longest_unread_s == pytest.approx(20, abs=0.1)
    assert found.unread_partition_s == pytest.approx(12 * 20, rel=0.01)


def test_killed_members_partitions_wait_for_its_session_to_end() -> None:
    found = forecast(KINDS["eager"], PlannedChange(kill=("m-2-id",)), session_timeout_ms=10_000)
    assert found.moves >= 4
    assert (found.after.members, found.after.least, found.after.most) == (2, 6, 6)
    # Its last heartbeat was sent at most one heartbeat interval before it died.
    assert 7 <= found.longest_unread_s <= 10.1


def test_member_that_leaves_costs_no_session() -> None:
    found = forecast(KINDS["eager"], PlannedChange(stop=("m-2-id",)), session_timeout_ms=10_000)
    assert found.longest_unread_s < 1


def test_eager_members_read_on_while_a_dead_one_is_awaited_and_stand_still_on_kafka() -> None:
    change = PlannedChange(kill=("m-2-id",), add=3)
    ours = forecast(KINDS["eager"], change, session_timeout_ms=10_000)
    theirs = forecast(KINDS["eager"], change, is_ours=False, session_timeout_ms=10_000)
    assert theirs.unread_partition_s > 2 * ours.unread_partition_s
    cooperative = forecast(KINDS["cooperative"], change, session_timeout_ms=10_000)
    assert ours.unread_partition_s == pytest.approx(cooperative.unread_partition_s, rel=0.02)


def test_callback_keeps_partitions_unread_and_the_round_waiting() -> None:
    fast = forecast(KINDS["eager"], PlannedChange(add=1))
    slow = forecast(KINDS["eager"], PlannedChange(add=1), revoked_ms=2_000, assigned_ms=500)
    assert slow.duration_ms - fast.duration_ms == pytest.approx(2_500, abs=50)
    assert slow.unread_partition_s - fast.unread_partition_s == pytest.approx(12 * 2.5, rel=0.05)


def test_only_what_changes_hands_is_unread_in_a_consumer_group() -> None:
    eager = forecast(KINDS["eager"], PlannedChange(add=3), revoked_ms=1_000)
    native = forecast(KINDS["consumer"], PlannedChange(add=3), revoked_ms=1_000)
    assert native.moves == 6
    assert native.unread_partition_s < eager.unread_partition_s / 1.5


def test_topic_that_grows_is_seen_at_once_by_a_consumer_group_and_later_by_classic_members() -> None:
    change = PlannedChange(partitions={"orders": 24})
    native = forecast(KINDS["consumer"], change)
    classic = forecast(KINDS["eager"], change, metadata_ms=60_000)
    assert (native.after.most, classic.after.most) == (8, 8)
    assert native.duration_ms < 2_000
    assert classic.duration_ms == pytest.approx(30_000, abs=1_000)
    assert (native.moves, native.unread_partition_s > 0) == (0, True)


def test_roll_into_the_consumer_protocol_converts_the_group() -> None:
    found = forecast(KINDS["eager"], PlannedChange(restarts=(Restarts(kind=MemberKind.CONSUMER),)))
    assert (found.is_settled, found.failures, found.after.most) == (True, (), 4)


def test_roll_into_a_cooperative_assignor_takes_two_restarts_of_every_member() -> None:
    both = Restarts(kind=MemberKind.EAGER, offers=("cooperative-sticky", "range"))
    alone = Restarts(kind=MemberKind.COOPERATIVE, offers=("cooperative-sticky",))
    found = forecast(KINDS["eager"], PlannedChange(restarts=(both, alone)))
    assert (found.is_settled, found.failures, found.rebalances) == (True, (), 12)
    refused = forecast(KINDS["eager"], PlannedChange(restarts=(alone,)))
    assert refused.failures, "a member without an assignor in common with the others is refused"


def test_restart_of_all_at_once_reads_nothing_while_they_are_away() -> None:
    found = forecast(KINDS["cooperative"], PlannedChange(restarts=(Restarts(Pace.ALL),)), away_ms=5_000)
    assert found.unread_partition_s >= 12 * 5
    assert found.after.most == 4


def test_pause_between_restarts_announces_the_next_round_at_once() -> None:
    hasty = forecast(KINDS["cooperative"], ROLL, heartbeat_interval_ms=3_000)
    calm = forecast(KINDS["cooperative"], ROLL, heartbeat_interval_ms=3_000, pause_ms=10_000)
    assert calm.longest_unread_s < 1 < hasty.longest_unread_s


def test_members_of_apache_kafka_learn_of_a_round_with_their_next_heartbeat() -> None:
    ours = forecast(KINDS["eager"], PlannedChange(stop=("m-1-id",)), heartbeat_interval_ms=3_000)
    theirs = forecast(KINDS["eager"], PlannedChange(stop=("m-1-id",)), is_ours=False, heartbeat_interval_ms=3_000)
    assert ours.duration_ms < 500 < theirs.duration_ms <= 3_500


def test_user_that_polls_seldom_delays_the_whole_group() -> None:
    prompt = forecast(KINDS["eager"], PlannedChange(add=1))
    absent = forecast(KINDS["eager"], PlannedChange(add=1), poll_ms=10_000)
    assert absent.duration_ms > prompt.duration_ms + 1_000


def test_lag_grows_by_the_records_written_while_no_member_reads() -> None:
    found = forecast(KINDS["eager"], PlannedChange(stop=("m-2-id",)), rate=100.0, revoked_ms=1_000)
    assert found.growth is not None
    assert found.growth.records == pytest.approx(100 * found.unread_partition_s)
    assert found.growth.worst_records == pytest.approx(100 * found.longest_unread_s)
    assert forecast(KINDS["eager"], PlannedChange(stop=("m-2-id",))).growth is None


def test_same_change_to_the_same_group_has_the_same_forecast() -> None:
    def once() -> Forecast:
        return forecast(KINDS["consumer"], PlannedChange(add=2, kill=("m-1-id",)), revoked_ms=300)

    assert once() == once()


LIMITS = Limits(True, server_assignors(["uniform"])["uniform"], "bidirectional", 3, 100, 100)


def costs(found: LiveGroup, goal: Goal) -> tuple[Cost, ...]:
    def played(found: LiveGroup, restarts: tuple[Restart, ...]) -> list[Cost]:
        return costs_of(GroupFacts(found), Times(), restarts, None, lambda _: None)

    return make_plan(found, LIMITS, goal, costs=played).costs  # type: ignore[arg-type]


def test_native_member_that_restarts_moves_what_it_had_twice() -> None:
    first, _ = costs(group("a", "b", each=3, kind="consumer"), Goal.CLASSIC)
    # Away: its three go to b. Back: three go to it.
    assert first.moves == 6


def test_cooperative_members_move_less_than_eager_ones() -> None:
    calm = costs(group("a", "b", "c", assignor="cooperative-sticky"), Goal.CONSUMER)
    costly = costs(group("a", "b", "c"), Goal.CONSUMER)
    assert [each.moves for each in calm] == [8, 8, 8]
    assert sum(each.moves for each in calm) < sum(each.moves for each in costly)


def test_static_member_moves_nothing_and_reads_nothing_while_it_is_away() -> None:
    for each in costs(group("a", "b", "c", kind="consumer", is_static=True), Goal.CLASSIC)[:2]:
        assert each.unread_partition_s == pytest.approx(40, rel=0.05)


def test_only_member_costs_all_partitions_while_it_is_away() -> None:
    (only,) = costs(group("a", each=6), Goal.CONSUMER)
    assert only.moves == 0
    assert only.unread_partition_s == pytest.approx(60, rel=0.02)


def test_two_rounds_of_restarts_lead_to_a_cooperative_group() -> None:
    found = costs(group("a", "b", "c"), Goal.COOPERATIVE)
    assert len(found) == 6
    assert found[-1].moves == 8
