"""StreamsGroupHeartbeat: parked where it has no update, and its member has nothing to acknowledge."""

from __future__ import annotations

import pytest
from tests.unit.gateway.epoch_members import TASK, Member, gateway

from kohort.gateway.policies.policies import GroupProtocol


@pytest.mark.parametrize("change", [{"active_tasks": []}, {"shutdown_application": True}, {"process_id": "p"}])
def test_a_streams_heartbeat_with_an_update_is_not_parked(change: dict[str, object]) -> None:
    member = Member(gateway(), GroupProtocol.STREAMS)
    now_ms = member.steady()
    member.gateway.tick(now_ms + 4_999)
    member.answered(now_ms + 5_000)
    assert member.heartbeat(1, now_ms + 6_000, **change)


def test_a_streams_member_that_has_tasks_to_acknowledge_is_not_parked() -> None:
    member = Member(gateway(), GroupProtocol.STREAMS)
    now_ms = member.steady()
    member.gateway.tick(now_ms + 4_999)
    member.answered(now_ms + 5_000, epoch=2, active_tasks=[TASK])
    assert member.heartbeat(2, now_ms + 5_100)
