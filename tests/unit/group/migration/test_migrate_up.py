"""A classic group becomes a consumer group under its members: who may be in it, and that no member loses anything."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import (
    ClassicClient,
    Mixed,
    NativeClient,
    T,
    classic_members,
    offer,
    one_owner_each,
    rounds,
)

from kohort.assign.user_data import encode_assignment_error
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.reconcile import ids_of
from kohort.group.events import (
    ClassicPhase,
    ConsumerGroupStored,
    GroupConverted,
    GroupDeleted,
    MemberState,
    TargetStored,
)
from kohort.group.group_timers import join_timer, member_join_timer, sync_timer
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.wire.consumer_protocol import encode_assignment

KINDS = {"eager": ("range",), "cooperative": ("cooperative-sticky",)}


def parts(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


def pair(world: Mixed, first: dict[str, bytes], *, names: tuple[str, ...] = ("range",)) -> tuple[str, str]:
    """Bring two classic members into a stable group with these assignments, by position."""
    joins = [world.join(instance_id=f"i{n}", protocols=offer(names=names)) for n in range(2)]
    world.gather()
    members = sorted(join.result.member_id for join in joins)
    leader = world.group().leader
    made = tuple(zip(members, first.values(), strict=True))
    for member_id in sorted(members, key=lambda one: one == leader):
        world.sync(member_id, assignments=made if member_id == leader else ())
    assert world.group().phase is Phase.STABLE
    return members[0], members[1]


@pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)
def test_conversion_alone_revokes_no_partition(names: tuple[str, ...]) -> None:
    world = Mixed()
    clients = classic_members(world, 2, names=names)
    owned = {client.member_id: set(client.owned) for client in clients}
    world.native("n", 0)
    assert world.is_consumer
    for client in clients:
        member = world.member(client.member_id)
        assert {(topic, number) for topic, numbers in ids_of(member.assigned) for number in numbers} == owned[
            client.member_id
        ]
        assert member.pending == ()
        assert member.state is MemberState.STABLE
        assert client.owned == owned[client.member_id]
        assert client.lost == []


def test_consumer_group_begins_at_the_generation_with_the_assignments_as_its_target() -> None:
    world = Mixed()
    first, second = pair(
        world, {"a": encode_assignment(Assignment(parts(0, 1))), "b": encode_assignment(Assignment(parts(2)))}
    )
    generation = world.group().generation
    length = len(world.log)
    world.native("n", 0)
    converting = world.log[length]
    assert isinstance(converting[0], GroupDeleted)
    assert [event.epoch for event in converting if isinstance(event, ConsumerGroupStored)] == [generation]
    assert [event.epoch for event in converting if isinstance(event, TargetStored)] == [generation]
    assert world.consumers().epoch == generation + 1, "the joiner takes the epoch on"
    assert world.member(first).epoch == world.member(second).epoch == generation


def test_classic_members_are_called_by_the_target_with_the_joiner() -> None:
    world = Mixed()
    clients = classic_members(world)
    world.native("n", 0)
    assert {client.member_id for client in clients} <= set(world.woken)
    for client in clients:
        assert world.phase(client.member_id) is ClassicPhase.PREPARE_REBALANCE
        assert world.beat(client.member_id) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)
def test_group_is_rolled_to_the_consumer_protocol_and_back_online(names: tuple[str, ...], is_static: bool) -> None:
    world = Mixed()
    old = [ClassicClient(world, names=names, instance_id=f"i{n}" if is_static else None) for n in range(3)]
    for _ in range(6):
        for client in old:
            client.step()
        world.advance(0)
    everything = {(T, number) for number in range(6)}
    assert one_owner_each(*old) == everything
    clients: list[ClassicClient | NativeClient] = list(old)
    for position, client in enumerate(old):
        if is_static:
            client.owned.clear()
        else:
            client.leave()
        clients[position] = NativeClient(world, f"n{position}", instance_id=client.instance_id)
        rounds(*clients)
        assert one_owner_each(*clients) == everything
        assert world.is_consumer
    assert world.consumers().natives == 3
    for position, native in enumerate(list(clients)):
        native.leave(-2) if is_static else native.leave()
        clients[position] = ClassicClient(world, names=names, instance_id=native.instance_id)
        rounds(*clients)
        world.advance(0)
        rounds(*clients)
        assert one_owner_each(*clients) == everything
    assert world.group().phase is Phase.STABLE
    assert all(client.lost == [] for client in clients if isinstance(client, ClassicClient))


@pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)
def test_members_that_wait_for_a_round_are_sent_back_to_join(names: tuple[str, ...]) -> None:
    world = Mixed(initial_rebalance_delay_ms=3_000)
    clients = [ClassicClient(world, names=names) for _ in range(2)]
    for client in [*clients, *clients]:
        client.step()
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert all(client.is_waiting for client in clients)
    native = NativeClient(world, "n")
    native.step()
    assert [client.asked and client.asked.error for client in clients] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert join_timer("g") not in world.timers
    assert world.consumers().epoch >= 1
    rounds(*clients, native)
    assert one_owner_each(*clients, native) == {(T, number) for number in range(6)}


def test_members_that_wait_for_their_leader_are_sent_back_to_join() -> None:
    world = Mixed()
    joins = [world.join(instance_id=f"i{n}", protocols=offer()) for n in range(2)]
    world.gather()
    generation = world.group().generation
    follower = next(join.result.member_id for join in joins if join.result.member_id != world.group().leader)
    waiting = world.sync(follower)
    world.native("n", 0)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert sync_timer("g", generation) not in world.timers
    assert world.phase(follower) is ClassicPhase.PREPARE_REBALANCE
    assert member_join_timer("g", follower) in world.timers


def test_cooperative_members_of_an_unfinished_round_own_what_they_report() -> None:
    # Kafka takes the void assignments of the round for the truth, and gives what they own to the joiner at once.
    world = Mixed()
    clients = classic_members(world, 2, names=("cooperative-sticky",))
    third = ClassicClient(world, names=("cooperative-sticky",))
    third.step()
    third.step()
    for client in clients:
        client.step()
        client.step()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    native = NativeClient(world, "n")
    native.step()
    assert native.owned == set()
    rounds(*clients, third, native)
    assert one_owner_each(*clients, third, native) == {(T, number) for number in range(6)}
    assert all(client.lost == [] for client in clients)


def test_partitions_that_a_cooperative_round_revokes_are_revoked_before_another_member_gets_them() -> None:
    world = Mixed()
    names = ("cooperative-sticky",)
    (first,) = classic_members(world, 1, names=names)
    second = ClassicClient(world, names=names)
    second.step()
    second.step()
    first.step()
    first.step()
    second.listen()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    second.sync()
    # The leader has assigned, and its answer is on its way: it still owns everything.
    answer = world.sync(first.member_id, assignments=first.assignments())
    assert world.group().phase is Phase.STABLE
    native = NativeClient(world, "n")
    native.step()
    member = world.member(first.member_id)
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert {number for held in member.pending for number in held.partitions}
    assert native.owned == set()
    assert one_owner_each(first, native) == {(T, number) for number in range(6)}
    assert answer.error is ErrorCode.NONE
    first.sync()
    rounds(first, second, native)
    assert one_owner_each(first, second, native) == {(T, number) for number in range(6)}


def test_of_two_claims_of_a_partition_the_later_generation_counts() -> None:
    world = Mixed()
    names = ("cooperative-sticky",)
    old, new = {(T, 0), (T, 1)}, {(T, 1)}
    joins = [
        world.join(instance_id=instance_id, protocols=offer(owned=owned, generation=generation, names=names))
        for instance_id, owned, generation in (("a", old, 3), ("b", new, 7))
    ]
    world.gather()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    world.native("n", 0)
    first, second = (join.result.member_id for join in joins)
    assert ids_of(world.member(first).assigned) == ((T, (0,)),)
    assert ids_of(world.member(second).assigned) == ((T, (1,)),)


def test_member_without_an_assignment_comes_along_with_nothing() -> None:
    world = Mixed()
    first, second = pair(world, {"a": encode_assignment(Assignment(parts(0))), "b": b""})
    world.native("n", 0)
    assert ids_of(world.member(first).assigned) == ((T, (0,)),)
    assert world.member(second).assigned == ()


def test_partitions_of_deleted_topics_have_no_owner() -> None:
    world = Mixed()
    gone = frozenset({TopicPartition("gone", 0), TopicPartition("t", 99), TopicPartition("t", 3)})
    first, _ = pair(world, {"a": encode_assignment(Assignment(gone)), "b": b""})
    world.native("n", 0)
    assert ids_of(world.member(first).assigned) == ((T, (3,)),)


def test_native_member_takes_the_place_of_the_static_classic_member_that_it_was() -> None:
    world = Mixed()
    (first,) = classic_members(world, 1, instance_id="i")
    owned = set(first.owned)
    result = world.native("n", 0, instance_id="i")
    assert result.error is ErrorCode.NONE
    assert set(world.consumers().members) == {"n"}
    assert {(topic, number) for topic, numbers in result.assignment or () for number in numbers} == owned
    assert world.beat(first.member_id, 1, "i") is ErrorCode.FENCED_INSTANCE_ID


def test_instance_that_comes_back_native_in_the_middle_of_a_round_still_gets_a_target() -> None:
    world = Mixed()
    world.join(instance_id="i", protocols=offer())
    native = NativeClient(world, "n", instance_id="i")
    for _ in range(3):
        native.step()
    assert native.owned == {(T, number) for number in range(6)}


def test_instance_that_comes_back_native_gets_what_has_come_while_it_was_away() -> None:
    world = Mixed()
    first = world.join(instance_id="i", protocols=offer())
    world.gather()
    member_id = first.result.member_id
    world.sync(member_id, assignments=((member_id, encode_assignment(Assignment(parts(0, 1, 2, 3)))),))
    native = NativeClient(world, "n", instance_id="i")
    for _ in range(3):
        native.step()
    assert native.owned == {(T, number) for number in range(6)}


def test_instance_that_comes_back_native_gets_what_a_cooperative_round_was_taking_for_it() -> None:
    world = Mixed()
    names = ("cooperative-sticky",)
    everything = {(T, number) for number in range(6)}
    joins = [
        world.join(instance_id=instance_id, protocols=offer(owned=owned, generation=1, names=names))
        for instance_id, owned in (("a", everything), ("i", set[tuple[bytes, int]]()))
    ]
    world.gather()
    first, second = (join.result.member_id for join in joins)
    made = ((first, encode_assignment(Assignment(parts(0, 1, 2)))), (second, encode_assignment(Assignment(parts()))))
    for member_id in sorted((first, second), key=lambda one: one == world.group().leader):
        world.sync(member_id, assignments=made if member_id == world.group().leader else ())
    world.native("n", 0, instance_id="i")
    assert ids_of(world.member(first).pending) == ((T, (3, 4, 5)),)
    assert world.member("n").target == ((T, (3, 4, 5)),)


def test_conversion_reports_the_members_that_were_converted() -> None:
    world = Mixed()
    clients = classic_members(world)
    world.native("n", 0)
    (converted,) = [event for event in world.events if isinstance(event, GroupConverted)]
    assert converted.is_consumer
    assert converted.member_ids == tuple(sorted(client.member_id for client in clients))


# -- refusals


def refused(world: Mixed, error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND, **changes: object) -> str:
    """Join natively, be refused, and see that nothing has happened; return why."""
    length = len(world.log)
    result = world.native("n", 0, **changes)
    assert result.error is error
    assert isinstance(world.shard.groups["g"], ClassicGroup)
    assert len(world.log) == length
    assert result.error_message is not None
    return result.error_message


@pytest.mark.parametrize("version", [0, 1, 2])
def test_member_with_an_old_embedded_version_keeps_the_group_classic_and_is_named(version: int) -> None:
    world = Mixed()
    (old,) = classic_members(world, 1, version=version)
    text = refused(world, ErrorCode.INVALID_REQUEST)
    assert old.member_id in text
    assert f"version {version} where 3" in text


@pytest.mark.parametrize("version", [0, 1])
def test_lower_version_bound_admits_old_members(version: int) -> None:
    world = Mixed(min_embedded_version=0)
    (old,) = classic_members(world, 1, version=version)
    native = NativeClient(world, "n")
    rounds(old, native)
    assert one_owner_each(old, native) == {(T, number) for number in range(6)}
    assert len(old.owned) == len(native.owned) == 3


def test_assignor_that_keeps_state_in_assignments_keeps_the_group_classic() -> None:
    world = Mixed()
    custom = encode_assignment(Assignment(parts(0), b"state of mine"))
    first, second = pair(world, {"a": custom, "b": encode_assignment(Assignment(parts(1)))})
    text = refused(world)
    assert first in text
    assert second not in text


def test_error_code_of_our_leader_is_no_state() -> None:
    world = Mixed()
    failed = encode_assignment(Assignment(frozenset(), encode_assignment_error(ErrorCode.INVALID_REQUEST)))
    pair(world, {"a": failed, "b": encode_assignment(Assignment(parts(1)))})
    assert world.native("n", 0).error is ErrorCode.NONE


def test_what_cannot_be_read_keeps_the_group_classic() -> None:
    world = Mixed()
    first, _ = pair(world, {"a": b"\0", "b": b""})
    assert first in refused(world)
    other = Mixed()
    join = other.join(instance_id="i", protocols=(("range", b"!"),))
    other.gather()
    assert join.result.member_id in refused(other)


def test_group_of_another_protocol_type_stays_classic() -> None:
    world = Mixed()
    world.join(instance_id="i", protocol_type="connect")
    assert "connect" in refused(world)


@pytest.mark.parametrize(("size", "error"), [(1, ErrorCode.GROUP_ID_NOT_FOUND), (2, ErrorCode.GROUP_MAX_SIZE_REACHED)])
def test_group_larger_than_a_consumer_group_may_be_stays_classic(size: int, error: ErrorCode) -> None:
    world = Mixed(consumer_max_size=size)
    classic_members(world)
    assert world.native("n", 0).error is error
    assert isinstance(world.shard.groups["g"], ClassicGroup)


def test_full_group_admits_an_instance_that_replaces_itself() -> None:
    world = Mixed(consumer_max_size=1)
    classic_members(world, 1, instance_id="i")
    assert world.native("n", 0, instance_id="i").error is ErrorCode.NONE


def test_refusal_names_every_rule_and_some_members() -> None:
    world = Mixed(migration_policy="disabled")
    old = classic_members(world, 7, version=1)
    text = refused(world, ErrorCode.INVALID_REQUEST)
    assert "policy is disabled" in text
    assert "and 2 more" in text
    assert sum(client.member_id in text.replace(",", " ").split() for client in old) == 5


def test_conversion_that_cannot_be_stored_does_not_happen() -> None:
    world = Mixed()
    clients = classic_members(world)
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.native("n", 0).error is ErrorCode.NOT_COORDINATOR
    assert isinstance(world.shard.groups["g"], ClassicGroup)
    world.append_error = None
    assert [client.step() for client in clients] == [ErrorCode.NONE] * 2
