"""A group of which a gateway was wrong is as its coordinator describes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.gateway.gateway import Gateway
from kohort.gateway.observing.group_knowledge import generation_among
from kohort.gateway.observing.observed_groups import UNKNOWN_REBALANCE_MS
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import ConsumerHeartbeat, Heartbeat, Join, Sync
from kohort.group.consumer.group import ConsumerGroup, GroupState
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.describe import DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup, DescribedMember
from kohort.group.events import Event
from kohort.group.results import ConsumerHeartbeatResult, JoinedMember, JoinResult
from kohort.model.assignment import NOTHING
from kohort.model.errors import ErrorCode

CLASSIC = DescribedGroup("g", Phase.STABLE, "consumer", "range", (DescribedMember("m1", None, "", "", b"", b"t:0"),))


class World:
    """A gateway that knows group `g`, and what it has looked up."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []
        self.events: list[Event] = []
        self.gateway = Gateway(
            GroupSettings(),
            lambda _shard, event, _now_ms: self.events.append(event),
            lambda _, generation: self.asked.append(generation),
        )
        self.groups = self.gateway.groups

    def heartbeat(self, epoch: int, now_ms: int) -> None:
        """A member joins, or joins again, and is answered with this epoch."""
        command = ConsumerHeartbeat("g", "m1", 0, subscribed_topic_names=("t",), owned=NOTHING)
        result = ConsumerHeartbeatResult(ErrorCode.NONE, member_id="m1", member_epoch=epoch, assignment=NOTHING)
        self.groups.consumer.heartbeat_answered(command, result, now_ms)

    def differs_elsewhere(self, generation: int | None, now_ms: int) -> None:
        """Another instance of the gateway knows the group otherwise."""
        self.groups.live_elsewhere("g", generation, ["m1"], now_ms, differs=True)


def consumer_group(epoch: int) -> DescribedConsumerGroup:
    """Describe `g` as a consumer group with one member."""
    member = DescribedConsumerMember("m1", None, None, epoch, "", "", ("t",), "", NOTHING, NOTHING, NOTHING, None)
    return DescribedConsumerGroup("g", GroupState.STABLE, epoch, epoch, "uniform", (member,))


def test_a_group_that_another_instance_knows_otherwise_is_looked_up_as_both_kinds() -> None:
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    world.differs_elsewhere(2, 1)
    assert world.asked == [None, 2]
    world.groups.consumer_described(consumer_group(2), 2)
    group = world.groups.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert (group.epoch, group.members["m1"].epoch) == (2, 2)


def test_a_consumer_group_that_was_converted_back_unseen_is_a_classic_one() -> None:
    world = World()
    world.heartbeat(7, 0)
    world.groups.described(CLASSIC, 8, 1)
    assert isinstance(world.groups.shard.groups["g"], ConsumerGroup), "no answer contradicts it yet"
    world.differs_elsewhere(8, 2)
    world.groups.described(CLASSIC, 8, 3)
    group = world.groups.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.members["m1"].assignment) == (8, b"t:0")


def test_a_generation_that_heartbeats_showed_before_they_showed_the_known_one_is_outdated() -> None:
    """Two instances sent the one of the generation before, and the look-up had to wait: seed 965421."""
    world = World()
    world.groups.described(CLASSIC, 4, 0)
    for generation in (3, 3, 4):
        world.groups.look_ups.generation_shown("g", generation, 1)
    world.groups.described(CLASSIC, 3, 2)
    assert world.groups.generation_of("g") == 4


def test_a_look_up_that_waits_is_in_the_generation_that_a_heartbeat_has_proved_meanwhile() -> None:
    """It was another instance that was wrong: seed 972674."""
    world = World()
    world.groups.described(CLASSIC, 4, 0)
    for generation, now_ms in ((4, 1), (5, 2)):
        world.differs_elsewhere(generation, now_ms)
    world.groups.look_ups.generation_shown("g", 4, 3)
    world.gateway.tick(10_000)
    assert world.asked == [None, 4, None, 4]


