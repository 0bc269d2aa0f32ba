"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on the wire, and what other APIs say of consumer groups."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.consumer_desk import NativeMember, consumer_desk, settle, stable_members, topics_of
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import stable_group
from tests.unit.node.test_configs_apis import SET, alter
from tests.unit.node.test_group_configs import GROUP_TYPE, INTERVAL, SESSION

from kohort.group.consumer.group import ConsumerGroup
from kohort.model.errors import ErrorCode
from kohort.node.groups import topic_image
from kohort.node.groups.offsets_partition import Status
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)

INVALID = ErrorCode.INVALID_REQUEST
JOIN: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m1",
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["orders"],
    "topic_partitions": [],
}


def describe(desk: Desk, group_id: str = "g", version: int = 1) -> ConsumerGroupDescribeResponse.Group:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    (group,) = desk.connect().call(request, version).groups
    return group  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"member_id": ""}, INVALID, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 3}, INVALID, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, INVALID, "MemberId can't be empty."),
        ({"group_id": ""}, INVALID, "GroupId can't be empty."),
        ({"instance_id": ""}, INVALID, "InstanceId can't be empty."),
        ({"rack_id": ""}, INVALID, "RackId can't be empty."),
        ({"group_id": " "}, INVALID, "GroupId can't be empty."),
        ({"instance_id": " "}, INVALID, "InstanceId can't be empty."),
        ({"rebalance_timeout_ms": -1}, INVALID, "rebalance timeout"),
        ({"topic_partitions": None}, INVALID, "owns no partitions"),
        ({"topic_partitions": topics_of({b"\1" * 16: [0]})}, INVALID, "owns no partitions"),
        ({"subscribed_topic_names": None}, INVALID, "what it subscribes to"),
        ({"member_epoch": -2}, INVALID, "instance id"),
        ({"member_epoch": -3}, INVALID, "epoch -3"),
        ({"member_epoch": -(1 << 31)}, INVALID, "epoch"),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR, "uniform, range"),
        ({"server_assignor": ""}, ErrorCode.UNSUPPORTED_ASSIGNOR, "uniform, range"),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION, "missing ): ("),
        ({"subscribed_topic_regex": r"(a)\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION, "invalid escape"),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, ""),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, ""),
        ({"member_epoch": -2, "instance_id": "i"}, ErrorCode.GROUP_ID_NOT_FOUND, ""),
    ],
)
def test_heartbeat_that_no_group_could_take_gets_kafkas_error(
    fields: dict[str, Any], error: ErrorCode, text: str
) -> None:
    desk = consumer_desk()
    answer = desk.connect().call(ConsumerGroupHeartbeatRequest(**{**JOIN, **fields}), 1)
    assert (answer.error_code, answer.assignment) == (error, None)
    assert answer.error_message
    assert text in answer.error_message
    assert not desk.connect().call(ListGroupsRequest(), 5).groups


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_epoch": 99}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_epoch": 1}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": (1 << 31) - 1}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"instance_id": "i", "member_id": "m1"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeat_of_an_unknown_member_or_another_epoch_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    desk = consumer_desk()
    member, _ = stable_members(desk)
    answer = member.peer.call(member.request(**fields), 1)
    assert answer.error_code == error
    assert answer.error_message
    assert member.ack().error_code == 0


def test_ids_and_names_of_any_length_and_letters_do_no_harm() -> None:
    desk = consumer_desk()
    strange = ["x" * 30_000, "\0", "ü" * 100, "a,b;c\n"]
    for number, text in enumerate(strange):
        fields = {
            **JOIN,
            "group_id": f"g{number}",
            "member_id": text,
            "rack_id": text,
            "subscribed_topic_names": [text],
        }
        assert desk.connect().call(ConsumerGroupHeartbeatRequest(**fields), 1).error_code == 0
    desk = desk.restart()
    assert [describe(desk, f"g{number}").members[0].member_id for number in range(len(strange))] == strange


