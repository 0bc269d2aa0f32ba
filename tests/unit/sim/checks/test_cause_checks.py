"""The causes of `explain` are checked against the world: real members in a small world, seen by the checker."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from tests.unit.sim.checks.scripted import breaks
from tests.unit.sim.world_of_peers import PeerWorld

from kohort.sim.checks.cause_checks import CauseChecker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.invariants import CAUSES_ARE_TRUE


class Story:
    """Three cooperative members; `missed` are the hooks that the checker is not called with."""

    def __init__(self, *missed: str) -> None:
        ledgers, faults = Ledgers(), FaultsSeen()
        self.checker = type("Blind", (CauseChecker,), dict.fromkeys(missed, _nothing))(ledgers, faults)
        self.world = PeerWorld(ledgers, faults, self.checker)
        self.world.node.node.topics.create("u", 2, {}, 0)  # type: ignore[union-attr]
        self.peers = [self.world.peer(f"m{number}", "cooperative") for number in (1, 2, 3)]
        self.world.pass_s(10)

    def ends(self, after_s: float = 15) -> None:
        self.world.pass_s(after_s)
        self.world.observer.ended()


def _nothing(*_: Any) -> None:
    pass


def test_a_close_a_kill_and_another_subscription_are_reported_as_they_were() -> None:
    story = Story()
    story.peers[0].close()
    story.world.pass_s(5)
    story.peers[1].kill()
    story.world.pass_s(10)
    story.peers[2].subscribe(("t", "u"))
    story.ends()
    assert story.checker.checked[CAUSES_ARE_TRUE.name] > 10


def test_a_member_that_was_not_closed_has_not_left() -> None:
    story = Story("member_moved")
    story.peers[0].close()
    with breaks(CAUSES_ARE_TRUE, "m1 left (the consumer is being closed), and it was neither closed nor expired"):
        story.ends()


def test_a_member_that_is_well_is_not_evicted() -> None:
    story = Story("member_ended", "owns")
    story.peers[1].kill()
    with breaks(CAUSES_ARE_TRUE, "m2 was evicted (no heartbeat for 6.0 s), and it was well"):
        story.ends()


@pytest.mark.parametrize("missed", [(), ("poll_missed",)])
def test_a_static_member_whose_user_does_not_poll_is_evicted_for_that(missed: tuple[str, ...]) -> None:
    story = Story(*missed)
    story.world.peer("m4", "cooperative", instance_id="i4", overrun=1.0, max_poll_interval_ms=30_000)
    story.world.pass_s(5)
    story.world.feed(400)
    with nullcontext() if not missed else breaks(CAUSES_ARE_TRUE, "m4 was evicted", "and it was well"):
        story.ends(60)
    assert story.world.diary.of("m4", "unjoined") == ["m4 unjoined by Tick"]


@pytest.mark.parametrize("missed", [(), ("poll_missed",)])
def test_a_static_member_whose_user_does_not_poll_while_a_callback_is_due_is_evicted_for_that(
    missed: tuple[str, ...],
) -> None:
    story = Story(*missed)
    story.world.peer("m4", "cooperative", instance_id="i4", overrun=1.0, max_poll_interval_ms=30_000)
    story.world.pass_s(5)
    story.world.feed(400)
    story.peers[0].close()  # a round, whose callback waits for the user of m4
    with nullcontext() if not missed else breaks(CAUSES_ARE_TRUE, "m4 was evicted", "and it was well"):
        story.ends(60)
    assert story.world.diary.of("m4", "unjoined") == []


def test_a_member_that_names_the_topics_of_before_has_no_other_subscription() -> None:
    story = Story("subscribed")
    story.peers[2].subscribe(("t", "u"))
    with breaks(CAUSES_ARE_TRUE, "m3 may have named other topics 0 times, and explain reports it 1 times"):
        story.ends()


def test_what_a_member_acts_on_is_its_own_in_the_report() -> None:
    story = Story()
    story.world.observer.owns(story.peers[0], frozenset())
    with breaks(CAUSES_ARE_TRUE, "has it"):
        story.ends()


def test_what_a_member_does_not_act_on_need_not_exist_any_more() -> None:
    story = Story()
    topics = story.world.node.node.topics  # type: ignore[union-attr]
    found = topics.get("t")
    assert found is not None
    topics.delete(found, 0)
    story.world.observer.owns(story.peers[0], frozenset())
    story.world.observer.ended()
