"""When an `auto` member goes from one protocol to the other, and what it reads of the group before it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from kohort.client.membership.protocol_switch import (
    ProtocolSwitch,
    SwitchAction,
    SwitchState,
    is_member_movable,
)
from kohort.member import ClassicMember, Identity
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.messages import DescribeGroupsResponse

MEMBER = Identity(3, "m")


@dataclass
class Member:
    """What the switch reads of a member."""

    owned: Partitions = frozenset()
    running: object = None
    is_stable: bool = False
    is_closed: bool = False
    identity: Identity = MEMBER


def advance(switch: ProtocolSwitch, *, is_closing: bool = False, **member: object) -> SwitchAction | None:
    return switch.advance(cast(ClassicMember, Member(**member)), is_closing=is_closing)  # type: ignore[arg-type]


def classic() -> ProtocolSwitch:
    """Return the switch of a member that the broker refused in the consumer protocol."""
    switch = ProtocolSwitch("auto")
    assert switch.first == "consumer"
    assert switch.is_solved_by_switch(ErrorCode.GROUP_ID_NOT_FOUND)
    assert advance(switch) is SwitchAction.JOIN_CLASSIC
    return switch


def moved() -> ProtocolSwitch:
    """Return the switch of a member that has moved to the consumer protocol."""
    switch = classic()
    switch.mark_movable()
    assert advance(switch, is_stable=True) is SwitchAction.CLOSE_CLASSIC
    assert advance(switch, is_closed=True) is SwitchAction.JOIN_CONSUMER
    return switch


@pytest.mark.parametrize(
    "code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
)
def test_a_member_that_is_refused_natively_goes_on_in_the_classic_protocol(code: ErrorCode) -> None:
    assert ProtocolSwitch("auto").is_solved_by_switch(code)
    assert not ProtocolSwitch("consumer").is_solved_by_switch(code), "unless its user wants no other"


@pytest.mark.parametrize(
    "code", [ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.FENCED_INSTANCE_ID]
)
def test_what_the_other_protocol_would_not_mend_is_final(code: ErrorCode) -> None:
    assert not ProtocolSwitch("auto").is_solved_by_switch(code)


def test_a_refused_member_joins_again_once_it_owns_nothing_and_no_callback_runs() -> None:
    switch = ProtocolSwitch("auto")
    switch.is_solved_by_switch(ErrorCode.GROUP_ID_NOT_FOUND)
    assert advance(switch, owned=frozenset({TopicPartition("t", 0)})) is None
    assert advance(switch, running=("lost", frozenset())) is None
    assert advance(switch) is SwitchAction.JOIN_CLASSIC
    assert advance(switch) is None, "once"


def test_a_member_that_is_refused_in_both_protocols_has_failed() -> None:
    assert not classic().is_solved_by_switch(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_a_member_moves_from_a_stable_classic_group_under_its_id() -> None:
    switch = classic()
    assert advance(switch, is_stable=True) is None, "the probe has not answered"
    switch.mark_movable()
    assert advance(switch) is None
    assert advance(switch, is_stable=True, is_closing=True) is None
    assert advance(switch, is_stable=True) is SwitchAction.CLOSE_CLASSIC
    assert (switch.state, switch.member_id) == (SwitchState.MOVING, "m")
    assert advance(switch) is None
    assert advance(switch, is_closed=True) is SwitchAction.JOIN_CONSUMER


def test_a_member_that_moved_and_is_refused_is_back_in_the_classic_protocol_and_looks_less_often() -> None:
    switch = classic()
    assert switch.probe_factor == 1
    switch = moved()
    assert switch.is_solved_by_switch(ErrorCode.GROUP_ID_NOT_FOUND)
    assert advance(switch) is SwitchAction.JOIN_CLASSIC
    assert switch.member_id == "m", "the group knows it by its id, and would wait for it"
    assert switch.probe_factor == 10


def test_a_member_that_moved_and_was_stable_there_looks_as_often_as_before() -> None:
    switch = moved()
    advance(switch, is_stable=True)
    assert switch.is_solved_by_switch(ErrorCode.GROUP_ID_NOT_FOUND)
    assert advance(switch) is SwitchAction.JOIN_CLASSIC
    assert switch.member_id == "", "the group it left was of the other protocol"
    assert switch.probe_factor == 1


def test_a_fixed_protocol_never_switches() -> None:
    switch = ProtocolSwitch("classic")
    assert switch.first == "classic"
    assert advance(switch, is_stable=True) is None
    assert switch.state is SwitchState.FIXED


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="'native' is not one of classic, consumer, auto"):
        ProtocolSwitch("native")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "user_data", "may"), [(3, None, True), (3, b"", True), (1, None, False), (3, b"x", False)]
)
def test_a_group_may_move_where_each_member_is_new_enough_and_no_assignor_keeps_state(
    version: int, user_data: bytes | None, may: bool
) -> None:
    member = DescribeGroupsResponse.Group.Member(
        member_metadata=encode_subscription(Subscription(("t",), version=version)),
        member_assignment=encode_assignment(Assignment(frozenset(), user_data)),
    )
    assert is_member_movable(member) is may
