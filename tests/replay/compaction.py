"""Logs of keys and values, as Kafka's cleaner may leave them, for tests that have no log but what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from kohort.group.coordinator_settings import GroupSettings
from kohort.group.shard import Shard
from kohort.log import group_replay
from kohort.sim.checks.invariants import violations
from kohort.sim.checks.replay_checks import hard_group, hard_offsets
from kohort.wire.record_batches import Record

Row = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""


def records(rows: Sequence[Row]) -> list[Record]:
    """Return rows as records with offsets."""
    return [Record(offset, 0, key, value) for offset, (key, value) in enumerate(rows)]


def compacted(rows: Sequence[Row], clean: int, horizon: int) -> list[Row]:
    """Return a log whose first `clean` records were cleaned, with tombstones gone among the first `horizon`."""
    return _rows(group_replay.compacted(records(rows), clean, horizon))


def raced(rows: Sequence[Row], read: int) -> list[Row]:
    """Return a log as a loader sees it that had read the first `read` records when the rest was cleaned."""
    return _rows(group_replay.raced(records(rows), read))


def _rows(found: Sequence[Record]) -> list[Row]:
    return [(each.key or b"", each.value) for each in found]


def hard_state(shard: Shard) -> dict[str, Any]:
    """Return everything of a shard that its log has, for good: later events do not change it."""
    return deepcopy(
        {
            "groups": {group_id: hard_group(group) for group_id, group in shard.groups.items()},
            "offsets": {group_id: hard_offsets(shard, group_id) for group_id in shard.offsets},
            "followers": {topic: groups for topic, groups in shard.followers.items() if groups},
            "regex_followers": shard.regex_followers,
        }
    )


def replayed(rows: Sequence[Row], settings: GroupSettings, *, checked: bool = True) -> Shard:
    """Return the shard that a log gives; it keeps every rule that a live one does."""
    shard = group_replay.folded(records(rows), settings)
    if checked:
        assert not violations(shard), violations(shard)
    return shard


__all__ = ["Row", "compacted", "hard_state", "raced", "records", "replayed"]
