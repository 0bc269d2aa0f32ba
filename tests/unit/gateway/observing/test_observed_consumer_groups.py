"""Consumer groups as heartbeats show them, and what a look-up corrects."""

from __future__ import annotations

from tests.unit.gateway.observing.test_look_ups import World, consumer_group

from kohort.group.commands import ConsumerHeartbeat
from kohort.group.consumer.reconcile import ids_of
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.assignment import NOTHING, IdPartitions
from kohort.model.errors import ErrorCode


def test_an_epoch_that_never_came_is_taken_back_unless_the_group_has_changed_since_it_was_looked_up() -> None:
    world = World()
    world.heartbeat(6, 0)
    world.differs_elsewhere(5, 1)
    world.heartbeat(7, 2)
    world.groups.consumer_described(consumer_group(5), 3)
    assert world.groups.generation_of("g") == 7
    world.gateway.describes.request("g", None, 100_000)
    world.groups.consumer_described(consumer_group(5), 100_001)
    assert world.groups.generation_of("g") == 5


def test_a_look_up_that_is_older_than_an_answer_leaves_its_member_as_it_is_and_is_repeated() -> None:
    """The member was asked to revoke partitions in between: seed 903425."""
    world = World()
    world.heartbeat(5, 0)
    world.differs_elsewhere(5, 1)
    granted = ((b"t" * 16, (0,)),)
    beat = ConsumerHeartbeat("g", "m1", 5, subscribed_topic_names=("t",), owned=NOTHING)
    result = ConsumerHeartbeatResult(ErrorCode.NONE, member_id="m1", member_epoch=5, assignment=granted)
    world.groups.consumer.heartbeat_answered(beat, result, 2)
    world.groups.consumer_described(consumer_group(5), 3)
    group = world.groups.consumer.group("g")
    assert group is not None
    assert ids_of(group.members["m1"].assigned) == granted
    world.gateway.tick(10_000)
    assert world.asked == [None, 5, None]


def test_a_member_found_by_a_heartbeat_that_shows_no_assignment_has_the_one_that_is_described() -> None:
    """Its group changes each time that it is looked up: seed 850000626."""
    world, granted = World(), ((b"t" * 16, (0,)),)
    found = ConsumerHeartbeat("g", "m1", 5)
    world.groups.consumer.heartbeat_answered(found, result(5, None), 0)
    joins = ConsumerHeartbeat("g", "m2", 0, subscribed_topic_names=("t",), owned=NOTHING)
    world.groups.consumer.heartbeat_answered(joins, result(5, NOTHING, "m2"), 1)
    described = consumer_group(5)
    member = described.members[0]._replace(assignment=granted)
    world.groups.consumer_described(described._replace(members=(member,)), 2)
    group = world.groups.consumer.group("g")
    assert group is not None
    assert ids_of(group.members["m1"].assigned) == granted


def result(epoch: int, assignment: IdPartitions | None, member_id: str = "m1") -> ConsumerHeartbeatResult:
    return ConsumerHeartbeatResult(ErrorCode.NONE, member_id=member_id, member_epoch=epoch, assignment=assignment)


def test_a_static_member_that_leaves_and_is_not_known_has_its_group_looked_up() -> None:
    """The gateway had just started: seed 820270."""
    world = World()
    leaving = ConsumerHeartbeat("g", "m1", -2, instance_id="i")
    world.groups.consumer.heartbeat_answered(leaving, ConsumerHeartbeatResult(ErrorCode.NONE, member_epoch=-2), 0)
    assert world.asked == [None]
