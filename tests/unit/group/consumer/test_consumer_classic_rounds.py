"""SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group; bounds that survive a failover."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import ClassicClient, Mixed, NativeClient, T, classic_members, offer, one_owner_each, rounds
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, fold, joined, synced

from kohort.group.commands import Heartbeat, Leaving, TargetMeasured, Unload
from kohort.group.consumer.classic_members import decide_heartbeat
from kohort.group.effects import Arm, Reply
from kohort.group.events import ClassicPhase, ConsumerGroupStored, ConsumerMemberOut, MemberState, TargetStored
from kohort.group.group_timers import member_join_timer, member_sync_timer, session_timer
from kohort.group.results import HeartbeatResult
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.wire.consumer_protocol import decode_assignment

COOPERATIVE = ("cooperative-sticky",)
EVERYTHING = {(T, number) for number in range(6)}


def settled(world: Mixed, *, names: tuple[str, ...] = ("range",), count: int = 1) -> tuple[ClassicClient, NativeClient]:
    """Bring a classic member, of `count`, and a native one into a stable consumer group."""
    clients = classic_members(world, count, names=names)
    native = NativeClient(world, "n")
    rounds(*clients, native)
    assert one_owner_each(*clients, native) == EVERYTHING
    return clients[0], native


def called(world: Mixed, *, names: tuple[str, ...] = ("range",)) -> tuple[ClassicClient, NativeClient, NativeClient]:
    """Have another native member come, so that the classic one is called to join."""
    client, native = settled(world, names=names)
    newcomer = NativeClient(world, "o")
    newcomer.step()
    assert world.phase(client.member_id) is ClassicPhase.PREPARE_REBALANCE
    return client, native, newcomer


# -- SyncGroup


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignment_is_written_in_the_members_own_version(version: int) -> None:
    world = Mixed(min_embedded_version=0)
    (client,) = classic_members(world, 1, version=version)
    rounds(client, NativeClient(world, "n"))
    result = synced(world.sync(client.member_id, client.generation))
    assert result.assignment[:2] == version.to_bytes(2, "big")
    assert {(T, number) for _, number in decode_assignment(result.assignment).partitions} == client.owned
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")


def test_sync_completes_the_members_round() -> None:
    world = Mixed()
    client, _ = settled(world)
    client.join()
    assert world.phase(client.member_id) is ClassicPhase.COMPLETING_REBALANCE
    assert member_sync_timer("g", client.member_id) in world.timers
    client.sync()
    assert world.phase(client.member_id) is ClassicPhase.STABLE
    assert member_sync_timer("g", client.member_id) not in world.timers


def test_repeated_sync_is_answered_again_and_writes_nothing() -> None:
    world = Mixed()
    client, _ = settled(world)
    length = len(world.log)
    first, second = (world.sync(client.member_id, client.generation) for _ in range(2))
    assert synced(first).assignment == synced(second).assignment
    assert len(world.log) == length


def test_sync_of_unknown_and_native_members_is_unknown_and_of_another_instance_fenced() -> None:
    world = Mixed()
    client, native = settled(world)
    held = joined_static(world, native)
    assert world.sync("stranger", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("n", native.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync(client.member_id, client.generation, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(held.member_id, 1, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID


def joined_static(world: Mixed, native: NativeClient) -> ClassicClient:
    client = ClassicClient(world, instance_id="i")
    rounds(client, native, times=4)
    return client


def test_sync_in_another_protocol_than_the_member_offers_is_inconsistent() -> None:
    world = Mixed()
    client, _ = settled(world)
    at = client.generation
    assert world.sync(client.member_id, at, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(client.member_id, at, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(client.member_id, at, protocol_type="consumer", protocol_name="range").error is ErrorCode.NONE


def test_sync_of_another_generation_is_illegal() -> None:
    world = Mixed()
    client, _ = settled(world)
    for generation in (client.generation - 1, client.generation + 1):
        assert world.sync(client.member_id, generation).error is ErrorCode.ILLEGAL_GENERATION


def test_sync_that_a_target_has_overtaken_is_sent_back_to_join() -> None:
    world = Mixed()
    client, _ = settled(world)
    client.join()
    NativeClient(world, "o").step()
    assert world.sync(client.member_id, client.generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.phase(client.member_id) is ClassicPhase.PREPARE_REBALANCE
    assert member_sync_timer("g", client.member_id) not in world.timers


def test_sync_is_answered_while_the_next_target_is_put_off() -> None:
    world = Mixed()
    client, _ = settled(world)
    client.join()
    world.submit(TargetMeasured("g", 50_000))
    NativeClient(world, "o").step()
    assert world.consumers().epoch > world.consumers().assignment_epoch
    assert world.sync(client.member_id, client.generation).error is ErrorCode.NONE


def test_member_that_must_revoke_receives_the_smaller_assignment_of_a_newer_target() -> None:
    world = Mixed()
    client, _, _ = called(world, names=COOPERATIVE)
    at, owned = client.generation, set(client.owned)
    assert joined(world.join(client.member_id, protocols=offer(owned=owned, generation=at, names=COOPERATIVE)))
    assert world.member(client.member_id).state is MemberState.UNREVOKED_PARTITIONS
    first = decode_assignment(synced(world.sync(client.member_id, at)).assignment).partitions
    assert joined(world.join(client.member_id, protocols=offer(owned=owned, generation=at, names=COOPERATIVE)))
    for name in "pqr":
        NativeClient(world, name).step()
    second = decode_assignment(synced(world.sync(client.member_id, at)).assignment).partitions
    assert second < first


def test_assignments_that_a_member_hands_in_are_ignored() -> None:
    world = Mixed()
    client, _ = settled(world)
    client.join()
    answer = world.sync(client.member_id, client.generation, assignments=((client.member_id, b"mine"),))
    assert synced(answer).assignment != b"mine"


# -- Heartbeat


def test_heartbeat_without_news_is_quiet_and_costs_no_walk() -> None:
    world = Mixed()
    client, _ = settled(world)
    beat = Heartbeat("g", client.member_id, None, client.generation)
    effects = decide_heartbeat(world.consumers(), beat, world.now_ms)
    assert effects == (
        Reply(HeartbeatResult(ErrorCode.NONE, is_quiet=True)),
        Arm(session_timer("g", client.member_id), world.now_ms + SESSION_MS),
    )


def test_kept_heartbeat_does_not_prolong_the_session_again() -> None:
    world = Mixed()
    client, _ = settled(world)
    beat = Heartbeat("g", client.member_id, None, client.generation, is_counted=True)
    assert decide_heartbeat(world.consumers(), beat, world.now_ms) == (
        Reply(HeartbeatResult(ErrorCode.NONE, is_quiet=True)),
    )


def test_heartbeat_maintains_the_session_with_the_members_own_timeout() -> None:
    world = Mixed()
    client, native = settled(world)
    for _ in range(4):
        world.advance(SESSION_MS - 1)
        assert client.step() is ErrorCode.NONE
        native.step()
    world.advance(SESSION_MS)
    assert client.member_id not in world.consumers().members


def test_member_that_must_rejoin_is_woken_and_gets_rebalance_in_progress_until_it_joins() -> None:
    world = Mixed()
    client, _, _ = called(world)
    assert client.member_id in world.woken
    for _ in range(2):
        assert world.beat(client.member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    client.step()
    client.step()
    assert world.phase(client.member_id) is not ClassicPhase.PREPARE_REBALANCE


def test_member_whose_missing_partitions_are_all_free_is_called() -> None:
    world = Mixed()
    (client,) = classic_members(world, 1)
    client.leave()
    native = NativeClient(world, "n")
    native.step()
    member_id = world.join(protocols=offer()).result.member_id
    join = world.join(member_id, protocols=offer(), rebalance_timeout_ms=1_000)
    world.advance(1_000)
    synced(world.sync(member_id, joined(join).generation))
    assert world.member(member_id).state is MemberState.UNRELEASED_PARTITIONS
    assert world.beat(member_id) is ErrorCode.NONE
    native.step()
    assert world.beat(member_id) is ErrorCode.NONE
    native.step()
    assert member_id in world.woken
    assert world.beat(member_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeat_of_unknown_and_native_members_is_unknown_and_of_another_instance_fenced() -> None:
    world = Mixed()
    client, native = settled(world)
    joined_static(world, native)
    assert world.beat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("n", native.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat(client.member_id, None, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.beat(client.member_id, None, "j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_of_another_generation_is_illegal() -> None:
    world = Mixed()
    client, _ = settled(world)
    assert world.beat(client.member_id, client.generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.beat(client.member_id, client.generation + 1) is ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_that_overtakes_the_answer_of_its_join_is_sent_to_join() -> None:
    world = Mixed()
    client, _ = settled(world)
    old = client.generation
    newcomer = NativeClient(world, "o")
    newcomer.step()
    client.step()
    client.join()
    assert world.member(client.member_id).epoch > old
    assert world.beat(client.member_id, old) is ErrorCode.REBALANCE_IN_PROGRESS


def test_native_heartbeat_of_a_classic_member_is_let_in_as_what_it_is_now() -> None:
    world = Mixed()
    client, _ = settled(world)
    assert world.native(client.member_id, 0).error is ErrorCode.NONE
    assert world.member(client.member_id).classic is None
    assert world.phase(client.member_id) is ClassicPhase.STABLE


def test_group_that_moved_away_answers_that_it_has() -> None:
    world = Mixed()
    client, _ = settled(world)
    world.submit(Unload("g"))
    assert world.submit(Heartbeat("g", client.member_id, None, 1)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.sync(client.member_id, 1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.leave(Leaving(client.member_id)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.timers


# -- the bounds


def test_called_member_that_does_not_join_in_time_is_evicted() -> None:
    world = Mixed()
    client, native, newcomer = called(world)
    for _ in range(REBALANCE_MS // 5_000):
        assert world.beat(client.member_id) is ErrorCode.REBALANCE_IN_PROGRESS
        native.step()
        newcomer.step()
        world.advance(5_000)
    assert client.member_id not in world.consumers().members
    (out,) = [event for event in world.events if isinstance(event, ConsumerMemberOut)]
    assert out.cause.kind is CauseKind.REBALANCE_TIMEOUT


def test_member_that_does_not_sync_in_time_is_evicted() -> None:
    world = Mixed()
    client, _ = settled(world)
    client.join()
    for _ in range(REBALANCE_MS // 5_000):
        assert world.beat(client.member_id) is ErrorCode.NONE
        world.native("n", world.member("n").epoch)
        world.advance(5_000)
    assert client.member_id not in world.consumers().members
    out = next(event for event in world.events if isinstance(event, ConsumerMemberOut))
    assert out.cause.kind is CauseKind.SYNC_TIMEOUT


def test_cooperative_member_that_never_revokes_is_evicted() -> None:
    world = Mixed()
    client, native, newcomer = called(world, names=COOPERATIVE)
    at, owned = client.generation, set(client.owned)
    joined(world.join(client.member_id, protocols=offer(owned=owned, generation=at, names=COOPERATIVE)))
    synced(world.sync(client.member_id, at))
    for _ in range(REBALANCE_MS // 5_000):
        world.beat(client.member_id)
        native.step()
        newcomer.step()
        world.advance(5_000)
    assert client.member_id not in world.consumers().members


def test_timers_of_a_phase_that_is_over_do_nothing() -> None:
    world = Mixed()
    client, native, newcomer = called(world)
    rounds(client, native, newcomer)
    left = {timer.kind for timer in world.timers if timer.member_id == client.member_id}
    assert left == {"session"}


@pytest.mark.parametrize("phase", [ClassicPhase.PREPARE_REBALANCE, ClassicPhase.COMPLETING_REBALANCE])
def test_bounds_survive_a_failover(phase: ClassicPhase) -> None:
    # Kafka forgets them: a member that never joins again would keep its partitions as long as it sends heartbeats.
    world = Mixed()
    client, _, _ = called(world)
    if phase is ClassicPhase.COMPLETING_REBALANCE:
        client.step()
        client.join()
    world.restart()
    assert world.phase(client.member_id) is phase
    timer = {
        ClassicPhase.PREPARE_REBALANCE: member_join_timer("g", client.member_id),
        ClassicPhase.COMPLETING_REBALANCE: member_sync_timer("g", client.member_id),
    }[phase]
    assert world.timers[timer] == world.now_ms + REBALANCE_MS
    assert world.timers[session_timer("g", client.member_id)] == world.now_ms + SESSION_MS


def test_failover_between_a_target_and_its_calls_calls_the_members() -> None:
    world = Mixed()
    client, _, _ = called(world)
    # The last records are the calls, and then what the newcomer was granted.
    while not any(isinstance(event, TargetStored) for event in world.log[-1]):
        world.log.pop()
        world.stored.pop()
    assert fold(world.log, world.settings).groups["g"].members[client.member_id].classic_phase is ClassicPhase.STABLE  # type: ignore[union-attr]
    world.restart()
    assert world.phase(client.member_id) is ClassicPhase.PREPARE_REBALANCE


# -- LeaveGroup


def test_batch_bumps_the_epoch_once_and_answers_each_entry() -> None:
    world = Mixed()
    client, native = settled(world)
    static = joined_static(world, native)
    epoch, length = world.consumers().epoch, len(world.log)
    answer = world.leave(
        Leaving(client.member_id), Leaving(client.member_id), Leaving("stranger"), Leaving("", "i"), Leaving("", "j"),
        Leaving(client.member_id, "i"),
    )  # fmt: skip
    assert [member.error for member in answer.result.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    stored = [event for records in world.log[length:] for event in records]
    epochs = [event.epoch for event in stored if isinstance(event, ConsumerGroupStored)]
    assert epochs == [epoch + 1]
    assert {client.member_id, static.member_id}.isdisjoint(world.consumers().members)


def test_partitions_of_a_leaver_go_to_the_others() -> None:
    world = Mixed()
    client, native = settled(world)
    client.leave()
    rounds(native)
    assert native.owned == EVERYTHING


def test_last_member_that_leaves_leaves_an_empty_consumer_group() -> None:
    world = Mixed()
    client, native = settled(world)
    world.leave(Leaving(client.member_id), Leaving(native.member_id))
    assert world.is_consumer
    assert not world.consumers().members
    assert not world.timers
