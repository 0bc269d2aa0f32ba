"""The fold of what a cleaner may leave is the state that lives."""

from __future__ import annotations

import pytest
from tests.unit.sim.checks.brokers import Broker
from tests.unit.sim.checks.scripted import breaks

from kohort.sim.checks.invariants import REPLAY_EQUALS_LIVE
from kohort.sim.checks.replay_checks import ReplayChecker


def test_any_cleaning_of_a_living_log_gives_the_live_state() -> None:
    broker = Broker(ReplayChecker)
    for name in ("A", "B", "C"):
        broker.enter(name)
    broker.commit("A", broker.consumer_group.members["A"].epoch, 5)
    broker.commit("A", broker.consumer_group.members["A"].epoch, 6)
    for _ in range(20):
        broker.observer.ended()
    assert broker.checker.checked[REPLAY_EQUALS_LIVE.name] >= 20


def test_a_round_that_gathers_is_compared_by_what_was_stored() -> None:
    broker = Broker(ReplayChecker)
    broker.join("A")
    broker.sync("A", "A")
    broker.join("B")
    broker.observer.ended()


def test_a_member_that_the_log_knows_otherwise_is_seen() -> None:
    broker = Broker(ReplayChecker)
    broker.enter("A")
    broker.consumer_group.members["A"].rebalance_timeout_ms = 1
    with breaks(REPLAY_EQUALS_LIVE, "members is", "'rebalance_timeout_ms': 1"):
        broker.observer.ended()


def test_a_commit_that_was_not_stored_is_seen() -> None:
    broker = Broker(ReplayChecker)
    broker.enter("A")
    broker.commit("A", broker.consumer_group.members["A"].epoch, 5)
    held = broker.shard.offsets["g"]
    held["t", 0] = held["t", 0]._replace(offset=6)
    with breaks(REPLAY_EQUALS_LIVE, "t-0 is committed as", "offset=6"):
        broker.observer.ended()


def test_a_generation_that_was_not_stored_is_seen() -> None:
    broker = Broker(ReplayChecker)
    broker.join("A")
    broker.sync("A", "A")
    broker.classic_group.generation = 7
    with breaks(REPLAY_EQUALS_LIVE, "7"):
        broker.observer.ended()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_node_that_comes_back_finds_what_it_left(how: str) -> None:
    broker = Broker(ReplayChecker)
    broker.enter("A")
    broker.commit("A", broker.consumer_group.members["A"].epoch, 5)
    broker.node_host.end(how)
    before = broker.checker.checked[REPLAY_EQUALS_LIVE.name]
    assert broker.node_host.start()
    assert broker.checker.checked[REPLAY_EQUALS_LIVE.name] > before


def test_a_restart_that_forgets_is_seen() -> None:
    broker = Broker(ReplayChecker)
    broker.enter("A")
    broker.node_host.end("kill")
    for path, file in broker.node_host.disk.files.items():
        if path.startswith("__consumer_offsets-0/") and path.endswith(".log"):
            del file.content[:]
    with breaks(REPLAY_EQUALS_LIVE, "after a restart"):
        broker.node_host.start()
