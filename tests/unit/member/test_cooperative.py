"""A COOPERATIVE member: it keeps what stays, gives up what moves, and joins again so that it gets there (KIP-429)."""

from __future__ import annotations

import pytest
from tests.unit.member.classic_script import TWO, Script, cooperative, cooperative_leader, partitions

from kohort.assign import TopicSpec
from kohort.assign.spec import MemberSpec
from kohort.assign.user_data import MARK, encode_assignment_error
from kohort.member import Identity, State, inputs
from kohort.member.effects import (
    AssignmentErrorStays,
    Callback,
    Fail,
    Join,
    OnAssignment,
    RaiseInPoll,
    RunCallback,
    Sync,
)
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST
T0, T1, T2 = partitions(0), partitions(1), partitions(2)


def rejoining() -> Script:
    """Return a member that owns t-0 and t-1 and waits for JoinGroup's answer, without a callback so far."""
    script = cooperative()
    [join] = script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)
    script.forget()
    return script


# A round that keeps, one that gives up, one that takes


def test_a_member_joins_with_all_it_owns_and_no_callback() -> None:
    script = cooperative()
    [join] = script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)
    subscription = join.protocols[0][1]
    assert subscription == Subscription(("t",), MARK, tuple(sorted(TWO)), 1)
    assert script.member.owned == TWO


def test_rebalance_in_progress_of_a_heartbeat_joins_at_once() -> None:
    script = cooperative()
    script.wait(3_000)
    [join] = script.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)
    assert join.reason == "group is already rebalancing"


def test_the_same_assignment_again_calls_back_with_no_added_partition() -> None:
    script = rejoining()
    script.joined(2)
    on_assignment, assigned = script.synced(TWO)
    assert on_assignment == OnAssignment("cooperative", Assignment(TWO), 2)
    assert isinstance(assigned, RunCallback)
    assert (assigned.callback, assigned.partitions) == (ASSIGNED, frozenset())
    assert script.finished(ASSIGNED) == []
    assert script.member.owned == TWO


def test_what_is_added_is_assigned_and_what_stays_is_not_touched() -> None:
    script = rejoining()
    script.joined(2)
    script.synced(TWO | T2)
    assert script.callbacks() == [(ASSIGNED, T2)]
    assert script.member.owned == TWO | T2


def test_partitions_are_revoked_then_on_assignment_is_called_then_assigned_then_the_member_rejoins() -> None:
    script = rejoining()
    script.joined(2)
    [revoke] = script.synced(T0 | T2)
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, T1)
    assert script.member.owned == TWO, "owned until the callback has finished"
    on_assignment, assigned = script.finished(REVOKED)
    assert on_assignment == OnAssignment("cooperative", Assignment(T0 | T2), 2)
    assert isinstance(assigned, RunCallback)
    assert (assigned.callback, assigned.partitions) == (ASSIGNED, T2)
    [join] = script.finished(ASSIGNED)
    assert isinstance(join, Join)
    assert join.reason == "need to revoke partitions and re-join"
    assert join.identity == Identity(2, "m")
    assert join.protocols[0][1].owned == tuple(sorted(T0 | T2))


def test_losing_everything_to_others_still_ends_with_assigned() -> None:
    script = rejoining()
    script.joined(2)
    script.synced(())
    script.finished(REVOKED)
    assert script.callbacks() == [(REVOKED, TWO), (ASSIGNED, frozenset())]


def test_a_rebalance_that_starts_during_callbacks_is_joined_after_them() -> None:
    script = rejoining()
    script.joined(2)
    script.synced(TWO | T2)
    assert script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS) == []
    [join] = script.finished(ASSIGNED)
    assert isinstance(join, Join)


def test_a_sync_answered_rebalance_in_progress_keeps_all_and_joins_at_once_as_of_the_new_generation() -> None:
    script = rejoining()
    script.joined(2)
    [join] = script.sync_failed(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)
    assert join.identity == Identity(2, "m")
    assert join.protocols[0][1].owned == tuple(sorted(TWO))
    assert script.member.owned == TWO
    assert script.callbacks() == []


# Other topics


def test_only_partitions_of_topics_no_longer_wanted_are_revoked_before_joining() -> None:
    both = TWO | partitions(0, topic="u")
    script = cooperative(owned=both, topics=("t", "u"))
    [revoke] = script.subscribe("t", "v")
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, partitions(0, topic="u"))
    [join] = script.finished(REVOKED)
    assert isinstance(join, Join)
    assert join.reason == "subscription has changed"
    assert join.protocols[0][1].owned == tuple(sorted(TWO))


