"""A consumer group becomes classic again when its last native member goes, and its members join a round of theirs."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import ClassicClient, Mixed, NativeClient, T, classic_members, offer, one_owner_each, rounds
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, Answer, joined, synced

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Heartbeat, Leaving
from kohort.group.effects import Effect, Reply
from kohort.group.events import ConsumerGroupDeleted, GroupConverted, GroupStored, RoundOpened
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.wire.consumer_protocol import decode_assignment

EVERYTHING = {(T, number) for number in range(6)}


def mixed_group(world: Mixed, count: int = 2, **kind: object) -> tuple[list[ClassicClient], NativeClient]:
    """Bring classic members and a native one into a stable consumer group."""
    clients = classic_members(world, count, **kind)
    native = NativeClient(world, "n")
    rounds(*clients, native)
    assert one_owner_each(*clients, native) == EVERYTHING
    return clients, native


def is_classic(world: Mixed) -> bool:
    return isinstance(world.shard.groups["g"], ClassicGroup)


def settled(world: Mixed, clients: list[ClassicClient]) -> None:
    """Check that the classic group goes on by itself, and that no member lost anything on the way."""
    for _ in range(6):
        for client in clients:
            client.step()
            one_owner_each(*clients)
        world.advance(0)
    assert world.group().phase is Phase.STABLE
    assert one_owner_each(*clients) == EVERYTHING
    assert all(client.lost == [] for client in clients)


@pytest.mark.parametrize("names", [("range",), ("cooperative-sticky",)], ids=["eager", "cooperative"])
def test_last_native_member_that_leaves_makes_the_group_classic(names: tuple[str, ...]) -> None:
    world = Mixed()
    clients, native = mixed_group(world, names=names)
    epoch = world.consumers().epoch
    native.leave()
    assert is_classic(world)
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert world.group().generation == epoch + 1
    settled(world, clients)


def test_one_native_member_of_two_leaves_the_group_as_it_is() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    other = NativeClient(world, "o")
    rounds(*clients, native, other)
    native.leave()
    assert world.is_consumer


def test_last_native_member_that_falls_silent_makes_the_group_classic() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    native.owned.clear()
    for _ in range(world.settings.consumer_session_timeout_ms // 5_000):
        world.advance(5_000)
        for client in clients:
            client.step()
    assert is_classic(world)
    settled(world, clients)


def test_last_native_member_that_does_not_revoke_in_time_makes_the_group_classic() -> None:
    world = Mixed()
    (client,), native = mixed_group(world, 1)
    newcomer = ClassicClient(world)
    newcomer.step()
    newcomer.step()
    for _ in range(REBALANCE_MS // 5_000 + 1):
        # Alive, and its heartbeat reports that it still owns everything.
        world.native("n", native.epoch) if world.is_consumer else None
        client.step()
        newcomer.step()
        world.advance(5_000)
    assert is_classic(world)
    native.owned.clear()
    settled(world, [client, newcomer])


def test_last_native_member_that_an_administrator_removes_makes_the_group_classic() -> None:
    world = Mixed()
    clients = classic_members(world)
    native = NativeClient(world, "n", instance_id="i")
    rounds(*clients, native)
    answer = world.leave(Leaving("", "i"))
    assert [member.error for member in answer.result.members] == [ErrorCode.NONE]
    assert is_classic(world)
    native.owned.clear()
    settled(world, clients)


def test_batch_of_leavers_converts_once_they_are_all_gone() -> None:
    world = Mixed()
    clients, _ = mixed_group(world, 3)
    world.leave(Leaving(clients[0].member_id), Leaving("n"))
    assert is_classic(world)
    clients[0].owned.clear()
    settled(world, clients[1:])


def test_record_of_the_classic_group_has_the_assignment_of_every_member() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    owned = {client.member_id: set(client.owned) for client in clients}
    native.leave()
    record = [event for records in world.log for event in records if isinstance(event, GroupStored)][-1]
    assert record.protocol_type == "consumer"
    assert record.protocol_name == "range"
    assert {
        member.member_id: {(T, number) for _, number in decode_assignment(member.assignment).partitions}
        for member in record.members
    } == owned


def test_members_behind_the_groups_epoch_are_sent_to_join_and_lose_nothing() -> None:
    # Kafka answers ILLEGAL_GENERATION, on which clients give up everything as lost.
    world = Mixed()
    clients, native = mixed_group(world)
    epochs = [client.generation for client in clients]
    native.leave()
    assert world.group().generation > max(epochs)
    sent = [world.submit(Heartbeat("g", client.member_id, None, client.generation)).error for client in clients]
    assert sent == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert world.sync(clients[0].member_id, epochs[0]).error is ErrorCode.REBALANCE_IN_PROGRESS
    ahead = Heartbeat("g", clients[0].member_id, None, world.group().generation + 1)
    assert world.submit(ahead).error is ErrorCode.ILLEGAL_GENERATION
    settled(world, clients)


def test_heartbeats_of_an_old_epoch_keep_their_member_in_the_group() -> None:
    """Its user's callback takes long, and no JoinGroup comes before it returns: seed 994713."""
    world = Mixed()
    clients, native = mixed_group(world)
    native.leave()
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        for client in clients:
            world.submit(Heartbeat("g", client.member_id, None, client.generation))
    assert {client.member_id for client in clients} <= world.group().members.keys()


