"""What members of other libraries do in a conversion, and what it must bear."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import Mixed, classic_members, offer

from kohort.assign.user_data import MARK, encode_generation
from kohort.group.classic.group import Phase
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.wire.consumer_protocol import encode_assignment

OURS = encode_generation(3) + MARK


@pytest.mark.parametrize(
    ("name", "user_data_sent", "sent_back", "error"),
    [
        ("range", b"rack-7", b"rack-7", ErrorCode.NONE),
        ("range", None, b"state", ErrorCode.GROUP_ID_NOT_FOUND),
        ("cooperative-sticky", encode_generation(4), encode_generation(3), ErrorCode.NONE),
        ("cooperative-sticky", OURS, OURS, ErrorCode.NONE),
        ("cooperative-sticky", encode_generation(4), b"state", ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_a_librdkafka_leader_sends_back_to_a_member_may_be_ignored(
    name: str, user_data_sent: bytes | None, sent_back: bytes, error: ErrorCode
) -> None:
    assert answer_to_native(name, user_data_sent, sent_back, ignores_echoed_data=True) is error
    assert answer_to_native(name, user_data_sent, sent_back) is ErrorCode.GROUP_ID_NOT_FOUND


def test_user_data_of_subscriptions_never_prevents_a_conversion() -> None:
    assert answer_to_native("range", b"rack-7", None) is ErrorCode.NONE


def answer_to_native(name: str, user_data_sent: bytes | None, sent_back: bytes | None, **settings: bool) -> ErrorCode:
    """Return the response to a native newcomer in a group whose member sent and received these user data."""
    world = Mixed(**settings)
    join = world.join(instance_id="i", protocols=offer(names=(name,), user_data=user_data_sent))
    world.gather()
    member_id = join.result.member_id
    given = Assignment(frozenset({TopicPartition("t", 0)}), sent_back)
    world.sync(member_id, assignments=((member_id, encode_assignment(given)),))
    return world.native("n", 0).error


def test_commit_of_a_member_behind_the_epoch_counts_when_its_group_has_just_become_classic() -> None:
    world = Mixed()
    first, second = classic_members(world, 2)
    world.native("n", 0)
    for client in (first, second, first, second, first, second):
        client.step()
    behind = world.member(first.member_id).epoch
    world.native("m", 0)
    world.native("m", -1)
    world.native("n", -1)
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert behind < world.group().generation
    assert world.commit(first.member_id, behind).error is ErrorCode.NONE
    assert world.commit("unknown", behind).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(first.member_id, world.group().generation + 1).error is ErrorCode.ILLEGAL_GENERATION