def test_what_is_unsubscribed_while_something_else_is_given_up_is_given_up_before_joining_too() -> None:
    script = cooperative(owned=TWO | partitions(0, topic="u"), topics=("t", "u"))
    script.subscribe("u")
    script.subscribe("t")
    [revoke] = script.finished(REVOKED)
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, partitions(0, topic="u"))
    [join] = script.finished(REVOKED)
    assert isinstance(join, Join)
    assert join.protocols[0][1].owned == ()


def test_what_is_unsubscribed_during_a_round_is_given_up_before_its_join_is_repeated() -> None:
    script = rejoining()
    script.subscribe("u")
    [revoke] = script.join_failed(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, TWO)


def test_one_more_topic_runs_no_callback_before_joining() -> None:
    [join] = cooperative().subscribe("t", "u")
    assert isinstance(join, Join)


def test_an_assignment_of_topics_no_longer_wanted_is_dropped_and_what_is_owned_stays() -> None:
    script = cooperative(topics=("t", "u"))
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2)
    script.subscribe("t")
    [join] = script.synced(TWO | partitions(0, topic="u"))
    assert isinstance(join, Join)
    assert join.reason == "received assignment does not match the current subscription"
    assert script.member.owned == TWO
    assert script.callbacks() == []


def test_a_topic_that_matches_the_users_pattern_is_taken_though_the_member_had_not_met_it() -> None:
    script = cooperative()
    script.take(inputs.Subscribed(("t",), matches=lambda topic: topic.startswith("t")))
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2)
    script.synced(TWO | partitions(0, topic="tt"))
    assert script.callbacks() == [(ASSIGNED, partitions(0, topic="tt"))]
    assert script.finished(ASSIGNED) == [], "the subscription now holds it: no other round"
    assert script.member.topics == ("t", "tt")


# Out of the group


@pytest.mark.parametrize(
    ("error", "identity"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, Identity(-1, "")), (ErrorCode.ILLEGAL_GENERATION, Identity(-1, "m"))],
)
def test_a_fenced_member_loses_all_partitions_and_joins_with_none(error: ErrorCode, identity: Identity) -> None:
    script = cooperative()
    [lose] = script.commit_answered(error)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)
    [join] = script.finished(LOST)
    assert isinstance(join, Join)
    assert join.identity == identity
    assert join.protocols[0][1].owned == ()
    assert join.reason == f"encountered {error.name} from OFFSET_COMMIT response"


@pytest.mark.parametrize("is_sync", [False, True])
def test_a_member_unknown_in_the_middle_of_a_round_loses_what_it_kept(is_sync: bool) -> None:
    script = rejoining()
    if is_sync:
        script.joined(2)
        [lose] = script.sync_failed(ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        [lose] = script.join_failed(ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)


def test_a_coordinator_that_hands_a_member_another_id_has_forgotten_what_it_owns() -> None:
    script = rejoining()
    [lose] = script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "n")
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)
    [join] = script.finished(LOST)
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "n")


def test_a_member_that_is_fenced_during_a_revocation_loses_the_rest() -> None:
    script = rejoining()
    script.joined(2)
    script.synced(T0 | T2)
    script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    [lose] = script.finished(REVOKED)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, T0), "t-2 was never taken, t-1 is given up"


def test_a_revocation_that_found_no_moment_is_part_of_the_loss() -> None:
    script = rejoining()
    script.joined(2)
    script.synced(T0)
    script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    [lose] = script.take(inputs.CallbackFinished(REVOKED, is_abandoned=True))
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)


def test_a_connection_lost_in_the_round_keeps_all() -> None:
    script = rejoining()
    script.join_failed(ErrorCode.NETWORK_EXCEPTION)
    [join] = script.wait(150)
    assert isinstance(join, Join)
    assert join.identity == Identity(1, "m")
    assert script.member.owned == TWO


# Topics that are deleted


def test_every_member_loses_what_was_deleted_and_only_the_leader_joins() -> None:
    for script in (cooperative(), cooperative_leader()):
        script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
        [lose] = script.take(inputs.MetadataChanged({}, gone=frozenset("t")))
        assert isinstance(lose, RunCallback)
        assert (lose.callback, lose.partitions) == (LOST, TWO)
        asked = script.finished(LOST)
        assert script.member.identity == Identity(1, "m"), "it is still a member"
        if script.member.is_leader:
            [join] = asked
            assert isinstance(join, Join)
            assert join.reason == "topic_metadata_change"
        else:
            assert asked == []


