"""ShareGroupHeartbeat: parked, unless its connection carries records too."""

from __future__ import annotations

from tests.unit.gateway.epoch_members import Member, gateway

from kohort.gateway.policies.policies import GroupProtocol
from kohort.wire.messages import ShareFetchRequest


def test_nothing_is_parked_on_a_connection_that_has_carried_a_share_fetch() -> None:
    member = Member(gateway(), GroupProtocol.SHARE)
    member.send(ShareFetchRequest(group_id="g", member_id="m1"), 1, 0)
    assert member.steady() == -1


def test_a_heartbeat_with_another_subscription_is_not_parked() -> None:
    member = Member(gateway(), GroupProtocol.SHARE)
    now_ms = member.steady()
    member.gateway.tick(now_ms + 4_999)
    member.answered(now_ms + 5_000)
    assert member.heartbeat(1, now_ms + 6_000, subscribed_topic_names=["u"])
