"""The ways out of a consumer group: fenced, away too long, closed; and the ways back."""

from __future__ import annotations

import pytest
from tests.unit.member.consumer_script import (
    ASSIGNED,
    INTERVAL_MS,
    LOST,
    REVOKED,
    TWO,
    Script,
    ids,
    one_heartbeat,
    partitions,
    revoking,
    stable,
)

from kohort.member import ConsumerState, Identity, MemberConfig, PollState, effects, inputs
from kohort.member.effects import ConsumerHeartbeat, PollLate, PollMissed, RunCallback
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.model.assignment import NOTHING
from kohort.model.errors import ErrorCode

STATIC = MemberConfig(instance_id="i", max_poll_interval_ms=10_000)
POLLING = MemberConfig(max_poll_interval_ms=10_000)
OUT = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]


# Fenced


@pytest.mark.parametrize("error", OUT)
def test_a_fenced_member_loses_all_partitions_and_joins_again_under_its_id(error: ErrorCode) -> None:
    script = stable()
    script.beat()
    [lose] = script.refused(error)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)
    assert script.member.identity == Identity(-1, "m")
    [join] = script.finished(LOST)
    assert isinstance(join, ConsumerHeartbeat)
    assert (join.member_epoch, join.member_id, join.owned, join.topics) == (0, "m", NOTHING, ("t",))


def test_a_member_that_owned_nothing_joins_again_at_once() -> None:
    script = stable(owned=NOTHING)
    script.beat()
    assert one_heartbeat(script.refused(ErrorCode.UNKNOWN_MEMBER_ID)).member_epoch == 0
    assert script.callbacks() == []


def test_a_member_whose_join_is_fenced_first_takes_its_older_self_out() -> None:
    script = Script()
    script.subscribe("t")
    [leave] = script.refused(ErrorCode.FENCED_MEMBER_EPOCH)
    assert isinstance(leave, ConsumerHeartbeat)
    assert leave.member_epoch == -1
    assert one_heartbeat(script.wait(1_000)).member_epoch == 0


def test_joins_that_are_fenced_again_and_again_are_no_tight_loop() -> None:
    script = Script()
    script.subscribe("t")
    began_ms = script.now_ms
    for _ in range(10):
        script.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        while script.member.in_flight is None:
            script.wait(50)
    assert script.now_ms - began_ms > 5_000


def test_a_static_member_whose_join_was_not_answered_frees_its_own_place() -> None:
    """kafka#23542: the coordinator refuses a join under an instance id that is taken, be it by the same member."""
    script = Script(STATIC)
    script.subscribe("t")
    script.refused(ErrorCode.NETWORK_EXCEPTION)
    script.wait(1_000)
    [leave] = script.refused(ErrorCode.UNRELEASED_INSTANCE_ID)
    assert isinstance(leave, ConsumerHeartbeat)
    assert leave.member_epoch == -2
    assert one_heartbeat(script.wait(1_000)).member_epoch == 0
    script.answered(1, ids(0))
    assert script.callbacks() == [(ASSIGNED, partitions(0))]


def test_a_static_member_whose_place_is_anothers_fails_also_after_a_join_that_was_not_answered() -> None:
    script = Script(STATIC)
    script.subscribe("t")
    script.refused(ErrorCode.NETWORK_EXCEPTION)
    script.wait(1_000)
    script.refused(ErrorCode.UNRELEASED_INSTANCE_ID)
    script.wait(1_000)
    assert isinstance(script.refused(ErrorCode.UNRELEASED_INSTANCE_ID)[0], effects.Fail)


