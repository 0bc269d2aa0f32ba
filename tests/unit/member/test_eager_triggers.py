"""Every trigger of a rebalance for an EAGER member: what happens to its identity, and which callback runs."""

from __future__ import annotations

import pytest
from tests.unit.member.classic_script import TWO, Script, joining_again, loses_all, partitions, stable, stable_leader

from kohort.assign import RangeAssignor, TopicSpec
from kohort.assign.spec import MemberSpec
from kohort.member import Identity, MemberConfig, State, effects, inputs
from kohort.member.effects import Callback, Fail, Heartbeat, Join, Leave, Rediscover, RunCallback, Sync
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST
EVERY_INTERVAL_MS = 3_000


def heartbeat_says(script: Script, error: ErrorCode) -> list[effects.Effect]:
    """Let a heartbeat leave and be answered."""
    sent = script.wait(EVERY_INTERVAL_MS)
    assert Heartbeat(script.member.identity) in sent
    return script.heartbeat_answered(error)


# The first join


def test_a_member_without_topics_asks_for_nothing() -> None:
    script = Script()
    assert script.take(inputs.Tick()) == []
    assert script.member.next_deadline_ms() is None


def test_the_first_join_runs_no_callback_before_it() -> None:
    [join] = Script().subscribe("t")
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "")
    assert join.protocols == (("range", Subscription(("t",), generation=-1)),)


def test_member_id_required_is_answered_with_the_same_join_under_that_id() -> None:
    script = Script()
    script.subscribe("t")
    [join] = script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m")
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "m")


def test_a_follower_syncs_with_no_assignments_and_owns_what_it_is_given() -> None:
    script = Script()
    script.subscribe("t")
    assert script.joined(5) == [Sync(Identity(5, "m"), "range", {})]
    on_assignment, assigned = script.synced(TWO)
    assert on_assignment == effects.OnAssignment("range", Assignment(TWO), 5)
    assert isinstance(assigned, RunCallback)
    assert (assigned.callback, assigned.partitions) == (ASSIGNED, TWO)
    assert script.member.owned == TWO
    assert script.member.state is State.COMPLETING
    assert script.finished(ASSIGNED) == []
    assert script.member.state is State.STABLE


def test_assigned_is_called_even_with_nothing() -> None:
    script = Script()
    script.subscribe("t")
    script.joined(1)
    script.synced(())
    assert script.callbacks() == [(ASSIGNED, frozenset())]


def test_a_leader_computes_and_syncs_every_assignment() -> None:
    script = Script()
    script.subscribe("t")
    members = {"m": MemberSpec(Subscription(("t",))), "n": MemberSpec(Subscription(("u",)), "static")}
    assert script.joined(1, leader="m", members=members) == [effects.Compute(Identity(1, "m"), "range", members, False)]
    assert script.member.is_leader
    made = {"m": Assignment(partitions(0)), "n": Assignment(partitions(0, topic="u"))}
    computed = inputs.Computed(Identity(1, "m"), made, {"t": TopicSpec(1), "u": TopicSpec(1)})
    assert script.take(computed) == [Sync(Identity(1, "m"), "range", made)]


def test_a_static_leader_with_skip_assignment_takes_the_metadata_and_syncs_nothing() -> None:
    script = Script(MemberConfig(instance_id="i"))
    script.subscribe("t")
    [compute] = script.joined(3, leader="m", members={"m": MemberSpec(Subscription(("t",)), "i")}, is_skip=True)
    assert isinstance(compute, effects.Compute)
    assert compute.skip
    computed = inputs.Computed(Identity(3, "m"), {}, {"t": TopicSpec(2)})
    assert script.take(computed) == [Sync(Identity(3, "m"), "range", {})]