def test_partitions_named_twice_unknown_or_out_of_range_are_not_owned() -> None:
    desk = consumer_desk()
    member = NativeMember(desk, "m1")
    member.join()
    (topic_id,) = member.owned
    nonsense = [*topics_of({topic_id: [0, 0, 7, -1]}), *topics_of({topic_id: [1]}), *topics_of({b"\0" * 16: [0]})]
    assert member.beat(topic_partitions=nonsense).error_code in (0, ErrorCode.FENCED_MEMBER_EPOCH)
    settle(member)
    assert member.partitions == [0, 1, 2]


def test_version_0_gets_a_member_id_from_the_coordinator_and_has_no_regex() -> None:
    desk = consumer_desk()
    answer = desk.connect().call(ConsumerGroupHeartbeatRequest(**{**JOIN, "member_id": ""}), 0)
    assert answer.error_code == 0
    assert len(answer.member_id) == 22
    other = desk.connect().call(ConsumerGroupHeartbeatRequest(**{**JOIN, "member_id": ""}), 0)
    assert other.member_id != answer.member_id


def test_lags_and_reason_reach_the_group() -> None:
    desk = consumer_desk()
    member = NativeMember(desk, "m1")
    member.join()
    (topic_id,) = member.owned
    lag = ConsumerGroupHeartbeatRequest.StandbyLag
    partitions = [lag.Partition(partition_index=index, lag=value) for index, value in ((2, 5), (0, 9), (2, 7))]
    member.beat(standby_lags=[lag(topic_id=topic_id, partitions=partitions)], reason="x" * 300)
    group = desk.node.coordinator.runtime.hosted("g").shard.groups["g"]  # type: ignore[union-attr]
    assert isinstance(group, ConsumerGroup)
    assert group.members["m1"].lags == ((topic_id, ((0, 9), (2, 7))),)


def test_group_is_described_with_what_its_members_have_and_shall_have() -> None:
    desk = consumer_desk()
    first, second = stable_members(desk)
    NativeMember(desk, "m3", instance_id="i-3", rack_id="r").join()
    group = describe(desk)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Reconciling", "uniform")
    assert (group.group_epoch, group.assignment_epoch, group.authorized_operations) == (4, 4, 3400)
    newcomer = group.members[2]
    assert (newcomer.instance_id, newcomer.rack_id, newcomer.member_epoch) == ("i-3", "r", 4)
    assert newcomer.assignment.topic_partitions == []
    (target,) = newcomer.target_assignment.topic_partitions
    assert (target.topic_name, len(target.partitions)) == ("orders", 1)
    assert [member.member_type for member in group.members] == [1, 1, 1]
    assert [member.client_id for member in group.members[:2]] == [first.peer._client_id, second.peer._client_id]
    assert describe(desk, version=0).members[0].member_type == -1


def test_a_partition_that_awaits_revocation_is_shown_with_its_owner() -> None:
    desk = consumer_desk()
    owner = NativeMember(desk, "m1")
    owner.join()
    NativeMember(desk, "m2").join()
    owner.beat()
    group = describe(desk)
    shown = [[tuple(each.partitions) for each in member.assignment.topic_partitions] for member in group.members]
    assert shown == [[(0, 1, 2)], []]


