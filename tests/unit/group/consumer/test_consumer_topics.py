"""Topics that change under a consumer group: created, grown, moved to other racks, deleted, made anew."""

from __future__ import annotations

import pytest
from tests.unit.group.consumer_world import ConsumerWorld, parts, topic_id
from tests.unit.group.fixed_topics import FixedTopics

from kohort.group.consumer.group import metadata_hash
from kohort.group.coordinator_settings import ImageTopic
from kohort.group.events import ConsumerGroupStored, MemberState
from kohort.group.group_timers import target_timer
from kohort.group.shard import followers_of
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

ALL = "foo-0,1,2,3,4,5 bar-0,1,2"


def test_new_partitions_bump_the_epoch_and_are_assigned_at_once() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.topic_changes("bar", 4)
    cause = world.consumer_group().epoch_cause
    assert cause is not None
    assert (cause.kind, cause.detail, world.consumer_group().epoch) == (CauseKind.TOPIC_METADATA_CHANGED, "bar", 3)
    assert world.woken == ["A"]
    assert world.beats("A", ALL).assignment == parts("foo-0,1,2,3,4,5 bar-0,1,2,3")


def test_other_racks_bump_the_epoch() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.topic_changes("bar", 3, (frozenset({"r1"}), frozenset({"r2"}), frozenset()))
    assert world.consumer_group().epoch == 3
    assert world.assignor.seen[-1].topics[topic_id("bar")].racks[1] == {"r2"}


def test_change_that_is_none_is_not_noticed() -> None:
    world = ConsumerWorld()
    world.enters("A")
    before = len(world.log)
    world.topic_changes("bar", 3)
    assert len(world.log) == before


def test_deleted_topic_is_revoked() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.topic_changes("bar", 0)
    assert world.beats("A").assignment == parts("foo-0,1,2,3,4,5")
    assert world.state("A") == (2, MemberState.UNREVOKED_PARTITIONS)
    assert world.beats("A", "foo-0,1,2,3,4,5").member_epoch == 3


def test_topic_made_anew_is_another_topic() -> None:
    world = ConsumerWorld()
    world.enters("A", "bar")
    other = b"another bar" + bytes(5)
    world.topic_changes("bar", 3, topic_id=other)
    assert world.beats("A").assignment == ()
    assert world.beats("A", "").assignment == ((other, (0, 1, 2)),)


def test_only_groups_that_subscribe_follow_a_topic() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo")
    assert followers_of(world.shard, "foo") == ["g"]
    assert followers_of(world.shard, "bar") == []
    world.beats("A", "foo-0,1,2,3,4,5", subscribed_topic_names=("bar",))
    assert followers_of(world.shard, "foo") == []
    assert followers_of(world.shard, "bar") == ["g"]
    world.goes("A")
    assert followers_of(world.shard, "bar") == []


def test_group_with_a_regex_follows_every_topic() -> None:
    world = ConsumerWorld()
    world.enters("A", subscribed_topic_regex="f.*")
    assert followers_of(world.shard, "whatever") == ["g"]


def test_topics_that_changed_without_a_coordinator_bump_the_epoch_when_the_group_is_loaded() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.topics.topics["bar"] = ImageTopic("bar", topic_id("bar"), 5)
    world.restart()
    assert world.consumer_group().epoch == 3
    assert world.beats("A", ALL).assignment == parts("foo-0,1,2,3,4,5 bar-0,1,2,3,4")


def test_topics_that_changed_are_looked_at_again_when_the_change_could_not_be_stored() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.topic_changes("bar", 5)
    assert world.consumer_group().epoch == 2
    assert world.timers[target_timer("g")] == world.now_ms + 1_000
    world.append_error = None
    world.advance(1_000)
    assert world.consumer_group().epoch == 3
    assert target_timer("g") not in world.timers


def test_joins_and_leaves_that_change_no_topics_keep_the_hash() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo")
    first = world.consumer_group().metadata_hash
    world.enters("B", "foo")
    assert world.consumer_group().metadata_hash == first
    world.enters("C", "bar")
    both = world.consumer_group().metadata_hash
    assert both == metadata_hash(["bar", "foo"], world.topics) != first
    world.goes("C")
    assert world.consumer_group().metadata_hash == first
    world.goes("A")
    world.goes("B")
    (stored,) = [record for record in world.last_records() if isinstance(record, ConsumerGroupStored)]
    assert stored.metadata_hash == 0


def image(**changes: object) -> FixedTopics:
    bar = ImageTopic("bar", topic_id("bar"), 3, (frozenset({"a", "b"}), frozenset(), frozenset()))
    return FixedTopics([ImageTopic("foo", topic_id("foo"), 6), bar._replace(**changes)])


@pytest.mark.parametrize("changes", [{"topic_id": bytes(16)}, {"partitions": 4}, {"racks": ()}, {"name": "baz"}])
def test_hash_differs_by_ids_sizes_racks_and_names(changes: dict[str, object]) -> None:
    names = ("foo", "bar", "baz")
    assert metadata_hash(names, image(**changes)) != metadata_hash(names, image())


def test_hash_is_the_same_for_the_same_topics_in_any_order_and_fits_a_record() -> None:
    found = metadata_hash(["foo", "bar"], image())
    assert found == metadata_hash(["bar", "none", "foo"], image())
    assert -(1 << 63) <= found < 1 << 63
    assert metadata_hash(["none"], image()) == 0
