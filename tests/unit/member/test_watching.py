"""What a leader watches: the topics of its whole group, and racks where the group places partitions by racks."""

from __future__ import annotations

import pytest
from tests.unit.member.classic_script import TWO, Script, cooperative, joining_again, partitions

from kohort.assign import TopicSpec
from kohort.assign.spec import MemberSpec
from kohort.member import MemberConfig, State, inputs
from kohort.member.effects import Callback, Join, Sync
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

A, B, C = (frozenset({rack}) for rack in "abc")


def leader(
    config: MemberConfig | None = None,
    topics: dict[str, TopicSpec] | None = None,
    others: dict[str, MemberSpec] | None = None,
    *,
    is_skip: bool = False,
) -> Script:
    """Return a stable leader `m` that has assigned with this metadata, or whose response skips the assignment."""
    config = config or MemberConfig()
    script = Script(config)
    script.subscribe("t")
    members = {"m": MemberSpec(Subscription(("t",), rack=config.rack), config.instance_id), **(others or {})}
    script.joined(1, leader="m", members=members, is_skip=is_skip)
    script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, topics or {"t": TopicSpec(2)}))
    script.synced(TWO)
    script.finished(Callback.ASSIGNED)
    script.forget()
    return script


def rejoins(script: Script, **topics: TopicSpec) -> bool:
    script.take(inputs.MetadataChanged(topics))
    return bool(script.callbacks())


def test_a_leader_with_skip_assignment_watches_the_topics_of_others_too() -> None:
    others = {"n": MemberSpec(Subscription(("u",)), "j")}
    both = {"t": TopicSpec(2), "u": TopicSpec(1)}
    script = leader(MemberConfig(instance_id="i"), both, others, is_skip=True)
    assert not rejoins(script, **both)
    assert rejoins(script, t=TopicSpec(2), u=TopicSpec(2))


@pytest.mark.parametrize(
    ("racks", "is_rejoining"),
    [
        ((A | B, B | C), False),
        ((A | C, B | C), True),
        ((A | B | C, B | C), True),
        ((A, B | C), False),
        ((A | B, B | C, A), True),
    ],
    ids=["the same", "others", "one more", "one less, as when a broker restarts", "of a new partition"],
)
def test_replicas_in_racks_where_there_were_none_start_a_round_of_a_rack_aware_group(
    racks: tuple[frozenset[str], ...], is_rejoining: bool
) -> None:
    script = leader(MemberConfig(rack="a"), {"t": TopicSpec(2, (A | B, B | C))})
    assert rejoins(script, t=TopicSpec(len(racks), racks)) is is_rejoining


def test_a_leader_that_lost_its_sync_response_still_detects_changes_since_it_assigned() -> None:
    """It syncs again: what it compares with is what it assigned from, not what is now."""
    script = Script()
    script.subscribe("t")
    members = {"m": MemberSpec(Subscription(("t",)))}
    script.joined(1, leader="m", members=members)
    script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, {"t": TopicSpec(2)}))
    script.sync_failed(ErrorCode.NETWORK_EXCEPTION)
    script.take(inputs.MetadataChanged({"t": TopicSpec(3)}))
    [sync] = script.wait(150)
    assert isinstance(sync, Sync)
    assert sync.assignments == {"m": Assignment(TWO)}, "the coordinator may not have stored it"
    script.synced(TWO)
    script.forget()
    script.finished(Callback.ASSIGNED)
    script.finished(Callback.REVOKED)
    assert [effect.reason for effect in script.asked if isinstance(effect, Join)] == ["topic_metadata_change"]


def test_a_leader_that_skips_a_generation_it_did_not_assign_compares_with_what_is_now() -> None:
    script = leader(MemberConfig(instance_id="i"))
    script.take(inputs.RejoinRequested("a test"))
    script.finished(Callback.REVOKED)
    members = {"m": MemberSpec(Subscription(("t",)), "i")}
    script.joined(2, leader="m", members=members, is_skip=True)
    script.take(inputs.Computed(script.member.identity, {}, {"t": TopicSpec(5)}))
    script.synced(TWO)
    assert script.finished(Callback.ASSIGNED) == []