def test_a_leader_that_cannot_assign_leaves_with_the_reason() -> None:
    script = Script()
    script.subscribe("t")
    script.joined(1, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    leave, fail = script.take(inputs.ComputeFailed(Identity(1, "m"), "ZeroDivisionError"))
    assert isinstance(leave, Leave)
    assert isinstance(fail, Fail)
    assert "ZeroDivisionError" in fail.text


# Triggers that keep the identity: everything owned is revoked, then the member joins as who it is


def joins_again_as_itself(script: Script, asked: list[effects.Effect], generation: int = 1) -> Join:
    """Expect a revocation of all that is owned, and then a JoinGroup with nothing owned."""
    [revoke] = [effect for effect in asked if not isinstance(effect, Rediscover)]
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, TWO)
    assert script.member.owned == TWO, "owned until the callback has finished"
    [join] = script.finished(REVOKED)
    assert isinstance(join, Join)
    assert join.identity == Identity(generation, "m")
    assert join.protocols[0][1].owned == ()
    assert script.member.owned == frozenset()
    return join


def test_another_subscription_revokes_all_and_joins_again() -> None:
    script = stable()
    join = joins_again_as_itself(script, script.subscribe("t", "u"))
    assert join.protocols[0][1].topics == ("t", "u")


def test_the_same_topics_in_another_order_are_no_change() -> None:
    script = stable(topics=("t", "u"))
    assert script.subscribe("u", "t") == []


def test_rebalance_in_progress_of_a_heartbeat_revokes_all_and_joins_again() -> None:
    script = stable()
    joins_again_as_itself(script, heartbeat_says(script, ErrorCode.REBALANCE_IN_PROGRESS))


def test_rebalance_in_progress_of_a_commit_revokes_all_and_joins_again() -> None:
    script = stable()
    joins_again_as_itself(script, script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS))


def test_another_partition_count_makes_the_leader_revoke_all_and_join_again() -> None:
    script = stable_leader()
    join = joins_again_as_itself(script, script.take(inputs.MetadataChanged({"t": TopicSpec(3)})))
    assert join.reason == "topic_metadata_change"


def test_a_deleted_topic_makes_the_leader_join_again() -> None:
    script = stable_leader()
    joins_again_as_itself(script, script.take(inputs.MetadataChanged({})))


def test_a_leader_ignores_topics_without_subscribers_in_the_group() -> None:
    script = stable_leader()
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(2), "other": TopicSpec(9)})) == []


def rack_aware_leader(rack: str | None = "a") -> Script:
    """Return the leader of a member in rack `rack`, which has assigned t-0 with replicas in the racks a and b."""
    script = Script()
    script.subscribe("t")
    script.joined(1, leader="m", members={"m": MemberSpec(Subscription(("t",), rack=rack))})
    snapshot = {"t": TopicSpec(1, (frozenset("ab"),))}
    script.take(inputs.Computed(Identity(1, "m"), {"m": Assignment(partitions(0))}, snapshot))
    script.synced(partitions(0))
    script.finished(ASSIGNED)
    return script


def test_a_replica_in_another_rack_makes_the_leader_join_again() -> None:
    [revoke] = rack_aware_leader().take(inputs.MetadataChanged({"t": TopicSpec(1, (frozenset("ac"),))}))
    assert isinstance(revoke, RunCallback)


def test_a_rack_that_is_gone_may_be_back_soon_and_moves_nothing() -> None:
    script = rack_aware_leader()
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(1, (frozenset("a"),))})) == []
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(1, (frozenset("ab"),))})) == []


def test_racks_mean_nothing_to_a_group_of_members_without() -> None:
    script = rack_aware_leader(rack=None)
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(1, (frozenset("xyz"),))})) == []


def test_a_static_leader_with_skip_assignment_still_watches_the_metadata() -> None:
    script = Script(MemberConfig(instance_id="i"))
    script.subscribe("t")
    script.joined(3, leader="m", members={"m": MemberSpec(Subscription(("t",)), "i")}, is_skip=True)
    script.take(inputs.Computed(Identity(3, "m"), {}, {"t": TopicSpec(2)}))
    script.synced(TWO)
    script.finished(ASSIGNED)
    joins_again_as_itself(script, script.take(inputs.MetadataChanged({"t": TopicSpec(3)})), 3)


