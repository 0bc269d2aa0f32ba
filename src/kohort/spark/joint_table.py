"""`in_one_step(…)`: what several `exactly_once(table)` would store of one stream, in one commit of all their tables.

Readers see all tables as of the same rounds. It takes tables whose kind commits to several at once: Iceberg tables of
one REST catalog that offers it, and tables of one PostgreSQL database. Others store one after the other, and a table of
versions, written last, names those that belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kohort.model.ids import TopicPartition
from kohort.spark.into_table import ExactlyOnce
from kohort.spark.rows.frame_spans import computed_once
from kohort.spark.tables.changes.row_change import Write
from kohort.spark.tables.table import OffsetStep, Positions, TableBroken

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def in_one_step(*stores: ExactlyOnce) -> ExactlyOnce:
    """Return a function for `GroupStream.run`, or for `foreachBatch`, that stores what all `stores` do in one step.

    A store is an `exactly_once(table, …)` with a table, rows and changes of its own. Their tables are IcebergTables of
    one REST catalog that commits to several at once, or PostgresTables of one database. Raises ValueError for tables
    of different ones, and a table named twice; TypeError for other kinds of tables.
    """
    groups = {each.group for each in stores if each.group is not None}
    if len(stores) < 2 or len(groups) > 1:
        raise ValueError(f"in_one_step takes two stores or more, whose group is one, and got {stores}, groups {groups}")
    return ExactlyOnce(JointTable(stores), None, groups.pop() if groups else None)


class JointTable:
    """Tables of one kind as one table: each step is in all of them, or in none.

    Raises ValueError, TypeError.
    """

    def __init__(self, stores: Sequence[ExactlyOnce]) -> None:
        self._stores = tuple(stores)
        tables: list[Any] = [each.table for each in stores]
        self._kind = type(tables[0])
        if len(set(map(type, tables))) > 1 or not hasattr(self._kind, "take_together"):
            raise TypeError(
                f"{self!r}: these tables have no commit of all of them. IcebergTables of one REST catalog have, and"
                " PostgresTables of one database. Call one exactly_once(table) after the other in foreachBatch, and"
                " store last, in a table of its own, which versions belong together"
            )
        if len(set(map(repr, tables))) < len(tables):
            raise ValueError(f"{self!r} has a table twice: give each table one part of a step")
        self._kind.require_together(tables)
        self._conninfo = getattr(tables[0], "_conninfo", "")
        if all(each.takes_arrow for each in stores):
            self.rows_in_arrow = min(each.rows_in_arrow for each in stores)
            """Up to how many offsets a round need not be a DataFrame."""

    def __repr__(self) -> str:
        return f"in_one_step({', '.join(repr(each.table) for each in self._stores)})"

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the positions of these partitions, which are the same in all tables. Raises TableBroken."""
        asked, tables = sorted(partitions), [each.table for each in self._stores]
        while True:
            found = [table.offsets(group, asked) for table in tables]
            at = {each: [one[each].offset if each in one else None for one in found] for each in asked}
            apart = [each for each in asked if len(set(at[each])) > 1]
            if not apart:
                return found[0]
            # Another member may have taken a step meanwhile: then the first table has moved too.
            if tables[0].offsets(group, asked) == found[0]:
                shown = ", ".join(f"{table!r} at {offset}" for table, offset in zip(tables, at[apart[0]], strict=True))
                raise TableBroken(
                    f"the offsets of {apart[0]} for group {group} differ: {shown}. In one step tables move together:"
                    " set one offset in all (set_offsets), where each has the rows before it and none after it, or"
                    " store in new tables under another group"
                )

    def append(self, frame: DataFrame | pa.Table, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:
        """Store what each table gets of a frame's rows and take the steps in all tables, all or nothing.

        Raises Fenced, SchemaMismatch, TableBroken, BadChange, ValueError.
        """
        with ExitStack() as kept:
            rows = kept.enter_context(computed_once(frame)) if hasattr(frame, "storageLevel") else frame
            writes = [Write(each.table, each.made(rows), each.change) for each in self._stores]
            self._kind.take_together(writes, group, steps)
