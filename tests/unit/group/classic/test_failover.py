"""A coordinator that is lost and taken up again, at each step of a round (the client-side assignment proposal).

The steps: 1. all members send JoinGroup; 2. the generation is stored; 3. all members send SyncGroup; 4. the assignments
are stored.
"""

from __future__ import annotations

import pytest
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, World, joined, says, synced

from kohort.group.classic.group import Phase
from kohort.group.commands import Leaving, Protocols
from kohort.group.events import GatheringFailed, GroupStored, MemberRecognized
from kohort.group.group_timers import session_timer, sync_timer
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

TWO = (("range", b"topics"), ("sticky", b"s"))


# -- the four cases


def test_case_1_failover_before_the_generation_is_stored_makes_all_members_join_again() -> None:
    world = World()
    leader, follower = world.stable(2)
    newcomer, waiting = world.enter()
    world.join(leader)
    world.restart()
    assert waiting.is_waiting, "its connection is gone; it has no answer"
    assert (world.group().phase, world.group().generation) == (Phase.STABLE, 1)
    assert world.join(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    newcomer, _ = world.enter()
    assert world.join(leader).is_waiting
    assert joined(world.join(follower)).generation == 2
    assert set(world.group().members) == {leader, follower, newcomer}


def test_case_1_failover_before_the_first_generation_leaves_an_empty_group() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    member, _ = world.enter()
    world.restart()
    assert world.group().phase is Phase.EMPTY
    assert world.join(member).error is ErrorCode.UNKNOWN_MEMBER_ID
    _, again = world.enter()
    world.gather()
    assert joined(again).generation == 1


def test_case_2_failover_after_the_generation_is_stored_returns_it_to_members_that_join_again() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    again = joined(world.join(leader))
    assert (again.generation, again.leader, again.skip_assignment) == (1, leader, False)
    assert [(member.member_id, member.metadata) for member in again.members] == [
        (member_id, b"topics") for member_id in sorted([leader, follower])
    ]
    assert (joined(world.join(follower)).generation, joined(world.join(follower)).members) == (1, ())
    world.settle([leader, follower])
    assert world.group().phase is Phase.STABLE
    assert world.group().generation == 1


def test_case_2_leader_that_has_its_answer_syncs_while_another_asks_again() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    world.sync(leader, assignments=((leader, b"1"), (follower, b"2")))
    assert joined(world.join(follower)).generation == 1
    assert synced(world.sync(follower)).assignment == b"2"


def test_case_2_member_that_comes_back_changed_aborts_the_sync_and_all_join_again() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    waiting = world.sync(follower)
    changed = world.join(leader, protocols=(("range", b"other"),))
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.cause().kind is CauseKind.SUBSCRIPTION_CHANGED
    world.join(follower)
    assert joined(changed).generation == 2


def test_case_2_new_member_aborts_the_sync_and_all_join_again() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    waiting = world.sync(follower)
    _, newcomer = world.enter()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader)
    world.join(follower)
    assert joined(newcomer).generation == 2


def test_case_3_failover_before_the_assignments_are_stored_makes_all_sync_again() -> None:
    world = World()
    leader, follower = world.completing()
    lost = world.sync(follower)
    world.restart()
    assert lost.is_waiting
    waiting = world.sync(follower)
    assert waiting.is_waiting
    own = world.sync(leader, assignments=((leader, b"1"), (follower, b"2")))
    assert (synced(own).assignment, synced(waiting).assignment) == (b"1", b"2")
    assert world.group().generation == 1


def test_case_4_failover_after_the_assignments_are_stored_answers_every_sync_at_once() -> None:
    world = World()
    leader, follower = world.completing()
    world.sync(leader, assignments=((leader, b"1"), (follower, b"2")))
    world.restart()
    assert synced(world.sync(follower)).assignment == b"2"
    assert synced(world.sync(leader)).assignment == b"1"
    assert world.group().phase is Phase.STABLE
    assert world.group().pending_sync == set()