def test_a_topic_made_anew_with_fewer_partitions_loses_those_that_are_no_more() -> None:
    script = cooperative()
    script.take(inputs.MetadataChanged({"t": TopicSpec(1)}))
    assert script.callbacks() == [(LOST, T1)]


def test_a_topic_that_a_broker_does_not_know_yet_is_not_lost() -> None:
    script = cooperative()
    assert script.take(inputs.MetadataChanged({}, gone=frozenset("t"))) == []
    assert script.member.owned == TWO


def test_a_topic_that_a_new_process_never_saw_is_not_claimed_when_it_joins_again() -> None:
    script = cooperative()  # a static member that came back, say, to what it had before the topic was deleted
    script.take(inputs.MetadataChanged({}, gone=frozenset("t")))
    [lose] = script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)
    [join] = script.finished(LOST)
    assert isinstance(join, Join)
    assert join.protocols[0][1].owned == ()


def test_a_topic_that_was_not_there_before_it_was_assigned_is_claimed() -> None:
    script = rejoining()
    script.take(inputs.MetadataChanged({}, gone=frozenset("t")))
    script.joined(2)
    script.synced(TWO | T2)
    script.finished(ASSIGNED)
    [join] = script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)
    assert join.protocols[0][1].owned == tuple(sorted(TWO | T2))


def test_a_topic_that_was_gone_and_is_assigned_anew_is_not_lost() -> None:
    script = cooperative(owned=TWO | partitions(0, topic="u"), topics=("t", "u"))
    script.take(inputs.MetadataChanged({"t": TopicSpec(2), "u": TopicSpec(1)}))
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}, gone=frozenset("u")))
    script.finished(LOST)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2)
    script.synced(TWO | partitions(0, topic="u"))  # its leader has seen that the topic is there again
    assert script.finished(ASSIGNED) == []


def test_a_topic_that_was_gone_and_is_assigned_by_an_old_assignment_is_lost_when_it_is_gone_still() -> None:
    script = cooperative()
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    script.take(inputs.MetadataChanged({}, gone=frozenset("t")))
    script.finished(LOST)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(1, is_skip=True)  # KIP-814: the assignment of before
    script.synced(TWO)
    script.finished(ASSIGNED)
    [lose] = script.take(inputs.MetadataChanged({}, gone=frozenset("t")))
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)


def test_a_new_partition_that_the_leader_saw_first_is_not_lost() -> None:
    script = cooperative()
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(2)
    script.synced(TWO | T2)
    assert script.finished(ASSIGNED) == []
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(3)})) == []
    assert script.member.owned == TWO | T2


def test_metadata_without_a_topic_loses_nothing() -> None:
    script = cooperative()
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    assert script.take(inputs.MetadataChanged({})) == []


def test_a_topic_deleted_during_a_round_is_lost_after_it() -> None:
    script = rejoining()
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    script.take(inputs.MetadataChanged({}, gone=frozenset("t")))
    script.joined(2)
    script.synced(TWO)
    [lose] = script.finished(ASSIGNED)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO)


def test_what_was_deleted_during_a_callback_is_lost_before_the_next_join() -> None:
    script = cooperative(owned=TWO | partitions(0, topic="u"), topics=("t", "u"))
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    script.subscribe("t")
    script.take(inputs.MetadataChanged({"t": TopicSpec(1)}))
    [lose] = script.finished(REVOKED)
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, T1)
    [join] = script.finished(LOST)
    assert isinstance(join, Join)
    assert join.protocols[0][1].owned == tuple(sorted(T0))


def test_partitions_that_are_back_make_a_follower_join() -> None:
    script = cooperative()
    script.take(inputs.MetadataChanged({"t": TopicSpec(1)}))
    script.finished(LOST)
    [join] = script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    assert isinstance(join, Join)
    assert join.reason == "partitions that were deleted are back"


def test_closing_while_deleted_partitions_are_lost_gives_the_rest_back() -> None:
    script = cooperative()
    script.take(inputs.MetadataChanged({"t": TopicSpec(1)}))
    script.take(inputs.CloseRequested("bye"))
    [revoke] = script.finished(LOST)
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, T0)


# A leader that cannot assign, and one that says what is wrong


