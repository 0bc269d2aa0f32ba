"""Whose commits are accepted, by a second opinion, and that none takes back another's."""

from __future__ import annotations

import pytest
from tests.unit.sim.checks.scripted import (
    NODE,
    Member,
    Script,
    breaks,
    classic,
    commit,
    consumer,
    downgraded,
    gathers,
    generation,
    goes,
    granted,
    group_epoch,
    joins,
    out,
    rejoins,
)

from kohort.group.events import Event
from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.commit_checks import ClosingChecker, CommitChecker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.invariants import CLOSE_KEEPS_WORK, COMMIT_FENCED, COMMIT_NEVER_REWINDS

P = TopicPartition("t", 0)


def sends(script: Script, epoch: int, offset: int = 7, number: int = 1, name: str = "a") -> None:
    script.see.commit_sent(script.member(name, epoch=epoch), number, {P: offset})


def answered(script: Script, error: ErrorCode = ErrorCode.NONE, number: int = 1) -> None:
    errors = {P: error} if error else {}
    script.see.commit_answered(script.member("a"), number, {P: 7}, errors)


@pytest.mark.parametrize(
    ("events", "epoch", "words"),
    [
        ([*classic("A", "B"), goes("A")], 1, "A was removed"),
        ([*classic("A", "B"), gathers(1), rejoins("A"), generation(2, {"A": "t0"})], 1, "shows generation 1"),
        ([*classic("A", "B"), gathers(1), generation(2, ["A"])], 2, "has no assignments yet"),
        ([*classic("B")], 1, "A is not in generation 1"),
        ([*consumer(A="t0"), group_epoch(3), granted("A", 3, "t0")], 2, "shows epoch 2 and is at 3"),
        ([*consumer(A="t0"), *out("A")], 2, "A is no member"),
        ([*consumer(A="t0")], 3, "shows epoch 3, the log knows 2"),
    ],
)
def test_a_commit_one_epoch_late_or_early_is_not_accepted(events: list[Event], epoch: int, words: str) -> None:
    script = Script(CommitChecker)
    script.happens(*events)
    sends(script, epoch)
    with breaks(COMMIT_FENCED, words):
        script.happens(commit("A", 7))


def test_a_commit_of_the_present_generation_is_accepted_also_while_members_gather() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A", "B"), gathers(1))
    sends(script, 1)
    script.happens(commit("A", 7))
    answered(script)
    assert script.times(COMMIT_FENCED) == 2


def test_an_older_epoch_will_do_for_what_was_owned_since_then() -> None:
    script = Script(CommitChecker)
    script.happens(*consumer(A="t0"), group_epoch(3))
    held_since_2 = granted("A", 2, "t0").assigned
    moved = granted("A", 3, "t0")
    script.happens(type(moved)(**{**_fields(moved), "assigned": held_since_2}))
    sends(script, 2)
    script.happens(commit("A", 7))


def _fields(event: Event) -> dict[str, object]:
    return {name: getattr(event, name) for name in type(event).__dataclass_fields__}  # type: ignore[union-attr]


def test_what_a_member_had_in_the_consumer_group_it_may_commit_until_the_round_ends() -> None:
    script = Script(CommitChecker)
    script.happens(*consumer(4, A="t0"), *downgraded(4, A="t0"), gathers(4))
    sends(script, 3)
    script.happens(commit("A", 7))


def test_a_response_shows_which_of_two_commits_was_accepted() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A"))
    sends(script, 0, number=1)
    sends(script, 1, number=2)
    script.happens(commit("A", 7))
    with breaks(COMMIT_FENCED, "commit 1 of a (A, epoch 0)", "shows generation 0"):
        answered(script, number=1)


def test_a_commit_that_is_answered_well_is_in_the_log() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A"))
    sends(script, 1)
    with breaks(COMMIT_FENCED, "no such commit is in the log"):
        answered(script)


def test_a_commit_that_the_log_allows_is_not_refused_as_stale() -> None:
    script = Script(CommitChecker)
    script.happens(*consumer(A="t0"))
    sends(script, 2)
    with breaks(COMMIT_FENCED, "is refused with STALE_MEMBER_EPOCH"):
        answered(script, ErrorCode.STALE_MEMBER_EPOCH)


def test_a_commit_is_refused_as_a_whole_where_one_of_its_partitions_is_no_longer_owned() -> None:
    script = Script(CommitChecker)
    script.happens(*consumer(A="t0"), group_epoch(3), granted("A", 3, "t0"))
    held = granted("A", 3, "t0")
    script.happens(type(held)(**{**_fields(held), "assigned": granted("A", 2, "t0").assigned}))
    offsets = {P: 7, TopicPartition("t", 1): 3}
    script.see.commit_sent(script.member("a", epoch=2), 1, offsets)
    script.see.commit_answered(script.member("a"), 1, offsets, dict.fromkeys(offsets, ErrorCode.STALE_MEMBER_EPOCH))