def test_a_look_up_in_a_guessed_generation_takes_no_other_s_place() -> None:
    """One instance had the generation, another only members that had left: seed 973235."""
    world = World()
    world.groups.described(CLASSIC, 4, 0)
    for generation, now_ms in ((4, 1), (5, 2), (None, 3)):
        world.differs_elsewhere(generation, now_ms)
    world.gateway.tick(10_000)
    assert world.asked == [None, 4, None, 5]


def test_other_instances_are_sent_no_generation_that_a_heartbeat_showed_before_the_next_one_formed() -> None:
    """Two that send the former one at the same time contradict a third: seed 972172."""
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    world.groups.heartbeat_answered(Heartbeat("g", "m1", None, 3), ErrorCode.NONE, 1)
    joining = rejoining()
    world.groups.joins.sent(joining, 2)
    world.groups.joins.answered(joining, JoinResult(ErrorCode.NONE, "m1", 4, "consumer", "range", "m1"), 3)
    assert world.groups.generation_of("g") == 4
    assert not world.groups.look_ups.pop_shown()


def test_a_member_whose_sync_group_is_answered_is_here_though_it_was_sent_before_its_generation_was_known() -> None:
    """The group was taken for a consumer group until then: seed 973235."""
    world = World()
    world.groups.described(CLASSIC, 1, 0)
    world.groups.sync_answered(Sync("g", "m1", None, 1), ErrorCode.NONE, b"t:0", 1)
    group = world.groups.group("g")
    assert group is not None
    assert world.groups.last_requests.is_here(group, "m1")


def rejoining(rebalance_timeout_ms: int = 6_000) -> Join:
    """Return a JoinGroup of `m1` with another subscription, for which a round begins."""
    protocols = (("range", b"another"),)
    return Join("g", "m1", None, "", "", 6_000, rebalance_timeout_ms, "consumer", protocols, "", "")


def test_a_look_up_that_is_older_than_a_round_does_not_end_it_and_is_repeated() -> None:
    """A round that one JoinGroup less has reached is announced for too long: seed 954367."""
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    world.differs_elsewhere(3, 1)
    world.groups.joins.sent(rejoining(), 2)
    world.groups.described(CLASSIC, 3, 3)
    group = world.groups.group("g")
    assert group is not None
    assert group.awaiting_join == {"m1"}
    world.gateway.tick(10_000)
    assert world.asked == [None, 3, 3]


def test_a_look_up_as_a_consumer_group_does_not_make_one_as_a_classic_group_newer() -> None:
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    world.differs_elsewhere(3, 1)
    world.groups.joins.sent(rejoining(), 2)
    world.groups.look_up_begun("g", None, 3)
    world.groups.described(CLASSIC, 3, 4)
    group = world.groups.group("g")
    assert group is not None
    assert group.awaiting_join == {"m1"}


def test_a_look_up_counts_though_a_sync_group_was_answered_meanwhile() -> None:
    """The gateway had just started: seed 983059."""
    world = World()
    joining = Join("g", "m2", "i2", "", "", 6_000, 6_000, "consumer", (("range", b""),), "", "")
    world.groups.joins.answered(joining, JoinResult(ErrorCode.NONE, "m2", 2, "consumer", "range", "m1"), 0)
    world.groups.sync_answered(Sync("g", "m2", "i2", 2), ErrorCode.NONE, b"", 1)
    everyone = tuple(DescribedMember(f"m{number}", f"i{number}", "", "", b"", b"") for number in (1, 2, 3))
    world.groups.described(CLASSIC._replace(members=everyone), 2, 2)
    group = world.groups.group("g")
    assert group is not None
    assert set(group.members) == {"m1", "m2", "m3"}


def test_a_look_up_leaves_the_timeouts_that_a_join_group_has_shown() -> None:
    """Within half the rebalance timeout the members of a round learn of it: seed 954367."""
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    group = world.groups.group("g")
    assert group is not None
    assert group.max_rebalance_timeout_ms() == UNKNOWN_REBALANCE_MS
    world.groups.joins.sent(rejoining(5_000), 1)
    world.differs_elsewhere(3, 2)
    world.groups.described(CLASSIC, 3, 3)
    assert group.max_rebalance_timeout_ms() == 5_000


