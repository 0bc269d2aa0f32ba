"""Refused joins in the event topic and in the broker's log: each client's first at once, and never a flood."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.consumer_desk import NativeMember
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, group_desk, stable_group
from tests.unit.node.groups.test_coordinator import events

from kohort.group.explain.explain import explain
from kohort.group.explain.explain_text import Names, refusal
from kohort.model.subscription import Subscription
from kohort.node.groups.event_topic import GROUP_CLIENTS, NODE_CLIENTS, REFUSALS_MS
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.messages import JoinGroupRequest


def refuse(desk: Desk, client: str = "late", group_id: str = "g") -> None:
    """Send a JoinGroup whose only assignor the group does not have, or which no group takes."""
    late = GroupMember(desk, group_id=group_id)
    late.peer = desk.connect(client_id=client)
    metadata = encode_subscription(Subscription(("orders",)))
    sticky = JoinGroupRequest.Protocol(name="sticky", metadata=metadata)
    answer = late.peer.call(late.join_request(protocols=[sticky] if group_id == "g" else []), 9)
    assert answer.error_code == 23


def refusals(desk: Desk) -> list[dict[str, Any]]:
    return [event for event in events(desk) if event["event"] == "join_refused"]


def test_refused_join_is_written_and_logged_with_the_members_in_the_way(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk()
    members = stable_group(desk, 2)
    refuse(desk)
    (refused_join,) = refusals(desk)
    assert (refused_join["error"], refused_join["client"], refused_join["count"]) == (
        "INCONSISTENT_GROUP_PROTOCOL",
        "late",
        1,
    )
    assert refused_join["in_the_way"] == sorted(member.member_id for member in members)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("group 'g' refused client id 'late' (")
    assert "with INCONSISTENT_GROUP_PROTOCOL: it offers sticky" in line


def test_refused_native_join_is_explained_with_the_clients_that_have_old_metadata() -> None:
    desk = group_desk()
    old = GroupMember(desk)
    old.peer = desk.connect(client_id="aiokafka")
    metadata = encode_subscription(Subscription(("orders",), version=0))
    protocol = JoinGroupRequest.Protocol(name="range", metadata=metadata)
    old.member_id = old.peer.call(old.join_request(protocols=[protocol]), 9).member_id
    old.peer.send(old.join_request(protocols=[protocol]), 9)
    desk.advance(0)
    old.joined()
    assert NativeMember(desk, "m1").join().error_code == 42
    known = explain(events(desk), "g", desk.clock.now_ms())
    (refused_join,) = known.refused
    assert refusal(refused_join, Names(known.identities), str).endswith(
        "was refused with INVALID_REQUEST: group g cannot become a consumer group: "
        "member aiokafka has embedded protocol version 0 where 3 is needed"
    )


def test_repeated_refusals_of_a_client_are_one_event_a_minute_with_their_number() -> None:
    desk = group_desk()
    stable_group(desk, 1)
    for _ in range(500):
        refuse(desk)
    assert [event["count"] for event in refusals(desk)] == [1]
    desk.advance(REFUSALS_MS)
    assert [event["count"] for event in refusals(desk)] == [1, 499]
    (refused_join,) = explain(events(desk), "g", 0).refused
    assert refused_join.times == 500
    desk.advance(2 * REFUSALS_MS)
    assert len(refusals(desk)) == 2
    assert "refused joins" not in desk.node.timers, "a client that is refused no more is forgotten"


def test_clients_and_groups_that_are_made_up_do_not_flood_the_events_or_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = group_desk()
    stable_group(desk, 1)
    for number in range(3 * GROUP_CLIENTS):
        refuse(desk, f"client-{number}")
    assert len(refusals(desk)) == GROUP_CLIENTS
    for number in range(2 * NODE_CLIENTS):
        refuse(desk, group_id=f"group-{number}")
    assert len(refusals(desk)) == NODE_CLIENTS
    caplog.clear()
    desk.advance(REFUSALS_MS)
    (line,) = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    beyond = 3 * GROUP_CLIENTS - GROUP_CLIENTS + 2 * NODE_CLIENTS - (NODE_CLIENTS - GROUP_CLIENTS)
    assert line == f"{beyond} more refused joins in the last 60 s are not listed"
