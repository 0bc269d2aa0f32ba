"""Peers of a simulated world: members of every kind behind real bytes, whose users read, commit, and come and go."""

from __future__ import annotations

import pytest
from tests.unit.sim.world_of_peers import PeerWorld, text

from kohort.model.ids import TopicPartition
from kohort.sim.peers.client_kinds import KINDS

T = [TopicPartition("t", index) for index in range(4)]


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.protocol != "streams"])
def test_two_members_of_a_kind_share_a_topic_and_the_last_one_has_it_all(kind: str) -> None:
    world = PeerWorld()
    first = world.peer("m1", kind)
    world.pass_s(3)
    assert world.diary.owned["m1"] == frozenset(T)
    second = world.peer("m2", kind)
    world.pass_s(10)
    assert first.is_settled
    assert second.is_settled
    assert sorted(map(len, (first.owned, second.owned))) == [2, 2]
    assert first.owned | second.owned == frozenset(T)
    first.close()
    world.pass_s(10)
    assert first.is_over
    assert world.diary.owned["m1"] == frozenset()
    assert second.is_settled
    assert second.owned == frozenset(T)


@pytest.mark.parametrize("commit", ["auto", "sync", "async", "revoked"])
@pytest.mark.parametrize("kind", ["eager-range", "cooperative", "consumer"])
def test_what_is_produced_is_read_once_and_committed_while_nothing_fails(kind: str, commit: str) -> None:
    world = PeerWorld()
    peers = [world.peer(name, kind, commit=commit, max_poll_records=7) for name in ("m1", "m2")]
    world.feed(100)
    world.pass_s(10)
    peers.append(world.peer("m3", kind, commit=commit))
    world.feed(100)
    world.pass_s(10)
    for peer in peers:
        peer.close()
    world.pass_s(5)
    assert all(peer.is_over for peer in peers)
    written = {partition: sum(stop - first for first, stop in reads) for partition, reads in world.diary.read.items()}
    assert sum(written.values()) == 200
    for partition, reads in world.diary.read.items():
        assert [stop for _, stop in reads[:-1]] == [first for first, _ in reads[1:]]
        assert world.diary.committed[partition] == reads[-1][1]


def test_the_same_seed_gives_the_same_run_to_the_last_line() -> None:
    runs = []
    for _ in range(2):
        world = PeerWorld(seed=7)
        world.network.loss, world.network.cut = 0.02, 0.1
        for name, kind in (("m1", "cooperative"), ("m2", "rolling"), ("m3", "cooperative-java")):
            world.peer(name, kind, work_us=400_000, callback_us=200_000)
        world.feeder.start()
        world.pass_s(20)
        runs.append((world.scheduler.events, world.diary.lines))
    assert runs[0] == runs[1]


def test_a_killed_member_sends_nothing_more_and_its_partitions_go_to_the_others_after_its_session() -> None:
    world = PeerWorld()
    first, second = world.peer("m1", "cooperative"), world.peer("m2", "cooperative")
    world.pass_s(8)
    first.kill()
    before = len(world.diary.of("m1", ""))
    world.pass_s(3)
    assert len(second.owned) == 2
    world.pass_s(8)
    assert second.owned == frozenset(T)
    assert len(world.diary.of("m1", "")) == before
    assert world.diary.of("m1", "ended") == ["m1 ended: killed"]


@pytest.mark.parametrize("kind", ["eager-java", "cooperative", "consumer"])
def test_a_static_member_that_restarts_in_time_gets_its_partitions_back_and_no_other_moves(kind: str) -> None:
    world = PeerWorld()
    first = world.peer("m1", kind, instance_id="i1")
    second = world.peer("m2", kind, instance_id="i2")
    world.pass_s(8)
    had, kept = first.owned, second.owned
    old = first.identity.member_id
    since = len(world.diary.lines)
    first.close()
    world.pass_s(2)
    assert first.is_over
    again = world.peer("m1", kind, first.host, instance_id="i1")
    world.pass_s(5)
    assert again.owned == had
    assert second.owned == kept
    assert again.identity.member_id != old
    assert not [line for line in world.diary.lines[since:] if line.startswith("m2 revoked")]


def test_a_member_that_exceeds_max_poll_interval_loses_its_partitions_until_its_next_poll() -> None:
    world = PeerWorld()
    slow = world.peer("m1", "consumer", overrun=1.0, max_poll_interval_ms=5_000)
    world.pass_s(3)
    world.feed(10)
    world.pass_s(20)
    moved = world.diary.of("m1", "stale", "lost", "read")
    assert moved[0].startswith("m1 read")
    assert "m1 stale by Tick" in moved
    assert f"m1 lost {text(frozenset(T))} began" in moved
    assert slow.owned == frozenset(T)


def test_a_second_process_with_the_same_instance_id_ends_the_first() -> None:
    world = PeerWorld()
    first = world.peer("m1", "cooperative", instance_id="i1")
    world.pass_s(4)
    world.peer("m2", "cooperative", instance_id="i1")
    world.pass_s(6)
    assert first.is_over
    assert world.diary.of("m1", "ended") == ["m1 ended: failed: FENCED_INSTANCE_ID"]


def test_a_subscription_by_expression_follows_the_topics() -> None:
    for kind in ("cooperative", "consumer", "consumer-4.0"):
        world = PeerWorld(partitions=1)
        peer = world.peer("m1", kind, topics=(), pattern="[tu]")
        world.pass_s(4)
        assert world.node.node is not None
        world.node.node.topics.create("u", 2, {}, world.node.host.now_ms())
        world.pass_s(12)
        assert text(peer.owned) == "t-0 u-0 u-1"


def test_members_outlive_a_coordinator_that_is_killed() -> None:
    for kind in ("eager-range", "cooperative-java", "consumer"):
        world = PeerWorld()
        peers = [world.peer(name, kind) for name in ("m1", "m2")]
        world.pass_s(8)
        world.node.end("kill")
        world.pass_s(2)
        assert world.node.start()
        world.feed(50)
        world.pass_s(20)
        assert [peer.is_settled for peer in peers] == [True, True]
        assert sum(stop - first for reads in world.diary.read.values() for first, stop in reads) == 50
