"""Two writers that change one table by key, and what must be in it then."""

from __future__ import annotations

import random
from typing import Any

from tests.spark.lake import ArrowFrame, step
from tests.unit.spark.tables.changes.test_row_change import rows
from tests.unit.spark.tables.changes.test_versions import replay

from kohort.model.ids import TopicPartition
from kohort.spark.tables import Fenced
from kohort.spark.tables.changes.row_change import Change


def merge_by_two(
    writers: list[Any], changes: list[tuple[Any, ...]], seed: int, change: Change, group: str = "g"
) -> None:
    """Store each second change by one of two writers, in any rounds; some are repeated, and are fenced."""
    chance = random.Random(seed)
    parts = [changes[::2], changes[1::2]]
    at: list[int | None] = [None, None]
    while any((at[number] or 0) < len(parts[number]) for number in range(2)):
        number = chance.randrange(2)
        start = at[number] or 0
        if chance.random() < 0.2:  # a writer that was away
            start, at[number] = 0, None
        stop = min(start + chance.randrange(1, 6), len(parts[number]))
        if stop == start:
            continue
        place = TopicPartition("t", number)
        writer = chance.choice(writers)
        try:
            frame = ArrowFrame(rows(*parts[number][start:stop]))
            writer.merge(frame, group, {place: step(at[number], stop)}, change)
            at[number] = stop
        except Fenced:
            at[number] = writer.offsets(group, [place])[place].offset


def require_replay(found: list[dict[str, Any]], changes: list[tuple[Any, ...]], *, is_history: bool) -> None:
    """Compare rows with what all changes in one pass leave."""
    versions = replay(changes)
    if is_history:
        names = ("id", "value", "valid_from", "valid_to", "is_current")
        assert sorted(map(repr, (tuple(each[name] for name in names) for each in found))) == sorted(map(repr, versions))
    else:
        expected = sorted((key, at, value) for key, value, at, _, is_current in versions if is_current)
        assert sorted((each["id"], each["at"], each["value"]) for each in found) == expected