def test_a_generation_that_heartbeats_show_twice_is_the_group_s_though_it_is_lower() -> None:
    world = World()
    world.groups.described(CLASSIC, 5, 0)
    beat = Heartbeat("g", "m1", None, 1)
    world.groups.heartbeat_answered(beat, ErrorCode.NONE, 1)
    assert not world.asked, "an answer of the generation before may come late"
    world.groups.heartbeat_answered(beat, ErrorCode.NONE, 2)
    assert world.asked == [1]
    world.groups.described(CLASSIC, 1, 3)
    assert world.groups.generation_of("g") == 1
    assert world.groups.look_ups.pop_shown() == {"g": 1}, "which other instances are sent"
    assert not world.groups.look_ups.pop_shown()


def test_a_look_up_that_shows_what_is_known_is_no_event() -> None:
    world = World()
    world.groups.described(CLASSIC, 5, 0)
    for times, shown in (
        (1, CLASSIC),
        (2, CLASSIC._replace(members=(CLASSIC.members[0]._replace(assignment=b"t:1"),))),
    ):
        world.differs_elsewhere(5, times)
        world.groups.described(shown, 5, times)
        assert len(world.events) == times


def test_a_member_that_is_answered_and_not_known_has_its_group_looked_up() -> None:
    world = World()
    world.groups.described(CLASSIC, 5, 0)
    world.groups.heartbeat_answered(Heartbeat("g", "m2", None, 6), ErrorCode.NONE, 1)
    assert world.asked == [6]


def test_a_classic_member_that_is_answered_and_not_known_has_its_consumer_group_looked_up_as_both_kinds() -> None:
    """The group became a classic one while this gateway was frozen: seed 203338."""
    world = World()
    world.heartbeat(5, 0)
    world.groups.heartbeat_answered(Heartbeat("g", "m2", None, 1), ErrorCode.NONE, 1)
    assert world.asked == [None, 1]
    world.groups.described(CLASSIC, 1, 2)
    assert world.groups.generation_of("g") == 1


def test_a_look_up_that_a_former_group_of_the_name_caused_does_not_change_the_generation() -> None:
    """Its answer came when a group had begun anew at a lower one: seed 311862."""
    world = World()
    world.groups.described(CLASSIC, 2, 0)
    beat = Heartbeat("g", "m1", None, 2)
    world.groups.heartbeat_sent(beat, 1)
    world.groups.heartbeat_answered(beat, ErrorCode.NONE, 1)
    world.differs_elsewhere(2, 2)
    world.groups.described(CLASSIC, 3, 3)
    assert world.groups.generation_of("g") == 2


def test_an_assignment_that_was_missed_is_found_though_all_members_send_here() -> None:
    """Its answer had gone through an instance that was not reached: seed 953225."""
    world = World()
    world.groups.described(CLASSIC, 2, 0)
    world.groups.heartbeat_sent(Heartbeat("g", "m1", None, 2), 1)
    world.differs_elsewhere(2, 2)
    world.groups.described(CLASSIC._replace(members=(CLASSIC.members[0]._replace(assignment=b"t:1"),)), 2, 3)
    group = world.groups.group("g")
    assert group is not None
    assert group.members["m1"].assignment == b"t:1"


def test_a_higher_generation_that_another_instance_has_need_be_shown_only_once() -> None:
    """All members had sent requests of the known generation here, so the other may be wrong: seed 969024."""
    world = World()
    world.groups.described(CLASSIC, 2, 0)
    world.groups.heartbeat_sent(Heartbeat("g", "m1", None, 2), 1)
    world.groups.look_ups.generation_shown("g", 3, 2)
    world.differs_elsewhere(3, 2)
    world.groups.described(CLASSIC, 3, 3)
    assert world.groups.generation_of("g") == 3


