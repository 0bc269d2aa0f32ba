"""Lags of copies in a classic group: a member whose copy has caught up begins the round that moves the task."""

from __future__ import annotations

from tests.unit.member.classic_script import Script

from kohort.assign import TasksAssignor
from kohort.assign.user_data import AssignedCopies, encode_assigned_copies
from kohort.member import MemberConfig, State, inputs
from kohort.member.effects import Callback, Join
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WAITING = encode_assigned_copies(AssignedCopies(frozenset(), frozenset({T1}), 600_000))
SETTLED = encode_assigned_copies(AssignedCopies(frozenset({T1}), frozenset(), -1))


def member(user_data: bytes) -> Script:
    """Return a member of generation 1 that runs t-0, with this user data in its assignment."""
    assignor = TasksAssignor()
    script = Script(MemberConfig(acceptable_recovery_lag=100, lag_growth_ms=1_000), [assignor])
    script.subscribe("t")
    script.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "m")
    script.joined(1)
    assignment = Assignment(frozenset({T0}), user_data)
    script.take(inputs.SyncAnswered(script.member.identity, ErrorCode.NONE, assignment))
    assignor.on_assignment(assignment, 1)
    script.finished(Callback.ASSIGNED)
    assert script.member.state is State.STABLE
    script.forget()
    return script


def joins(script: Script) -> list[str]:
    return [effect.reason for effect in script.asked if isinstance(effect, Join)]


def test_copy_that_has_caught_up_begins_a_round_while_a_task_waits_for_it() -> None:
    script = member(WAITING)
    script.take(inputs.LagsReported({T1: 5_000}))
    assert joins(script) == []
    script.take(inputs.LagsReported({T1: 100}))
    assert joins(script) == ["standby_caught_up"]


def test_copy_that_has_caught_up_is_no_reason_where_no_task_waits() -> None:
    script = member(SETTLED)
    script.take(inputs.LagsReported({T1: 5_000}))
    script.take(inputs.LagsReported({T1: 0}))
    assert joins(script) == []


def test_copy_that_keeps_falling_behind_begins_a_round() -> None:
    script = member(SETTLED)
    script.take(inputs.LagsReported({T1: 5_000}))
    script.wait(1_000)
    script.take(inputs.LagsReported({T1: 6_000}))
    assert joins(script) == ["standby_falling_behind"]


def test_function_of_lags_is_read_before_each_heartbeat() -> None:
    script = member(WAITING)
    lags = {T1: 5_000}
    script.member.lag_source = lambda: lags
    script.wait(3_000)
    assert joins(script) == []
    lags[T1] = 0
    script.heartbeat_answered()
    script.wait(3_000)
    assert joins(script) == ["standby_caught_up"]


def test_member_with_a_waiting_task_probes_after_the_interval() -> None:
    script = member(WAITING)
    for _ in range(200):
        script.wait(3_000)
        script.heartbeat_answered()
    script.wait(1)
    assert joins(script) == ["probing rebalance: a task waits until a copy has caught up"]
