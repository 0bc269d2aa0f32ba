"""Warm-ups in a streams group: the two reports that make a new target, their causes, and what is never believed."""

from __future__ import annotations

from typing import Any

from tests.unit.group.streams_world import DELAY_MS, StreamsWorld, active, tasks

from kohort.group.streams.events import TaskOffsetsReported
from kohort.group.streams.group import StreamsMember
from kohort.model.cause import Cause, CauseKind
from kohort.model.streams_tasks import NO_TASKS, TasksByRole

INTERVAL_MS = 10_000


def started(partitions: int = 2, **settings: Any) -> StreamsWorld:
    """Return a group in which `a` has all tasks, and `b` has just joined."""
    world = StreamsWorld(partitions, streams_task_offset_interval_ms=INTERVAL_MS, **settings)
    world.join("a", reports_lags=True)
    world.advance(DELAY_MS)
    settle(world)
    world.join("b", reports_lags=True)
    settle(world)
    return world


def settle(world: StreamsWorld) -> None:
    for _ in range(4):
        for member_id in sorted(world.streams.members):
            world.beat(member_id, world.member(member_id).assigned.tasks, reports_lags=True)


def report(world: StreamsWorld, member_id: str, task: str, offset: int, end: int) -> None:
    (each,) = tasks(task)
    world.beat(member_id, offsets=((each, offset),), end_offsets=((each, end),), reports_lags=True)


def cause(world: StreamsWorld) -> tuple[CauseKind, str | None, str]:
    found = world.streams.epoch_cause
    assert found is not None
    return found.kind, found.member_id, found.detail


def test_copy_that_has_caught_up_makes_the_move() -> None:
    world = started()
    assert world.member("a").assigned.tasks == active("0_0 0_1")
    assert world.member("b").assigned.tasks == TasksByRole(warmup=tasks("0_1"))
    epoch = world.streams.epoch
    report(world, "b", "0_1", 10, 20_000)
    assert world.streams.epoch == epoch, "it is too far behind"
    report(world, "b", "0_1", 10_000, 20_000)
    assert cause(world) == (CauseKind.STANDBY_LAG, "b", "standby_caught_up")
    settle(world)
    assert [world.member(each).assigned.tasks for each in "ab"] == [active("0_0"), active("0_1")]


def test_move_whose_epoch_could_not_be_stored_is_made_by_the_next_report() -> None:
    """The disk was full: seed 860000386."""
    world = started()
    (task,), why = tasks("0_1"), Cause(CauseKind.MEMBER_CHANGED, 0, "b")
    event = TaskOffsetsReported("g", "b", ((task, 10_000),), ((task, 20_000),), 10_000, 30_000, why)
    world.member("b").report_offsets(event)
    report(world, "b", "0_1", 10_000, 20_000)
    assert cause(world) == (CauseKind.STANDBY_LAG, "b", "standby_caught_up")
    settle(world)
    assert world.member("b").assigned.tasks == active("0_1")


def test_move_is_not_taken_back_while_the_copy_waits_to_become_the_active_task() -> None:
    world = started()
    report(world, "b", "0_1", 10_000, 20_000)
    assert world.member("b").assigned.tasks == TasksByRole(warmup=tasks("0_1")), "it stays open until the task is free"
    world.join("c", reports_lags=True)
    assert world.member("b").target == active("0_1")
    report(world, "b", "0_1", 10_001, 20_001)
    world.join("d", reports_lags=True)
    assert world.member("b").target == active("0_1")


def test_lag_of_a_task_counts_that_is_to_run_where_another_thread_gives_the_copy_back() -> None:
    """For a moment no member of the process owns anything of the task."""
    member = StreamsMember("g", "b2", target=active("0_1"))
    (task,) = tasks("0_1")
    why = Cause(CauseKind.MEMBER_CHANGED, 0, "b2")
    member.report_offsets(TaskOffsetsReported("g", "b2", ((task, 9),), ((task, 10),), 5, 100, why))
    assert dict(member.copies.lags) == {task: 1}


def test_copy_beyond_the_end_that_its_member_knows_has_caught_up() -> None:
    """Kafka Streams 4.4.0 reports 1955 of 1954: it looks up the end of a changelog less often than it reads."""
    world = started()
    report(world, "b", "0_1", 1_955, 1_954)
    assert cause(world) == (CauseKind.STANDBY_LAG, "b", "standby_caught_up")


def test_copy_that_falls_behind_makes_room_for_another() -> None:
    world = started(4, streams_warmup_replicas=1)
    assert world.member("b").assigned.tasks.warmup == tasks("0_2")
    for number in range(4):
        world.advance(INTERVAL_MS)
        settle(world)
        if number < 3:
            report(world, "b", "0_2", 0, 20_000 + number)
    assert cause(world) == (CauseKind.STANDBY_LAG, "b", "standby_falling_behind")
    assert world.member("b").assigned.tasks.warmup == tasks("0_3")
    assert world.member("a").assigned.tasks == active("0_0 0_1 0_2 0_3")


def test_offsets_that_cannot_be_true_are_ignored() -> None:
    world = started()
    epoch = world.streams.epoch
    for task, offset, end in (("0_1", -2, 5), ("0_1", 6, -1), ("0_0", 5, 5), ("7_9", 5, 5)):
        report(world, "b", task, offset, end)
        assert not world.member("b").copies.lags
    report(world, "b", "0_1", 2**63 - 1, 2**63 - 1)
    report(world, "b", "7_9", 5, 5)
    assert (world.streams.epoch, world.member("b").offsets) == (epoch, {}), "only tasks that exist are remembered"


def test_offset_of_a_copy_that_was_on_the_disk_is_sent_once() -> None:
    world = started()
    task = ("0", 1)
    world.beat("b", offsets=((task, 5),), reports_lags=True)
    world.beat("b", end_offsets=((task, 9),), reports_lags=True)
    assert cause(world) == (CauseKind.STANDBY_LAG, "b", "standby_caught_up")


def test_tasks_stay_after_a_failover_until_lags_arrive_again() -> None:
    world = started()
    world.restart()
    settle(world)
    assert world.member("b").assigned.tasks == TasksByRole(warmup=tasks("0_1"))
    report(world, "b", "0_1", 20_000, 20_000)
    settle(world)
    assert world.member("b").assigned.tasks == active("0_1")


def test_member_that_reports_no_lags_has_its_tasks_at_once() -> None:
    world = started()
    world.restart()
    world.beat("b", world.member("b").assigned.tasks)
    assert cause(world) == (CauseKind.STANDBY_LAG, "b", "its client reports none")
    for _ in range(4):
        world.beat("a", world.member("a").assigned.tasks, reports_lags=True)
        world.beat("b", world.member("b").assigned.tasks)
    assert world.member("b").assigned.tasks == active("0_1")
    assert NO_TASKS.warmup == world.member("b").target.warmup


def test_group_stores_no_settings_that_kafkas_do_not_while_they_are_defaults() -> None:
    """A group that moves from Apache Kafka, or to it, would begin a new epoch."""
    assert started().streams.assignment_settings == (("num.standby.replicas", "0"),)
    stored = started(streams_warmup_replicas=1).streams.assignment_settings
    assert stored == (("num.standby.replicas", "0"), ("num.warmup.replicas", "1"))
