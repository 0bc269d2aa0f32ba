"""LeaveGroup: members and pending ids go, alone or in a batch, of their own will or an administrator's."""

from __future__ import annotations

from tests.unit.group.world import World, joined

from kohort.group.classic.group import Phase
from kohort.group.commands import Leave, Leaving
from kohort.group.events import MemberRemoved
from kohort.group.results import LeaveResult, LeftMember
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def errors(result: LeaveResult) -> list[ErrorCode]:
    assert result.error is ErrorCode.NONE
    return [member.error for member in result.members]


def test_last_member_leaves_an_empty_group_behind() -> None:
    world = World()
    (member,) = world.stable(1)
    assert world.leave(Leaving(member, None, "bye")).result == LeaveResult(
        ErrorCode.NONE, (LeftMember(member, None, ErrorCode.NONE),)
    )
    assert world.group().phase is Phase.EMPTY
    assert world.group().generation == 2
    assert not world.timers


def test_leaving_member_starts_a_round_with_its_reason() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.leave(Leaving(follower, None, "closed"))
    assert world.group().phase is Phase.PREPARING_REBALANCE
    cause = world.group().round_cause
    assert cause is not None
    assert (cause.kind, cause.member_id, cause.detail) == (CauseKind.MEMBER_LEFT, follower, "closed")
    assert joined(world.join(leader)).generation == 2


def test_leaving_a_group_that_does_not_exist_returns_unknown_member_id() -> None:
    assert errors(World().leave(Leaving("m"), Leaving("", "i")).result) == [UNKNOWN, UNKNOWN]


def test_group_must_have_a_name() -> None:
    assert World().submit(Leave("", (Leaving("m"),))).error is ErrorCode.INVALID_GROUP_ID


def test_group_that_moved_away_cannot_be_left_here() -> None:
    world = World()
    (member,) = world.stable(1)
    world.group().phase = Phase.DEAD
    assert world.leave(Leaving(member)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_unknown_member_changes_nothing() -> None:
    world = World()
    world.stable(1)
    assert errors(world.leave(Leaving("stranger")).result) == [UNKNOWN]
    assert world.group().phase is Phase.STABLE


def test_issued_id_leaves_without_a_round() -> None:
    world = World()
    world.stable(1)
    pending = world.join().result.member_id
    assert errors(world.leave(Leaving(pending)).result) == [ErrorCode.NONE]
    assert world.group().phase is Phase.STABLE
    assert world.group().pending == set()


def test_issued_id_that_leaves_does_not_delay_the_round() -> None:
    world = World()
    (leader,) = world.stable(1)
    pending = world.join().result.member_id
    forced = world.join(leader)
    world.leave(Leaving(pending))
    assert joined(forced).generation == 2


def test_departure_while_members_gather_completes_the_round() -> None:
    world = World()
    leader, follower = world.stable(2)
    forced = world.join(leader)
    world.leave(Leaving(follower))
    assert joined(forced).generation == 2


def test_member_that_leaves_while_it_waits_is_answered() -> None:
    world = World()
    leader, _ = world.stable(2)
    forced = world.join(leader)
    world.leave(Leaving(leader))
    assert forced.error is UNKNOWN


def test_departure_while_the_leader_computes_sends_waiting_syncs_to_join() -> None:
    world = World()
    (one, _), (two, _), (three, _) = world.enter(), world.enter(), world.enter()
    world.gather()
    leader = world.group().leader
    others = [each for each in (one, two, three) if each != leader]
    syncs = [world.sync(each) for each in others]
    world.leave(Leaving(others[0]))
    assert [sync.error for sync in syncs] == [UNKNOWN, ErrorCode.REBALANCE_IN_PROGRESS]


def test_instance_leaves_with_its_member_id() -> None:
    world = World()
    join = world.join(instance_id="i")
    world.gather()
    assert errors(world.leave(Leaving(joined(join).member_id, "i")).result) == [ErrorCode.NONE]


def test_instance_with_a_foreign_member_id_is_fenced() -> None:
    world = World()
    world.join(instance_id="i")
    world.gather()
    assert errors(world.leave(Leaving("other", "i")).result) == [ErrorCode.FENCED_INSTANCE_ID]


def test_administrator_removes_by_instance_id_alone() -> None:
    world = World()
    world.join(instance_id="i")
    world.gather()
    answer = world.leave(Leaving("", "i", "scaled down"))
    assert answer.result.members == (LeftMember("", "i", ErrorCode.NONE),)
    (removed,) = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert (removed.cause.kind, removed.cause.detail) == (CauseKind.MEMBER_REMOVED, "scaled down")


def test_batch_answers_each_entry_in_its_order_and_starts_one_round() -> None:
    world = World()
    world.join(instance_id="i")
    world.join(instance_id="j")
    world.gather()
    world.settle(world.group().members)
    pending = world.join().result.member_id
    member = world.group().static_members["j"]
    answer = world.leave(
        Leaving("", "i"), Leaving(member, "j"), Leaving(pending), Leaving("", "missing"), Leaving("", "i")
    )
    assert errors(answer.result) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, UNKNOWN, UNKNOWN]
    assert world.group().phase is Phase.EMPTY


def test_entry_without_any_id_is_unknown() -> None:
    world = World()
    world.stable(1)
    assert errors(world.leave(Leaving("")).result) == [UNKNOWN]
