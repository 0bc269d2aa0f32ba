"""Taking a group up from its log, giving one up, and what an operator sees of it."""

from __future__ import annotations

from tests.unit.group.classic.test_sync_and_heartbeat import STORED
from tests.unit.group.world import NOW, SESSION_MS, World, fold, given

from kohort.group.classic.group import Phase
from kohort.group.commands import Leaving, Loaded, Unload
from kohort.group.describe import describe, list_groups
from kohort.group.effects import Arm, Note
from kohort.group.events import GroupLoaded
from kohort.group.group_timers import session_timer
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

NONE: frozenset[str] = frozenset()


def test_loaded_members_have_a_full_session_to_send_a_heartbeat() -> None:
    given(STORED).when(Loaded("g"), at_ms=NOW).then(
        Note(GroupLoaded("g", Cause(CauseKind.COORDINATOR_LOADED, NOW))),
        Arm(session_timer("g", "a"), NOW + SESSION_MS),
        Arm(session_timer("g", "b"), NOW + SESSION_MS),
    )


def test_loaded_group_is_stable_and_serves_its_assignments() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.restart()
    assert world.group().phase is Phase.STABLE
    assert world.heartbeat(leader) is ErrorCode.NONE
    assert world.sync(follower).result.assignment == f"for {follower}".encode()


def test_round_under_way_is_forgotten_by_a_restart() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    world.restart()
    assert world.group().phase is Phase.STABLE
    assert world.group().generation == 1
    assert world.heartbeat(follower) is ErrorCode.NONE


def test_generation_that_was_not_synced_outlives_a_restart() -> None:
    world = World()
    (leader,) = world.stable(1)
    world.join(leader)
    assert world.group().generation == 2
    world.restart()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    assert world.heartbeat(leader, 2) is ErrorCode.NONE
    assert world.sync(leader, 2, assignments=((leader, b"x"),)).result.assignment == b"x"


def test_issued_ids_are_forgotten_by_a_restart() -> None:
    world = World()
    member_id = world.join().result.member_id
    world.restart()
    assert world.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_loaded_member_remembers_only_the_chosen_protocol() -> None:
    world = World()
    (member,) = world.stable(1, protocols=(("range", b"topics"), ("sticky", b"s")))
    world.restart()
    assert world.group().members[member].protocols == (("range", b"topics"),)


def test_loaded_static_members_are_known_by_their_instance() -> None:
    world = World()
    world.join(instance_id="i")
    world.gather()
    world.settle(world.group().members)
    world.restart()
    assert world.join("stranger", instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_loaded_group_that_is_too_large_starts_a_round() -> None:
    world = World()
    world.stable(3)
    world.settings = World(max_size=2).settings
    world.restart()
    assert world.group().phase is Phase.PREPARING_REBALANCE
    cause = world.group().round_cause
    assert cause is not None
    assert cause.kind is CauseKind.GROUP_TOO_LARGE


def test_silent_member_of_a_loaded_group_is_evicted() -> None:
    world = World()
    world.stable(1)
    world.restart()
    world.advance(SESSION_MS)
    assert world.group().phase is Phase.EMPTY


def test_waiting_join_of_a_group_that_moves_returns_not_coordinator() -> None:
    world = World()
    leader, follower = world.stable(2)
    join = world.join(leader)
    world.submit(Unload("g"))
    assert join.error is ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(follower) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_waiting_sync_of_a_group_that_moves_returns_not_coordinator() -> None:
    world = World()
    world.enter()
    world.enter()
    world.gather()
    follower = next(each for each in world.group().members if each != world.group().leader)
    sync = world.sync(follower)
    world.submit(Unload("g"))
    assert sync.error is ErrorCode.NOT_COORDINATOR


# -- what an operator sees


def test_stable_group_is_described_with_metadata_and_assignments() -> None:
    described = describe(fold([[STORED]], World().settings), "g")
    assert described is not None
    assert (described.state, described.protocol_type, described.protocol_name) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.instance_id, each.metadata, each.assignment) for each in described.members] == [
        ("a", None, b"topics", b"for a"),
        ("b", "i", b"topics", b"for b"),
    ]


def test_rebalancing_group_is_described_without_metadata_and_with_what_its_members_were_assigned() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.join(leader)
    described = describe(world.shard, "g")
    assert described is not None
    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert [(each.metadata, each.assignment) for each in described.members] == [
        (b"", f"for {each.member_id}".encode()) for each in described.members
    ]


def test_missing_group_has_no_description() -> None:
    assert describe(World().shard, "g") is None


def test_groups_are_listed_by_state_and_type() -> None:
    world = World()
    (member,) = world.stable(1)
    world.commit(group_id="simple")
    listed = {group.group_id: group for group in list_groups(world.shard, NONE, NONE)}
    assert [(group.protocol_type, group.state, group.group_type) for group in listed.values()] == [
        ("consumer", "Stable", "classic"),
        ("", "Empty", "classic"),
    ]
    assert [each.group_id for each in list_groups(world.shard, frozenset({"empty"}), NONE)] == ["simple"]
    assert not list(list_groups(world.shard, NONE, frozenset({"consumer"})))
    assert len(list(list_groups(world.shard, NONE, frozenset({"classic", "consumer"})))) == 2
    world.leave(Leaving(member))
    assert not list(list_groups(world.shard, frozenset({"stable"}), NONE))
