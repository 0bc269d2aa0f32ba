"""What `kohort migrate` reads from its options, and how far a watch finds a group to be."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import replace

import pytest
from tests.unit.node.group_desk import GroupMember, group_desk

from kohort.assign.server.catalog import server_assignors
from kohort.cli.group_state.live_group import as_number, has_state, live_member
from kohort.cli.migrate import MigrationProgress, goal
from kohort.cli.terminal.options import duration_ms
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription, read_classic
from kohort.group.classic.group import ClassicGroup
from kohort.group.migration.conversion_rules import upgrade_obstacles
from kohort.group.migration.migration_plan import Goal, Limits, LiveGroup, make_plan
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.messages import DescribeGroupsRequest, JoinGroupRequest, SyncGroupRequest


def member(name: str, *, is_native: bool = False, copy: int = 0) -> MemberDescription:
    return MemberDescription(f"{name}-{copy}", None, name, "/h", frozenset(), is_native=is_native)


def classic(*members: MemberDescription, state: str = "Stable", assignor: str = "range") -> GroupDescription:
    return GroupDescription("g", state, "consumer", assignor, members)


def consumer(*members: MemberDescription, state: str = "Stable", epoch: int = 5) -> GroupDescription:
    return GroupDescription("g", state, "consumer", "uniform", members, "consumer", epoch, epoch)


def test_durations_have_a_unit() -> None:
    assert [duration_ms(text) for text in ("500ms", "10s", "1.5s", "2m")] == [500, 10_000, 1_500, 120_000]
    for wrong in ("", "10", "s", "-1s", "1h", "1.2.3s"):
        with pytest.raises(ArgumentTypeError, match="no duration such as 500ms, 10s or 2m"):
            duration_ms(wrong)


def test_goal_is_one_of_three() -> None:
    assert goal("consumer") is Goal.CONSUMER
    with pytest.raises(ArgumentTypeError, match="is none of cooperative, consumer, classic"):
        goal("streams")


def test_setting_that_is_no_number_is_not_known() -> None:
    assert [as_number(text) for text in ("3", "-1", "", None, "x")] == [3, -1, None, None, None]


def test_member_is_read_with_its_version_and_with_what_its_assignor_sent() -> None:
    held = frozenset({TopicPartition("t", 0)})
    described = replace(
        member("a"), assignment=held, topics=("t",), subscription=Subscription(("t",), version=1), assignor_data=b"x"
    )
    live = live_member(described, "a", ("range",), True)
    assert (live.version, live.has_assignor_data, live.offers, live.owned) == (1, True, ("range",), held)
    native = live_member(replace(member("b", is_native=True), target=held), "b", ("range",), False)
    assert (native.version, native.offers, native.topics) == (None, None, {"t"})


def test_plan_refuses_what_the_coordinator_would_refuse() -> None:
    rules = {"version": "embedded_version", "format": "unreadable", "assignor": "assignor_data"}
    for versions, user_data in (((3, 3), None), ((0, 3), None), ((1, 2), None), ((3, 3), b"own"), ((0, 3), b"own")):
        desk = group_desk()
        members = [GroupMember(desk) for _ in versions]
        for each, version in zip(members, versions, strict=True):
            metadata = encode_subscription(Subscription(("orders",), version=version))
            protocols = [JoinGroupRequest.Protocol(name="range", metadata=metadata)]
            each.member_id = each.peer.call(each.join_request(protocols=protocols), 9).member_id
            each.peer.send(each.join_request(protocols=protocols), 9)
            desk.advance(0)
        members[0].peer.answers()
        members[0].peer.send(members[0].join_request(protocols=[protocol_of(versions[0])]), 9)
        desk.advance(0)
        for each in members:
            each.joined()
        held = encode_assignment(Assignment(frozenset({TopicPartition("orders", 0)}), user_data))
        request = members[0].sync_request()
        request.assignments = [SyncGroupRequest.Assignment(member_id=members[0].member_id, assignment=held)]
        members[0].peer.call(request, 5)
        members[1].peer.call(members[1].sync_request(), 5)
        answer = desk.connect().call(DescribeGroupsRequest(groups=["g"]), 5)
        described = read_classic(answer.groups[0])
        limits = Limits(True, server_assignors(["uniform"])["uniform"], "bidirectional", 3)
        live = [live_member(each, "", None, has_state(each, described, limits)) for each in described.members]
        group = LiveGroup("g", "classic", described.state, "consumer", "range", tuple(live), {"orders": (b"o" * 16, 3)})
        plan = make_plan(group, limits, Goal.CONSUMER)
        hosted = desk.node.coordinator.runtime.hosted("g")
        assert hosted is not None
        stored = hosted.shard.groups["g"]
        assert isinstance(stored, ClassicGroup)
        obstacles = upgrade_obstacles(stored, hosted.shard.settings)
        # The coordinator names one rule for a member, the plan every one.
        assert {rules[each.rule] for each in obstacles} <= {each.rule for each in plan.refusals}
        blocked = {member_id for each in obstacles for member_id in each.member_ids}
        assert {member_id for each in plan.refusals for member_id in each.member_ids} == blocked, (versions, user_data)


def protocol_of(version: int) -> JoinGroupRequest.Protocol:
    return JoinGroupRequest.Protocol(
        name="range", metadata=encode_subscription(Subscription(("orders",), version=version))
    )


def test_watch_reports_members_that_left_and_joined_and_the_new_type_of_the_group() -> None:
    progress = MigrationProgress(Goal.CONSUMER)
    assert progress.update(classic(member("a"), member("b"))) == []
    assert progress.summary() == "classic, Stable: 0 of 2 members use the consumer protocol, left a, b"
    assert progress.update(classic(member("b"), state="PreparingRebalance")) == [
        "PreparingRebalance",
        "a left the group",
    ]
    assert progress.summary().endswith("0 of 2 members use the consumer protocol, 1 away, left b")
    native = member("a", is_native=True, copy=1)
    assert progress.update(consumer(member("b"), native, state="Reconciling")) == [
        "the group became a consumer group",
        "assignor uniform in place of range",
        "Reconciling",
        "a-1 joined, consumer protocol",
    ]
    assert not progress.is_done
    progress.update(consumer(native))
    assert not progress.is_done, "b is away"
    progress.update(consumer(native, member("b", is_native=True, copy=1)))
    assert progress.is_done
    assert progress.group is not None
    assert progress.to_json(progress.group, [])["left"] == []


def test_watch_is_not_done_before_the_group_is_stable_and_of_the_type_that_it_is_to_be() -> None:
    progress = MigrationProgress(Goal.CLASSIC)
    progress.update(consumer(member("a"), member("b")))
    assert (len(progress.migrated), progress.is_done) == (2, False), "it is a consumer group still"
    progress.update(classic(member("a"), member("b"), state="PreparingRebalance"))
    assert not progress.is_done
    progress.update(classic(member("a"), member("b")))
    assert progress.is_done


def test_watch_of_a_group_that_goes_to_cooperative_looks_at_the_assignor_in_force() -> None:
    progress = MigrationProgress(Goal.COOPERATIVE)
    progress.update(classic(member("a")))
    assert not progress.is_done
    assert progress.update(classic(member("a"), assignor="cooperative-sticky")) == [
        "assignor cooperative-sticky in place of range",
        "a migrated, classic protocol",
    ]
    assert progress.is_done


def test_watch_waits_for_the_expected_number_of_members() -> None:
    progress = MigrationProgress(Goal.CONSUMER, wanted=3)
    progress.update(consumer(*[member(name, is_native=True) for name in "ab"]))
    assert (progress.is_done, progress.summary().endswith("2 of 3 members use the consumer protocol, 1 away")) == (
        False,
        True,
    )
    fewer = MigrationProgress(Goal.CONSUMER, wanted=1)
    fewer.update(consumer(member("a", is_native=True), member("b", is_native=True)))
    assert fewer.is_done


def test_group_that_is_gone_is_not_done() -> None:
    progress = MigrationProgress(Goal.CONSUMER)
    progress.update(consumer(member("a", is_native=True)))
    assert progress.is_done
    assert progress.update(None) == ["Dead", "a left the group"]
    assert (progress.is_done, progress.left()) == (False, [])
