"""How long one client may keep a node from serving the others: a turn ends by its steps, or by the clock."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.unit.node.desk import Desk

from kohort.node.connections import CLOCK_EVERY
from kohort.node.step_scheduler import TURN_US
from kohort.wire.messages import DescribeGroupsRequest, HeartbeatRequest

MANY = DescribeGroupsRequest(groups=[str(number) for number in range(40)]), 4
ONE = HeartbeatRequest(group_id="g", member_id="m"), 3


def turns_for(desk: Desk, *requests: tuple[Any, int]) -> int:
    """Return in how many turns after the first the requests that one client sends at once are answered."""
    desk.flushes_by_hand = True
    peer = desk.connect()
    peer.feed(b"".join(peer.frame(*request)[0] for request in requests))
    for turns in range(1000):
        if len(peer.replies) == len(requests):
            return turns
        desk.node.flush(desk.clock.now_ms())
    raise AssertionError(f"{len(peer.replies)} answers")


def slow() -> Desk:
    """Return a node of which a whole turn is over each time that the clock is read."""
    return Desk(elapsed_us=count(step=TURN_US).__next__)


def test_a_long_request_whose_steps_are_short_takes_one_turn() -> None:
    assert turns_for(Desk(elapsed_us=lambda: 0), MANY) == turns_for(Desk(), MANY)


def test_a_long_request_whose_steps_are_long_gives_way_after_each() -> None:
    """1,500 group ids of 32 KiB each, which are hashed, kept the broker from all others for three seconds."""
    assert turns_for(slow(), MANY) >= 40


def test_requests_behind_each_other_give_way_when_they_take_long() -> None:
    requests = [ONE] * (4 * CLOCK_EVERY)
    assert turns_for(slow(), *requests) > turns_for(Desk(elapsed_us=lambda: 0), *requests)