def test_a_follower_does_not_watch_the_metadata() -> None:
    script = stable()
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(3)})) == []


def test_metadata_that_changed_during_the_round_starts_the_next_one() -> None:
    script = Script()
    script.subscribe("t")
    script.joined(1, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    script.take(inputs.Computed(Identity(1, "m"), {"m": Assignment(TWO)}, {"t": TopicSpec(2)}))
    script.take(inputs.MetadataChanged({"t": TopicSpec(3)}))
    script.synced(TWO)
    [revoke] = script.finished(ASSIGNED)
    assert isinstance(revoke, RunCallback)
    assert revoke.callback is REVOKED


def test_a_subscription_that_changed_during_the_round_starts_the_next_one() -> None:
    script = Script()
    script.subscribe("t")
    script.joined(1)
    script.subscribe("t", "u")
    script.synced(TWO)
    [revoke] = script.finished(ASSIGNED)
    assert isinstance(revoke, RunCallback)


def test_a_rejoin_that_the_user_asked_for_carries_its_reason() -> None:
    script = stable()
    join = joins_again_as_itself(script, script.take(inputs.RejoinRequested("more cores")))
    assert join.reason == "more cores"


def test_revoked_is_called_even_where_nothing_is_owned() -> None:
    script = stable(owned=frozenset())
    [revoke] = script.subscribe("u")
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, frozenset())


def test_an_assignment_of_topics_no_longer_wanted_is_dropped_without_callbacks() -> None:
    script = Script()
    script.subscribe("t", "u")
    script.joined(1)
    script.subscribe("u")
    [revoke] = script.synced(partitions(0, topic="t"))
    assert isinstance(revoke, RunCallback)
    assert (revoke.callback, revoke.partitions) == (REVOKED, frozenset())
    assert script.member.owned == frozenset()
    assert ASSIGNED not in [callback for callback, _ in script.callbacks()]


# Triggers that take the identity away: what was owned is lost


def test_a_heartbeat_of_an_illegal_generation_loses_all_and_keeps_the_member_id() -> None:
    script = stable()
    loses_all(script, heartbeat_says(script, ErrorCode.ILLEGAL_GENERATION), Identity(-1, "m"))


def test_a_heartbeat_of_an_unknown_member_loses_all_and_the_member_id() -> None:
    script = stable()
    loses_all(script, heartbeat_says(script, ErrorCode.UNKNOWN_MEMBER_ID), Identity(-1, ""))


def test_a_commit_of_an_illegal_generation_loses_all_and_keeps_the_member_id() -> None:
    script = stable()
    loses_all(script, script.commit_answered(ErrorCode.ILLEGAL_GENERATION), Identity(-1, "m"))


def test_a_commit_of_an_unknown_member_loses_all_and_the_member_id() -> None:
    script = stable()
    loses_all(script, script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID), Identity(-1, ""))


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_an_answer_to_an_older_generation_changes_nothing(error: ErrorCode) -> None:
    script = stable()
    old = script.member.identity
    script.wait(EVERY_INTERVAL_MS)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.finished(REVOKED)
    script.joined(2)
    script.synced(TWO)
    script.finished(ASSIGNED)
    script.forget()
    [next_heartbeat] = script.heartbeat_answered(error, asked_as=old)
    assert next_heartbeat == Heartbeat(Identity(2, "m"))
    assert script.commit_answered(error, asked_as=old) == []
    assert script.member.identity == Identity(2, "m")


def test_identity_lost_while_the_revocation_runs_is_not_reported_twice() -> None:
    script = stable()
    script.subscribe("u")
    script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    [join] = script.finished(REVOKED)
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "")
    assert script.callbacks() == [(REVOKED, TWO)]


