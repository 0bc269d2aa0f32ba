"""A job without Spark or a group that changes rows by key for ever, and is killed by the test that runs it.

    python -m tests.spark.merging_job KIND WHERE NAME SEED

Changes follow from their offsets. It stores a few in each step and reads on from the table whenever another job was
faster. It prints a line for each step.
"""

from __future__ import annotations

import random
import sys

from tests.spark.lake import ArrowFrame, step, stored
from tests.spark.storing_job import GROUP, PLACE, open_table
from tests.unit.spark.tables.changes.test_row_change import rows

from kohort.spark.tables import Fenced
from kohort.spark.tables.changes.row_change import Change

KEYS = 7


def change_at(offset: int) -> tuple[int, int, str, bool]:
    """Return key, order, value and whether it deletes: some changes are late, and no two of a key have one order."""
    return offset % KEYS, offset + (40 if offset % 11 == 0 else 0) * KEYS, f"v{offset}", offset % 5 == 0


def merge_for_ever(kind: str, where: str, name: str, seed: int, *, is_history: bool) -> None:
    chance = random.Random(seed)
    table = open_table(kind, where, name)
    change = Change(("id",), ("at",), is_history=is_history)
    while True:
        at = stored(table, GROUP, [PLACE]).get(PLACE)
        try:
            for _ in range(chance.randrange(1, 8)):
                stop = (at or 0) + chance.randrange(1, 9)
                frame = ArrowFrame(rows(*map(change_at, range(at or 0, stop))))
                table.merge(frame, GROUP, {PLACE: step(at, stop)}, change)  # type: ignore[attr-defined]
                at = stop
                print(stop, flush=True)
        except Fenced:
            # Two jobs in step would fence each other for long.
            for _ in range(chance.randrange(20)):
                table.offsets(GROUP, [PLACE])


if __name__ == "__main__":
    kind, where, name, seed = sys.argv[1:]
    merge_for_ever(kind, where, name, int(seed), is_history=name.endswith("history"))
