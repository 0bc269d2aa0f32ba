"""A member whose topics come from an expression: what the leader saw first, and what is left when nothing matches."""

from __future__ import annotations

from tests.unit.member.classic_script import Script, partitions

from kohort.member import State, inputs
from kohort.member.effects import Callback, Join, RunCallback
from kohort.model.errors import ErrorCode


def matching(*topics: str) -> Script:
    """A follower of generation 1 that wants these topics and all that begin with t."""
    script = Script()
    script.take(inputs.Subscribed(topics, lambda topic: topic.startswith("t")))
    script.joined(1)
    return script


def test_a_topic_that_the_leader_saw_first_is_wanted_too_and_no_reason_to_rejoin() -> None:
    script = matching("t")
    script.synced(partitions(0) | partitions(0, topic="t2"))
    script.finished(Callback.ASSIGNED)
    assert script.member.owned == partitions(0) | partitions(0, topic="t2")
    assert script.member.topics == ("t", "t2")
    assert script.member.state is State.STABLE


def test_an_assignment_with_a_topic_that_does_not_match_is_discarded() -> None:
    script = matching("t")
    script.synced(partitions(0, topic="other"))
    [join] = script.finished(Callback.REVOKED)
    assert isinstance(join, Join)
    assert script.member.owned == frozenset()
    assert join.reason == "received assignment does not match the current subscription"


def test_what_is_seen_later_by_the_member_itself_is_no_change() -> None:
    script = matching("t")
    script.synced(partitions(0) | partitions(0, topic="t2"))
    script.finished(Callback.ASSIGNED)
    assert script.take(inputs.Subscribed(("t", "t2"), script.member.matches)) == []


def test_an_empty_subscription_is_sent_to_the_group() -> None:
    script = matching("t")
    script.synced(partitions(0))
    script.finished(Callback.ASSIGNED)
    script.subscribe()
    [join] = script.finished(Callback.REVOKED)
    assert isinstance(join, Join)
    assert [subscription.topics for _, subscription in join.protocols] == [()]


def test_a_member_whose_expression_matches_nothing_rejoins_when_its_group_rebalances() -> None:
    script = matching("t")
    script.synced(partitions(0))
    script.finished(Callback.ASSIGNED)
    script.subscribe()
    script.finished(Callback.REVOKED)
    script.joined(2)
    script.synced(())
    script.finished(Callback.ASSIGNED)
    script.wait(3_000)
    script.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    [join] = script.finished(Callback.REVOKED)
    assert isinstance(join, Join)


def test_nothing_that_matches_yet_is_no_reason_to_join() -> None:
    assert Script().subscribe() == []


def test_a_member_that_is_evicted_when_its_expression_matches_nothing_loses_what_it_had() -> None:
    """It does not join again, so no round would report that: seeds 61521 and 63007 with a gateway."""
    script = matching("t")
    script.synced(partitions(0))
    script.finished(Callback.ASSIGNED)
    script.take(inputs.Subscribed((), script.member.matches))
    script.take(inputs.CommitAnswered(script.member.identity, ErrorCode.UNKNOWN_MEMBER_ID))
    [lost] = script.take(inputs.CallbackFinished(Callback.REVOKED, is_abandoned=True))
    assert isinstance(lost, RunCallback)
    assert (lost.callback, lost.partitions) == (Callback.LOST, partitions(0))
    assert script.finished(Callback.LOST) == []
    assert script.member.owned == frozenset()
