"""The ways out of a consumer group: leaving, silence, and what was not given back in time."""

from __future__ import annotations

from tests.unit.group.consumer_world import ConsumerWorld, parts

from kohort.group.events import (
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    MemberAssignmentDeleted,
    MemberState,
    MemberTargetDeleted,
    TargetStored,
)
from kohort.group.group_timers import revocation_timer, session_timer
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

ALL = "foo-0,1,2,3,4,5 bar-0,1,2"


def outs(world: ConsumerWorld) -> list[tuple[str, CauseKind, int]]:
    """Return who went, why, and after how long a silence."""
    return [(e.member_id, e.cause.kind, e.silent_ms) for e in world.events if isinstance(e, ConsumerMemberOut)]


# -- leaving


def test_leave_bumps_the_epoch_and_wakes_the_others_with_their_new_target() -> None:
    world = ConsumerWorld()
    world.stable_with("A", "B")
    before = len(world.log)
    answer = world.goes("A")
    assert (answer.result.member_id, answer.result.member_epoch) == ("A", -1)
    assert [type(record) for record in world.log[before]] == [
        MemberAssignmentDeleted,
        MemberTargetDeleted,
        ConsumerMemberDeleted,
        ConsumerGroupStored,
    ]
    assert world.woken == ["B"]
    assert world.beats("B").assignment == parts(ALL)
    assert world.consumer_group().epoch == 4
    assert outs(world) == [("A", CauseKind.MEMBER_LEFT, -1)]


def test_leaving_twice_is_leaving_once() -> None:
    world = ConsumerWorld()
    world.stable_with("A", "B")
    world.goes("A")
    before = len(world.log)
    assert world.goes("A").error is ErrorCode.NONE
    assert len(world.log) == before


def test_after_the_last_leave_the_next_member_is_assigned_at_once() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.goes("A")
    assert world.consumer_group().state == "Empty"
    assert world.last_records()[-1] == TargetStored("g", 3, 0, world.consumer_group().epoch_cause)  # type: ignore[arg-type]
    assert not world.timers
    assert world.enters("B").assignment == parts(ALL)


def test_member_that_waits_for_partitions_of_a_leaver_is_woken_at_once() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.plans(A="foo-0", B="foo-1,2,3,4,5 bar-0,1,2")
    world.enters("B")
    assert world.state("B")[1] is MemberState.UNRELEASED_PARTITIONS
    world.goes("A")
    assert world.woken == ["B"]
    assert world.beats("B").assignment == parts("foo-1,2,3,4,5 bar-0,1,2")


# -- silence


def test_silent_member_is_evicted_after_its_session() -> None:
    world = ConsumerWorld()
    world.stable_with("A", "B")
    world.advance(44_999)
    world.beats("B")
    assert not outs(world)
    world.advance(1)
    assert outs(world) == [("A", CauseKind.SESSION_TIMEOUT, 45_000)]
    assert world.woken == ["B"]
    assert world.consumer_group().epoch == 4
    assert world.tries("B").error is ErrorCode.NONE


def test_every_heartbeat_that_is_answered_well_lengthens_the_session() -> None:
    world = ConsumerWorld()
    world.enters("A")
    for _ in range(3):
        world.advance(44_000)
        world.beats("A")
    world.advance(44_000)
    world.enters("A")
    world.advance(44_000)
    world.beats("A", rack_id="r")
    world.advance(44_000)
    assert world.tries("A", epoch=9).error is ErrorCode.FENCED_MEMBER_EPOCH
    world.advance(1_000)
    assert outs(world) == [("A", CauseKind.SESSION_TIMEOUT, 45_000)]


def test_session_of_a_group_with_a_setting_of_its_own_is_that_long() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=10_000)
    world.enters("A")
    world.advance(10_000)
    assert outs(world) == [("A", CauseKind.SESSION_TIMEOUT, 10_000)]


# -- what was not given back


def asked() -> ConsumerWorld:
    """Two members, of which A has been asked to give partitions back."""
    world = ConsumerWorld(consumer_session_timeout_ms=300_000)
    world.stable_with("A")
    world.enters("B")
    world.beats("A", ALL)
    assert world.timers[revocation_timer("g", "A", 2)] == world.now_ms + 60_000
    return world


def test_member_that_gives_nothing_back_is_evicted_after_its_rebalance_timeout() -> None:
    world = asked()
    world.advance(59_999)
    world.beats("A", ALL)
    world.advance(1)
    assert outs(world) == [("A", CauseKind.REVOCATION_TIMEOUT, -1)]
    assert set(world.woken) == {"B"}
    assert world.beats("B").assignment == parts(ALL)
    assert set(world.timers) == {session_timer("g", "B")}


def test_member_that_revokes_in_time_stays() -> None:
    world = asked()
    world.beats("A", " ".join(_text(world)))
    assert revocation_timer("g", "A", 2) not in world.timers
    world.advance(60_000)
    assert not outs(world)


def _text(world: ConsumerWorld) -> list[str]:
    return [f"{h.topic_id.decode().rstrip('_')}-{','.join(map(str, h.partitions))}" for h in world.member("A").assigned]


def test_waiting_member_has_no_bound() -> None:
    world = asked()
    world.advance(59_000)
    assert world.state("B")[1] is MemberState.UNRELEASED_PARTITIONS
    assert not any(timer.member_id == "B" and timer != session_timer("g", "B") for timer in world.timers)


def test_member_that_must_revoke_more_has_its_full_timeout_again() -> None:
    world = asked()
    world.advance(30_000)
    world.plans(A="bar-0", B="foo-0,1,2,3,4,5 bar-1,2")
    world.beats("B", subscribed_topic_names=("foo", "bar", "more"))
    world.beats("A", " ".join(_text(world)))
    assert world.state("A") == (2, MemberState.UNREVOKED_PARTITIONS)
    assert world.timers[revocation_timer("g", "A", 2)] == world.now_ms + 60_000


def test_timer_of_an_old_epoch_evicts_no_member() -> None:
    world = asked()
    stale = revocation_timer("g", "A", 1)
    world.timers[stale] = world.now_ms + 1
    world.advance(1)
    assert not outs(world)
