"""Responses: joins are not fenced, and none starts a round without need."""

from __future__ import annotations

from tests.unit.sim.checks.scripted import Member, Script, breaks, of

from kohort.member.effects import Callback
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.invariants import FENCED_FOR_CAUSE, ROUNDS_HAVE_CAUSES
from kohort.sim.checks.response_checks import ResponseChecker

T0 = TopicPartition("t", 0)
BY_COMMIT = "cooperative-sticky: offset commit failed since group is already rebalancing"


def script_of(kind: str = "cooperative", epoch: int = 1) -> tuple[Script, Member]:
    """A member that has shown an epoch."""
    script = Script(lambda _: ResponseChecker())
    member = script.member("a", epoch=epoch, kind=kind)
    script.see.member_moved(member, "stable", "CallbackFinished")
    return script, member


def in_generation_2(script: Script, member: Member) -> None:
    """Bring it through a round, up to its SyncGroup; a commit of generation 1 is still under way."""
    script.see.commit_sent(member, 1, {T0: 7})
    script.see.asked(member, "JoinGroup", "cooperative-sticky: group is already rebalancing")
    script.see.member_moved(member, "joining", "HeartbeatAnswered")
    script.see.answered(member, "JoinGroup", ErrorCode.NONE, "")
    member.is_now(2)
    script.see.member_moved(member, "syncing", "JoinAnswered")
    script.see.asked(member, "SyncGroup", "")


def test_a_join_is_not_fenced_by_an_epoch() -> None:
    script, a = script_of("consumer", -1)
    script.see.asked(a, "ConsumerGroupHeartbeat", "epoch 0: ")
    with breaks(FENCED_FOR_CAUSE, "a joins with epoch 0"):
        script.see.answered(a, "ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH, "")


def test_an_epoch_that_is_shown_may_be_fenced() -> None:
    script, a = script_of("consumer", 3)
    script.see.asked(a, "ConsumerGroupHeartbeat", "epoch 3: ")
    script.see.answered(a, "ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH, "")
    script.see.asked(a.is_now(-1), "ConsumerGroupHeartbeat", "epoch 0: ")
    script.see.answered(a, "ConsumerGroupHeartbeat", ErrorCode.NONE, "")
    assert script.times(FENCED_FOR_CAUSE) == 1


def test_a_refusal_of_who_it_was_does_not_take_a_generation_away() -> None:
    script, a = script_of()
    in_generation_2(script, a)
    script.see.commit_answered(a, 1, {T0: 7}, {T0: ErrorCode.ILLEGAL_GENERATION})
    with breaks(ROUNDS_HAVE_CAUSES, "abandons generation 2"):
        script.see.callback_began(a.is_now(-1), Callback.LOST, of("t0"), "")


def test_a_refusal_of_who_it_is_may() -> None:
    script, a = script_of()
    in_generation_2(script, a)
    script.see.commit_answered(a, 1, {T0: 7}, {T0: ErrorCode.ILLEGAL_GENERATION})
    script.see.answered(a, "SyncGroup", ErrorCode.ILLEGAL_GENERATION, "")
    script.see.callback_began(a.is_now(-1), Callback.LOST, of("t0"), "")


def test_a_commit_that_is_refused_in_a_round_starts_no_other() -> None:
    script, a = script_of()
    in_generation_2(script, a)
    script.see.commit_sent(a, 2, {T0: 8})
    script.see.commit_answered(a, 2, {T0: 8}, {T0: ErrorCode.REBALANCE_IN_PROGRESS})
    script.see.answered(a, "SyncGroup", ErrorCode.NONE, "")
    with breaks(ROUNDS_HAVE_CAUSES, "refused in a round"):
        script.see.asked(a, "JoinGroup", BY_COMMIT)


def test_a_commit_may_be_the_first_to_report_a_round() -> None:
    script, a = script_of()
    script.see.commit_sent(a, 1, {T0: 7})
    script.see.commit_answered(a, 1, {T0: 7}, {T0: ErrorCode.REBALANCE_IN_PROGRESS})
    script.see.asked(a, "JoinGroup", BY_COMMIT)
    assert script.times(ROUNDS_HAVE_CAUSES) == 1