def test_a_fenced_member_without_subscription_does_not_rejoin() -> None:
    script = stable()
    script.subscribe()
    script.refused(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.finished(LOST) == []
    assert script.member.state is ConsumerState.UNSUBSCRIBED
    assert one_heartbeat(script.subscribe("u")).member_epoch == 0


# Away too long


@pytest.mark.parametrize(("config", "epoch"), [(POLLING, -1), (STATIC, -2)])
def test_a_member_that_exceeds_max_poll_interval_leaves(config: MemberConfig, epoch: int) -> None:
    script = stable(config)
    script.take(inputs.PollReturned())
    script.wait(6_666)
    assert PollLate(3_334) in script.asked
    asked = script.wait(3_334)
    assert PollMissed(is_leaving=True) in asked
    assert asked[-1] == ConsumerHeartbeat(script.member.number, "m", epoch, cause="consumer poll timeout has expired.")
    assert script.member.state is ConsumerState.STALE
    assert script.member.poll_state is PollState.MISSED
    assert script.callbacks() == [], "no callback runs before the user is back"
    assert script.wait(600_000) == []


def test_a_late_poll_loses_all_partitions_and_joins_again() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    script.wait(10_000)
    script.take(inputs.PollEntered())
    assert script.callbacks() == [(LOST, TWO)]
    assert one_heartbeat(script.finished(LOST)).member_epoch == 0


def test_a_poll_in_time_keeps_the_membership() -> None:
    script = stable(POLLING)
    for _ in range(3):
        script.take(inputs.PollReturned())
        script.wait(6_000)
        script.take(inputs.PollEntered())
    assert script.member.state is ConsumerState.STABLE


def test_a_member_goes_stale_in_the_middle_of_a_reconciliation() -> None:
    script = revoking(POLLING)
    script.take(inputs.PollReturned())
    script.wait(10_000)
    assert script.finished(REVOKED, is_abandoned=True) == []
    script.take(inputs.PollEntered())
    assert script.callbacks() == [(LOST, TWO)]


def test_a_member_that_exceeds_max_poll_interval_before_its_join_does_not_join() -> None:
    script = Script(POLLING)
    script.subscribe("t")
    script.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    script.take(inputs.PollReturned())
    script.now_ms += 10_000
    assert script.take(inputs.Tick()) == [PollMissed(is_leaving=True)]
    assert one_heartbeat(script.take(inputs.PollEntered())).member_epoch == 0


def test_the_answer_to_what_was_under_way_when_the_user_stayed_away_changes_nothing() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    script.wait(INTERVAL_MS)
    number = script.member.in_flight
    assert number is not None
    script.wait(INTERVAL_MS)
    script.take(ConsumerHeartbeatAnswered(number, ErrorCode.NONE, None, 2, INTERVAL_MS, ids(0)))
    assert script.member.state is ConsumerState.STALE


# Closed


@pytest.mark.parametrize(
    ("instance_id", "leave", "epoch"),
    [(None, None, -1), (None, True, -1), ("i", None, -2), ("i", False, -2), ("i", True, -1)],
)
def test_closing_revokes_and_leaves(instance_id: str | None, leave: bool | None, epoch: int) -> None:
    script = stable(MemberConfig(instance_id=instance_id))
    [revoke] = script.take(inputs.CloseRequested("bye", leave))
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, TWO)
    assert script.member.state is ConsumerState.PREPARE_LEAVING
    [last] = script.finished(REVOKED)
    assert last == ConsumerHeartbeat(script.member.number, "m", epoch, cause="bye")
    assert script.member.state is ConsumerState.LEAVING
    assert script.answered(epoch) == [effects.Ended()]
    assert script.member.is_closed


def test_a_dynamic_member_that_is_to_stay_sends_no_leave() -> None:
    script = stable()
    script.take(inputs.CloseRequested("bye", leave=False))
    assert script.finished(REVOKED) == [effects.Ended()]


def test_heartbeats_go_on_while_the_last_revocation_runs() -> None:
    script = stable()
    script.take(inputs.CloseRequested("bye"))
    assert script.beat().member_epoch == 1


def test_a_leave_does_not_wait_for_the_heartbeat_under_way() -> None:
    script = stable()
    script.beat()
    script.take(inputs.CloseRequested("bye"))
    assert one_heartbeat(script.finished(REVOKED)).member_epoch == -1


def test_a_leave_follows_a_join_that_may_have_been_taken() -> None:
    script = Script()
    script.subscribe("t")
    assert one_heartbeat(script.take(inputs.CloseRequested("bye"))).member_epoch == -1


def test_closing_in_the_middle_of_a_reconciliation_lets_its_callback_finish_and_revokes_the_rest() -> None:
    script = revoking()
    assert script.take(inputs.CloseRequested("bye")) == []
    script.finished(REVOKED)
    assert script.callbacks() == [(REVOKED, partitions(0))]
    assert one_heartbeat(script.finished(REVOKED)).member_epoch == -1


@pytest.mark.parametrize("error", OUT)
def test_a_member_that_is_fenced_while_it_closes_sends_no_leave(error: ErrorCode) -> None:
    script = stable()
    script.beat()
    script.take(inputs.CloseRequested("bye"))
    assert script.refused(error) == []
    assert script.finished(REVOKED) == [effects.Ended()]


def test_a_last_revocation_that_came_too_late_becomes_a_loss() -> None:
    script = stable()
    script.beat()
    script.take(inputs.CloseRequested("bye"))
    script.refused(ErrorCode.UNKNOWN_MEMBER_ID)
    script.finished(REVOKED, is_abandoned=True)
    assert script.callbacks()[-1] == (LOST, TWO)
    assert script.finished(LOST) == [effects.Ended()]


def test_closing_while_the_loss_is_reported_ends_after_it() -> None:
    script = stable()
    script.beat()
    script.refused(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.take(inputs.CloseRequested("bye")) == []
    assert script.finished(LOST) == [effects.Ended()]


def test_a_member_that_failed_or_went_stale_closes_without_a_word() -> None:
    failed = stable()
    failed.beat()
    failed.refused(ErrorCode.FENCED_INSTANCE_ID)
    failed.finished(LOST)
    assert failed.take(inputs.CloseRequested("bye")) == [effects.Ended()]
    stale = stable(POLLING)
    stale.take(inputs.PollReturned())
    stale.wait(10_000)
    stale.take(inputs.CloseRequested("bye"))
    assert stale.callbacks() == [(LOST, TWO)]
    assert stale.finished(LOST) == [effects.Ended()]


def test_a_member_that_never_joined_closes_silently() -> None:
    assert Script().take(inputs.CloseRequested("bye")) == [effects.Ended()]


def test_a_leave_that_gets_no_answer_ends_the_member_too() -> None:
    script = stable()
    script.take(inputs.CloseRequested("bye"))
    script.finished(REVOKED)
    assert script.refused(ErrorCode.REQUEST_TIMED_OUT) == [effects.Ended()]
    assert script.take(inputs.CloseRequested("bye")) == []
