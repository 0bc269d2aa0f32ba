"""JoinGroup: new members, ids, capacity, protocols, the first round's delay, and the completion of a round."""

from __future__ import annotations

import pytest
from tests.unit.group.world import NOW, RANGE, REBALANCE_MS, SESSION_MS, World, given, joined

from kohort.group.classic.group import Phase
from kohort.group.commands import Join, Leaving
from kohort.group.effects import Append, Arm, Note, Park, Reply, Then, parked_join
from kohort.group.events import GenerationFormed, GroupStored, MemberIdIssued, MemberRemoved
from kohort.group.group_timers import join_timer, session_timer
from kohort.group.results import JoinedMember, JoinResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

NEW_MEMBER_MS = 5 * 60 * 1000


def a_join(**changes: object) -> Join:
    fields = {
        "group_id": "g", "member_id": "", "instance_id": None, "client_id": "c", "client_host": "/h",
        "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS, "protocol_type": "consumer",
        "protocols": RANGE, "new_member_id": "new",
    }  # fmt: skip
    return Join(**{**fields, **changes})  # type: ignore[arg-type]


# -- ids


def test_first_member_of_a_new_group_receives_its_id_and_the_group_is_stored_empty() -> None:
    created = Cause(CauseKind.GROUP_CREATED, NOW, "new")
    issued = Cause(CauseKind.MEMBER_ID_ISSUED, NOW, "new", "hello")
    given().when(a_join(reason="hello")).then(
        Append(GroupStored("g", None, 0, None, None, NOW, (), created)),
        Note(MemberIdIssued("g", "new", issued)),
        Reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "new")),
        Arm(session_timer("g", "new"), NOW + SESSION_MS),
    )


def test_old_client_becomes_a_member_at_once() -> None:
    effects = given().when(a_join(is_two_step=False)).effects
    assert Park(parked_join("g", "new")) in effects
    assert Arm(session_timer("g", "new"), NOW + NEW_MEMBER_MS) in effects
    assert isinstance(effects[-1], Then)


def test_unknown_id_in_a_new_group_is_refused_and_no_group_appears() -> None:
    world = World()
    assert world.join("stranger").result == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert not world.shard.groups
    assert not world.log


