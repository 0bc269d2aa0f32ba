"""What the cleaner itself leaves of a group's log gives the group, wherever it stopped, and however often it came.

The logs are those of live groups, on a disk, in segments; `replaying` folds them and loads them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.replay.cleaned_log import loaded, replay_differences
from tests.replay.test_consumer_group_log import SCENARIOS, Recorded
from tests.replay.test_group_log import SCENARIOS as CLASSIC_SCENARIOS
from tests.unit.group.world import World

from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import HardEvent, OffsetCommitted
from kohort.log.group_replay import folded, records_of
from kohort.log.memory_disk import MemoryDisk
from kohort.log.offsets_topic import encode_events
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.ids import NO_TOPIC_ID
from kohort.sim.checks.replay_checks import differences
from kohort.wire.record_batches import Record, encode_batch

DIRECTORY = "__consumer_offsets-0"


def written(decisions: list[list[HardEvent]], segment_bytes: int = 1 << 20) -> tuple[MemoryDisk, PartitionLog]:
    """Return a disk with a log in which each decision is a batch."""
    disk = MemoryDisk()
    log = PartitionLog.open(disk, DIRECTORY, LogConfig(segment_bytes=segment_bytes, cleanup_policy=("compact",)), 0)
    for events in decisions:
        log.append([encode_events(events, 0)], leader_epoch=0, now_ms=0)
    log.flush()
    return disk, log


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_log_of_a_consumer_group_says_what_lives_however_it_was_cleaned(scenario: Callable[[Recorded], None]) -> None:
    world = Recorded()
    scenario(world)
    disk, log = written([list(events) for events in world.log])
    assert replay_differences(disk, DIRECTORY, world.shard, range(log.log_end_offset + 1)) == []


@pytest.mark.parametrize("scenario", CLASSIC_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_log_of_a_classic_group_says_what_lives_however_it_was_cleaned(scenario: Callable[[World], None]) -> None:
    world = World(sync_hold_ms=1_000)
    scenario(world)
    disk, log = written([list(events) for events in world.log])
    assert replay_differences(disk, DIRECTORY, world.shard, range(log.log_end_offset + 1)) == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_group_is_the_same_before_and_after_every_pass_of_a_cleaner_that_comes_while_it_lives(
    scenario: Callable[[Recorded], None],
) -> None:
    world = Recorded()
    scenario(world)
    disk, log = written([], segment_bytes=1500)
    seen = []
    for turn, events in enumerate(world.log):
        log.append([encode_events(events, 0)], leader_epoch=0, now_ms=0)
        seen += events
        if turn % 5 == 4:
            log.compact(turn * 30_000_000, roll=turn % 2 == 0)
            expected = folded_events(seen)
            for shard in (folded(records_of(log), GroupSettings()), loaded(log, GroupSettings())):
                assert differences(expected, shard) == []
    assert PartitionLog.open(disk, DIRECTORY, log.config, 0).log_end_offset == len(seen)


def folded_events(events: list[HardEvent]) -> object:
    _, log = written([events])
    return folded(records_of(log), GroupSettings())


def test_every_kind_of_difference_is_reported() -> None:
    commit = OffsetCommitted("g", "t", 0, 5, -1, "", 7, -1, NO_TOPIC_ID)
    world = Recorded()
    SCENARIOS[0](world)
    disk, log = written([list(events) for events in world.log])
    log.append([encode_events([commit, commit._replace(group_id="other")], 0)], leader_epoch=0, now_ms=0)
    found = replay_differences(disk, DIRECTORY, world.shard)
    assert any("g: t-0 is committed as" in text for text in found)
    assert any("other: t-0 is committed as None, loaded as" in text for text in found)
    shard = loaded(log, world.settings)
    group = shard.groups["g"]
    member = next(iter(group.members.values()))
    member.client_id = "another"
    assert any(text.startswith("g: members is") for text in differences(loaded(log, world.settings), shard))
    del shard.groups["g"]
    assert "g: it is a consumer group, loaded none" in differences(world.shard, shard)


def test_log_that_cannot_be_folded_is_a_difference() -> None:
    disk, log = written([])
    world = Recorded()
    broken = encode_batch([Record(0, 0, b"\x00\x08\x00\x05gro", b"")])
    log.append([broken], leader_epoch=0, now_ms=0)
    assert "cannot be folded" in replay_differences(disk, DIRECTORY, world.shard)[0]