def test_case_4_member_that_joins_again_for_its_assignment_gets_it_without_a_round() -> None:
    """The Java client never repeats a SyncGroup: it joins again, and its subscription names the new generation."""
    world = World()
    leader, follower = world.completing(protocols=says("t"))
    world.sync(leader, assignments=((leader, b"1"), (follower, b"2")))
    world.restart()
    assert joined(world.join(follower, protocols=says("t", "", 1))).generation == 1
    assert synced(world.sync(follower)).assignment == b"2"


# -- what is taken up


def test_loaded_generation_without_assignments_has_a_deadline_and_sessions() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    assert world.timers == {
        session_timer("g", leader): world.now_ms + SESSION_MS,
        session_timer("g", follower): world.now_ms + SESSION_MS,
        sync_timer("g", 1): world.now_ms + REBALANCE_MS,
    }


def test_member_that_does_not_come_back_is_evicted_and_the_others_join_again() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    waiting = world.sync(follower)
    world.advance(SESSION_MS)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(world.join(follower)).leader == follower
    assert leader not in world.group().members


def test_live_member_that_never_syncs_is_evicted_after_the_rebalance_timeout() -> None:
    world = World()
    leader, follower = world.completing()
    world.restart()
    world.sync(leader, assignments=((follower, b"2"),))
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(leader)
        world.heartbeat(follower)
        world.advance(5_000)
    assert set(world.group().members) == {leader}


def test_static_member_of_a_loaded_generation_that_lost_its_id_starts_a_round() -> None:
    world = World()
    for instance_id in ("i", "j"):
        world.join(instance_id=instance_id)
    world.gather()
    world.restart()
    assert world.join(instance_id="j").is_waiting
    assert world.cause().kind is CauseKind.STATIC_MEMBER_REPLACED


def test_round_that_a_failover_lost_continues_with_its_stored_generation() -> None:
    world = World()
    leader, follower = world.completing()
    world.leave(Leaving(follower))
    world.restart()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    assert joined(world.join(leader)).generation == 1
    world.sync(leader, assignments=((leader, b"1"),))
    world.advance(SESSION_MS - 1)
    world.heartbeat(leader)
    world.advance(1)
    assert follower not in world.group().members


# -- who comes back


def test_loaded_member_is_compared_by_the_chosen_protocol_alone() -> None:
    world = World()
    leader, follower = world.stable(2, protocols=TWO)
    world.restart()
    assert joined(world.join(follower, protocols=TWO)).generation == 1
    (recognized,) = [event for event in world.events if isinstance(event, MemberRecognized)]
    assert (recognized.member_id, world.group().members[follower].protocols) == (follower, TWO)
    assert world.group().members[leader].protocols == TWO[:1]


def test_member_that_was_recognized_is_compared_by_all_it_offers() -> None:
    world = World()
    _, follower = world.stable(2, protocols=TWO)
    world.restart()
    world.join(follower, protocols=TWO)
    assert world.join(follower, protocols=TWO[:1]).is_waiting


def test_loaded_member_with_another_subscription_starts_a_round() -> None:
    world = World()
    _, follower = world.stable(2, protocols=(*TWO, ("other", b"")))
    world.restart()
    assert world.join(follower, protocols=(("range", b"else"), TWO[1])).is_waiting
    assert world.cause().kind is CauseKind.SUBSCRIPTION_CHANGED