@pytest.mark.parametrize("moment", ["revoking", "joining", "assigning"])
def test_topics_that_change_again_before_the_leader_has_assigned_are_part_of_its_round(moment: str) -> None:
    """KIP-429: a leader assigns with what it knows by then."""
    script = leader()
    script.take(inputs.MetadataChanged({"t": TopicSpec(3)}))
    if moment == "revoking":
        script.take(inputs.MetadataChanged({"t": TopicSpec(4)}))
    [join] = script.finished(Callback.REVOKED)
    assert isinstance(join, Join)
    if moment == "joining":
        script.take(inputs.MetadataChanged({"t": TopicSpec(4)}))
    script.joined(2, leader="m", members={"m": MemberSpec(Subscription(("t",)))})
    if moment == "assigning":
        script.take(inputs.MetadataChanged({"t": TopicSpec(4)}))
    script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, {"t": TopicSpec(4)}))
    script.synced(TWO)
    assert script.finished(Callback.ASSIGNED) == [], "one round for both changes"


def lost_and_back(*topics: str) -> Script:
    """Return a cooperative member of `t` and these topics whose partitions of `t` were deleted and are back."""
    script = cooperative(topics=("t", *topics))
    known = {topic: TopicSpec(1) for topic in topics}
    script.take(inputs.MetadataChanged({**known, "t": TopicSpec(2)}))
    script.take(inputs.MetadataChanged(known, gone=frozenset("t")))
    script.finished(Callback.LOST)
    return script


def test_partitions_that_are_back_are_asked_for_once_and_may_go_to_others() -> None:
    script = lost_and_back()
    script.take(inputs.MetadataChanged({"t": TopicSpec(2)}))
    assert script.member.state is State.JOINING
    script.joined(2)
    script.synced(partitions(0))
    assert script.finished(Callback.ASSIGNED) == [], "t-1 is another member's now"
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(2)})) == []


def test_partitions_that_are_back_are_not_asked_for_once_their_topic_is_no_longer_wanted() -> None:
    script = lost_and_back("u")
    script.subscribe("u")
    script.joined(2)
    script.synced(partitions(0, topic="u"))
    script.finished(Callback.ASSIGNED)
    assert script.take(inputs.MetadataChanged({"t": TopicSpec(2), "u": TopicSpec(1)})) == []


@pytest.mark.parametrize("moment", ["joining", "assigning", "syncing"])
def test_a_rebalance_that_is_asked_for_in_the_middle_of_one_follows_it(moment: str) -> None:
    """What its user has changed, such as a weight, was not in the JoinGroup that is under way."""
    script = joining_again()
    if moment == "joining":
        script.take(inputs.RejoinRequested("weights"))
    members = {"m": MemberSpec(Subscription(("t",)))}
    script.joined(2, leader="m", members=members)
    if moment == "assigning":
        script.take(inputs.RejoinRequested("weights"))
    script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, {"t": TopicSpec(2)}))
    if moment == "syncing":
        script.take(inputs.RejoinRequested("weights"))
    script.synced(TWO)
    script.finished(Callback.ASSIGNED)
    [join] = script.finished(Callback.REVOKED)
    assert isinstance(join, Join)
    assert join.reason == "weights"
    script.joined(3)
    script.synced(TWO)
    assert script.finished(Callback.ASSIGNED) == [], "once"


def test_a_rebalance_that_is_asked_for_in_a_round_that_fails_is_part_of_the_next_one() -> None:
    script = joining_again()
    script.joined(2)
    script.take(inputs.RejoinRequested("weights"))
    script.sync_failed(ErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(TWO)
    assert script.finished(Callback.ASSIGNED) == []