def test_old_epochs_are_illegal_again_once_the_round_is_over() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    old = clients[0].generation
    native.leave()
    settled(world, clients)
    beat = Heartbeat("g", clients[0].member_id, None, old)
    assert world.submit(beat).error is ErrorCode.ILLEGAL_GENERATION


def test_failover_right_after_the_conversion_starts_the_round_again() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    native.leave()
    world.restart()
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert world.cause().kind is CauseKind.GROUP_CONVERTED
    settled(world, clients)


def test_failover_between_the_last_exit_and_the_conversion_converts() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    native.leave()
    assert any(isinstance(event, ConsumerGroupDeleted) for event in world.log[-1])
    world.log.pop()
    world.stored.pop()
    world.restart()
    assert is_classic(world)
    settled(world, clients)


class Breaking(Mixed):
    """A world whose log breaks with an answer while `is_breaking`: what follows from that decision is not stored."""

    is_breaking = False

    def _answer(self, effect: Effect, answer: Answer | None) -> None:
        super()._answer(effect, answer)
        if self.is_breaking and isinstance(effect, Reply):
            self.append_error = ErrorCode.KAFKA_STORAGE_ERROR


def test_conversion_that_could_not_be_stored_is_tried_again() -> None:
    world = Breaking()
    clients, native = mixed_group(world)
    world.is_breaking = True
    native.leave()
    world.is_breaking = False
    assert world.is_consumer
    world.append_error = None
    for _ in range(2):
        for client in clients:
            client.step()
        world.advance(1_000)
    assert is_classic(world)
    settled(world, clients)


def test_join_that_waits_when_the_group_becomes_classic_is_sent_back() -> None:
    world = Mixed()
    (client,), native = mixed_group(world, 1)
    newcomer = ClassicClient(world)
    newcomer.step()
    newcomer.step()
    assert newcomer.is_waiting
    native.leave()
    assert is_classic(world)
    assert not newcomer.is_waiting
    settled(world, [client, newcomer])


def test_members_keep_all_that_they_offer() -> None:
    world = Mixed()
    names = ("range", "cooperative-sticky")
    clients, native = mixed_group(world, names=names)
    native.leave()
    assert world.group().supported == {"range": 2, "cooperative-sticky": 2}
    assert not any(member.is_restored for member in world.group().members.values())
    settled(world, clients)


def test_tombstones_of_the_consumer_group_come_before_the_classic_record() -> None:
    world = Mixed()
    _, native = mixed_group(world)
    native.leave()
    records = next(
        records for records in world.log if any(isinstance(event, ConsumerGroupDeleted) for event in records)
    )
    assert isinstance(records[-2], ConsumerGroupDeleted)
    assert isinstance(records[-1], GroupStored)


def test_policy_disabled_keeps_the_group_a_consumer_group() -> None:
    world = Mixed()
    _, native = mixed_group(world)
    object.__setattr__(world.settings, "migration_policy", "disabled")
    native.leave()
    assert world.is_consumer


def test_policy_upgrade_keeps_the_group_a_consumer_group_of_classic_members() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    object.__setattr__(world.settings, "migration_policy", "upgrade")
    native.leave()
    assert world.is_consumer
    rounds(*clients)
    assert one_owner_each(*clients) == EVERYTHING
    assert world.consumers().natives == 0


def test_group_larger_than_a_classic_group_may_be_stays_a_consumer_group() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    object.__setattr__(world.settings, "max_size", 1)
    native.leave()
    assert world.is_consumer
    rounds(*clients)
    assert one_owner_each(*clients) == EVERYTHING


# -- a static classic member in the place of the last native one


def static_pair(world: Mixed) -> tuple[ClassicClient, NativeClient]:
    (client,) = classic_members(world, 1, instance_id="c")
    native = NativeClient(world, "n", instance_id="i")
    rounds(client, native)
    return client, native