def test_newcomer_to_a_loaded_group_is_refused_only_after_every_member_sent_its_protocols() -> None:
    world = World()
    leader, follower = world.stable(2, protocols=TWO)
    world.restart()
    assert world.join(protocols=TWO[1:]).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert world.cause().kind is CauseKind.PROTOCOL_CHANGED
    world.join(leader, protocols=TWO)
    assert world.join(protocols=TWO[1:]).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.join(follower, protocols=TWO)
    assert world.join(protocols=TWO[1:]).error is ErrorCode.MEMBER_ID_REQUIRED
    assert world.join(protocols=(("other", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def instances(world: World, names: str, **changes: object) -> list[str]:
    """Bring instances with one-letter names into a Stable group that a failover then meets; return their member ids."""
    joins = [world.join(instance_id=name, protocols=TWO, **changes) for name in names]
    world.gather()
    ids = world.settle([joined(each).member_id for each in joins])
    world.restart()
    return ids


@pytest.mark.parametrize(("others", "error"), [(TWO, ErrorCode.NONE), (TWO[:1], ErrorCode.INCONSISTENT_GROUP_PROTOCOL)])
def test_what_the_log_holds_of_an_instance_is_not_held_against_its_next_process(
    others: Protocols, error: ErrorCode
) -> None:
    world = World()
    _, other = instances(world, "ab")
    assert world.join(instance_id="a", protocols=TWO[1:]).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.join(other, instance_id="b", protocols=others)
    assert world.join(instance_id="a", protocols=TWO[1:]).error is error


def test_lone_instance_may_come_back_to_a_loaded_group_with_another_protocol() -> None:
    world = World()
    instances(world, "a")
    assert joined(world.join(instance_id="a", protocols=TWO[1:])).protocol_name == "sticky"


def test_instance_that_stays_away_is_asked_once_what_it_offers_and_evicted_after_its_time_to_sync() -> None:
    world = World()
    long_ms = 3 * REBALANCE_MS
    leader, _ = instances(world, "ab", session_timeout_ms=long_ms)
    assert world.join(protocols=TWO[1:]).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.join(leader, instance_id="a", protocols=TWO, session_timeout_ms=long_ms)
    world.advance(REBALANCE_MS)
    world.sync(leader, instance_id="a")
    assert world.join(protocols=TWO[1:]).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.group().phase is Phase.STABLE, "no other round keeps the absent one"
    world.advance(REBALANCE_MS)
    assert set(world.group().members) == {leader}
    assert world.join(protocols=TWO[1:]).error is ErrorCode.MEMBER_ID_REQUIRED


def test_newcomer_of_another_protocol_type_is_refused_by_a_loaded_group() -> None:
    world = World()
    world.stable(2, protocols=TWO)
    world.restart()
    assert world.join(protocol_type="connect", protocols=TWO).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group().phase is Phase.STABLE


def test_recognized_members_metadata_is_still_that_of_the_log() -> None:
    world = World()
    leader, follower = world.completing(protocols=says("t"))
    world.restart()
    world.join(follower, protocols=says("t", "", 1))
    (entry,) = [entry for entry in joined(world.join(leader, protocols=says("t"))).members if entry[0] == follower]
    assert entry.metadata == says("t")[0][1]


def test_leader_that_forces_a_round_after_a_failover_gets_one_as_on_kafka() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.restart()
    assert world.join(leader).is_waiting


# -- a generation that cannot be stored


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_generation_that_cannot_be_stored_fails_every_join_with_an_error_that_clients_know(
    error: ErrorCode, answered: ErrorCode
) -> None:
    world = World()
    leader, follower = world.stable(2)
    forced = world.join(leader)
    world.append_error = error
    assert world.join(follower).error is answered
    assert forced.error is answered
    assert world.group().generation == 1
    assert set(world.group().members) == {leader, follower}
    (failed,) = [event for event in world.events if isinstance(event, GatheringFailed)]
    assert failed.cause.kind is CauseKind.APPEND_FAILED


def test_members_that_come_again_after_the_log_is_well_form_the_generation() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    (one, first), (two, second) = world.enter(), world.enter()
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    while first.is_waiting:
        world.gather_once()
    assert first.error is second.error is ErrorCode.NOT_COORDINATOR
    world.append_error = None
    again = world.join(one)
    assert again.is_waiting
    assert joined(world.join(two)).generation == joined(again).generation == 1


def test_member_that_does_not_come_again_after_a_failed_generation_is_evicted() -> None:
    world = World()
    leader, silent = world.stable(2)
    world.join(leader)
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    world.join(silent)
    world.append_error = None
    again = world.join(leader)
    world.advance(SESSION_MS)
    assert joined(again).generation == 2
    assert set(world.group().members) == {leader}


def test_generation_is_stored_before_its_joins_are_answered() -> None:
    world = World()
    world.completing()
    (stored,) = world.log[-1]
    assert isinstance(stored, GroupStored)
    assert (stored.generation, stored.is_synced, len(stored.members)) == (1, False, 2)
    assert all(member.assignment == b"" for member in stored.members)
