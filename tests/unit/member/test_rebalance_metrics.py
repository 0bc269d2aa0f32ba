"""What a member measures: each metric moved by the conversation that it measures, under a clock that the test moves."""

from __future__ import annotations

from collections import Counter
from math import isnan

import pytest
from tests.unit.member.classic_script import TWO, Script

from kohort.assign.user_data import encode_assignment_error
from kohort.member import Identity, MemberConfig, inputs
from kohort.member.effects import Callback, Effect, Heartbeat
from kohort.member.rebalance_metrics import MEMBER_METRICS, RebalanceMetrics
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.metric import MetricKind

REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST
POLL_MS = 60_000


class Measured(Script):
    """A member that is observed, and a clock."""

    def __init__(self, config: MemberConfig | None = None) -> None:
        super().__init__(config)
        self.metrics = RebalanceMetrics(self.member.config.max_poll_interval_ms)

    def take(self, event: inputs.Input) -> list[Effect]:
        before = self.member.state
        asked = super().take(event)
        self.metrics.observe(event, tuple(asked), before, self.member.state, self.now_ms)
        return asked

    def pass_ms(self, ms: int) -> None:
        """Time passes and the member is not woken."""
        self.now_ms += ms

    def read(self, *names: str) -> list[float]:
        values = self.metrics.values(self.now_ms)
        return [values[name] for name in names]


def stable(config: MemberConfig | None = None, owned: Partitions = TWO) -> Measured:
    """A follower of generation 1: JoinGroup took 100 ms, SyncGroup 20 ms, the callback 5 ms."""
    script = Measured(config)
    script.subscribe("t")
    script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m")
    script.pass_ms(100)
    script.joined(1)
    script.pass_ms(20)
    script.synced(owned)
    script.pass_ms(5)
    script.finished(ASSIGNED)
    return script


def beat(script: Measured, error: ErrorCode, latency_ms: int = 0) -> None:
    """Let a heartbeat leave and be answered."""
    deadline_ms = script.member.next_deadline_ms()
    assert deadline_ms is not None
    assert any(isinstance(effect, Heartbeat) for effect in script.wait(deadline_ms - script.now_ms))
    script.pass_ms(latency_ms)
    script.heartbeat_answered(error)


def test_a_first_rebalance_is_measured_from_join_to_the_end_of_its_callback() -> None:
    script = stable()
    names = ("join-time-avg", "join-total", "sync-time-max", "sync-total", "rebalance-latency-avg", "rebalance-total")
    assert script.read(*names) == [100, 1, 20, 1, 125, 1]
    assert script.read("round-latency-avg", "round-latency-total") == [120, 120]
    assert script.read("rebalance-rate-per-hour") == [120]
    assert script.read("last-rebalance-seconds-ago", "failed-rebalance-total") == [0, 0], "KIP-394 is no failure"
    script.pass_ms(7_900)
    assert script.read("last-rebalance-seconds-ago") == [7]


def test_a_rebalance_begins_with_the_revocation_and_a_round_with_join_group() -> None:
    script = stable()
    beat(script, ErrorCode.REBALANCE_IN_PROGRESS)
    script.pass_ms(1_000)
    script.finished(REVOKED)
    script.pass_ms(200)
    script.joined(2)
    script.synced(TWO)
    script.pass_ms(50)
    script.finished(ASSIGNED)
    assert script.read("rebalance-latency-max", "round-latency-max", "rebalance-latency-total") == [1250, 200, 1375]
    assert script.read("partitions-revoked-latency-avg", "partitions-assigned-latency-max") == [1000, 50]


def test_shipped_names_of_callbacks_show_the_same_numbers() -> None:
    script = stable()
    values = script.metrics.values(script.now_ms)
    assert values["partition-assigned-latency-avg"] == values["partitions-assigned-latency-avg"] == 5
    assert isnan(values["partition-lost-latency-max"])


def test_a_callback_is_measured_from_when_its_user_was_done_with_the_records() -> None:
    script = stable()
    beat(script, ErrorCode.REBALANCE_IN_PROGRESS)
    script.pass_ms(9_000)
    script.metrics.callback_began(script.now_ms)
    script.pass_ms(30)
    script.finished(REVOKED)
    assert script.read("partitions-revoked-latency-max") == [30]


def test_a_callback_that_never_ran_is_not_measured() -> None:
    script = stable()
    beat(script, ErrorCode.REBALANCE_IN_PROGRESS)
    script.pass_ms(100)
    script.take(inputs.CallbackFinished(REVOKED, is_abandoned=True))
    assert isnan(script.read("partitions-revoked-latency-max")[0])


def test_partitions_lost_are_measured_apart() -> None:
    script = stable()
    beat(script, ErrorCode.UNKNOWN_MEMBER_ID)
    script.pass_ms(40)
    script.finished(LOST)
    assert script.read("partitions-lost-latency-avg", "partition-lost-latency-avg") == [40, 40]
    assert isnan(script.read("partitions-revoked-latency-avg")[0])


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS])
def test_each_refused_join_and_sync_is_a_failure_and_the_rebalance_goes_on(error: ErrorCode) -> None:
    script = Measured()
    script.subscribe("t")
    script.pass_ms(10)
    script.join_failed(error)
    script.wait(1_000)
    script.joined(1)
    script.sync_failed(error)
    waited_ms = script.now_ms - 1_000_000
    script.wait(1_000)
    script.joined(2)
    script.synced(TWO)
    script.finished(ASSIGNED)
    assert script.read("failed-rebalance-total", "rebalance-total", "join-total", "sync-total") == [2, 1, 2, 1]
    assert script.read("rebalance-latency-avg") == [waited_ms + 1_000], "failed attempts are part of it"