def test_a_group_that_began_anew_at_a_lower_generation_replaces_one_without_its_members() -> None:
    """Its member sent JoinGroup through an instance of the gateway that could not be reached: seed 821137."""
    world = World()
    world.groups.described(CLASSIC, 2, 0)
    world.differs_elsewhere(1, 1)
    world.groups.described(CLASSIC._replace(members=(DescribedMember("m2", None, "", "", b"", b"t:0"),)), 1, 2)
    group = world.groups.group("g")
    assert group is not None
    assert (group.generation, set(group.members)) == (1, {"m2"})


def test_a_group_that_another_instance_knows_without_its_members_is_looked_up_in_the_generation_known_here() -> None:
    """The SyncGroup had gone through that instance, and it knew a former group of the name: seed 821137."""
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    world.differs_elsewhere(None, 1)
    assert world.asked == [None, 3]


def test_other_instances_are_sent_no_generation_of_a_group_whose_members_are_not_known_here() -> None:
    """It may be one that is gone, and a group of that name has begun anew: seed 203338."""
    world = World()
    world.heartbeat(5, 0)
    assert generation_among(world.groups.shard.groups["g"], ["m1", "m2"]) == 5
    assert generation_among(world.groups.shard.groups["g"], ["m2"]) is None


def test_a_member_that_a_look_up_finds_has_joined_and_is_not_awaited_any_more() -> None:
    """The answer to its JoinGroup went another way: seed 50511."""
    world = World()
    world.groups.described(CLASSIC, 1, 0)
    joining = Join("g", "", None, "", "", 6_000, 6_000, "consumer", (("range", b""),), "", "", is_two_step=True)
    world.groups.joins.answered(joining, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "m2", -1), 1)
    world.differs_elsewhere(2, 2)
    both = (*CLASSIC.members, DescribedMember("m2", None, "", "", b"", b""))
    world.groups.described(CLASSIC._replace(members=both), 2, 3)
    world.groups.joins.sent(replace(joining, member_id="m2"), 4)
    group = world.groups.group("g")
    assert group is not None
    assert (set(group.members), group.pending) == ({"m1", "m2"}, set())


def test_a_generation_beyond_the_protocol_is_not_sent_to_other_instances() -> None:
    """An answer that is garbage has the largest one, and the round after it is predicted."""
    world = World()
    world.groups.described(CLASSIC, 2**31, 0)
    assert world.groups.generation_of("g") == 2**31 - 1


def given_leader() -> World:
    """Let a group form its first generation of one member, which has to assign."""
    world = World()
    joining = Join("g", "m1", None, "", "", 6_000, 6_000, "consumer", (("range", b""),), "", "")
    members = (JoinedMember("m1", None, b""),)
    world.groups.joins.answered(joining, JoinResult(ErrorCode.NONE, "m1", 1, "consumer", "range", "m1", members), 0)
    del world.asked[:]
    return world


def test_a_leader_whose_assignments_are_not_answered_has_its_group_looked_up() -> None:
    """It closed its connection behind its SyncGroup: seed 944738."""
    world = given_leader()
    handed_in = Sync("g", "m1", None, 1, assignments=(("m1", b"t:0"),))
    world.groups.sync_sent(handed_in, 1)
    world.groups.sync_abandoned(handed_in, 2)
    assert world.asked == [1]


@pytest.mark.parametrize("answered_ms", [1_000, 1_001])
def test_a_round_that_is_not_over_while_heartbeats_are_answered_is_looked_up(answered_ms: int) -> None:
    """The answers to SyncGroup went through an instance that was not reached: seed 943758."""
    world = given_leader()
    world.groups.heartbeat_answered(Heartbeat("g", "m1", None, 1), ErrorCode.NONE, answered_ms)
    assert world.asked == ([1] if answered_ms > 1_000 else [])


def test_other_instances_learn_of_heartbeats_that_are_answered_in_a_group_that_is_not_known() -> None:
    """The instance had just started, and the others had not seen the round end: seed 942949."""
    world = World()
    world.groups.heartbeat_answered(Heartbeat("g", "m1", None, 3), ErrorCode.NONE, 0)
    assert world.groups.look_ups.pop_shown() == {"g": 3}
