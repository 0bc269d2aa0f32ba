"""A partition of `__consumer_offsets` that cannot be read is not served, and says where, why and what to do."""

from __future__ import annotations

import itertools
import logging

import pytest
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, committed, group_desk, stable_group

from kohort.group.events import ConsumerGroupStored
from kohort.log.memory_disk import MemoryFile
from kohort.log.offsets_topic import record_of
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.setting import SettingsError
from kohort.node.configuration.config import Config
from kohort.node.groups import offsets_partition
from kohort.node.node import Node
from kohort.wire.record_batches import Record, encode_batch

UNREADABLE = encode_batch([Record(0, 1, b"\x00\x08\x00\x05gro", b"")])


def played() -> tuple[Desk, GroupMember, int]:
    """Return a node, a member of its group that has committed offset 7, and the partition of the group."""
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    assert member.commit(offset=7) == 0
    return desk, member, desk.node.coordinator.partition_of("g")


def segment(desk: Desk, place: int) -> MemoryFile:
    return desk.disk.open(f"__consumer_offsets-{place}/00000000000000000000.log")


def heartbeat(desk: Desk, member: GroupMember) -> int:
    member.peer = desk.connect()
    return member.heartbeat()


def test_operator_may_continue_without_a_record_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    desk, member, place = played()
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    end = topic.partitions[place].log.log_end_offset
    topic.partitions[place].append([UNREADABLE], desk.clock.now_ms())
    with caplog.at_level(logging.ERROR, "kohort.node"):
        desk = desk.restart()
    assert f"record at offset {end}: a record of type 8 is malformed: the key ends in the middle" in caplog.text
    assert f"kohort.offsets.load.ignore={place}@{end}" in caplog.text
    assert heartbeat(desk, member) == ErrorCode.NOT_COORDINATOR
    desk = desk.restart(kohort_offsets_load_ignore=f"{place + 1}@{end},{place}@{end + 1}")
    assert heartbeat(desk, member) == ErrorCode.NOT_COORDINATOR
    desk = desk.restart(kohort_offsets_load_ignore=f"{place + 1}@0,{place}@{end}")
    assert f"continued without the record at offset {end}" in caplog.text
    assert heartbeat(desk, member) == 0
    assert committed(member.peer) == 7


def test_batch_whose_bytes_were_damaged_can_be_abandoned_too(caplog: pytest.LogCaptureFixture) -> None:
    desk, member, place = played()
    file = segment(desk, place)
    file.content[-2] ^= 1
    with caplog.at_level(logging.ERROR, "kohort.node"):
        desk = desk.restart()
    assert "wrong CRC in the batch" in caplog.text
    assert heartbeat(desk, member) == ErrorCode.NOT_COORDINATOR
    (offsets,) = {text.rpartition("=")[2] for text in caplog.messages}
    desk = desk.restart(kohort_offsets_load_ignore=offsets)
    assert heartbeat(desk, member) == 0
    assert committed(member.peer) == -1


def test_record_that_cannot_follow_on_the_others_is_as_bad_as_one_that_cannot_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk, member, place = played()
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    end = topic.partitions[place].log.log_end_offset
    takes_over = record_of(ConsumerGroupStored("g", 2, 0, Cause(CauseKind.GROUP_CREATED, 0)))
    topic.partitions[place].append([encode_batch([Record(0, 1, *takes_over)])], desk.clock.now_ms())
    with caplog.at_level(logging.ERROR, "kohort.node"):
        desk = desk.restart()
    assert f"record at offset {end}: it cannot follow on what came before: g: a classic group with" in caplog.text
    assert heartbeat(desk, member) == ErrorCode.NOT_COORDINATOR
    desk = desk.restart(kohort_offsets_load_ignore=f"{place}@{end}")
    assert heartbeat(desk, member) == 0
    assert committed(member.peer) == 7


@pytest.mark.parametrize("places", ["3", "3@", "@4", "a@4", "3@-1", "3@4,5", "3@4@5"])
def test_place_that_is_none_is_refused_at_the_start(places: str) -> None:
    with pytest.raises(SettingsError, match="expected PARTITION@OFFSET"):
        Config({"kohort.offsets.load.ignore": places})


def test_long_load_logs_its_progress(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    desk, _, place = played()
    end = segment(desk, place).size
    assert end > 0
    monkeypatch.setattr(offsets_partition, "LOAD_BYTES", 1)
    desk.node.stop(desk.clock.now_ms())
    for step_us, is_slow in ((700_000, True), (1_000, False)):
        caplog.clear()
        elapsed = itertools.count(step=step_us)
        node = Node(Config({}), desk.disk.clone(), bytes, desk.clock.now_ms(), elapsed_us=elapsed.__next__)
        with caplog.at_level(logging.INFO, "kohort.node"):
            node.start(desk.clock.now_ms())
        assert (f"loading groups: __consumer_offsets-{place} is read up to offset " in caplog.text) is is_slow
        assert ("loaded 1 groups in " in caplog.text) is is_slow
