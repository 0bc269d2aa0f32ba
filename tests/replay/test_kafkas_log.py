"""Segments of `__consumer_offsets` that Apache Kafka 4.3.1 wrote, replayed.

One partition each: a dynamic member that left, with one transaction committed and one aborted; a static member that
is still there; a member of the consumer protocol that has left.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.group.fixed_topics import FixedTopics

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup, GroupState, metadata_hash
from kohort.group.coordinator_settings import GroupSettings, ImageTopic
from kohort.group.events import ConsumerGroupStored, MemberTargetStored
from kohort.group.shard import Shard, apply
from kohort.log.offsets_topic import Replay, encode_events
from kohort.sim.checks.invariants import violations
from kohort.wire.record_batches import decode_batch, iter_batches

SEGMENTS = Path(__file__).parent / "written_by_kafka"


def replayed(name: str) -> tuple[Shard, Replay]:
    shard, replay = Shard(GroupSettings()), Replay()
    for _, batch in iter_batches((SEGMENTS / name).read_bytes()):
        for event in replay.read(batch):
            apply(shard, event)
    assert not violations(shard)
    return shard, replay


def offsets(shard: Shard, group_id: str) -> dict[tuple[str, int], int]:
    return {key: committed.offset for key, committed in shard.offsets[group_id].items()}


def test_group_whose_members_left_is_empty_and_keeps_its_offsets() -> None:
    shard, _ = replayed("dynamic-and-transactions.log")
    group = shard.groups["dyn"]
    assert isinstance(group, ClassicGroup)
    assert (group.phase, group.generation, group.protocol_type) == (Phase.EMPTY, 2, "consumer")


def test_committed_transaction_counts_and_the_aborted_one_does_not() -> None:
    shard, _ = replayed("dynamic-and-transactions.log")
    assert offsets(shard, "dyn") == {("t", 1): 42, ("t", 2): 7}


def test_static_member_is_there_with_its_assignment() -> None:
    shard, _ = replayed("static.log")
    group = shard.groups["classic"]
    assert isinstance(group, ClassicGroup)
    (member,) = group.members.values()
    assert (group.phase, group.generation, group.leader) == (Phase.STABLE, 1, member.member_id)
    assert group.static_members == {"inst": member.member_id}
    assert member.assignment.count(b"\x00\x01t") == 1
    assert offsets(shard, "classic") == {("t", 1): 42}


def test_consumer_group_whose_members_left_is_empty_and_keeps_its_offsets() -> None:
    shard, replay = replayed("kip-848.log")
    group = shard.groups["kip848"]
    assert isinstance(group, ConsumerGroup)
    assert (group.state, group.epoch, group.assignment_epoch) == (GroupState.EMPTY, 3, 2)
    assert not group.owners
    assert not replay.skipped
    assert offsets(shard, "kip848") == {("t", 1): 42}


def test_every_prefix_of_a_consumer_groups_log_is_a_group() -> None:
    shard, replay = Shard(GroupSettings()), Replay()
    seen = []
    for _, batch in iter_batches((SEGMENTS / "kip-848.log").read_bytes()):
        for event in replay.read(batch):
            apply(shard, event)
            group = shard.groups["kip848"]
            assert isinstance(group, ConsumerGroup)
            seen.append((group.state, sum(map(len, group.owners.values()))))
    assert seen[4:6] == [(GroupState.STABLE, 3)] * 2
    assert seen[-1] == (GroupState.EMPTY, 0)


@pytest.mark.parametrize("name", ["dynamic-and-transactions.log", "static.log", "kip-848.log"])
def test_our_bytes_for_the_same_events_are_kafkas_bytes(name: str) -> None:
    compared = 0
    for header, batch in iter_batches((SEGMENTS / name).read_bytes()):
        if header.is_control:
            continue
        for record in decode_batch(batch):
            event = Replay().event_of(record)
            assert event is not None
            (ours,) = decode_batch(encode_events([event], record.timestamp_ms))
            assert (ours.key, ours.value) == (record.key, record.value)
            compared += 1
    assert compared >= 3


def test_hash_that_kafka_stored_of_its_topics_is_ours() -> None:
    """Else every group that moves from one broker to the other would begin with a new epoch."""
    for _, batch in iter_batches((SEGMENTS / "kip-848.log").read_bytes()):
        events = list(Replay().read(batch))
        stored = [event.metadata_hash for event in events if isinstance(event, ConsumerGroupStored)]
        topics = {topic for event in events if isinstance(event, MemberTargetStored) for topic in event.target}
        if stored:
            break
    ((topic_id, partitions),) = topics
    image = FixedTopics([ImageTopic("t", topic_id, len(partitions))])
    assert stored == [metadata_hash(["t", "none"], image)]
