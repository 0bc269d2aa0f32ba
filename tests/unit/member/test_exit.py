"""How a member goes: its user stays away too long, or closes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.member.classic_script import (
    TWO,
    Script,
    cooperative,
    cooperative_leader,
    joining_again,
    loses_all,
    partitions,
    stable,
)

from kohort.assign import TopicSpec
from kohort.assign.spec import MemberSpec
from kohort.member import Identity, MemberConfig, PollState, State, effects, inputs
from kohort.member.effects import Callback, Heartbeat, Leave, PollLate, PollMissed, RunCallback, Sync
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST
EVERY_INTERVAL_MS = 3_000


# The poll deadline

POLLING = MemberConfig(max_poll_interval_ms=10_000)


def test_a_missed_poll_deadline_leaves_the_group() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    assert script.member.session.poll_ms == script.now_ms + 10_000
    asked = script.wait(10_000)
    assert Leave(Identity(1, "m"), "consumer poll timeout has expired.") in asked
    assert script.callbacks() == [], "no callback runs before the user is back"
    assert script.wait(60_000) == []


def test_a_late_poll_is_reported_before_max_poll_interval_and_a_missed_one_after_it() -> None:
    script = stable(POLLING)
    assert script.member.poll_state is PollState.HERE
    script.take(inputs.PollReturned())
    assert script.member.poll_state is PollState.AWAY
    script.wait(6_666)
    assert script.asked[-1] == PollLate(3_334)
    assert script.member.poll_state is PollState.LATE
    script.wait(3_334)
    assert PollMissed(is_leaving=True) in script.asked
    assert script.member.poll_state is PollState.MISSED
    script.take(inputs.PollEntered())
    assert script.member.poll_state is PollState.HERE


def test_a_poll_in_time_is_not_warned_of() -> None:
    script = stable(POLLING)
    for _ in range(3):
        script.take(inputs.PollReturned())
        script.wait(6_000)
        script.take(inputs.PollEntered())
    assert not any(isinstance(effect, PollLate) for effect in script.asked)


def test_a_late_poll_loses_all_partitions_and_joins_as_a_new_member() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    script.wait(10_000)
    loses_all(script, script.take(inputs.PollEntered()), Identity(-1, ""))


def test_a_static_member_past_the_poll_deadline_sends_no_leave() -> None:
    script = stable(MemberConfig(max_poll_interval_ms=10_000, instance_id="i"))
    script.take(inputs.PollReturned())
    script.wait(10_000)
    assert not any(isinstance(effect, Leave) for effect in script.asked)
    assert script.member.identity == Identity(-1, "")


def test_a_member_whose_user_waits_in_poll_stays() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    script.take(inputs.PollEntered())
    assert script.member.session.poll_ms is None
    assert not any(isinstance(effect, Leave) for effect in script.wait(60_000))


def test_a_revocation_that_found_no_moment_before_the_poll_deadline_becomes_a_loss() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    script.subscribe("u")
    script.wait(10_000)
    assert script.take(inputs.CallbackFinished(REVOKED, is_abandoned=True)) == []
    assert script.member.owned == TWO
    loses_all(script, script.take(inputs.PollEntered()), Identity(-1, ""))


# Leaving


def test_closing_revokes_and_leaves() -> None:
    script = stable()
    [revoke] = script.take(inputs.CloseRequested("bye"))
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, TWO)
    assert script.finished(REVOKED) == [Leave(Identity(1, "m"), "bye")]
    assert script.take(inputs.LeaveAnswered(Identity(1, "m"), ErrorCode.NONE)) == [effects.Ended()]
    assert script.member.state is State.CLOSED


def test_a_static_member_closes_without_leaving() -> None:
    script = stable(MemberConfig(instance_id="i"))
    script.take(inputs.CloseRequested("bye"))
    assert script.finished(REVOKED) == [effects.Ended()]


@pytest.mark.parametrize(("instance_id", "leave", "leaves"), [("i", True, True), (None, False, False)])
def test_close_may_choose_whether_to_leave(instance_id: str | None, leave: bool, leaves: bool) -> None:
    script = stable(MemberConfig(instance_id=instance_id))
    script.take(inputs.CloseRequested("bye", leave=leave))
    [asked] = script.finished(REVOKED)
    assert isinstance(asked, Leave) is leaves


def test_heartbeats_go_on_while_the_last_revocation_runs() -> None:
    script = stable()
    script.take(inputs.CloseRequested("bye"))
    assert script.wait(EVERY_INTERVAL_MS) == [Heartbeat(Identity(1, "m"))]


def test_closing_during_a_join_waits_for_no_answer() -> None:
    script = joining_again()
    assert script.take(inputs.CloseRequested("bye")) == [Leave(Identity(1, "m"), "bye")]


def joining() -> Script:
    script = cooperative()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    return script


def syncing() -> Script:
    script = joining()
    script.joined(2)
    return script


def joining_once_more() -> Script:
    script = syncing()
    script.sync_failed(ErrorCode.REBALANCE_IN_PROGRESS)
    return script


@pytest.mark.parametrize(
    ("begin", "state", "generation"),
    [(joining, State.JOINING, 1), (syncing, State.SYNCING, 2), (joining_once_more, State.JOINING, 2)],
)
def test_a_cooperative_member_that_is_closed_in_a_round_revokes_what_it_may_still_commit(
    begin: Callable[[], Script], state: State, generation: int
) -> None:
    script = begin()
    assert script.member.state is state
    [revoke] = script.take(inputs.CloseRequested("bye"))
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, TWO)
    assert script.member.identity == Identity(generation, "m")
    assert script.finished(REVOKED) == [Leave(Identity(generation, "m"), "bye")]


def test_a_cooperative_leader_that_is_closed_syncs_before_it_goes_so_that_its_commit_is_taken() -> None:
    script = cooperative_leader()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    assert script.member.state is State.ASSIGNING
    assert script.take(inputs.CloseRequested("bye")) == []
    sync, revoke = script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, {"t": TopicSpec(2)}))
    assert isinstance(sync, Sync)
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, TWO)


def test_a_member_that_is_closed_while_it_gives_some_up_takes_nothing_new_over() -> None:
    script = syncing()
    script.synced(partitions(0, 2))
    script.take(inputs.CloseRequested("bye"))
    [revoke] = script.finished(REVOKED)
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, partitions(0))


def test_closing_during_a_revocation_lets_it_finish_first() -> None:
    script = stable()
    script.subscribe("u")
    assert script.take(inputs.CloseRequested("bye")) == []
    assert script.finished(REVOKED) == [Leave(Identity(1, "m"), "bye")]


def test_a_member_forgotten_while_it_closes_sends_no_leave() -> None:
    script = stable()
    script.wait(EVERY_INTERVAL_MS)
    script.take(inputs.CloseRequested("bye"))
    script.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.finished(REVOKED) == [effects.Ended()], "there is no id left to leave with"


def test_closing_past_the_poll_deadline_loses_all() -> None:
    script = stable(POLLING)
    script.take(inputs.PollReturned())
    script.wait(10_000)
    script.forget()
    script.take(inputs.CloseRequested("bye"))
    assert script.callbacks() == [(LOST, TWO)]
    assert script.finished(LOST) == [effects.Ended()]


def test_a_last_revocation_that_came_too_late_becomes_a_loss() -> None:
    script = stable()
    script.take(inputs.CloseRequested("bye"))
    script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    [lose] = script.take(inputs.CallbackFinished(REVOKED, is_abandoned=True))
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)
    assert script.finished(LOST) == [effects.Ended()]


def test_a_member_that_never_joined_closes_silently() -> None:
    script = Script()
    assert script.take(inputs.CloseRequested("bye")) == [effects.Ended()]


def test_a_leave_that_gets_no_answer_ends_the_member_too() -> None:
    script = stable()
    script.take(inputs.CloseRequested("bye"))
    script.finished(REVOKED)
    unanswered = inputs.LeaveAnswered(Identity(1, "m"), ErrorCode.REQUEST_TIMED_OUT)
    assert script.take(unanswered) == [effects.Ended()]


# The first JoinGroup is on its way, and with its answer the id


def test_a_member_that_is_closed_before_it_has_an_id_gives_the_id_back() -> None:
    script = Script()
    script.subscribe("t")
    assert script.take(inputs.CloseRequested("closed")) == []
    assert script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m") == [Leave(Identity(-1, "m"), "closed")]


def test_a_member_that_is_closed_waits_a_second_for_its_id() -> None:
    script = Script()
    script.subscribe("t")
    script.take(inputs.CloseRequested("closed"))
    script.wait(999)
    assert not script.member.is_closed
    assert script.wait(1) == [effects.Ended()]


def test_a_static_member_that_is_closed_before_it_has_an_id_ends_at_once() -> None:
    script = Script(MemberConfig(instance_id="i"))
    script.subscribe("t")
    assert script.take(inputs.CloseRequested("closed")) == [effects.Ended()]


def test_an_id_that_comes_after_the_poll_deadline_is_given_back() -> None:
    script = Script(POLLING)
    script.take(inputs.PollReturned())
    script.subscribe("t")
    asked_as = script.member.identity
    script.wait(10_000)
    answer = inputs.JoinAnswered(asked_as, ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    [leave] = script.take(answer)
    assert isinstance(leave, Leave)
    assert leave.identity == Identity(-1, "m")
