"""When an `auto` member goes from one protocol to the other, and what it looks at before it does."""

from __future__ import annotations

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.protocol_switch import GroupProtocol, Switching, _may_move
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.messages import DescribeGroupsResponse


def switching(protocol: GroupProtocol = "auto") -> Switching:
    return Switching(protocol, CoordinatorLink(Cluster("127.0.0.1:1"), "g"), 60_000)


@pytest.mark.parametrize(
    "code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
)
def test_a_member_that_is_not_taken_natively_goes_on_in_the_classic_protocol(code: ErrorCode) -> None:
    assert switching().first == "consumer"
    assert switching().instead("consumer", code) == "classic"
    assert switching("consumer").instead("consumer", code) is None, "unless its user wants no other"


@pytest.mark.parametrize(
    "code", [ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.FENCED_INSTANCE_ID]
)
def test_what_the_other_protocol_would_not_mend_is_final(code: ErrorCode) -> None:
    assert switching().instead("consumer", code) is None


def test_a_member_that_is_refused_in_both_protocols_has_failed() -> None:
    auto = switching()
    assert auto.instead("consumer", ErrorCode.GROUP_ID_NOT_FOUND) == "classic"
    assert auto.instead("classic", ErrorCode.INCONSISTENT_GROUP_PROTOCOL) is None


def test_a_member_that_moves_and_is_refused_is_back_in_the_classic_protocol() -> None:
    auto = switching()
    auto.instead("consumer", ErrorCode.GROUP_ID_NOT_FOUND)
    auto.settled("classic")
    assert auto.instead("consumer", ErrorCode.GROUP_ID_NOT_FOUND) is None
    auto.retry_native()
    assert auto.instead("consumer", ErrorCode.GROUP_ID_NOT_FOUND) == "classic"


@pytest.mark.parametrize(
    ("version", "user_data", "may"), [(3, None, True), (3, b"", True), (1, None, False), (3, b"x", False)]
)
def test_a_group_may_move_where_each_member_says_enough_and_no_assignor_keeps_state(
    version: int, user_data: bytes | None, may: bool
) -> None:
    member = DescribeGroupsResponse.Group.Member(
        member_metadata=encode_subscription(Subscription(("t",), version=version)),
        member_assignment=encode_assignment(Assignment(frozenset(), user_data)),
    )
    assert _may_move(member) is may