@pytest.mark.parametrize("is_away", [False, True], ids=["live", "away"])
def test_static_classic_member_replaces_the_last_native_one_without_a_round(is_away: bool) -> None:
    world = Mixed()
    client, native = static_pair(world)
    owned, rounds_before = set(native.owned), sum(isinstance(event, RoundOpened) for event in world.events)
    if is_away:
        native.leave(-2)
    result = joined(world.join(instance_id="i", protocols=offer()))
    assert is_classic(world)
    assert world.group().phase is Phase.STABLE
    assert result.leader == result.member_id
    assert result.skip_assignment
    assert result.generation == world.group().generation == client.generation
    given = decode_assignment(synced(world.sync(result.member_id, result.generation, instance_id="i")).assignment)
    assert {(T, number) for _, number in given.partitions} == owned
    assert client.step() is ErrorCode.NONE
    assert sum(isinstance(event, RoundOpened) for event in world.events) == rounds_before
    if not is_away:
        assert world.native("n", native.epoch, instance_id="i").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_replacement_that_cannot_lead_without_assigning_starts_a_round() -> None:
    world = Mixed()
    client, native = static_pair(world)
    native.leave(-2)
    join = world.join(instance_id="i", protocols=offer(), can_skip_assignment=False)
    assert join.is_waiting
    assert world.group().phase is Phase.PREPARING_REBALANCE
    client.step()
    client.step()
    assert joined(join).generation == world.group().generation


def test_replacement_with_other_topics_starts_a_round() -> None:
    world = Mixed()
    _, native = static_pair(world)
    native.leave(-2)
    assert world.join(instance_id="i", protocols=offer("t", "u")).is_waiting
    assert world.group().phase is Phase.PREPARING_REBALANCE


@pytest.mark.parametrize("is_away", [False, True], ids=["live", "away"])
def test_replacement_that_is_not_to_lead_is_answered_without_a_leader(is_away: bool) -> None:
    world = Mixed(has_leading_replacement=False)
    client, native = static_pair(world)
    owned = set(native.owned)
    if is_away:
        native.leave(-2)
    result = joined(world.join(instance_id="i", protocols=offer(), can_skip_assignment=False))
    assert (result.generation, result.protocol_name) == (client.generation, "range")
    assert (result.leader, result.members, result.skip_assignment) == ("", (), False)
    assert world.group().phase is Phase.STABLE
    given = decode_assignment(synced(world.sync(result.member_id, result.generation, instance_id="i")).assignment)
    assert {(T, number) for _, number in given.partitions} == owned
    assert client.step() is ErrorCode.NONE


def test_replacement_with_other_topics_that_is_not_to_lead_is_answered_before_its_round() -> None:
    world = Mixed(has_leading_replacement=False)
    client, native = static_pair(world)
    native.leave(-2)
    result = joined(world.join(instance_id="i", protocols=offer("t", "u")))
    assert (result.generation, result.leader, result.members) == (0, "", ())
    assert world.group().phase is Phase.PREPARING_REBALANCE
    again = world.join(result.member_id, instance_id="i", protocols=offer("t", "u"))
    client.step()
    client.step()
    assert joined(again).generation == world.group().generation


@pytest.mark.parametrize("leads", [True, False])
def test_last_native_member_that_joins_as_a_classic_one_by_its_id_leads_either_way(leads: bool) -> None:
    world = Mixed(has_leading_replacement=leads)
    (client,) = classic_members(world, 1)
    native = NativeClient(world, "n")
    rounds(client, native)
    assert joined(world.join("n", protocols=offer())).leader == "n"
    assert is_classic(world)


def test_replacement_while_others_have_not_come_to_their_target_starts_a_round() -> None:
    world = Mixed()
    client, native = static_pair(world)
    newcomer = ClassicClient(world)
    newcomer.step()
    newcomer.step()
    native.leave(-2)
    assert world.join(instance_id="i", protocols=offer()).is_waiting
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert not newcomer.is_waiting
    client.step()


def test_replacement_under_a_policy_that_forbids_it_stays_a_classic_member_of_the_consumer_group() -> None:
    world = Mixed()
    client, native = static_pair(world)
    object.__setattr__(world.settings, "migration_policy", "upgrade")
    native.leave(-2)
    result = joined(world.join(instance_id="i", protocols=offer()))
    assert world.is_consumer
    assert result.leader == ""
    assert synced(world.sync(result.member_id, result.generation, instance_id="i")).assignment
    assert client.step() is ErrorCode.NONE


def test_conversion_that_cannot_be_stored_leaves_a_consumer_group() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    native.owned.clear()
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.leave(Leaving("n")).error is ErrorCode.NOT_COORDINATOR
    assert world.is_consumer
    world.append_error = None
    world.leave(Leaving("n"))
    assert is_classic(world)
    settled(world, clients)


def test_conversion_back_reports_the_members_that_stay() -> None:
    world = Mixed()
    clients, native = mixed_group(world)
    native.leave()
    converted = [event for event in world.events if isinstance(event, GroupConverted)][-1]
    assert not converted.is_consumer
    assert converted.member_ids == tuple(sorted(client.member_id for client in clients))