def test_unknown_id_in_an_existing_group_is_refused() -> None:
    world = World()
    world.stable(1)
    assert world.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_dead_group_has_no_coordinator_here() -> None:
    world = World()
    world.stable(1)
    world.group().phase = Phase.DEAD
    assert world.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeout_outside_of_the_bounds_is_refused(timeout_ms: int) -> None:
    assert World().join(session_timeout_ms=timeout_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_group_needs_a_name() -> None:
    assert World().join(group_id="").error is ErrorCode.INVALID_GROUP_ID


def test_unused_issued_id_is_dropped_after_one_session() -> None:
    world = World()
    member_id = world.join().result.member_id
    world.advance(SESSION_MS)
    assert world.group().pending == set()
    assert world.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_issued_id_with_an_instance_id_is_refused() -> None:
    world = World()
    member_id = world.join().result.member_id
    assert world.join(member_id, instance_id="i").error is ErrorCode.UNKNOWN_SERVER_ERROR


# -- protocols


@pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": ()}])
def test_first_member_must_send_its_protocols(changes: dict[str, object]) -> None:
    answer = World().join(**changes)
    assert answer.result == JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_error_has_no_protocol_type() -> None:
    assert World().join(protocols=()).result.protocol_type is None


def test_protocol_type_is_the_groups() -> None:
    world = World()
    world.stable(1)
    assert world.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_member_must_share_a_protocol_with_all_others() -> None:
    world = World()
    world.stable(1, protocols=(("range", b""), ("sticky", b"")))
    assert world.join(protocols=(("roundrobin", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocols=(("roundrobin", b""), ("sticky", b""))).error is ErrorCode.MEMBER_ID_REQUIRED


def test_second_join_with_a_protocol_that_is_not_shared_is_refused_with_its_id() -> None:
    world = World()
    first, second = world.stable(2)
    answer = world.join(second, protocols=(("other", b""),))
    assert answer.result == JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, second)
    assert first in world.group().members


def test_opaque_protocol_types_work_like_any() -> None:
    world = World()
    offer = {"protocol_type": "connect", "protocols": (("sessioned", b"\xff\xfe"), ("compatible", b"\x00"))}
    leader, follower = world.stable(2, **offer)
    assert world.group().protocol_name == "sessioned"
    assert world.sync(follower).result.assignment == f"for {follower}".encode()
    assert leader == world.group().leader


def test_most_votes_win() -> None:
    world = World()
    offers = [(("a", b""), ("b", b"")), (("b", b""), ("a", b"")), (("b", b""), ("a", b""))]
    for offer in offers:
        world.enter(protocols=offer)
    world.gather()
    assert world.group().protocol_name == "b"


def test_tied_vote_goes_to_the_first_name() -> None:
    world = World()
    world.enter(protocols=(("b", b""), ("a", b"")))
    world.enter(protocols=(("a", b""), ("b", b"")))
    world.gather()
    assert world.group().protocol_name == "a"


# -- capacity


def test_full_group_refuses_a_new_member_and_keeps_its_own() -> None:
    world = World(max_size=2)
    ids = world.stable(2)
    assert world.join().result == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert set(world.group().members) == set(ids)
    assert joined(world.join(ids[1])).generation == 1


def test_gathering_group_takes_no_more_than_its_size() -> None:
    world = World(max_size=2, initial_rebalance_delay_ms=3000)
    world.enter()
    world.enter()
    assert world.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_issued_id_that_finds_the_group_full_is_forgotten() -> None:
    world = World(max_size=1, initial_rebalance_delay_ms=3000)
    late = world.join().result.member_id
    world.enter()
    assert world.join(late).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.group().pending == set()


def test_members_of_a_full_group_can_rejoin_while_it_rebalances() -> None:
    world = World(max_size=2)
    leader, follower = world.stable(2)
    forced = world.join(leader)
    assert forced.is_waiting
    assert joined(world.join(follower)).generation == 2
    assert joined(forced).generation == 2


def test_group_over_its_maximum_size_refuses_the_member_that_rejoins_last() -> None:
    world = World()
    ids = world.stable(3)
    world.settings = world.shard.settings = World(max_size=2).settings
    world.join(ids[0])
    world.join(ids[2])
    assert world.join(ids[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(world.group().members) == {ids[0], ids[2]}
    assert world.group().phase is Phase.COMPLETING_REBALANCE


# -- the first round


def test_empty_group_waits_for_its_initial_delay() -> None:
    world = World(initial_rebalance_delay_ms=3000)
    _, join = world.enter()
    world.advance(2999)
    assert join.is_waiting
    world.advance(1)
    assert joined(join).generation == 1


def test_newcomer_extends_the_initial_delay() -> None:
    world = World(initial_rebalance_delay_ms=3000)
    _, first = world.enter()
    world.advance(2000)
    _, second = world.enter()
    world.advance(1000)
    assert first.is_waiting
    world.advance(3000)
    assert joined(first).generation == joined(second).generation == 1


def test_initial_delay_ends_at_the_rebalance_timeout_however_many_arrive() -> None:
    world = World(initial_rebalance_delay_ms=3000)
    _, first = world.enter(rebalance_timeout_ms=7000)
    for _ in range(6):
        world.advance(1000)
        world.enter(rebalance_timeout_ms=7000)
    assert first.is_waiting
    world.advance(1000)
    assert len(joined(first).members) == 7


# -- forming a generation


def test_leader_gets_every_member_by_id_with_the_chosen_protocols_metadata() -> None:
    world = World()
    offers = [(("b", b"b1"), ("a", b"a1")), (("b", b"b2"), ("c", b"c2"))]
    (one, first), (two, second) = [world.enter(protocols=offer) for offer in offers]
    world.gather()
    assert joined(first).leader == joined(second).leader == one
    assert first.result.members == (JoinedMember(one, None, b"b1"), JoinedMember(two, None, b"b2"))
    assert second.result.members == ()
    assert second.result.protocol_name == "b"


def test_generations_are_dense() -> None:
    world = World()
    (leader,) = world.stable(1)
    generations = []
    for _ in range(3):
        generations.append(joined(world.join(leader)).generation)
        world.settle([leader])
    assert generations == [2, 3, 4]


def test_dynamic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    world = World()
    leader, silent = world.stable(2, session_timeout_ms=REBALANCE_MS * 2)
    forced = world.join(leader)
    world.advance(REBALANCE_MS - 1)
    assert forced.is_waiting
    world.advance(1)
    assert set(world.group().members) == {leader}
    assert joined(forced).generation == 2
    removed = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert [(event.member_id, event.cause.kind) for event in removed] == [(silent, CauseKind.REBALANCE_TIMEOUT)]


def test_round_waits_as_long_as_the_most_patient_member() -> None:
    world = World()
    (leader,) = world.stable(1, rebalance_timeout_ms=20_000, session_timeout_ms=600_000)
    _, patient = world.enter(rebalance_timeout_ms=90_000, session_timeout_ms=600_000)
    assert world.timers[join_timer("g")] == world.now_ms + 90_000
    assert patient.is_waiting
    assert leader in world.group().members


def test_round_waits_for_an_issued_id() -> None:
    world = World()
    (leader,) = world.stable(1)
    pending = world.join().result.member_id
    forced = world.join(leader)
    assert forced.is_waiting
    second = world.join(pending)
    assert joined(forced).generation == joined(second).generation == 2


def test_round_goes_on_when_an_issued_id_times_out() -> None:
    world = World()
    (leader,) = world.stable(1)
    world.join(session_timeout_ms=6_000)
    forced = world.join(leader)
    world.advance(6_000)
    assert joined(forced).generation == 2


def test_new_member_that_waits_for_five_minutes_is_dropped() -> None:
    world = World()
    (leader,) = world.stable(1, rebalance_timeout_ms=900_000, session_timeout_ms=900_000)
    _, newcomer = world.enter(rebalance_timeout_ms=900_000)
    world.advance(NEW_MEMBER_MS)
    assert newcomer.result == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert set(world.group().members) == {leader}


def test_new_member_is_bound_by_its_session_once_it_has_its_generation() -> None:
    world = World()
    world.stable(1)
    assert world.group().members
    world.advance(SESSION_MS)
    assert world.group().phase is Phase.EMPTY


def test_round_without_members_leaves_an_empty_group_one_generation_later() -> None:
    world = World(initial_rebalance_delay_ms=3000)
    member_id, _ = world.enter(is_two_step=True)
    world.leave(*[Leaving(member_id)])
    world.advance(3000)
    assert world.group().phase is Phase.EMPTY
    assert world.group().generation == 1
    (stored,) = [event for event in world.log[-1] if isinstance(event, GroupStored)]
    assert (stored.generation, stored.members, stored.protocol_type) == (1, (), "consumer")


def test_round_without_rejoins_is_extended_while_static_members_live() -> None:
    world = World()
    world.join(instance_id="i", session_timeout_ms=600_000)
    world.join(instance_id="j", session_timeout_ms=600_000)
    world.gather()
    world.settle(world.group().members)
    world.advance(REBALANCE_MS // 2)
    dynamic, _ = world.enter()
    world.leave(Leaving(dynamic))
    world.advance(REBALANCE_MS)
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert join_timer("g") in world.timers


# -- members that come again


def test_leader_that_rejoins_a_stable_group_forces_a_round() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert world.join(leader, reason="topics changed").is_waiting
    assert world.group().phase is Phase.PREPARING_REBALANCE
    cause = world.group().round_cause
    assert cause is not None
    assert (cause.kind, cause.member_id, cause.detail) == (CauseKind.LEADER_REJOINED, leader, "topics changed")
    assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_unchanged_follower_gets_the_current_generation() -> None:
    world = World()
    leader, follower = world.stable(2)
    answer = joined(world.join(follower))
    assert (answer.generation, answer.leader, answer.members) == (1, leader, ())
    assert world.group().phase is Phase.STABLE


@pytest.mark.parametrize(
    ("protocols", "kind"),
    [
        ((("range", b"other"),), CauseKind.SUBSCRIPTION_CHANGED),
        ((("range", b"topics"), ("sticky", b"")), CauseKind.PROTOCOL_CHANGED),
    ],
)
def test_follower_that_offers_something_else_starts_a_round(protocols: tuple[object, ...], kind: CauseKind) -> None:
    world = World()
    _, follower = world.stable(2)
    assert world.join(follower, protocols=protocols).is_waiting
    cause = world.group().round_cause
    assert cause is not None
    assert cause.kind is kind


def test_member_that_missed_its_answer_gets_it_again_while_the_leader_computes() -> None:
    world = World()
    (leader, _), (follower, _) = world.enter(), world.enter()
    world.gather()
    assert [entry.member_id for entry in joined(world.join(leader)).members] == sorted([leader, follower])
    assert joined(world.join(follower)).members == ()
    assert world.group().phase is Phase.COMPLETING_REBALANCE


def test_changed_member_restarts_the_round_while_the_leader_computes() -> None:
    world = World()
    (leader, _), (follower, _) = world.enter(), world.enter()
    world.gather()
    waiting = world.sync(follower)
    assert world.join(follower, protocols=(("range", b"other"),)).is_waiting
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(world.join(leader)).generation == 2


def test_member_of_an_empty_group_is_unknown() -> None:
    world = World()
    (member,) = world.stable(1)
    world.leave(Leaving(member))
    assert world.join(member).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_second_join_of_a_waiting_member_sends_the_first_away() -> None:
    world = World()
    leader, follower = world.stable(2)
    first = world.join(leader)
    second = world.join(leader)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(follower)
    assert joined(second).generation == 2


def test_leader_that_does_not_return_is_succeeded_by_the_smallest_id() -> None:
    world = World()
    leader, *others = world.stable(3, session_timeout_ms=REBALANCE_MS * 2)
    for member_id in reversed(others):
        world.join(member_id, protocols=(("range", b"other"),))
    world.advance(REBALANCE_MS)
    assert world.group().leader == min(others)
    assert leader not in world.group().members


# -- storage


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_group_that_cannot_be_stored_does_not_exist(error: ErrorCode, answered: ErrorCode) -> None:
    world = World()
    world.append_error = error
    assert world.join().error is answered
    assert not world.shard.groups
    assert not world.timers


def test_empty_group_that_cannot_be_stored_is_tried_again() -> None:
    world = World()
    (member,) = world.stable(1)
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.leave(Leaving(member)).error is ErrorCode.NONE
    assert world.group().phase is Phase.PREPARING_REBALANCE
    world.append_error = None
    world.advance(1000)
    assert world.group().phase is Phase.EMPTY


# -- causes


def test_every_event_has_a_time_and_a_cause() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.advance(500)
    world.join(leader, reason="r")
    world.advance(REBALANCE_MS)
    assert all(event.cause.kind in CauseKind for event in world.events)
    formed = [event.cause.kind for event in world.events if isinstance(event, GenerationFormed)]
    assert formed == [CauseKind.INITIAL_DELAY_OVER, CauseKind.ALL_MEMBERS_JOINED]
