"""SyncGroup: its answer is what a member owns, or that it is no member any more."""

from __future__ import annotations

import pytest
from tests.unit.gateway.classic_members import group

from kohort.model.errors import ErrorCode
from kohort.wire.messages import SyncGroupRequest, SyncGroupResponse


@pytest.mark.parametrize(
    ("error", "owned"), [(ErrorCode.NONE, {"a": b"", "b": b"t:0"}), (ErrorCode.UNKNOWN_MEMBER_ID, {"a": b""})]
)
def test_an_answer_is_what_its_member_owns(error: ErrorCode, owned: dict[str, bytes]) -> None:
    member = group("a", "b")["b"]
    member.send(SyncGroupRequest(group_id="g", generation_id=1, member_id="b"), 3, 1_000)
    member.answered(SyncGroupResponse(error_code=error, assignment=b"" if error else b"t:0"), 3, 1_001)
    observed = member.gateway.groups.group("g")
    assert observed is not None
    assert {name: each.assignment for name, each in observed.members.items()} == owned
