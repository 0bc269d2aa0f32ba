"""What an operator sees of a consumer group."""

from __future__ import annotations

from tests.unit.group.consumer_world import ConsumerWorld, parts

from kohort.group.commands import Unload
from kohort.group.describe import describe, describe_consumer, list_groups
from kohort.group.events import ClassicMemberMetadata, ClassicPhase, ConsumerMemberStored
from kohort.group.shard import apply
from kohort.model.cause import Cause, CauseKind

ALL = "foo-0,1,2,3,4,5 bar-0,1,2"
NOTHING: frozenset[str] = frozenset()


def test_group_is_described_with_its_epochs_its_assignor_and_its_members_by_id() -> None:
    world = ConsumerWorld()
    world.enters("B", rack_id="r", instance_id="b", client_id="c", client_host="/h")
    world.plans(A="foo-0", B="foo-1")
    world.enters("A", subscribed_topic_regex="f.*")
    world.beats("B", ALL, client_id="c", client_host="/h")
    described = describe_consumer(world.shard, "g")
    assert described is not None
    assert (described.state, described.epoch, described.assignment_epoch, described.assignor) == (
        "Reconciling",
        3,
        3,
        "scripted",
    )
    a, b = described.members
    assert (a.member_id, a.epoch, a.assignment, a.target, a.subscribed_topic_regex) == (
        "A",
        3,
        (),
        parts("foo-0"),
        "f.*",
    )
    assert (b.member_id, b.instance_id, b.rack_id, b.client_id, b.client_host) == ("B", "b", "r", "c", "/h")
    assert (b.epoch, b.assignment, b.target) == (2, parts("foo-1"), parts("foo-1"))
    assert b.pending == parts("foo-0,2,3,4,5 bar-0,1,2")
    assert b.subscribed_topic_names == ("bar", "foo")
    assert b.classic_phase is None


def test_classic_member_is_described_with_its_phase() -> None:
    world = ConsumerWorld()
    world.enters("A")
    classic = ClassicMemberMetadata(10_000, (("range", b""),))
    cause = Cause(CauseKind.GROUP_CONVERTED, 0)
    apply(world.shard, ConsumerMemberStored("g", "C", None, None, "c", "/h", ("foo",), "", 9, None, classic, cause))
    described = describe_consumer(world.shard, "g")
    assert described is not None
    assert [member.classic_phase for member in described.members] == [None, ClassicPhase.STABLE]


def test_failed_target_is_described_in_the_assignors_words() -> None:
    world = ConsumerWorld()
    world.assignor.error = ValueError("no idea")
    world.enters("A")
    described = describe_consumer(world.shard, "g")
    assert described is not None
    assert (described.state, described.target_failure) == ("Assigning", "assignor scripted failed: ValueError: no idea")


def test_each_type_of_group_is_described_as_its_own_and_not_as_the_other() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.commit_outside("simple")
    assert describe(world.shard, "g") is None
    assert describe_consumer(world.shard, "simple") is None
    assert describe_consumer(world.shard, "none") is None
    assert describe(world.shard, "simple") is not None
    world.submit(Unload("g"))
    assert describe_consumer(world.shard, "g") is None


def test_groups_are_listed_by_type_and_state() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.commit_outside("simple")
    listed = [(group.group_id, group.group_type, group.state) for group in list_groups(world.shard, NOTHING, NOTHING)]
    assert listed == [("g", "consumer", "Stable"), ("simple", "classic", "Empty")]
    only = [group.group_id for group in list_groups(world.shard, NOTHING, frozenset({"consumer"}))]
    assert only == ["g"]
    assert [group.group_id for group in list_groups(world.shard, frozenset({"empty"}), NOTHING)] == ["simple"]
    assert not list(list_groups(world.shard, frozenset({"empty"}), frozenset({"consumer"})))
    assert [group.protocol_type for group in list_groups(world.shard, frozenset({"stable"}), NOTHING)] == ["consumer"]
