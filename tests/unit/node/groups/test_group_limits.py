"""`kohort.groups.max` and `kohort.group.member.max.bytes`."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.node.consumer_desk import NativeMember
from tests.unit.node.group_desk import GroupMember, group_desk

from kohort.model.errors import ErrorCode
from kohort.wire.messages import JoinGroupRequest, OffsetCommitRequest

REFUSED = ErrorCode.POLICY_VIOLATION


def join(member: GroupMember, **fields: Any) -> int:
    member.peer.send(member.join_request(**fields), 3)
    member.desk.advance(0)
    [answer] = member.peer.answers()
    return answer.error_code  # type: ignore[no-any-return]


def commit(member: GroupMember, group_id: str) -> int:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequest.Topic(name="orders", partitions=[partition])
    answer = member.peer.call(OffsetCommitRequest(group_id=group_id, topics=[topic]), 2)
    return answer.topics[0].partitions[0].error_code  # type: ignore[no-any-return]


def test_no_group_is_made_beyond_the_number_and_those_there_are_continue(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk(kohort_groups_max=3)
    first = GroupMember(desk, group_id="a")
    assert join(first) == 0
    assert commit(first, "b") == 0
    assert NativeMember(desk, "m", group_id="c").join().error_code == 0
    others = GroupMember(desk, group_id="d")
    with caplog.at_level(logging.WARNING):
        assert join(others) == REFUSED
        assert commit(others, "e") == REFUSED
        refused = others.peer.call(NativeMember(desk, "n", group_id="f").join_request(), 1)
    assert refused.error_code == REFUSED
    assert [line for line in caplog.messages if "kohort.groups.max" in line] == [
        "group 'd' was refused: there are 3 groups already, the limit is 3 (kohort.groups.max)"
    ]
    assert commit(first, "b") == 0
    assert commit(GroupMember(desk), "b") == 0


def test_a_number_that_is_raised_lets_groups_in_at_once() -> None:
    desk = group_desk(kohort_groups_max=1)
    member = GroupMember(desk, group_id="a")
    assert [commit(member, "a"), commit(member, "b")] == [0, REFUSED]
    desk.node.state.alter_broker([("kohort.groups.max", "2")], desk.clock.now_ms())
    assert [commit(member, "b"), commit(member, "c")] == [0, REFUSED]


def test_a_member_sends_no_more_about_itself_than_it_may(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk(kohort_group_member_max_bytes=2000)
    protocol = JoinGroupRequest.Protocol
    half = [protocol(name="range", metadata=bytes(990)), protocol(name="sticky", metadata=bytes(990))]
    with caplog.at_level(logging.WARNING):
        assert (
            join(GroupMember(desk, group_id="a"), protocols=[*half, protocol(name="x", metadata=bytes(20))]) == REFUSED
        )
        assert join(GroupMember(desk, group_id="b"), protocols=half) == 0
    assert caplog.messages == [
        "group 'a' was refused: its member sends 2012 bytes about itself, the limit is 2000"
        " (kohort.group.member.max.bytes)"
    ]
    native = NativeMember(desk, "m", group_id="c")
    names = [f"topic-{at:04}" for at in range(201)]
    assert native.peer.call(native.join_request(subscribed_topic_names=names), 1).error_code == REFUSED
    assert native.peer.call(native.join_request(subscribed_topic_regex="x" * 2001), 1).error_code == REFUSED
    assert native.join(subscribed_topic_names=names[:200]).error_code == 0
    later = native.request(subscribed_topic_names=names)
    assert native.peer.call(later, 1).error_code == REFUSED, "what it subscribes to later counts too"