def test_identity_lost_while_assigned_runs_is_reported_after_it() -> None:
    script = Script()
    script.subscribe("t")
    script.joined(1)
    script.synced(TWO)
    script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.callbacks() == [(ASSIGNED, TWO)]
    script.finished(ASSIGNED)
    assert script.callbacks() == [(ASSIGNED, TWO), (LOST, TWO)]


# Errors of JoinGroup and SyncGroup


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up_and_asked_with_the_old_id(error: ErrorCode) -> None:
    script = joining_again()
    assert script.join_failed(error) == [Rediscover(error)]
    [join] = script.wait(150)
    assert isinstance(join, Join)
    assert join.identity == Identity(1, "m")
    assert script.callbacks() == [], "preparation is not repeated"


def test_a_connection_lost_in_sync_is_a_sync_again_then_a_join_where_the_generation_is_unknown() -> None:
    script = joining_again()
    script.joined(2)
    assert script.sync_failed(ErrorCode.NETWORK_EXCEPTION) == [Rediscover(ErrorCode.NETWORK_EXCEPTION)]
    [sync] = script.wait(150)
    assert isinstance(sync, Sync)
    [join] = script.sync_failed(ErrorCode.ILLEGAL_GENERATION)
    assert isinstance(join, Join)
    assert join.identity == Identity(2, "m")


def test_a_loading_coordinator_is_asked_again_later() -> None:
    script = joining_again()
    assert script.join_failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == []
    assert script.wait(50) == []
    [join] = script.wait(100)
    assert isinstance(join, Join)


@pytest.mark.parametrize("is_sync", [False, True])
def test_rebalance_in_progress_is_joined_at_once(is_sync: bool) -> None:
    script = joining_again()
    if is_sync:
        script.joined(2)
        [join] = script.sync_failed(ErrorCode.REBALANCE_IN_PROGRESS)
    else:
        [join] = script.join_failed(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(join, Join)
    assert script.callbacks() == []


def test_join_of_an_unknown_member_begins_anew() -> None:
    [join] = joining_again().join_failed(ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "")


def test_sync_of_an_illegal_generation_keeps_the_member_id() -> None:
    script = joining_again()
    script.joined(2)
    [join] = script.sync_failed(ErrorCode.ILLEGAL_GENERATION)
    assert isinstance(join, Join)
    assert join.identity == Identity(-1, "m")


def test_a_coordinator_that_keeps_refusing_is_not_asked_in_a_tight_loop() -> None:
    script = joining_again()
    script.join_failed(ErrorCode.UNKNOWN_MEMBER_ID)
    waits = []
    for _ in range(6):
        script.join_failed(ErrorCode.UNKNOWN_MEMBER_ID)
        deadline_ms = script.member.next_deadline_ms()
        assert deadline_ms is not None
        waits.append(deadline_ms - script.now_ms)
        script.wait(waits[-1])
    assert waits == [200, 400, 800, 1000, 1000, 1000]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_what_no_retry_can_mend_ends_the_member_with_a_sentence(error: ErrorCode) -> None:
    script = Script()
    script.subscribe("t")
    [fail] = script.join_failed(error)
    assert isinstance(fail, Fail)
    assert fail.code is error
    assert script.member.state is State.FATAL
    assert script.wait(100_000) == []


# Why it joins (KIP-423, KIP-800)


def test_the_first_join_is_blind_and_so_is_the_one_under_the_id_that_was_given() -> None:
    script = Script()
    [first] = script.subscribe("t")
    [second] = script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m")
    assert isinstance(first, Join)
    assert isinstance(second, Join)
    assert first.reason == second.reason == "blind"


@pytest.mark.parametrize("error", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR])
def test_a_join_that_got_no_answer_is_made_again_blindly(error: ErrorCode) -> None:
    script = joining_again()
    script.join_failed(error)
    [join] = script.wait(150)
    assert isinstance(join, Join)
    assert join.reason == "blind"


def test_a_leader_repeats_a_change_of_topics_until_its_join_succeeds() -> None:
    script = stable_leader()
    script.take(inputs.MetadataChanged({"t": TopicSpec(3)}))
    script.finished(REVOKED)
    for error in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        script.join_failed(error)
        [join] = script.wait(1_000)
        assert isinstance(join, Join)
        assert join.reason == "topic_metadata_change"