def test_a_commit_may_be_refused_for_what_happened_on_its_way() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A", "B"))
    sends(script, 1)
    script.happens(goes("A"))
    answered(script, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_commit_shows_who_its_sender_was_when_it_asked() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A"))
    a = script.member("a", epoch=-1)
    script.see.commit_shows(a, 1, Identity(1, "A"))
    script.see.commit_sent(a, 1, {P: 7})
    script.happens(commit("A", 7))


def test_no_client_commits_from_outside_a_group_with_members() -> None:
    script = Script(CommitChecker)
    script.happens(*consumer(A="t0"))
    with breaks(COMMIT_FENCED, "a commit without a member id"):
        script.happens(commit("", 7))


def test_no_member_takes_back_what_another_committed() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A", "B"), commit("A", 9))
    with breaks(COMMIT_NEVER_REWINDS, "B commits t-0@8, and A had committed 9"):
        script.happens(commit("B", 8))


def test_a_members_own_commits_may_overtake_each_other_and_an_operator_may_go_back() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A", "B"), commit("A", 9), commit("A", 8), commit("B", 8), generation(2, []))
    script.happens(commit("", 0), *classic("B", number=3), commit("B", 1))
    assert script.times(COMMIT_NEVER_REWINDS) == 4


def test_a_commit_of_a_topic_that_is_no_more_binds_no_member() -> None:
    script = Script(CommitChecker)
    script.happens(*classic("A", "B"), commit("A", 9))
    script.see.position(script.member("b"), P, 0, "reset")
    script.happens(commit("B", 4))


def test_a_commit_without_a_response_may_be_lost_with_a_node_and_one_with_a_response_may_not() -> None:
    for is_answered in (False, True):
        script = Script(CommitChecker)
        script.happens(*classic("A", "B"), commit("A", 3))
        sends(script, 1, offset=7)
        script.happens(commit("A", 7))
        answered(script, ErrorCode.NONE if is_answered else ErrorCode.NOT_COORDINATOR)
        script.ledgers.groups["g"].fold(commit("A", 3))  # what is left in the log
        script.checkers[0].shard_loaded(NODE, None)  # type: ignore[arg-type]
        if is_answered:
            with breaks(COMMIT_NEVER_REWINDS, "A had committed 7"):
                script.happens(commit("B", 5))
        else:
            script.happens(commit("B", 5))


T0 = TopicPartition("t", 0)


def script_of() -> tuple[Script, Member]:
    """Two members in generation 1; the first one owns t-0."""
    faults = FaultsSeen()
    script = Script(lambda _: faults, lambda ledgers: ClosingChecker(ledgers, faults))
    a = script.member("a", "A", epoch=1)
    script.happens(*classic("B", A="t0"))
    return script, a


def test_finished_work_is_committed_in_a_round_that_gathers() -> None:
    script, a = script_of()
    script.happens(gathers(1), joins("C"))
    script.see.closing(a, {T0: 7})
    script.happens(goes("A"))
    with breaks(CLOSE_KEEPS_WORK, "a (A, 1) was closed when it had finished t-0 up to 7, and -1 is committed"):
        script.see.member_ended(a, "closed")


def test_a_commit_before_the_end_is_enough() -> None:
    script, a = script_of()
    script.see.closing(a, {T0: 7})
    script.happens(commit("A", 7), goes("A"))
    script.see.member_ended(a, "closed")
    assert script.times(CLOSE_KEEPS_WORK) == 1


def test_nothing_is_owed_where_the_coordinator_takes_no_commit() -> None:
    script, a = script_of()
    script.see.closing(a, {T0: 7})
    script.happens(gathers(1), generation(2, ["A", "B"]), goes("A"))
    script.see.member_ended(a, "closed")
    assert script.times(CLOSE_KEEPS_WORK) == 0


def test_nothing_is_owed_after_a_callback_that_raised_a_fault_or_a_kill() -> None:
    for what in ("raises", "fault", "kill"):
        script, a = script_of()
        if what == "fault":
            script.see.fault("slow disk", "node", "for_us=1")
        script.see.closing(a, {T0: 7})
        if what == "raises":
            script.see.callback_ended(a, Callback.REVOKED, frozenset({T0}), "ValueError")
        script.happens(goes("A"))
        script.see.member_ended(a, "killed" if what == "kill" else "closed")
        assert script.times(CLOSE_KEEPS_WORK) == 0
