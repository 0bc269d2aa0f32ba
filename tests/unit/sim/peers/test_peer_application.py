"""What a peer's user does where something stands in its way: it reads on from the right place, and commits no lie."""

from __future__ import annotations

import pytest
from tests.unit.sim.world_of_peers import SECOND_US, PeerWorld, text

from kohort.model.ids import TopicPartition
from kohort.sim.peers.client_kinds import ClientKind

T = [TopicPartition("t", index) for index in range(4)]


def make_anew(world: PeerWorld) -> None:
    assert world.node.node is not None
    topics = world.node.node.topics
    topic = topics.get("t")
    assert topic is not None
    topics.delete(topic, world.node.host.now_ms())
    topics.create("t", 1, {}, world.node.host.now_ms())


@pytest.mark.parametrize("kind", ["eager-aiokafka", "eager-range", "cooperative", "consumer"])
def test_a_topic_that_is_made_anew_is_read_from_its_beginning(kind: str) -> None:
    world = PeerWorld(partitions=1)
    peer = world.peer("m1", kind)
    world.feed(30)
    world.pass_s(6)
    make_anew(world)
    world.pass_s(20)
    world.diary.read.clear()
    world.feed(20)
    world.pass_s(20)
    assert text(peer.owned) == "t-0"
    assert world.diary.read[T[0]][0][0] == 0
    assert world.diary.read[T[0]][-1][1] == 20


def test_a_committed_offset_that_retention_has_passed_is_reset_to_where_the_log_begins() -> None:
    world = PeerWorld(partitions=1)
    first = world.peer("m1", "eager-range", commit="sync")
    world.feed(30)
    world.pass_s(4)
    first.close()
    world.pass_s(2)
    world.feed(30)
    assert world.node.node is not None
    partition = world.node.node.topics.partition("t", 0)
    assert partition is not None
    partition.log.delete_records(40)
    world.peer("m2", "eager-range")
    world.pass_s(4)
    assert world.diary.of("m2", "at") == ["m2 at t-0 30 committed", "m2 at t-0 40 reset"]
    assert world.diary.of("m2", "read")[0].startswith("m2 read t-0 40..")
    assert world.diary.read[T[0]][-1][1] == 60


def test_a_revoked_callback_that_raises_commits_nothing_and_the_next_owner_reads_again() -> None:
    world = PeerWorld()
    world.peer("m1", "eager-range", commit="revoked", raising=1.0)
    world.feed(40)
    world.pass_s(4)
    world.peer("m2", "eager-range")
    world.pass_s(6)
    assert any(line.endswith("ended: the user's callback raised") for line in world.diary.of("m1", "revoked"))
    assert not world.diary.of("m1", "commit")
    assert sum(stop - first for reads in world.diary.read.values() for first, stop in reads) == 80


def test_a_leader_whose_assignor_fails_reports_it_to_the_group_and_the_round_is_tried_again() -> None:
    world = PeerWorld()
    peers = [world.peer(name, "eager-hesitant") for name in ("m1", "m2")]
    world.pass_s(12)
    assert all(peer.is_settled for peer in peers)
    for peer in peers:
        answers = [line.split()[3] for line in world.diary.of(peer.name, "< SyncGroup")]
        assert answers == ["UNKNOWN_SERVER_ERROR"] * 4 + ["NONE"]  # each leader fails twice


def test_a_callback_waits_until_its_user_is_back_in_poll() -> None:
    world = PeerWorld()
    world.peer("m1", "eager-range", work_us=4 * SECOND_US, commit="sync", max_poll_interval_ms=20_000)
    world.pass_s(3)
    world.feed(1)
    world.pass_s(0.1)
    world.peer("m2", "eager-range")
    world.pass_s(8)
    lines = world.diary.of("m1", "read", "commit", "revoked")
    assert [line.split()[1] for line in lines[-6:]][:3] == ["read", "commit", "commit"]
    assert "m1 revoked t-0 t-1 t-2 t-3 began" in lines[-4:]


def test_a_user_may_ask_for_a_rebalance_of_its_group() -> None:
    world = PeerWorld()
    world.peer("m1", "eager-sticky", rejoins=1.0)
    world.pass_s(5)
    world.feed(1)
    world.pass_s(5)
    assert "m1 > JoinGroup sticky: the user wants it" in world.diary.lines
    assert world.diary.of("m1", "< JoinGroup")[-1].endswith("in generation 2")


def test_a_frozen_member_does_nothing_and_then_learns_that_it_was_evicted() -> None:
    world = PeerWorld()
    frozen = world.peer("m1", "cooperative")
    other = world.peer("m2", "cooperative")
    world.pass_s(8)
    frozen.host.freeze(world.scheduler.now_us + 12 * SECOND_US)
    before = len(world.diary.of("m1", ""))
    world.pass_s(11.5)
    assert len(world.diary.of("m1", "")) == before
    assert other.owned == frozenset(T)
    world.pass_s(10)
    assert [line for line in world.diary.of("m1", "lost") if line.endswith("began")]
    assert len(frozen.owned) == len(other.owned) == 2


def test_commits_on_the_groups_connection_wait_behind_a_join_that_is_delayed() -> None:
    kind = ClientKind("old", connections="one")
    world = PeerWorld(**{"group.initial.rebalance.delay.ms": "3000", "kohort.group.initial.quiet.ms": "-1"})
    world.peer("m1", kind, commit="sync")
    world.feed(5)
    world.pass_s(8)
    assert world.diary.of("m1", "commit")[-1].endswith("NONE")