def test_describe_of_a_missing_group_or_of_the_other_type_is_group_id_not_found() -> None:
    desk = consumer_desk(group_initial_rebalance_delay_ms=0)
    stable_group(desk, 1, group_id="classic")
    stable_members(desk, 1)
    missing, other, unnamed = (describe(desk, name) for name in ("missing", "classic", ""))
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    assert (missing.error_code, missing.error_message) == (not_found, "Group missing not found.")
    assert (other.error_code, other.error_message) == (not_found, "Group classic is not a consumer group.")
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
    (seen,) = desk.connect().call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (seen.error_code, seen.error_message) == (not_found, "Group g is not a classic group.")
    (seen,) = desk.connect().call(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (seen.error_code, seen.group_state) == (0, "Dead")


def test_groups_are_listed_by_type_and_state() -> None:
    desk = consumer_desk(group_initial_rebalance_delay_ms=0)
    stable_group(desk, 1, group_id="classic")
    stable_members(desk, 1)

    def listed(**filters: list[str]) -> list[tuple[str, str, str]]:
        groups = desk.connect().call(ListGroupsRequest(**filters), 5).groups
        return sorted((group.group_id, group.group_type, group.group_state) for group in groups)

    assert listed() == [("classic", "classic", "Stable"), ("g", "consumer", "Stable")]
    assert listed(types_filter=["Consumer"]) == [("g", "consumer", "Stable")]
    assert listed(states_filter=["reconciling"]) == []


def test_loading_coordinator_sends_heartbeats_away() -> None:
    desk = consumer_desk()
    (member,) = stable_members(desk, 1)
    coordinator = desk.node.coordinator
    coordinator.partitions[coordinator.partition_of("g")].status = Status.LOADING
    assert member.peer.call(member.request(), 1).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert describe(desk).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_broker_without_the_consumer_protocol_does_not_advertise_it_and_returns_an_error() -> None:
    desk = consumer_desk(group_coordinator_rebalance_protocols="classic")
    answer = desk.connect().call(ConsumerGroupHeartbeatRequest(**JOIN), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    versions = desk.connect().call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    assert "group.version" not in {feature.name for feature in versions.finalized_features}


@pytest.mark.parametrize(("version", "lowest"), [(3, 1), (4, 0)])
def test_consumer_protocol_is_a_finalized_feature_in_a_range_that_each_client_can_read(
    version: int, lowest: int
) -> None:
    desk = consumer_desk()
    answer = desk.connect().call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), version)
    (feature,) = (each for each in answer.supported_features if each.name == "group.version")
    assert (feature.min_version, feature.max_version) == (lowest, 1)
    (final,) = (each for each in answer.finalized_features if each.name == "group.version")
    assert (final.min_version_level, final.max_version_level) == (1, 1)


def test_session_and_interval_of_a_single_group_apply_to_its_next_heartbeat() -> None:
    desk = consumer_desk()
    (member,) = stable_members(desk, 1)
    (other,) = stable_members(desk, 1, group_id="h")
    alter(desk.connect(), GROUP_TYPE, "g", (SESSION, SET, "50000"), (INTERVAL, SET, "7000"))
    assert member.beat().heartbeat_interval_ms == 7_000
    assert other.beat().heartbeat_interval_ms == 5_000
    desk.advance(49_999)
    assert member.beat().error_code == 0
    assert other.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_without_google_re2_an_expression_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_image, "re2", None)
    desk = consumer_desk()
    NativeMember(desk, "m0", "named").join()
    assert describe(desk, "named").members[0].subscribed_topic_regex == ""
    answer = NativeMember(desk, "m1", subscribed_topic_names=None, subscribed_topic_regex="o.*").join()
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "pip install '.[fast]'" in (answer.error_message or "")


def test_expression_gives_its_topics_and_those_that_come_later() -> None:
    desk = consumer_desk()
    desk.create("orders-eu", 2)
    desk.create("invoices", 2)
    member = NativeMember(desk, "m1", subscribed_topic_names=None, subscribed_topic_regex="orders.*")
    member.join()
    settle(member)
    assert sum(map(len, member.owned.values())) == 5
    desk.create("orders-us", 1)
    settle(member)
    assert sum(map(len, member.owned.values())) == 6


def test_target_that_is_dear_is_put_off_and_comes_in_time() -> None:
    desk = consumer_desk()
    clock = iter(range(0, 1 << 40, 20_000))
    desk.node.clock.elapsed_us = clock.__next__
    first, second = NativeMember(desk, "m1"), NativeMember(desk, "m2")
    first.join()
    second.join()
    assert describe(desk).group_state == "Assigning"
    desk.advance(400)
    assert describe(desk).group_state == "Reconciling"
    settle(first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2]
