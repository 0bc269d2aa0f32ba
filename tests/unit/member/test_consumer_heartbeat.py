"""The heartbeats of a member of the consumer protocol: what each says, when it leaves, what its answer means."""

from __future__ import annotations

import pytest
from tests.unit.member.consumer_script import (
    ASSIGNED,
    INTERVAL_MS,
    REVOKED,
    TWO,
    Script,
    ids,
    one_heartbeat,
    partitions,
    revoking,
    stable,
)

from kohort.member import ConsumerState, Identity, MemberConfig, effects, inputs
from kohort.member.effects import ConsumerHeartbeat, ExpediteHeartbeat
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.model.assignment import NOTHING
from kohort.model.cause import HeartbeatReason
from kohort.model.errors import ErrorCode

CONFIG = MemberConfig(rebalance_timeout_ms=60_000, instance_id="i", rack="r1", server_assignor="range")


def test_the_first_heartbeat_has_all_fields_and_no_partitions() -> None:
    script = Script(CONFIG)
    assert script.subscribe("u", "t") == [
        ConsumerHeartbeat(1, "m", 0, ("t", "u"), None, 60_000, "range", "r1", NOTHING, cause="")
    ]
    assert script.member.state is ConsumerState.JOINING


def test_a_member_without_subscription_does_not_join() -> None:
    script = Script()
    assert script.subscribe() == []
    assert script.member.state is ConsumerState.UNSUBSCRIBED


def test_an_answer_without_an_assignment_is_not_the_end_of_a_join() -> None:
    """Kafka always sends one; a broker that does not has assigned nothing, and the listener is called with that."""
    script = Script()
    script.subscribe("t")
    script.answered(1)
    assert script.callbacks() == [(ASSIGNED, frozenset())]


def test_a_heartbeat_of_a_stable_member_has_only_its_identity() -> None:
    script = stable(CONFIG)
    assert script.wait(INTERVAL_MS - 1) == []
    assert script.wait(1) == [ConsumerHeartbeat(4 - 1, "m", 1)]


def test_the_heartbeat_interval_is_that_of_the_last_response() -> None:
    script = stable()
    script.beat()
    script.take(ConsumerHeartbeatAnswered(script.member.in_flight or 0, ErrorCode.NONE, None, 1, 20))
    assert script.wait(19) == []
    assert isinstance(script.wait(1)[0], ConsumerHeartbeat)


def test_an_interval_counts_from_the_sending_and_an_answer_that_was_kept_is_followed_at_once() -> None:
    script = stable()
    script.beat()
    script.now_ms += 8_000
    [heartbeat] = script.answered(1)
    assert isinstance(heartbeat, ConsumerHeartbeat)


def test_no_interval_makes_no_tight_loop() -> None:
    script = stable()
    script.beat()
    assert script.take(ConsumerHeartbeatAnswered(script.member.in_flight or 0, ErrorCode.NONE, None, 1, 0)) == []


def test_one_heartbeat_is_under_way_at_a_time() -> None:
    script = stable()
    script.beat()
    assert script.wait(60_000) == []


def test_a_changed_subscription_is_sent_at_once_and_alone() -> None:
    script = stable()
    assert script.subscribe("t", "u") == [ConsumerHeartbeat(3, "m", 1, topics=("t", "u"))]
    script.answered(2)
    assert script.subscribe("u", "t") == [], "the same set is no change"


def test_what_is_urgent_expedites_the_heartbeat_under_way_once() -> None:
    script = stable()
    script.beat()
    assert script.subscribe("t", "u") == [ExpediteHeartbeat()]
    assert script.subscribe("t", "u", "v") == []
    assert one_heartbeat(script.answered(1)).topics == ("t", "u", "v")


def test_a_regex_is_sent_and_an_empty_one_removes_it() -> None:
    script = Script()
    assert one_heartbeat(script.subscribe(regex="t.*")).regex == "t.*"
    script.answered(1, ids(0))
    script.finished(ASSIGNED)
    script.answered(1)
    heartbeat = one_heartbeat(script.subscribe("t"))
    assert (heartbeat.topics, heartbeat.regex) == (("t",), "")


def test_an_expression_may_stand_beside_names() -> None:
    heartbeat = one_heartbeat(Script().subscribe("t", regex="u.*"))
    assert (heartbeat.topics, heartbeat.regex) == (("t",), "u.*")


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_after_a_failed_heartbeat_the_coordinator_is_looked_up_and_receives_a_full_request(error: ErrorCode) -> None:
    script = stable(CONFIG)
    script.beat()
    assert script.refused(error) == [effects.Rediscover(error)]
    [again] = script.wait(1_000)
    assert again == ConsumerHeartbeat(4, "m", 1, ("t",), None, 60_000, "range", "r1", ids(0, 1))
    assert script.member.owned == TWO


def test_a_loading_coordinator_is_asked_again_later() -> None:
    script = stable()
    script.beat()
    assert script.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == []
    assert script.wait(79) == []
    assert one_heartbeat(script.wait(50)).topics == ("t",)


def test_a_coordinator_that_keeps_failing_is_not_asked_in_a_tight_loop() -> None:
    script = stable()
    script.beat()
    sent = 0
    for _ in range(10):
        script.refused(ErrorCode.NOT_COORDINATOR)
        began_ms = script.now_ms
        while script.member.in_flight is None:
            script.wait(50)
        sent += script.now_ms - began_ms
    assert sent > 5_000