def test_an_answer_to_who_the_member_was_before_is_neither_a_join_nor_a_failure() -> None:
    script = Measured()
    script.subscribe("t")
    script.take(inputs.JoinAnswered(Identity(4, "old"), ErrorCode.UNKNOWN_MEMBER_ID))
    assert script.read("failed-rebalance-total", "join-total") == [0, 0]


def test_heartbeats_are_counted_when_answered_and_dated_when_sent() -> None:
    script = Measured()
    assert script.read("last-heartbeat-seconds-ago", "heartbeat-total") == [-1, 0]
    script = stable()
    beat(script, ErrorCode.NONE, latency_ms=2_500)
    assert script.read("heartbeat-response-time-max", "heartbeat-total") == [2_500, 2]
    assert script.read("last-heartbeat-seconds-ago", "heartbeat-rate") == [2, 2 / 35.5]


def test_commits_are_measured_when_their_response_is_reported() -> None:
    script = stable()
    script.metrics.commit_answered(30, script.now_ms)
    script.metrics.commit_answered(10, script.now_ms)
    assert script.read("commit-latency-avg", "commit-latency-max", "commit-total") == [20, 30, 2]


def test_the_poll_deadline_shows_how_long_is_left_and_how_often_it_was_missed() -> None:
    script = stable(MemberConfig(max_poll_interval_ms=POLL_MS))
    assert script.read("poll-deadline-seconds-left") == [-1]
    script.take(inputs.PollReturned())
    script.pass_ms(POLL_MS - 1_500)
    assert script.read("poll-deadline-seconds-left", "poll-deadlines-missed-total") == [1.5, 0]
    script.pass_ms(1_500)
    script.take(inputs.Tick())
    assert script.read("poll-deadline-seconds-left", "poll-deadlines-missed-total") == [-1, 1]


def test_a_user_who_is_back_in_time_missed_nothing() -> None:
    script = stable(MemberConfig(max_poll_interval_ms=POLL_MS))
    script.take(inputs.PollReturned())
    script.pass_ms(POLL_MS - 1)
    script.take(inputs.PollEntered())
    script.pass_ms(POLL_MS)
    script.take(inputs.Tick())
    assert script.read("poll-deadlines-missed-total") == [0]


def test_time_between_polls_belongs_to_no_rebalance() -> None:
    script = stable(MemberConfig(max_poll_interval_ms=POLL_MS))
    beat(script, ErrorCode.REBALANCE_IN_PROGRESS)
    script.take(inputs.PollReturned())
    script.pass_ms(POLL_MS)
    script.take(inputs.Tick())
    script.take(inputs.CallbackFinished(REVOKED, is_abandoned=True))
    script.pass_ms(500_000)
    script.take(inputs.PollEntered())
    script.pass_ms(10)
    script.finished(LOST)
    script.joined(1, "m2")
    script.synced(TWO)
    script.finished(ASSIGNED)
    assert script.read("rebalance-latency-max", "poll-deadlines-missed-total") == [10, 1]


def test_a_leader_that_cannot_assign_is_counted() -> None:
    script = Measured()
    script.subscribe("t")
    script.joined(1, leader="m")
    script.take(inputs.ComputeFailed(script.member.identity, "no idea"))
    assert script.read("assignment-failures-total") == [1]


def test_members_that_receive_the_leaders_failure_count_it_once() -> None:
    for leader in ("m", "other"):
        script = Measured()
        script.subscribe("t")
        script.joined(1, leader=leader)
        if leader == "m":
            script.take(inputs.ComputeFailed(script.member.identity, "no idea", is_passed_on=True))
        failed = inputs.SyncAnswered(script.member.identity, ErrorCode.UNKNOWN_SERVER_ERROR, error_message="no idea")
        script.take(failed)
        assert script.read("assignment-failures-total", "failed-rebalance-total") == [1, 1]


def test_an_error_in_the_assignment_shows_until_an_assignment_without_one() -> None:
    script = Measured()
    script.subscribe("t")
    script.joined(1)
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    failed = Assignment(frozenset(), encode_assignment_error(code))
    script.take(inputs.SyncAnswered(script.member.identity, ErrorCode.NONE, failed))
    script.finished(ASSIGNED)
    assert script.read("assignment-error-code", "assignment-errors-total") == [code, 1]
    script.wait(120_000)  # it looks again by itself
    script.finished(REVOKED)
    script.joined(2)
    script.synced(TWO)
    assert script.read("assignment-error-code", "assignment-errors-total") == [0, 1]


def test_each_metric_has_one_line_in_the_table_and_a_value() -> None:
    names = Counter(metric.name for metric in MEMBER_METRICS)
    assert set(names.values()) == {1}
    assert list(names) == list(RebalanceMetrics().values(0))


def test_every_name_of_kip_429_is_there_with_its_type() -> None:
    named = {metric.name: metric.kind for metric in MEMBER_METRICS if metric.origin == "KIP-429"}
    callbacks = {
        f"partitions-{what}-latency-{end}": kind
        for what in ("revoked", "assigned", "lost")
        for end, kind in (("avg", MetricKind.AVERAGE), ("max", MetricKind.MAXIMUM))
    }
    assert named == callbacks | {
        "rebalance-rate-per-hour": MetricKind.RATE,
        "rebalance-total": MetricKind.TOTAL,
        "rebalance-latency-avg": MetricKind.AVERAGE,
        "rebalance-latency-max": MetricKind.MAXIMUM,
        "rebalance-latency-total": MetricKind.TOTAL,
        "failed-rebalance-rate-per-hour": MetricKind.RATE,
        "failed-rebalance-total": MetricKind.TOTAL,
        "last-rebalance-seconds-ago": MetricKind.GAUGE,
    }
