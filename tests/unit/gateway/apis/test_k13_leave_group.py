"""LeaveGroup: each member of the request has left if the answer has no error for it."""

from __future__ import annotations

import pytest
from tests.unit.gateway.classic_members import group

from kohort.model.errors import ErrorCode
from kohort.wire.messages import LeaveGroupRequest, LeaveGroupResponse


@pytest.mark.parametrize(("error", "left_over"), [(ErrorCode.NONE, ["b"]), (ErrorCode.UNKNOWN_MEMBER_ID, ["a", "b"])])
def test_a_member_has_left_where_the_answer_has_no_error_for_it(error: ErrorCode, left_over: list[str]) -> None:
    member = group("a", "b")["b"]
    leaving = LeaveGroupRequest.Member(member_id="a")
    member.send(LeaveGroupRequest(group_id="g", members=[leaving]), 3, 1_000)
    answered = LeaveGroupResponse.Member(member_id="a", error_code=error)
    member.answered(LeaveGroupResponse(members=[answered]), 3, 1_001)
    observed = member.gateway.groups.group("g")
    assert observed is not None
    assert sorted(observed.members) == left_over