def test_a_full_heartbeat_in_the_middle_of_a_revocation_claims_what_is_still_given_up() -> None:
    script = revoking()
    script.beat()
    script.refused(ErrorCode.NETWORK_EXCEPTION)
    assert one_heartbeat(script.wait(1_000)).owned == ids(0, 1)


def test_an_answer_to_an_older_heartbeat_changes_nothing() -> None:
    script = stable()
    script.beat()
    stray = (script.member.in_flight or 0) - 1
    assert script.take(ConsumerHeartbeatAnswered(stray, ErrorCode.FENCED_MEMBER_EPOCH)) == []
    assert script.member.state is ConsumerState.STABLE


def test_a_topic_without_authorization_is_raised_in_poll_and_the_member_stays() -> None:
    script = stable()
    script.beat()
    asked = script.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    assert asked == [effects.RaiseInPoll(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")]
    assert script.member.state is ConsumerState.STABLE
    assert one_heartbeat(script.wait(1_000)).topics == ("t",)


def test_a_failed_assignor_is_raised_in_poll_and_the_assignment_stays() -> None:
    script = stable()
    script.beat()
    assert script.answered(1, text="the assignor failed: no") == [
        effects.RaiseInPoll(ErrorCode.UNKNOWN_SERVER_ERROR, "the assignor failed: no")
    ]
    assert script.member.owned == TWO


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ErrorCode.UNSUPPORTED_ASSIGNOR, "group.consumer.assignors"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.consumer.max.size"),
        (ErrorCode.UNSUPPORTED_VERSION, "protocol='classic'"),
        (ErrorCode.INVALID_REQUEST, "the broker says: why"),
        (ErrorCode.UNRELEASED_INSTANCE_ID, "another live member has group.instance.id 'i'"),
        (ErrorCode.FENCED_INSTANCE_ID, "another member took over group.instance.id 'i'"),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, "RE2"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ on the group"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "protocol='classic'"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected"),
    ],
)
def test_a_fatal_error_ends_the_member_with_a_remedy(error: ErrorCode, advice: str) -> None:
    script = Script(CONFIG)
    script.subscribe("t")
    [fail] = script.refused(error, "why")
    assert isinstance(fail, effects.Fail)
    assert fail.code is error
    assert advice in fail.text
    assert script.member.state is ConsumerState.FATAL
    assert script.wait(600_000) == []


def test_a_fatal_error_loses_what_was_owned() -> None:
    script = stable()
    script.beat()
    [fail, lose] = script.refused(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(fail, effects.Fail)
    assert isinstance(lose, effects.RunCallback)
    assert (lose.callback, lose.partitions) == (effects.Callback.LOST, TWO)
    assert script.member.identity == Identity(-1, "m")


def test_a_refused_commit_asks_for_the_newest_epoch_at_once() -> None:
    script = stable()
    assert one_heartbeat(script.take(inputs.CommitAnswered(Identity(1, "m"), ErrorCode.STALE_MEMBER_EPOCH)))
    script.answered(2)
    assert script.member.identity == Identity(2, "m")
    assert script.take(inputs.CommitAnswered(Identity(1, "m"), ErrorCode.STALE_MEMBER_EPOCH)) == []


# Lags of standby copies

ONE = partitions(7)


def test_lags_are_sent_with_a_join_and_then_only_for_a_reason() -> None:
    script = Script()
    far = dict.fromkeys(ONE, 50_000)
    script.lags(far)
    assert one_heartbeat(script.subscribe("t")).lags == tuple(far.items())
    script.answered(1, ids(0))
    script.finished(ASSIGNED)
    script.answered(1)
    assert script.lags(dict.fromkeys(ONE, 20_000)) == []
    assert script.beat().lags is None


def test_a_standby_that_has_caught_up_is_sent_at_once_with_all_lags() -> None:
    script = stable()
    script.lags(dict.fromkeys(ONE, 20_000))
    heartbeat = one_heartbeat(script.lags(dict.fromkeys(ONE, 10_000)))
    assert (heartbeat.reason, heartbeat.lags) == (HeartbeatReason.STANDBY_CAUGHT_UP, ((*ONE, 10_000),))
    script.answered(1)
    assert script.lags(dict.fromkeys(ONE, 9_000)) == [], "it is sent once"


def test_a_function_of_lags_is_asked_for_the_join_and_each_heartbeat_that_carries_what_it_returns_then() -> None:
    script = Script()
    lags = dict.fromkeys(ONE, 50_000)
    script.member.lag_source = lambda: lags
    assert one_heartbeat(script.subscribe("t")).lags == ((*ONE, 50_000),)
    script.answered(1, ids(0))
    script.finished(ASSIGNED)
    script.answered(1)
    lags = dict.fromkeys(ONE, 20_000)
    assert script.beat().lags is None
    script.answered(1)
    lags = dict.fromkeys(ONE, 10_000)
    heartbeat = script.beat()
    assert (heartbeat.reason, heartbeat.lags) == (HeartbeatReason.STANDBY_CAUGHT_UP, ((*ONE, 10_000),))


def test_a_reason_whose_heartbeat_failed_is_sent_again() -> None:
    script = stable()
    script.lags(dict.fromkeys(ONE, 1))
    script.refused(ErrorCode.NETWORK_EXCEPTION)
    assert one_heartbeat(script.wait(1_000)).reason == HeartbeatReason.STANDBY_CAUGHT_UP
    script.answered(1)
    assert script.beat().reason == ""


def test_a_callback_of_an_earlier_life_changes_nothing() -> None:
    script = stable()
    assert script.finished(REVOKED) == []
    assert script.member.owned == TWO
