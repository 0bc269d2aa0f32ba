"""The metadata log is written anew when it is much longer than what it comes to; any point of that can be the last."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.log.test_cleaner import Crash, after
from tests.unit.node.desk import Desk

from kohort.log.memory_disk import MemoryDisk
from kohort.node import broker_state
from kohort.node.broker_state import group_config_entries
from kohort.node.metadata_log import DIRECTORY


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_state, "LONG_LOG", 40)


def state(desk: Desk) -> dict[str, Any]:
    """Return all that the metadata log is there to say."""
    broker_state = desk.node.state
    return {
        "cluster": broker_state.cluster_id,
        "dynamic": desk.node.config.dynamic,
        "groups": {group_id: broker_state.group_configs.get(group_id).texts for group_id in broker_state.group_configs},
        "topics": {
            topic.name: (topic.topic_id, topic.config.texts, [each.created_epoch for each in topic.partitions])
            for topic in desk.node.topics
        },
    }


def lived() -> Desk:
    """Return a broker with a past: topics that came, grew over several starts and went, settings set and taken back."""
    desk = Desk()
    for start in range(6):
        now_ms = desk.clock.now_ms()
        desk.create(f"topic-{start}", 2, cleanup_policy="compact")
        for name in ("passing", f"topic-{start - 2}"):
            topic = desk.node.topics.get(name)
            if topic is not None:
                desk.node.topics.delete(topic, now_ms)
        desk.create("passing", 1)
        topic = desk.node.topics.get(f"topic-{start - 1}")
        if topic is not None:
            desk.node.topics.grow(topic, 2 + start, now_ms)
            desk.node.topics.alter(topic, [("retention.ms", str(start)), ("cleanup.policy", None)], now_ms)
        desk.node.state.alter_broker([("num.partitions", str(start + 1)), ("log.retention.ms", None)], now_ms)
        group_id = f"g-{start % 2}"
        desk.node.state.write(
            group_config_entries(group_id, [("consumer.session.timeout.ms", str(46_000 + start))], now_ms), now_ms
        )
        desk.node.state.next_producer_id(now_ms)
        desk = desk.restart(clean=bool(start % 2))
    return desk


def test_rewritten_log_restores_the_same_state() -> None:
    desk = lived()
    expected, epoch = state(desk), desk.node.state.epoch
    length = desk.node.state._log.length
    producer_id = desk.node.state.next_producer_id(desk.clock.now_ms())
    desk.node.state.shorten(desk.clock.now_ms())
    assert desk.node.state._log.length < length / 2 or length < 40
    for _ in range(60):
        desk = desk.restart()
        assert state(desk) == expected
    assert desk.node.state.epoch == epoch + 60
    assert desk.node.state.next_producer_id(desk.clock.now_ms()) > producer_id
    assert desk.node.state._log.length < 60
    assert len([name for name in desk.disk.list(DIRECTORY) if name.endswith(".log")]) == 1


def test_crash_while_the_log_is_written_anew_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_state, "LONG_LOG", 10_000)
    desk = lived()
    expected, epoch = state(desk), desk.node.state.epoch
    tried = 0
    for count in range(1000):
        monkeypatch.setattr(broker_state, "LONG_LOG", 10_000)
        twin = Desk(desk.disk.clone(), desk.clock, log_flush_interval_messages=1)
        monkeypatch.setattr(broker_state, "LONG_LOG", 0)
        twin.disk.fault = after(count, Crash)
        try:
            twin.node.state.shorten(desk.clock.now_ms())
        except Crash:
            twin.disk.fault = None
        else:
            break
        tried += 1
        for loses_power in (False, True):
            found: MemoryDisk = twin.disk.clone()
            if loses_power:
                found.lose_unflushed()
            again = Desk(found, desk.clock)
            assert state(again) == expected, count
            assert again.node.state.epoch > epoch
    assert tried > 10


def test_log_that_comes_to_what_it_has_is_left_alone() -> None:
    desk = Desk()
    for n in range(60):
        desk.create(f"topic-{n}")
    desk.advance(600_000)
    assert desk.node.state._log.length == 62
