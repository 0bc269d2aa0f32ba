"""A cooperative round whose assignment takes partitions away: who is held, until when, and with which response."""

from __future__ import annotations

import pytest
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, Answer, World, joined, says, synced

from kohort.group.classic.group import Phase
from kohort.group.commands import Leaving, Unload
from kohort.group.events import RevocationsAwaited, SyncsReleased
from kohort.group.group_timers import hold_timer
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

HOLD_MS = 1_000


class Round:
    """Two owners and a newcomer; the leader's assignment takes `t-2` from the first owner and leaves it unassigned."""

    def __init__(self, hold_ms: int = HOLD_MS, pause_ms: int = 0) -> None:
        self.world = world = World(sync_hold_ms=hold_ms)
        ids = world.completing(2, protocols=says("t"))
        for member_id in ids:
            world.sync(member_id, assignments=((ids[0], b"t-0 t-2"), (ids[1], b"t-1 t-3")))
        self.newcomer, _ = world.enter(protocols=says("t"), pause_ms=pause_ms)
        world.join(ids[0], protocols=says("t", "t-0 t-2", 1), pause_ms=pause_ms)
        world.join(ids[1], protocols=says("t", "t-1 t-3", 1), pause_ms=pause_ms)
        self.revoking, self.keeping = ids
        assert world.group().generation == 2
        assert world.group().leader == self.revoking

    def assign(self, newcomer: bytes = b"", keeping: bytes = b"t-1 t-3", revoking: bytes = b"t-0") -> Answer:
        given = ((self.revoking, revoking), (self.keeping, keeping), (self.newcomer, newcomer))
        return self.world.sync(self.revoking, assignments=given)


def test_member_that_must_revoke_is_answered_and_the_others_are_held() -> None:
    a = Round()
    held = [a.world.sync(a.keeping), a.world.sync(a.newcomer)]
    assert synced(a.assign()).assignment == b"t-0"
    assert all(answer.is_waiting for answer in held)
    assert a.world.group().phase is Phase.STABLE
    (awaited,) = [event for event in a.world.events if isinstance(event, RevocationsAwaited)]
    assert awaited.revoking == (a.revoking,)
    assert awaited.held == tuple(sorted([a.keeping, a.newcomer]))
    assert awaited.cause.kind is CauseKind.PARTITIONS_TO_REVOKE


def test_held_members_join_at_once_when_the_revoking_one_has() -> None:
    a = Round()
    held = [a.world.sync(a.keeping), a.world.sync(a.newcomer)]
    a.assign()
    a.world.advance(20)
    assert a.world.join(a.revoking, protocols=says("t", "t-0", 2)).is_waiting
    assert [answer.error for answer in held] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert (a.world.cause().kind, a.world.cause().member_id) == (CauseKind.PARTITIONS_TO_REVOKE, a.revoking)
    assert hold_timer("g", 2) not in a.world.timers
    a.world.join(a.keeping, protocols=says("t", "t-1 t-3", 1))
    assert joined(a.world.join(a.newcomer, protocols=says("t"))).generation == 3


def test_hold_ends_with_the_assignment_when_its_time_is_over() -> None:
    a = Round()
    held = a.world.sync(a.keeping)
    a.assign()
    a.world.advance(HOLD_MS - 1)
    assert held.is_waiting
    a.world.advance(1)
    assert synced(held).assignment == b"t-1 t-3"
    assert synced(a.world.sync(a.newcomer)).assignment == b""
    (released,) = [event for event in a.world.events if isinstance(event, SyncsReleased)]
    assert released.cause.kind is CauseKind.SYNC_HOLD_OVER


def test_revocation_after_the_hold_still_starts_the_round_that_gives_the_partitions_away() -> None:
    a = Round()
    a.world.sync(a.keeping)
    a.assign()
    a.world.advance(HOLD_MS)
    a.world.join(a.revoking, protocols=says("t", "t-0", 2))
    assert a.world.cause().kind is CauseKind.PARTITIONS_TO_REVOKE
    assert a.world.heartbeat(a.keeping) is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_that_syncs_during_the_hold_is_held_too_and_the_revoking_one_is_not() -> None:
    a = Round()
    a.assign()
    assert a.world.sync(a.keeping).is_waiting
    assert synced(a.world.sync(a.revoking)).assignment == b"t-0"


