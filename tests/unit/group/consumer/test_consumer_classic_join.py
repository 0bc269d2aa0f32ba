"""JoinGroup of classic members in a consumer group: who is let in, and when each of them is answered."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import (
    ClassicClient,
    Mixed,
    NativeClient,
    T,
    U,
    classic_members,
    offer,
    one_owner_each,
    rounds,
)
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, Answer, joined, synced

from kohort.group.commands import Leaving, TargetMeasured, Unload
from kohort.group.consumer.reconcile import ids_of
from kohort.group.consumer.target import server_group
from kohort.group.events import ClassicPhase, MemberState
from kohort.group.group_timers import member_join_timer, session_timer
from kohort.model.errors import ErrorCode
from kohort.wire.consumer_protocol import decode_assignment

COOPERATIVE = ("cooperative-sticky",)
EVERYTHING = {(T, number) for number in range(6)}


def natives(world: Mixed, count: int = 1) -> list[NativeClient]:
    """Bring native members into a stable consumer group."""
    clients = [NativeClient(world, f"n{position}") for position in range(count)]
    rounds(*clients)
    return clients


def enter(world: Mixed, **changes: object) -> tuple[str, Answer]:
    """Join in two steps; return the member id and the answer to come."""
    asked = {"protocols": offer(), **changes}
    first = world.join(**asked)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    return first.result.member_id, world.join(first.result.member_id, **asked)


def test_new_dynamic_member_is_sent_back_with_an_id_that_is_not_remembered() -> None:
    world = Mixed()
    natives(world)
    length = len(world.log)
    answer = world.join(protocols=offer())
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert len(world.log) == length
    assert set(world.consumers().members) == {"n0"}


def test_old_version_gets_in_in_one_step() -> None:
    world = Mixed()
    natives(world)
    answer = world.join(protocols=offer(), is_two_step=False)
    assert answer.is_waiting
    assert len(world.consumers().members) == 2


def test_newcomer_waits_until_all_that_it_will_get_is_free() -> None:
    world = Mixed()
    (native,) = natives(world)
    member_id, join = enter(world)
    assert join.is_waiting
    assert native.member_id in world.woken
    native.step()
    assert join.is_waiting
    native.step()
    assert joined(join).generation == world.consumers().epoch
    assert not joined(join).leader
    assert joined(join).members == ()
    given = decode_assignment(synced(world.sync(member_id, joined(join).generation)).assignment).partitions
    assert len(given) == 3


def test_every_classic_member_is_a_follower_with_its_preferred_protocol() -> None:
    world = Mixed()
    natives(world)
    names = ("range", "roundrobin")
    _, join = enter(world, protocols=offer(names=names))
    rounds(NativeClient(world, "n1"))
    world.advance(REBALANCE_MS)
    assert joined(join).protocol_name == "range"
    assert joined(join).protocol_type == "consumer"


def test_member_that_must_give_something_back_is_answered_at_once_in_its_old_epoch() -> None:
    world = Mixed()
    clients = classic_members(world, 2, names=COOPERATIVE)
    native = NativeClient(world, "n")
    native.step()
    first = clients[0]
    epoch = first.generation
    answer = world.join(first.member_id, protocols=offer(owned=first.owned, generation=epoch, names=COOPERATIVE))
    assert joined(answer).generation == epoch
    assert world.member(first.member_id).state is MemberState.UNREVOKED_PARTITIONS
    kept = decode_assignment(synced(world.sync(first.member_id, epoch)).assignment).partitions
    assert len(kept) == 2
    assert world.phase(first.member_id) is ClassicPhase.PREPARE_REBALANCE
    rounds(first, clients[1], native)
    assert one_owner_each(*clients, native) == EVERYTHING


def test_cooperative_member_that_gains_gives_nothing_up_on_the_way() -> None:
    world = Mixed()
    (native,) = natives(world)
    client, other = ClassicClient(world, names=COOPERATIVE), NativeClient(world, "o")
    rounds(client, native, other)
    client.revoked.clear()
    owned = set(client.owned)
    other.leave()
    rounds(client, native)
    assert one_owner_each(client, native) == EVERYTHING
    assert owned < client.owned
    assert client.revoked == []


def test_eager_members_that_swap_partitions_do_not_wait_for_each_other() -> None:
    world = Mixed()
    clients = classic_members(world, 2)
    native = NativeClient(world, "n")
    native.step()
    for client in clients:
        client.step()
        client.step()
    # Both have given up everything, so both know at once what they get.
    assert not any(client.is_waiting for client in clients)
    rounds(*clients, native)
    assert one_owner_each(*clients, native) == EVERYTHING


def test_waiting_join_counts_as_alive() -> None:
    world = Mixed()
    (native,) = natives(world)
    member_id, join = enter(world)
    assert session_timer("g", member_id) not in world.timers
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        native.world.native(native.member_id, native.epoch)
    assert join.is_waiting
    assert member_id in world.consumers().members


def test_waiting_join_is_answered_with_what_there_is_after_a_rebalance_timeout() -> None:
    world = Mixed()
    (native,) = natives(world)
    member_id, join = enter(world, rebalance_timeout_ms=20_000)
    world.advance(19_999)
    assert join.is_waiting
    world.advance(1)
    assert joined(join).generation == world.consumers().epoch
    assert (
        decode_assignment(synced(world.sync(member_id, joined(join).generation)).assignment).partitions == frozenset()
    )
    rounds(native, times=3)
    assert world.beat(member_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_second_join_answers_the_first_that_still_waits() -> None:
    world = Mixed()
    natives(world)
    member_id, first = enter(world)
    second = world.join(member_id, protocols=offer())
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_waiting


def test_newcomer_waits_for_a_target_that_is_put_off() -> None:
    world = Mixed()
    natives(world)
    world.submit(TargetMeasured("g", 50_000))
    _, join = enter(world)
    assert world.consumers().epoch > world.consumers().assignment_epoch
    assert join.is_waiting
    world.advance(1_000)
    assert world.consumers().epoch == world.consumers().assignment_epoch


def test_member_that_leaves_while_its_join_waits_is_answered() -> None:
    world = Mixed()
    natives(world)
    member_id, join = enter(world)
    world.leave(Leaving(member_id))
    assert join.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert member_join_timer("g", member_id) not in world.timers


def test_target_that_changes_while_a_join_waits_is_what_it_gets() -> None:
    world = Mixed()
    (native,) = natives(world)
    member_id, join = enter(world)
    other = NativeClient(world, "o")
    rounds(native, other, times=6)
    assert joined(join).generation == world.consumers().epoch
    assert len(ids_of(world.member(member_id).assigned)[0][1]) == 2


def test_failover_while_a_join_waits_makes_the_member_join_again() -> None:
    world = Mixed()
    (native,) = natives(world)
    member_id, _ = enter(world)
    world.restart()
    assert world.phase(member_id) is ClassicPhase.PREPARE_REBALANCE
    assert world.timers[member_join_timer("g", member_id)] == world.now_ms + REBALANCE_MS
    again = world.join(member_id, protocols=offer())
    assert again.is_waiting
    native.has_lost_an_answer = True
    rounds(native, times=3)
    assert joined(again)


# -- what is stored of a member


def test_subscription_topics_rack_and_bounds_become_the_members() -> None:
    world = Mixed()
    natives(world)
    member_id, _ = enter(world, protocols=offer("u", "t"), rebalance_timeout_ms=7_000, session_timeout_ms=8_000)
    member = world.member(member_id)
    assert member.subscribed_topic_names == ("t", "u")
    assert member.rebalance_timeout_ms == 7_000
    assert member.classic is not None
    assert member.classic.session_timeout_ms == 8_000
    assert member.server_assignor is None


def test_other_topics_bump_the_epoch_and_the_same_do_not() -> None:
    world = Mixed()
    (native,) = natives(world)
    client = ClassicClient(world)
    rounds(client, native)
    epoch = world.consumers().epoch
    client.join()
    rounds(client, native)
    assert world.consumers().epoch == epoch
    client.topics = ("t", "u")
    client.join()
    assert world.consumers().epoch == epoch + 1
    rounds(client, native)
    assert one_owner_each(client, native) == EVERYTHING | {(U, 0), (U, 1)}


def test_topics_that_are_unsubscribed_are_revoked() -> None:
    world = Mixed()
    (native,) = natives(world)
    client = ClassicClient(world, names=COOPERATIVE, topics=("t", "u"))
    rounds(client, native)
    assert {(U, 0), (U, 1)} <= client.owned
    client.topics = ("t",)
    client.join()
    rounds(client, native)
    assert one_owner_each(client, native) == EVERYTHING


def test_user_data_is_metadata_of_version_minus_one_for_the_server_side_assignor() -> None:
    world = Mixed()
    natives(world)
    member_id, _ = enter(world, protocols=offer(names=("a", "b"), user_data=b"mine"))
    seen = server_group(world.consumers(), world.settings).members
    assert seen[member_id].metadata == {"a": (-1, b"mine"), "b": (-1, b"mine")}
    assert not seen["n0"].metadata


def test_classic_member_does_not_vote_for_a_server_side_assignor() -> None:
    world = Mixed()
    world.native("n", 0, server_assignor="range")
    enter(world, protocols=offer(names=("uniform",)))
    assert world.consumers().assignors == {"range": 1}


# -- who is let in


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocols": (("range", b"!"),)},
        {"protocols": (("range", b""),)},
        {"protocols": offer(version=2)},
        {"protocols": offer(version=0)},
    ],
    ids=["type", "none", "unreadable", "empty", "v2", "v0"],
)
def test_what_cannot_be_translated_is_refused(changes: dict[str, object]) -> None:
    world = Mixed()
    natives(world)
    length = len(world.log)
    answer = world.join("m", **{"protocols": offer(), **changes})
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer.result.member_id == ""
    assert len(world.log) == length


def test_what_is_unreadable_is_refused_once_its_sender_has_an_id() -> None:
    world = Mixed()
    natives(world)
    assert world.join(protocols=(("range", b""),)).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("version", [0, 1])
def test_late_joiner_with_an_old_version_is_let_in_by_the_lower_bound(version: int) -> None:
    # kafka-python writes 0, or 1 for cooperative-sticky.
    world = Mixed(min_embedded_version=0)
    (native,) = natives(world)
    names = COOPERATIVE if version else ("range",)
    client = ClassicClient(world, names=names, version=version)
    rounds(client, native)
    assert one_owner_each(client, native) == EVERYTHING
    assert len(client.owned) == 3
    answer = world.sync(client.member_id, client.generation)
    assert synced(answer).assignment[:2] == version.to_bytes(2, "big")


def test_classic_members_must_have_a_protocol_in_common() -> None:
    world = Mixed()
    natives(world)
    enter(world, protocols=offer(names=("range", "sticky")))
    assert world.join(protocols=offer(names=("roundrobin",))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    enter(world, protocols=offer(names=("sticky", "roundrobin")))
    assert world.join(protocols=offer(names=("range",))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_only_classic_member_may_change_all_that_it_offers() -> None:
    world = Mixed()
    natives(world)
    member_id, _ = enter(world, protocols=offer(names=("range",)))
    assert world.join(member_id, protocols=offer(names=("sticky",))).error_or_waiting is ErrorCode.NONE
    assert world.consumers().classic_protocols == {"sticky": 1}


def test_full_group_accepts_only_known_members() -> None:
    world = Mixed(consumer_max_size=2)
    (native,) = natives(world)
    client = ClassicClient(world, instance_id="i")
    rounds(client, native)
    assert world.join(protocols=offer()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(instance_id="j", protocols=offer()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(instance_id="i", protocols=offer()).error_or_waiting is ErrorCode.NONE


def test_unknown_id_with_a_generation_or_owned_partitions_is_refused() -> None:
    world = Mixed()
    natives(world)
    assert world.join("gone", protocols=offer(generation=4)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join("gone", protocols=offer(owned={(T, 0)})).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join("fresh", protocols=offer()).error_or_waiting is ErrorCode.NONE


def test_generation_that_was_never_issued_is_an_unknown_member() -> None:
    world = Mixed()
    (native,) = natives(world)
    client = ClassicClient(world)
    rounds(client, native)
    ahead = offer(generation=client.generation + 1)
    assert world.join(client.member_id, protocols=ahead).error is ErrorCode.UNKNOWN_MEMBER_ID
    behind = offer(generation=client.generation - 1)
    assert world.join(client.member_id, protocols=behind).error is ErrorCode.NONE


def test_group_that_moved_away_sends_the_joiner_elsewhere() -> None:
    world = Mixed()
    natives(world)
    _, join = enter(world)
    world.submit(Unload("g"))
    assert join.error is ErrorCode.NOT_COORDINATOR
    assert world.join(protocols=offer()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


# -- static members


def test_static_member_enters_in_one_step_and_is_known_by_its_instance() -> None:
    world = Mixed()
    natives(world)
    join = world.join(instance_id="i", protocols=offer())
    assert join.is_waiting
    assert "i" in world.consumers().static_members


def test_instance_that_comes_back_keeps_its_partitions_and_the_old_id_is_fenced() -> None:
    world = Mixed()
    (native,) = natives(world)
    client = ClassicClient(world, instance_id="i")
    rounds(client, native)
    epoch, owned, old = world.consumers().epoch, set(client.owned), client.member_id
    result = joined(world.join(instance_id="i", protocols=offer()))
    assert result.member_id != old
    assert world.consumers().epoch == epoch
    given = decode_assignment(synced(world.sync(result.member_id, result.generation, instance_id="i")).assignment)
    assert {(T, number) for _, number in given.partitions} == owned
    assert world.beat(old, epoch, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(old, instance_id="i", protocols=offer()).error is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_that_rejoins_with_other_topics_bumps_the_epoch() -> None:
    world = Mixed()
    (native,) = natives(world)
    client = ClassicClient(world, instance_id="i")
    rounds(client, native)
    epoch = world.consumers().epoch
    world.join(instance_id="i", protocols=offer("u"))
    assert world.consumers().epoch == epoch + 1


def test_old_ids_waiting_join_is_fenced_when_its_instance_comes_back() -> None:
    world = Mixed()
    natives(world)
    old = world.join(instance_id="i", protocols=offer())
    assert old.is_waiting
    world.join(instance_id="i", protocols=offer())
    assert old.error is ErrorCode.FENCED_INSTANCE_ID


def test_unknown_instance_with_an_id_is_unknown() -> None:
    world = Mixed()
    natives(world)
    assert world.join("m", instance_id="i", protocols=offer()).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_join_that_cannot_be_stored_is_answered_and_changes_nothing() -> None:
    world = Mixed()
    natives(world)
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join("fresh", protocols=offer()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(world.consumers().members) == {"n0"}


def test_answer_that_cannot_be_stored_is_an_error_and_the_member_may_ask_again() -> None:
    world = Mixed()
    (native,) = natives(world)
    member_id, join = enter(world, rebalance_timeout_ms=20_000)
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(20_000)
    assert join.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.append_error = None
    assert world.join(member_id, protocols=offer()).is_waiting
    assert native.owned