def test_a_change_of_topics_outranks_a_rebalance_that_was_announced_before_it() -> None:
    script = Script()
    script.subscribe("t")
    script.joined(1, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    script.take(inputs.Computed(Identity(1, "m"), {"m": Assignment(TWO)}, {"t": TopicSpec(2)}))
    script.synced(TWO)
    script.commit_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    script.take(inputs.MetadataChanged({"t": TopicSpec(3)}))
    script.finished(ASSIGNED)
    [join] = script.finished(REVOKED)
    assert isinstance(join, Join)
    assert join.reason == "topic_metadata_change"


def test_a_fenced_member_rejoins_with_the_error_as_its_reason() -> None:
    script = stable()
    heartbeat_says(script, ErrorCode.UNKNOWN_MEMBER_ID)
    [join] = script.finished(LOST)
    assert isinstance(join, Join)
    assert join.reason == "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"


# Heartbeats and the session


def test_a_stable_member_sends_one_heartbeat_an_interval() -> None:
    script = stable()
    for _ in range(3):
        assert script.wait(EVERY_INTERVAL_MS) == [Heartbeat(Identity(1, "m"))]
        script.heartbeat_answered()


def test_no_heartbeat_leaves_while_one_is_unanswered() -> None:
    script = stable()
    assert script.wait(EVERY_INTERVAL_MS) == [Heartbeat(Identity(1, "m"))]
    assert script.wait(2 * EVERY_INTERVAL_MS) == []


def test_heartbeats_go_on_while_a_revocation_takes_its_time() -> None:
    script = stable()
    script.subscribe("u")
    assert script.wait(EVERY_INTERVAL_MS) == [Heartbeat(Identity(1, "m"))]
    assert script.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS) == [], "the member is already on its way"


def test_no_heartbeat_leaves_behind_a_join() -> None:
    assert joining_again().wait(20_000) == []


def test_a_heartbeat_without_an_answer_is_sent_again_soon_elsewhere() -> None:
    script = stable()
    asked = heartbeat_says(script, ErrorCode.NETWORK_EXCEPTION)
    assert asked == [Rediscover(ErrorCode.NETWORK_EXCEPTION)]
    assert script.wait(120) == [Heartbeat(Identity(1, "m"))]


def test_a_silent_session_only_looks_the_coordinator_up() -> None:
    script = stable()
    asked = script.wait(45_000)
    assert asked == [Heartbeat(Identity(1, "m")), Rediscover(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert script.member.identity == Identity(1, "m")
    assert script.callbacks() == []


def test_a_fenced_static_member_does_not_rejoin() -> None:
    script = stable(MemberConfig(instance_id="i"))
    fail, lose = heartbeat_says(script, ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(fail, Fail)
    assert "'i'" in fail.text
    assert isinstance(lose, RunCallback)
    assert (lose.callback, lose.partitions) == (LOST, TWO), "the other member has them"
    assert script.member.identity == Identity(-1, "")
    assert script.finished(LOST) == []
    assert script.take(inputs.CloseRequested("bye")) == [effects.Ended()], "no LeaveGroup: the other member has the id"


def test_a_member_that_ended_for_good_is_not_revived_by_a_late_commit() -> None:
    script = stable()
    script.commit_answered(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert script.member.state is State.FATAL
    assert script.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID) == []
    assert script.member.state is State.FATAL


def test_an_assignor_that_cannot_make_its_user_data_ends_the_member_with_a_sentence() -> None:
    class Broken(RangeAssignor):
        def user_data(self, *_: object) -> bytes | None:
            raise ZeroDivisionError("no data")

    [fail] = Script(assignors=[Broken()]).subscribe("t")
    assert isinstance(fail, Fail)
    assert "ZeroDivisionError: no data" in fail.text
