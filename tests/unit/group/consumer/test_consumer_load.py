"""A consumer group taken up from its log, and one given up."""

from __future__ import annotations

from tests.unit.group.consumer_world import ConsumerWorld, parts, topic_id

from kohort.group.commands import TargetMeasured, Unload
from kohort.group.coordinator_settings import ImageTopic
from kohort.group.events import (
    Assigned,
    GroupLoaded,
    MemberAssignmentStored,
    MemberState,
    MemberTargetStored,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
)
from kohort.group.group_timers import revocation_timer, session_timer, target_timer
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

ALL = "foo-0,1,2,3,4,5 bar-0,1,2"
CAUSE = Cause(CauseKind.COORDINATOR_LOADED, -1)


def test_every_loaded_member_has_a_full_session_to_send_a_heartbeat() -> None:
    world = ConsumerWorld()
    world.stable_with("A", "B")
    world.advance(40_000)
    world.restart()
    assert world.timers == {session_timer("g", member_id): world.now_ms + 45_000 for member_id in "AB"}
    assert isinstance(world.events[-1], GroupLoaded)
    world.advance(45_000)
    assert world.consumer_group().state == "Empty"


def test_members_go_on_at_their_epochs_as_if_nothing_had_been() -> None:
    world = ConsumerWorld()
    world.stable_with("A", "B")
    before = len(world.log)
    world.restart()
    assert world.beats("A").is_quiet
    assert world.beats("B").is_quiet
    assert len(world.log) == before


def test_member_that_must_revoke_has_its_full_timeout_after_a_load() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    world.beats("A", ALL)
    world.advance(30_000)
    world.restart()
    assert world.timers[revocation_timer("g", "A", 2)] == world.now_ms + 60_000
    assert world.state("B")[1] is MemberState.UNRELEASED_PARTITIONS
    assert world.beats("A", "").member_epoch == 3
    assert world.woken == ["B"]


def test_target_that_was_due_is_computed_when_the_group_is_loaded() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.submit(TargetMeasured("g", 3_000_000))
    world.enters("B")
    assert world.consumer_group().assignment_epoch == 2
    world.restart()
    assert world.consumer_group().assignment_epoch == 3
    assert target_timer("g") not in world.timers


def test_static_member_that_is_away_is_still_expected() -> None:
    world = ConsumerWorld()
    world.enters("A", instance_id="a")
    world.goes("A", -2, instance_id="a")
    world.restart()
    assert session_timer("g", "A") in world.timers
    assert world.enters("A2", instance_id="a").assignment == parts(ALL)


def test_member_that_crashed_between_its_record_and_its_answer_joins_again() -> None:
    world = ConsumerWorld()
    world.enters("A")
    for kept in (1, 2):
        again = ConsumerWorld()
        again.log = world.log[:kept]
        again.restart()
        assert again.state("A") == (0, MemberState.STABLE)
        assert again.enters("A").assignment == parts(ALL)


def test_partitions_of_unknown_members_are_freed_when_the_group_is_loaded() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo")
    held = (Assigned(topic_id("bar"), (0,), (2,)),)
    world.log.append([MemberAssignmentStored("g", "ghost", 2, 2, MemberState.STABLE, held, (), CAUSE)])
    world.log.append([MemberTargetStored("g", "spectre", parts("bar-1"), CAUSE)])
    world.restart()
    assert world.consumer_group().members.keys() == {"A"}
    assert not world.consumer_group().owners.get(topic_id("bar"))


def test_what_kafka_4_0_stored_about_topics_is_taken_out_of_the_log() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.log.append([PartitionMetadataStored("g", CAUSE)])
    world.restart()
    (record,) = world.last_records()
    assert isinstance(record, PartitionMetadataDeleted)


def test_regex_that_was_not_resolved_yet_is_resolved_when_the_group_is_loaded() -> None:
    world = ConsumerWorld()
    world.enters("A", subscribed_topic_names=(), subscribed_topic_regex="foo")
    (first, *rest) = world.log
    world.log = [[first[0], first[2]], *rest]
    world.restart()
    assert world.consumer_group().regexes["foo"].topics == ("foo",)
    assert world.beats("A", "foo-0,1,2,3,4,5").member_epoch == 3


def test_group_whose_log_cannot_be_written_yet_is_taken_up_with_every_bound_and_caught_up_later() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.topics.topics["bar"] = ImageTopic("bar", topic_id("bar"), 5)
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.restart()
    assert set(world.timers) == {session_timer("g", "A"), target_timer("g")}
    assert world.beats("A").member_epoch == 2
    world.append_error = None
    world.advance(1_000)
    assert world.consumer_group().epoch == 3


def test_silent_member_is_evicted_as_soon_as_that_can_be_stored() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(50_000)
    assert world.consumer_group().members
    world.append_error = None
    world.advance(1_000)
    assert not world.consumer_group().members


def test_group_that_is_given_up_has_no_timers_and_no_answers_of_its_own() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.submit(TargetMeasured("g", 3_000_000))
    world.enters("B")
    world.submit(Unload("g"))
    assert not world.timers
    assert world.consumer_group().state == "Dead"