def test_a_leader_sends_its_assignment_failure_where_the_broker_forwards_it() -> None:
    script = cooperative_leader()
    script.take(inputs.RejoinRequested("try"))
    script.joined(2, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    asked = script.take(inputs.ComputeFailed(Identity(2, "m"), "ZeroDivisionError: 1/0", is_passed_on=True))
    assert asked == [Sync(Identity(2, "m"), "cooperative", {}, failure="ZeroDivisionError: 1/0")]


def test_a_failed_assignment_is_raised_and_the_next_round_joined_a_little_later() -> None:
    script = rejoining()
    waits = []
    for generation in (2, 3, 4):
        script.joined(generation)
        answer = inputs.SyncAnswered(
            script.member.identity, ErrorCode.UNKNOWN_SERVER_ERROR, error_message="assignment by leader L failed"
        )
        assert script.take(answer) == [RaiseInPoll(ErrorCode.UNKNOWN_SERVER_ERROR, "assignment by leader L failed")]
        deadline_ms = script.member.next_deadline_ms()
        assert deadline_ms is not None
        waits.append(deadline_ms - script.now_ms)
        [join] = script.wait(waits[-1])
        assert isinstance(join, Join)
        assert join.protocols[0][1].owned == tuple(sorted(TWO)), "what it read on it still owns"
    assert waits == [100, 200, 400]


def test_an_unknown_server_error_without_a_message_ends_the_member() -> None:
    script = rejoining()
    script.joined(2)
    fail = script.sync_failed(ErrorCode.UNKNOWN_SERVER_ERROR)[0]
    assert isinstance(fail, Fail)


def test_a_leader_that_can_only_leave_loses_what_it_owned() -> None:
    script = cooperative_leader()
    script.take(inputs.RejoinRequested("try"))
    script.joined(2, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    script.forget()
    script.take(inputs.ComputeFailed(Identity(2, "m"), "no"))
    assert script.callbacks() == [(LOST, TWO)]


def test_an_error_in_the_assignment_is_noted_and_asked_about_again_later() -> None:
    script = rejoining()
    script.joined(2)
    error = encode_assignment_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    script.take(inputs.SyncAnswered(script.member.identity, ErrorCode.NONE, Assignment(TWO, error)))
    assert script.member.assignment_error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert script.finished(ASSIGNED) == [], "it keeps what it was given"
    [join] = script.wait(100)
    assert isinstance(join, Join)
    script.joined(3)
    script.synced(TWO)
    assert script.member.assignment_error is None
    script.finished(ASSIGNED)
    script.wait(2_000)
    assert script.member.state is State.STABLE


def test_a_member_whose_assignments_carry_an_error_joins_again_for_it_a_few_times_and_then_warns() -> None:
    script = rejoining()
    error = encode_assignment_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    for generation in range(2, 100):
        script.joined(generation)
        script.take(inputs.SyncAnswered(script.member.identity, ErrorCode.NONE, Assignment(TWO, error)))
        script.finished(ASSIGNED)
        asked = script.wait(100_000)
        if not any(isinstance(effect, Join) for effect in asked):
            break
        script.heartbeat_answered()
    assert generation == 13
    assert AssignmentErrorStays(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) in script.asked
    assert script.member.state is State.STABLE


def test_the_assignor_is_given_its_own_bytes_of_an_assignment_with_an_error() -> None:
    script = rejoining()
    script.joined(2)
    for own in (b"bytes of its own", None):
        error = encode_assignment_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, own)
        script.take(inputs.SyncAnswered(script.member.identity, ErrorCode.NONE, Assignment(TWO, error)))
        assert script.member.assignment_error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert OnAssignment("cooperative", Assignment(TWO, own), script.member.identity.generation) in script.asked
        script.finished(ASSIGNED)
        script.wait(1_000)
        script.joined(3)


def test_a_rebalance_comes_before_the_wait_that_an_error_asked_for() -> None:
    script = rejoining()
    script.joined(2)
    error = encode_assignment_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    script.take(inputs.SyncAnswered(script.member.identity, ErrorCode.NONE, Assignment(TWO, error)))
    script.finished(ASSIGNED)
    [join] = script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)


# Closing


def test_closing_a_stable_member_revokes_all() -> None:
    script = cooperative()
    script.take(inputs.CloseRequested("bye"))
    assert script.callbacks() == [(REVOKED, TWO)]


def test_partitions_deleted_while_the_member_closes_are_revoked_with_the_rest() -> None:
    script = rejoining()
    script.joined(2)
    script.synced(TWO)
    script.take(inputs.CloseRequested("bye"))
    script.take(inputs.MetadataChanged({"t": TopicSpec(1)}))
    script.finished(ASSIGNED)
    assert script.callbacks()[1:] == [(REVOKED, TWO)]
