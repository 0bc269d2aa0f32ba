"""Three members walk from one target to the next, step by step (Kafka's testReconciliationProcess)."""

from __future__ import annotations

from tests.unit.group.consumer_world import ConsumerWorld, parts

from kohort.group.events import MemberState

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def test_third_member_gets_its_partitions_one_by_one_as_the_others_give_them_back() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1,2 bar-0", B="foo-3,4,5 bar-1,2")
    world.stable_with("A", "B")
    world.plans(A="foo-0,1", B="foo-2,3 bar-2", C="foo-4,5 bar-0,1")
    joined = world.enters("C")
    assert (joined.member_epoch, joined.assignment) == (4, ())
    assert world.woken == ["A", "B", "C"]

    # A is asked for foo-2 and bar-0, and keeps its epoch.
    result = world.beats("A")
    assert (result.member_epoch, result.assignment) == (3, parts("foo-0,1"))
    assert world.state("A") == (3, UNREVOKED)

    # B is asked for foo-4,5 and bar-1.
    result = world.beats("B")
    assert (result.member_epoch, result.assignment) == (3, parts("foo-3 bar-2"))

    # C waits, and its response has nothing new.
    result = world.beats("C")
    assert (result.member_epoch, result.assignment, world.state("C")) == (4, None, (4, UNRELEASED))

    # A has not given all of it back yet.
    assert world.beats("A", "foo-0,1,2").member_epoch == 3
    assert world.state("A") == (3, UNREVOKED)

    # A has now: it is at its target, and C and B can receive their parts of it at once.
    result = world.beats("A", "foo-0,1")
    assert (result.member_epoch, result.assignment, world.state("A")) == (4, None, (4, STABLE))
    assert world.woken == ["B", "C"]

    # C gets bar-0 and waits for the rest.
    result = world.beats("C")
    assert (result.member_epoch, result.assignment, world.state("C")) == (4, parts("bar-0"), (4, UNRELEASED))
    assert world.beats("C", "bar-0").assignment is None

    # B gives back and gets what A gave back in the same step.
    result = world.beats("B", "foo-3 bar-2")
    assert (result.member_epoch, result.assignment) == (4, parts("foo-2,3 bar-2"))
    assert world.woken == ["C"]

    # C gets the rest.
    result = world.beats("C")
    assert (result.assignment, world.state("C")) == (parts("foo-4,5 bar-0,1"), (4, STABLE))
    assert world.consumer_group().state == "Stable"
    assert world.beats("C", "foo-4,5 bar-0,1").is_quiet


def test_partition_is_withheld_until_its_owner_confirms_revocation_though_the_target_turns_back() -> None:
    world = ConsumerWorld()
    world.plans(A="foo-0,1,2,3,4,5 bar-0,1,2")
    world.stable_with("A")
    world.plans(A="bar-0", B="foo-0")
    world.enters("B")
    world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2")
    # The target turns back before A has given anything back: B may get nothing.
    world.plans(A="foo-0,1 bar-0", B="foo-2")
    world.beats("B", subscribed_topic_names=("foo",))
    assert world.assigned("B") == ()
    # A goes on to the newest target, in which foo-0 and foo-1 are its own again.
    result = world.beats("A", "bar-0")
    assert (result.member_epoch, result.assignment) == (4, parts("foo-0,1 bar-0"))
    assert world.beats("B").assignment == parts("foo-2")


def test_member_that_skips_a_target_goes_to_the_newest() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    world.enters("C")
    assert world.beats("A", "").member_epoch == 4
    world.settles()
    assert {world.state(member_id) for member_id in "ABC"} == {(4, STABLE)}
    assert sum(len(numbers) for member_id in "ABC" for _, numbers in world.assigned(member_id)) == 9
