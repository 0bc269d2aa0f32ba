"""The target of a consumer group: what is stored of it, when it is computed, and assignors that fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.group.consumer_world import ConsumerWorld, Scripted, parts, topic_id

from kohort.assign.server.spec import ServerGroup
from kohort.group.commands import TargetMeasured
from kohort.group.consumer.target import assignor_of, server_group
from kohort.group.coordinator_settings import GroupConfig
from kohort.group.events import (
    ClassicMemberMetadata,
    ConsumerMemberStored,
    MemberTargetStored,
    TargetFailed,
    TargetStored,
)
from kohort.group.group_timers import target_timer
from kohort.group.shard import apply
from kohort.model.assignment import IdPartitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

ALL = "foo-0,1,2,3,4,5 bar-0,1,2"


def stored_targets(world: ConsumerWorld, start: int) -> dict[str, IdPartitions]:
    return {r.member_id: r.target for r in world.records_since(start) if isinstance(r, MemberTargetStored)}


# -- what is stored


def test_only_members_whose_target_changes_are_stored_and_woken() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1", B="foo-2,3", C="foo-4,5")
    world.stable_with("A", "B", "C")
    before = len(world.log)
    world.plans(A="foo-0,1", B="foo-3", C="foo-4,5", D="foo-2")
    world.enters("D", "foo")
    assert stored_targets(world, before) == {"B": parts("foo-3"), "D": parts("foo-2")}
    assert world.woken == ["B", "D"]


def test_two_members_may_swap_what_they_own() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1", B="foo-2,3")
    world.stable_with("A", "B")
    world.plans(A="foo-2,3", B="foo-0,1")
    world.enters("C", "bar")
    world.settles()
    assert (world.assigned("A"), world.assigned("B")) == (parts("foo-2,3"), parts("foo-0,1"))


def test_unchanged_targets_are_not_stored_but_their_epoch_is() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1")
    world.stable_with("A")
    before = len(world.log)
    world.enters("B", "bar")
    assert not stored_targets(world, before)
    assert any(isinstance(record, TargetStored) for record in world.records_since(before))
    assert world.woken == []


def test_member_that_the_assignor_leaves_out_is_to_own_nothing() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1")
    world.stable_with("A", "B")
    world.plans(B="foo-0,1")
    world.enters("C")
    assert world.member("A").target == ()


def test_assignor_receives_subscriptions_and_the_previous_target() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo", rack_id="r", instance_id="a")
    world.enters("B", subscribed_topic_names=(), subscribed_topic_regex="b.*")
    seen = world.assignor.seen[-1]
    assert list(seen.members) == ["A", "B"]
    a = seen.members["A"]
    assert (a.topics, a.previous, a.rack, a.instance_id) == (
        {topic_id("foo")},
        parts("foo-0,1,2,3,4,5"),
        "r",
        "a",
    )
    assert seen.members["B"].topics == {topic_id("bar")}
    assert {topic.name: topic.partitions for topic in seen.topics.values()} == {"foo": 6, "bar": 3}
    assert not seen.is_homogeneous
    assert server_group(world.consumer_group(), world.settings).members["A"] == a


def test_group_is_homogeneous_if_all_subscribe_to_the_same_topics_in_whatever_words() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo")
    world.enters("B", subscribed_topic_names=(), subscribed_topic_regex="fo+")
    assert world.assignor.seen[-1].is_homogeneous


def test_replaced_static_members_target_is_the_new_ones() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1")
    world.enters("A", instance_id="a")
    world.goes("A", -2, instance_id="a")
    world.enters("A2", instance_id="a")
    world.enters("B")
    assert world.assignor.seen[-1].members["A2"].previous == parts("foo-0,1")


def test_assignor_receives_the_user_data_of_classic_members_as_metadata() -> None:
    def subscription_of(metadata: bytes) -> Subscription | None:
        return Subscription(("foo",), metadata) if metadata != b"?" else None

    world = ConsumerWorld(subscription_of=subscription_of)
    world.enters("A", "foo")
    classic = ClassicMemberMetadata(10_000, (("sticky", b"mine"), ("other", b"?")))
    cause = Cause(CauseKind.GROUP_CONVERTED, 0)
    apply(
        world.shard,
        ConsumerMemberStored("g", "C", None, None, "c", "/h", ("foo",), "", 60_000, None, classic, cause),
    )
    assert server_group(world.consumer_group(), world.settings).members["C"].metadata == {"sticky": (-1, b"mine")}


# -- who assigns


def test_most_votes_decide_who_assigns_and_the_brokers_order_among_equals() -> None:
    world = ConsumerWorld(assignors={name: Scripted(name) for name in ("one", "two", "three")})
    world.enters("A")
    group, settings = world.consumer_group(), world.settings
    assert assignor_of(group, settings) == "one"
    assert assignor_of(group, settings, {"three": 1, "two": 1}) == "two"
    assert assignor_of(group, settings, {"three": 2, "two": 1}) == "three"
    assert assignor_of(group, settings, {"gone": 9, "two": 1}) == "two"


# -- when


def test_cheap_targets_are_computed_at_once() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.submit(TargetMeasured("g", 40))
    world.enters("B")
    assert world.consumer_group().assignment_epoch == 3


def test_expensive_targets_wait_for_twenty_times_what_one_takes() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.submit(TargetMeasured("g", 30_000))
    world.advance(100)
    result = world.enters("B")
    assert (result.member_epoch, result.assignment) == (2, ())
    assert world.timers[target_timer("g")] == world.now_ms + 500
    world.enters("C")
    world.advance(499)
    assert world.consumer_group().assignment_epoch == 2
    world.advance(1)
    assert world.consumer_group().assignment_epoch == 4
    assert set(world.woken) == {"A", "B", "C"}
    assert target_timer("g") not in world.timers
    times = [event.cause.at_ms for event in world.events if isinstance(event, TargetStored)]
    assert times[-1] == world.now_ms


def test_expensive_targets_wait_no_longer_than_the_assignment_interval() -> None:
    world = ConsumerWorld(assignment_interval_ms=1_000)
    world.enters("A")
    world.submit(TargetMeasured("g", 3_000_000))
    world.enters("B")
    assert world.timers[target_timer("g")] == world.now_ms + 1_000


def test_assignment_interval_of_zero_spaces_nothing() -> None:
    world = ConsumerWorld(assignment_interval_ms=0)
    world.enters("A")
    world.submit(TargetMeasured("g", 3_000_000))
    world.enters("B")
    assert world.consumer_group().assignment_epoch == 3


def test_settings_of_a_group_outrank_the_brokers() -> None:
    configs: dict[str, GroupConfig] = {"g": GroupConfig(50_000, 6_000, 300)}
    world = ConsumerWorld(group_config=configs.get)
    assert world.enters("A").heartbeat_interval_ms == 6_000
    assert max(world.timers.values()) == world.now_ms + 50_000
    world.submit(TargetMeasured("g", 3_000_000))
    world.enters("B")
    assert world.timers[target_timer("g")] == world.now_ms + 300
    configs["g"] = GroupConfig(60_000, 7_000, 0)
    assert world.beats("A").heartbeat_interval_ms == 7_000
    assert max(world.timers.values()) == world.now_ms + 60_000
    configs.clear()
    assert world.beats("A").heartbeat_interval_ms == 5_000


# -- failing


class Says:
    """An assignor that says one thing."""

    name = "says"

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def assign(self, _group: ServerGroup) -> Mapping[str, IdPartitions]:
        return self.returned  # type: ignore[no-any-return]


def test_failing_assignor_keeps_the_target_and_every_member_receives_the_error() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.assignor.error = ValueError("no idea")
    result = world.enters("B")
    assert (result.member_epoch, result.assignment) == (2, ())
    for member_id in "AB":
        text = world.beats(member_id).error_message
        assert text is not None
        assert "scripted" in text
        assert "no idea" in text
    assert world.member("A").target == parts(ALL)
    (failed,) = [event for event in world.events if isinstance(event, TargetFailed)]
    assert (failed.assignor, failed.cause.member_id) == ("scripted", "B")


def test_failing_assignor_is_asked_again_later_and_later() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=10**9)
    world.assignor.error = ValueError("no")
    world.enters("A")
    waits = []
    for _ in range(9):
        waits.append(world.timers[target_timer("g")] - world.now_ms)
        world.advance(waits[-1])
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    world.assignor.error = None
    world.advance(60_000)
    assert world.woken == ["A"]
    assert world.beats("A").error_message is None
    assert world.assigned("A") == parts(ALL)


def test_failing_assignor_is_asked_again_at_the_next_epoch() -> None:
    world = ConsumerWorld()
    world.assignor.error = ValueError("no")
    world.enters("A")
    world.assignor.error = None
    world.enters("B")
    assert world.consumer_group().assignment_epoch == 3
    assert target_timer("g") not in world.timers


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ({"X": parts("foo-0")}, "X is no member"),
        ({"A": parts("foo-9")}, "no partition 9"),
        ({"A": ((topic_id("foo"), (-1,)),)}, "no partition"),
        ({"A": parts("bar-0")}, "does not subscribe"),
        ({"A": parts("foo-0"), "B": parts("foo-0")}, "two members"),
        (None, "AttributeError"),
        ({"A": 7}, "TypeError"),
    ],
)
def test_target_that_cannot_be_counts_as_a_failure(returned: Any, why: str) -> None:
    world = ConsumerWorld(assignors={"says": Says({"A": parts("foo-0")})})
    world.enters("A", "foo")
    world.settings.assignors["says"].returned = returned  # type: ignore[attr-defined]
    world.enters("B", "foo")
    assert why in (world.consumer_group().target_failure or "")
    assert world.member("A").target == parts("foo-0")


def test_target_in_any_order_is_stored_in_one() -> None:
    returned = {"A": [(topic_id("foo"), [2, 0]), (topic_id("bar"), {1})]}
    world = ConsumerWorld(assignors={"says": Says(returned)})
    world.enters("A")
    assert world.member("A").target == parts("foo-0,2 bar-1")


def test_broker_without_assignors_returns_an_error() -> None:
    world = ConsumerWorld(assignors={})
    assert "has no assignor" in (world.enters("A").error_message or "")


def test_target_that_cannot_be_stored_is_computed_again() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.submit(TargetMeasured("g", 30_000))
    world.enters("B")
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(600)
    assert world.consumer_group().assignment_epoch == 2
    world.append_error = None
    world.advance(1_000)
    assert world.consumer_group().assignment_epoch == 3
