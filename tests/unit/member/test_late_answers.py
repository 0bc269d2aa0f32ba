"""Answers that come late or twice, and errors in the middle of a round: whatever protocol the member speaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.member.classic_script import TWO, Script, cooperative, stable

from kohort.member import Identity, MemberConfig, State, inputs
from kohort.member.effects import Callback, Compute, Fail, Heartbeat, Join, RunCallback
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode

REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST
OUT = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]
either = pytest.mark.parametrize("make", [stable, cooperative], ids=["eager", "cooperative"])


def in_generation_2(script: Script) -> Script:
    """Bring a member of generation 1 through one more round."""
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    if script.member.running is not None:
        script.finished(REVOKED)
    script.joined(2)
    script.synced(TWO)
    script.finished(ASSIGNED)
    assert script.member.state is State.STABLE
    script.forget()
    return script


@either
@pytest.mark.parametrize("error", [*OUT, ErrorCode.NONE])
def test_a_join_answered_to_who_the_member_was_changes_nothing(make: Callable[..., Script], error: ErrorCode) -> None:
    script = in_generation_2(make())
    late = inputs.JoinAnswered(Identity(1, "m"), error, generation=7, member_id="n", leader="n")
    assert script.take(late) == []
    assert (script.member.identity, script.member.owned) == (Identity(2, "m"), TWO)


@either
@pytest.mark.parametrize("error", [*OUT, ErrorCode.NONE])
def test_a_sync_answered_to_who_the_member_was_changes_nothing(make: Callable[..., Script], error: ErrorCode) -> None:
    script = in_generation_2(make())
    assert script.take(inputs.SyncAnswered(Identity(1, "m"), error, Assignment(frozenset()))) == []
    assert (script.member.identity, script.member.owned) == (Identity(2, "m"), TWO)


@either
@pytest.mark.parametrize("error", OUT)
def test_a_heartbeat_and_a_commit_answered_to_who_the_member_was_change_nothing(
    make: Callable[..., Script], error: ErrorCode
) -> None:
    script = make()
    script.wait(3_000)
    in_generation_2(script)
    assert script.heartbeat_answered(error, asked_as=Identity(1, "m")) == [Heartbeat(Identity(2, "m"))]
    assert script.commit_answered(error, asked_as=Identity(1, "m")) == []
    assert script.member.state is State.STABLE


@either
def test_rebalance_in_progress_for_a_member_that_joins_changes_nothing(make: Callable[..., Script]) -> None:
    script = make()
    script.wait(3_000)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    asked = len(script.asked)
    script.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.asked[asked:] == []
    assert script.member.identity == Identity(1, "m")


def test_member_whose_group_went_on_while_its_join_was_lost_has_lost_its_partitions() -> None:
    script = cooperative()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit_answered(ErrorCode.ILLEGAL_GENERATION)
    script.join_failed(ErrorCode.NETWORK_EXCEPTION)
    script.wait(1_000)
    assert script.callbacks() == [(LOST, TWO)]
    assert script.member.identity == Identity(-1, "m")


def test_static_member_has_lost_its_partitions_if_a_generation_formed_without_it() -> None:
    script = cooperative(MemberConfig(instance_id="i"))
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit_answered(ErrorCode.ILLEGAL_GENERATION)
    script.joined(3)
    script.wait(1_000)
    assert script.callbacks() == [(LOST, TWO)]
    assert script.member.identity == Identity(-1, "m")


@pytest.mark.parametrize("waited_ms", [9_999, 10_000])
def test_static_member_has_lost_its_partitions_if_a_round_may_have_ended_without_it(waited_ms: int) -> None:
    script = cooperative(MemberConfig(instance_id="i", rebalance_timeout_ms=10_000))
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.wait(waited_ms)
    script.joined(3)
    script.wait(1_000)
    assert script.callbacks() == ([(LOST, TWO)] if waited_ms == 10_000 else [])


def test_member_whose_join_was_lost_keeps_its_partitions_while_its_generation_is_accepted() -> None:
    script = cooperative()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit_answered(ErrorCode.NONE)
    script.join_failed(ErrorCode.NETWORK_EXCEPTION)
    assert script.member.owned == TWO
    assert script.member.identity == Identity(1, "m")


@either
def test_a_commit_or_heartbeat_that_the_next_generation_overtook_takes_nothing_from_a_member_that_joins(
    make: Callable[..., Script],
) -> None:
    script = make()
    script.wait(3_000)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    if script.member.running is not None:
        script.finished(REVOKED)
    owned = script.member.owned
    assert script.member.state is State.JOINING
    assert script.commit_answered(ErrorCode.ILLEGAL_GENERATION) == []
    assert script.heartbeat_answered(ErrorCode.ILLEGAL_GENERATION) == []
    assert (script.member.identity, script.member.owned) == (Identity(1, "m"), owned)
    script.joined(2)
    script.synced(TWO)
    script.finished(ASSIGNED)
    assert (script.member.state, script.member.owned) == (State.STABLE, TWO)


@either
@pytest.mark.parametrize("is_sync", [False, True])
def test_a_fenced_instance_does_not_rejoin_also_in_the_middle_of_a_round(
    make: Callable[..., Script], is_sync: bool
) -> None:
    script = make(MemberConfig(instance_id="i"))
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    if script.member.running is not None:
        script.finished(REVOKED)
    owned = script.member.owned
    if is_sync:
        script.joined(2)
        fail, *rest = script.sync_failed(ErrorCode.FENCED_INSTANCE_ID)
    else:
        fail, *rest = script.join_failed(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(fail, Fail)
    assert script.member.state is State.FATAL
    lost = [effect.partitions for effect in rest if isinstance(effect, RunCallback) and effect.callback is LOST]
    assert lost == ([owned] if owned else [])
    assert script.wait(600_000) == []


@either
def test_a_generation_lost_in_sync_loses_what_is_still_owned_and_keeps_the_member_id(
    make: Callable[..., Script],
) -> None:
    script = make()
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    if script.member.running is not None:
        script.finished(REVOKED)
    owned = script.member.owned
    script.joined(42, "m")
    asked = script.sync_failed(ErrorCode.ILLEGAL_GENERATION)
    if owned:
        [lose] = asked
        assert isinstance(lose, RunCallback)
        assert (lose.callback, lose.partitions) == (LOST, owned)
        asked = script.finished(LOST)
    [join] = asked
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "m")
    assert script.member.owned == frozenset()


@either
def test_group_max_size_reached_ends_the_member_with_its_error(make: Callable[..., Script]) -> None:
    script = make()
    script.take(inputs.RejoinRequested("a test"))
    if script.member.running is not None:
        script.finished(REVOKED)
    fail = script.join_failed(ErrorCode.GROUP_MAX_SIZE_REACHED)[0]
    assert isinstance(fail, Fail)
    assert "group.max.size" in fail.text


@either
def test_a_reason_is_sent_once_and_not_again_in_the_next_round(make: Callable[..., Script]) -> None:
    script = make()
    script.take(inputs.RejoinRequested("a test"))
    if script.member.running is not None:
        script.finished(REVOKED)
    script.joined(2)
    script.synced(TWO)
    script.finished(ASSIGNED)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    if script.member.running is not None:
        script.finished(REVOKED)
    reasons = [effect.reason for effect in script.asked if isinstance(effect, Join)]
    assert reasons == ["a test", "offset commit failed since group is already rebalancing"]


def test_a_leader_that_missed_max_poll_interval_leaves_and_computes_nothing() -> None:
    script = cooperative(MemberConfig(max_poll_interval_ms=10_000))
    script.take(inputs.PollReturned())
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.now_ms += 10_000
    asked = script.joined(2, leader="m")
    assert not any(isinstance(effect, Compute) for effect in asked)
    assert script.member.identity == Identity(-1, "")


def test_a_member_whose_process_stood_still_beyond_max_poll_interval_loses_what_an_answer_takes_from_it() -> None:
    """It took the answer first, and revoked with a generation that it no longer had: seed 910001648."""
    script = cooperative(MemberConfig(max_poll_interval_ms=10_000, instance_id="i"))
    script.take(inputs.PollReturned())
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2)
    script.now_ms += 10_000
    script.synced(sorted(TWO)[:1])
    assert script.callbacks() == []
    script.take(inputs.PollEntered())
    assert script.callbacks() == [(LOST, TWO)]
