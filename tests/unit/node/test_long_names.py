"""Names of 32 KiB, of groups and topics that do not exist: what they leave in a broker's memory."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.kept_memory import bytes_kept_by
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, group_desk

from kohort.model.acl import Principal
from kohort.model.errors import ErrorCode
from kohort.node.configuration.broker_settings import STANDARD_AUTHORIZER
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    MetadataRequest,
    OffsetFetchRequest,
)

RULES = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:root"}
REQUESTS = 12


def requests(name: str) -> list[tuple[Any, int]]:
    return [
        (HeartbeatRequest(group_id=name, member_id="m"), 3),
        (ConsumerGroupHeartbeatRequest(group_id=name, member_id="m", member_epoch=3), 0),
        (DescribeGroupsRequest(groups=[name]), 4),
        (OffsetFetchRequest(group_id=name, topics=[]), 5),
        (MetadataRequest(topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=False), 7),
    ]


@pytest.mark.parametrize("user", ["root", "alice"])
@pytest.mark.parametrize("settings", [{}, RULES], ids=["without an authorizer", "with an authorizer"])
def test_long_names_of_unknown_clients_are_not_stored(settings: dict[str, Any], user: str) -> None:
    desk = Desk(**settings)

    def ask(number: int) -> None:
        peer = desk.connect()
        peer.connection.principal = Principal("User", user)
        for message, version in requests(f"{number}".ljust(32_767, "x")):
            peer.send(message, version)
            desk.advance(1)
        peer.leave()

    ask(0)

    def ask_more() -> None:
        for number in range(1, REQUESTS):
            ask(number)

    assert bytes_kept_by(ask_more) < 6 * 32_767, "each name once would be more"


@pytest.mark.parametrize("version", [5, 6, 9])
@pytest.mark.parametrize("is_static", [False, True])
def test_a_member_id_that_no_record_can_have_is_refused_as_on_kafka(version: int, is_static: bool) -> None:
    def join(length: int) -> ErrorCode:
        name = "n" * length
        member = GroupMember(group_desk(), instance_id=name if is_static else None)
        peer = member.desk.connect("tester" if is_static else name)
        answer = peer.call(member.join_request(), version)
        assert bool(answer.member_id) == (length == 32_730)
        return ErrorCode(answer.error_code)

    if not is_static:
        assert join(32_730) is ErrorCode.MEMBER_ID_REQUIRED
    assert join(32_731) is ErrorCode.UNKNOWN_SERVER_ERROR