def test_leader_that_keeps_its_own_is_held_like_any() -> None:
    a = Round()
    owner = a.world.sync(a.keeping)
    leader = a.assign(revoking=b"t-0 t-2", keeping=b"t-1")
    assert leader.is_waiting
    assert synced(owner).assignment == b"t-1"
    a.world.advance(HOLD_MS)
    assert synced(leader).assignment == b"t-0 t-2"


def test_held_member_is_alive_and_may_beat_commit_and_ask_again() -> None:
    a = Round()
    first = a.world.sync(a.keeping)
    a.assign()
    assert a.world.heartbeat(a.keeping) is ErrorCode.NONE
    assert a.world.commit(a.keeping, 2).error is ErrorCode.NONE
    again = a.world.sync(a.keeping)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    a.world.advance(HOLD_MS)
    assert synced(again).assignment == b"t-1 t-3"
    a.world.advance(SESSION_MS - 1)
    assert a.keeping in a.world.group().members


def test_session_of_a_held_member_cannot_expire() -> None:
    a = Round(hold_ms=SESSION_MS * 2)
    held = [a.world.sync(a.keeping), a.world.sync(a.newcomer)]
    a.assign()
    for _ in range(4):
        a.world.advance(SESSION_MS // 2)
        a.world.heartbeat(a.revoking)
    assert [synced(answer).assignment for answer in held] == [b"t-1 t-3", b""]


@pytest.mark.parametrize("who", ["revoking", "keeping"])
def test_member_that_leaves_during_the_hold_lets_the_others_join(who: str) -> None:
    a = Round()
    held = {member_id: a.world.sync(member_id) for member_id in (a.keeping, a.newcomer)}
    a.assign()
    gone = getattr(a, who)
    a.world.leave(Leaving(gone))
    expected = {a.keeping: ErrorCode.REBALANCE_IN_PROGRESS, a.newcomer: ErrorCode.REBALANCE_IN_PROGRESS}
    if gone in expected:
        expected[gone] = ErrorCode.UNKNOWN_MEMBER_ID
    assert {member_id: answer.error for member_id, answer in held.items()} == expected
    assert a.world.cause().kind is CauseKind.MEMBER_LEFT


def test_revoking_member_that_falls_silent_after_the_hold_is_evicted() -> None:
    a = Round()
    a.world.sync(a.keeping)
    a.world.sync(a.newcomer)
    a.assign()
    a.world.advance(SESSION_MS - 1)
    a.world.heartbeat(a.keeping)
    a.world.heartbeat(a.newcomer)
    a.world.advance(1)
    assert a.world.cause().kind is CauseKind.SESSION_TIMEOUT
    assert a.revoking not in a.world.group().members


def test_deadline_of_a_member_that_never_syncs_ends_the_hold() -> None:
    a = Round(hold_ms=REBALANCE_MS * 2)
    held = a.world.sync(a.keeping)
    a.assign()
    for _ in range(REBALANCE_MS // 5_000):
        a.world.heartbeat(a.revoking)
        a.world.heartbeat(a.newcomer)
        a.world.advance(5_000)
    assert held.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (a.world.cause().kind, a.world.cause().member_id) == (CauseKind.SYNC_TIMEOUT, a.newcomer)


def test_held_sync_of_a_group_that_moves_returns_not_coordinator() -> None:
    a = Round()
    held = a.world.sync(a.keeping)
    a.assign()
    a.world.submit(Unload("g"))
    assert held.error is ErrorCode.NOT_COORDINATOR
    assert not a.world.timers


def test_holds_do_not_survive_a_failover() -> None:
    a = Round()
    a.world.sync(a.keeping)
    a.assign()
    a.world.restart()
    assert not a.world.group().is_withholding
    assert synced(a.world.sync(a.keeping)).assignment == b"t-1 t-3"


def test_leader_that_rejoins_blind_during_the_hold_waits_like_the_others() -> None:
    a = Round()
    a.assign(revoking=b"t-0 t-2", keeping=b"t-1")
    assert joined(a.world.join(a.revoking, protocols=says("t", "t-0 t-2", 2), reason="blind")).skip_assignment
    assert a.world.sync(a.revoking).is_waiting


# -- members that join no more than once in a while (librdkafka), unless they have revoked something


def test_member_revokes_when_the_others_would_join_again_at_once() -> None:
    a = Round(pause_ms=700)
    others = [a.world.sync(a.keeping), a.world.sync(a.newcomer)]
    revoking = a.assign()
    a.world.advance(699)
    assert revoking.is_waiting
    a.world.advance(1)
    assert synced(revoking).assignment == b"t-0"
    assert all(answer.is_waiting for answer in others)
    a.world.join(a.revoking, protocols=says("t", "t-0", 2))
    assert [answer.error for answer in others] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


def test_member_that_must_revoke_and_syncs_late_waits_too() -> None:
    a = Round(pause_ms=700)
    a.assign(revoking=b"t-0 t-2", keeping=b"t-1")
    late = a.world.sync(a.keeping)
    assert late.is_waiting
    a.world.advance(700)
    assert synced(late).assignment == b"t-1"


def test_the_others_wait_for_the_hold_from_then_on() -> None:
    a = Round(pause_ms=700)
    held = a.world.sync(a.keeping)
    a.assign()
    a.world.advance(700 + HOLD_MS - 1)
    assert held.is_waiting
    a.world.advance(1)
    assert synced(held).assignment == b"t-1 t-3"
    released = [event for event in a.world.events if isinstance(event, SyncsReleased)]
    assert [(each.released, each.is_holding) for each in released] == [((a.revoking,), True), ((a.keeping,), False)]


def test_round_that_is_older_than_the_pause_revokes_at_once() -> None:
    a = Round(pause_ms=700)
    a.world.advance(700)
    assert synced(a.assign()).assignment == b"t-0"


# -- what is no cooperative round


def test_eager_round_moves_partitions_and_holds_no_sync() -> None:
    """An eager assignor gives what one member owned to another: no member must revoke first."""
    a = Round()
    waiting = a.world.sync(a.keeping)
    assert synced(a.assign(newcomer=b"t-2")).assignment == b"t-0"
    assert synced(waiting).assignment == b"t-1 t-3"
    assert not a.world.group().revoking


def test_round_that_revokes_nothing_holds_no_sync() -> None:
    a = Round()
    waiting = a.world.sync(a.newcomer)
    a.assign(revoking=b"t-0 t-2")
    assert synced(waiting).assignment == b""


def test_assignment_that_cannot_be_decoded_holds_no_sync() -> None:
    a = Round()
    waiting = a.world.sync(a.keeping)
    a.assign(newcomer=b"!")
    assert synced(waiting)


def test_opaque_protocol_types_hold_no_sync() -> None:
    world = World(sync_hold_ms=HOLD_MS)
    leader, follower = world.completing(protocol_type="connect", protocols=says("t", "t-0"))
    waiting = world.sync(follower)
    world.sync(leader)
    assert synced(waiting).assignment == b""


def test_group_without_sync_hold_still_records_the_cause_of_the_second_round() -> None:
    a = Round()
    a.world.shard.settings = a.world.settings = World(sync_hold_ms=0).settings
    waiting = a.world.sync(a.keeping)
    a.assign()
    assert synced(waiting).assignment == b"t-1 t-3"
    a.world.join(a.revoking, protocols=says("t", "t-0", 2))
    assert a.world.cause().kind is CauseKind.PARTITIONS_TO_REVOKE


# -- static members


def a_static_round() -> tuple[World, str, str, Answer]:
    """Two instances; the first must revoke `t-1`, the second is held."""
    world = World(sync_hold_ms=HOLD_MS)
    for instance_id in ("i", "j"):
        world.join(instance_id=instance_id, protocols=says("t", "t-0 t-1" if instance_id == "i" else ""))
    world.gather()
    first, second = (world.group().static_members[instance_id] for instance_id in ("i", "j"))
    held = world.sync(second, instance_id="j")
    world.sync(first, instance_id="i", assignments=((first, b"t-0"), (second, b"")))
    assert held.is_waiting
    return world, first, second, held


def test_instance_that_restarts_instead_of_revoking_starts_the_round_itself() -> None:
    world, _, _, held = a_static_round()
    assert world.join(instance_id="i", protocols=says("t")).is_waiting
    assert held.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.cause().kind is CauseKind.PARTITIONS_TO_REVOKE


def test_instance_that_restarts_while_it_is_held_is_held_again_under_its_new_id() -> None:
    world, first, second, held = a_static_round()
    new = joined(world.join(instance_id="j", protocols=says("t"))).member_id
    assert held.error is ErrorCode.FENCED_INSTANCE_ID
    waiting = world.sync(new, instance_id="j")
    assert waiting.is_waiting
    world.join(first, instance_id="i", protocols=says("t", "t-0", 1))
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in world.group().members
