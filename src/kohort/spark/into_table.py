"""`exactly_once(table)`: a function for `GroupStream.run` and `foreachBatch` that stores each row in a table once.

The table stores rows and offsets in one atomic step, and its offsets are the truth: the next owner of a partition
starts there, and the group's commit follows, so that tools show the lag. It works with any table of the protocol
`Table`. `in_one_step(…)` commits to several tables at once, where their kind does that.

In `foreachBatch`, offsets decide what is stored only where the query is a member of the group that the offsets are
named after and has no state. The rows of other queries need not come from the offsets that a batch reads: of these the
table stores the number of the last batch and the query's id.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from kohort.model.ids import TopicPartition
from kohort.spark.rows.record_frames import (
    PLACE,
    Spans,
    computed_once,
    ends_beyond,
    require_places,
    rows_beyond,
    spans_of,
)
from kohort.spark.rows.rounds import Round
from kohort.spark.running_query import RunningQuery, running_query
from kohort.spark.tables.addresses import table_at
from kohort.spark.tables.changes.envelopes import ENVELOPES, opened
from kohort.spark.tables.changes.row_change import Change, MergeTable, Write
from kohort.spark.tables.table import (
    BATCHES,
    Fenced,
    OffsetStep,
    OtherTopic,
    Position,
    Positions,
    Table,
    TableBroken,
    is_same_topic,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


log = logging.getLogger(__name__)

Rows = Callable[["DataFrame"], "DataFrame"] | Callable[["pa.Table"], "pa.Table"]

MOST_TRIES = 20
"""How often a micro-batch is reduced to rows that others have not stored meanwhile, before it fails."""

_stored: dict[tuple[str, str, str], tuple[str, int]] = {}
"""The run and the batch that each table and name has stored last, in this process."""


def exactly_once(
    table: Table | str,
    rows: Rows | None = None,
    *,
    group: str | None = None,
    merge_on: Sequence[str] = (),
    delete: str | None = None,
    order: str | Sequence[str] = (),
    history: bool = False,
    envelope: Literal["debezium", "plain"] | None = None,
    schema: str | StructType | None = None,
) -> ExactlyOnce:
    """Return a function for `GroupStream.run`, or for `foreachBatch`, that adds each row to `table` once.

    `table` is a DeltaLakeTable, an IcebergTable, a PostgresTable, one's own (`Table`), or an address of one of these:
    `delta:PATH-OR-URL`, `iceberg:CATALOG.NAMESPACE.TABLE`, `postgresql://…?table=NAME`.
    `rows(frame)` transforms the rows of the topics into those to store; without it they are stored as they are. It gets
    a DataFrame, or with `GroupStream.run(…, rows="arrow")` a `pyarrow.Table`, and returns the same.
    `group` names the offsets in the table for `foreachBatch`; without it they have the name of the group that the
    query's source is a member of, or else the query's id. A GroupStream brings its own.

    With `merge_on`, the columns of the key, rows are changes: the last one of a key by `order` (one or more columns, or
    else by offset) takes the place of the row, or removes it where `delete` is true, a condition in Spark's SQL. With
    `history` every version of a row is one, valid from its `order` to the next. `envelope` opens Debezium's records, or
    those whose value is the row, with `schema`, the row's columns, before `rows`. Raises ValueError, and TypeError for
    a table without `merge`.
    """
    known = table_at(table) if isinstance(table, str) else table
    if not merge_on:
        if delete or order or history or envelope or schema:
            raise ValueError("delete, order, history, envelope and schema are for merge_on, the columns of the key")
        return ExactlyOnce(known, rows, group)
    keys, ordered = ((each,) if isinstance(each, str) else tuple(each) for each in (merge_on, order))
    if not hasattr(known, "merge"):
        raise TypeError(
            f"{known!r} has no merge: merge_on needs a method merge(frame, group, steps, change) that changes"
            " the rows of change.collect(frame) by key and takes the steps, all or nothing"
        )
    if envelope is None:
        return ExactlyOnce(known, rows, group, Change(keys, ordered, delete, history))
    if delete or envelope not in ENVELOPES:
        raise ValueError(f"envelope={envelope!r}, delete={delete!r}: the envelope (debezium, plain) shows what deletes")
    opener = partial(opened, envelope=envelope, keys=keys, schema=schema)
    return ExactlyOnce(known, rows, group, Change(keys, ordered, None, history), opener)


class ExactlyOnce:
    """Adds rounds of one stream to a table, each in one step with its offsets."""

    def __init__(
        self,
        table: Table,
        rows: Rows | None = None,
        group: str | None = None,
        change: Change | None = None,
        opener: Callable[[DataFrame], DataFrame] | None = None,
    ) -> None:
        self.table = table
        self.group = group
        self._rows: Callable[[Any], Any] | None = rows
        self.change = change
        """How rows change the table; None where they are added."""
        self._opener = opener
        self._found: dict[TopicPartition, Position | None] = {}
        """What the table had of partitions when they were looked up, and since their last round."""

    def __repr__(self) -> str:
        return f"exactly_once({self.table!r})"

    @property
    def takes_arrow(self) -> bool:
        """Whether rounds may be a `pyarrow.Table`: no expression of Spark is used, and the table takes them."""
        is_spark = self._opener is not None or (self.change is not None and self.change.delete is not None)
        return hasattr(self.table, "rows_in_arrow") and not is_spark

    @property
    def rows_in_arrow(self) -> int:
        """Up to how many offsets a round need not be a DataFrame."""
        return int(self.table.rows_in_arrow) if self.takes_arrow and self._rows is None else 0  # type: ignore[attr-defined]

    def __call__(self, frame: DataFrame | pa.Table, batch: Round | int) -> None:
        """Add a round of a GroupStream, or a micro-batch of `foreachBatch`, unless its rows are stored already.

        Raises Fenced where another member has stored rows of a partition of the round: no row of it was added.
        """
        if isinstance(batch, Round):
            self._add_round(frame, batch)
        elif query := running_query(frame, batch):
            self.add_batch(frame, query)
        else:
            self.add_rows(frame)

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return where a member reads on in partitions that it was assigned; none where the table has no rows of it."""
        self.group = group
        asked = sorted(partitions)
        found = self.table.offsets(group, asked)
        self._found.update({each: found.get(each) for each in asked})
        return found

    @property
    def _group(self) -> str:
        if self.group is None:
            raise ValueError('exactly_once(table) in foreachBatch needs the name of its offsets: give it group="…"')
        return self.group

    def _add_round(self, frame: DataFrame | pa.Table, done: Round) -> None:
        unknown = [str(each.partition) for each in done.ranges if each.partition not in self._found]
        if unknown:
            raise ValueError(f"{', '.join(unknown)} was never looked up: give exactly_once(table) to GroupStream.run")
        stops = {each.partition: Position(each.stop, done.topic_ids.get(each.partition.topic)) for each in done.ranges}
        steps = {each: OffsetStep(self._found[each], stop) for each, stop in stops.items()}
        self._store(frame, self._group, steps)
        self._found.update({partition: step.stop for partition, step in steps.items()})

    def add_rows(self, frame: DataFrame) -> None:
        """Store a frame's rows by their offsets, without those that are stored already."""
        require_places(frame, "exactly_once")
        with computed_once(frame) as cached:
            self._add_beyond(cached, spans_of(cached), self._group, {})

    def add_batch(self, frame: DataFrame, query: RunningQuery) -> None:
        """Store a micro-batch of a streaming query, by its offsets or as a whole, unless it is stored already."""
        query.require_known_plan()
        groups = query.groups
        name = self.group or (next(iter(groups)) if len(groups) == 1 else query.id)
        this = (query.run, query.batch)
        place = (repr(self.table), str(getattr(self.table, "_conninfo", "")), name)
        if _stored.get(place) == this:
            raise ValueError(
                f"batch {query.batch} of this query was stored in {self.table!r} for group {name} by another call:"
                " union the rows of one batch, or give each function a group of its own"
            )
        of = query.id if name in groups else ""
        if query.source_group != name:
            self._add_whole(query, frame, name, of)
        elif _stored.get(place, ("", 0))[0] == query.run or not self._is_whole(query, name, of):
            self._add_beyond(frame, query.spans, name, query.topic_ids)
        _stored[place] = this

    def _is_whole(self, query: RunningQuery, group: str, of: str) -> bool:
        """Whether the table has a batch as a whole: the query was stateful before its program was changed."""
        found = self.table.offsets(group, [_batches(of)]).get(_batches(of), Position(0))
        return found.topic_id is not None and is_same_topic(found.topic_id, query.id) and found.offset > query.batch

    def _require_no_offsets(self, query: RunningQuery, group: str) -> None:
        """Raise TableBroken where the table has rows of a batch by their offsets, and the query is stateful now."""
        spans = query.spans
        for each, at in sorted(self.table.offsets(group, spans).items()):
            if spans[each][0] < at.offset and is_same_topic(at.topic_id, query.topic_ids.get(each.topic)):
                raise TableBroken(
                    f"{self.table!r} has offset {at.offset} of {each} for group {group}, stored for a query without"
                    f" state, and batch {query.batch} of this query, which is stateful, begins at {spans[each][0]}: its"
                    " rows would be stored twice. Store what it makes in a new table, or give exactly_once a group of"
                    " its own; without its state the query continues as it was"
                )

    def _add_whole(self, query: RunningQuery, frame: DataFrame, group: str, of: str) -> None:
        """Store a batch unless the table has it. Raises OtherTopic where another query stores under this name."""
        key = _batches(of)
        found = self.table.offsets(group, [key]).get(key)
        stop = Position(query.batch + 1, query.id)
        _require_same_topic(self.table, group, key, found, query.id)
        if query.is_stateful and found is None:
            self._require_no_offsets(query, group)
        if found is None or found.offset < stop.offset:
            with computed_once(frame) as cached:
                rows = cached if found or of or query.is_stateful else self._not_stored_by_offset(query, cached, group)
                self._store(rows, group, {key: OffsetStep(found, stop)})
        elif query.is_stateful:  # the state of a batch is stored when its rows are computed
            frame.write.format("noop").mode("overwrite").save()

    def _not_stored_by_offset(self, query: RunningQuery, frame: DataFrame, group: str) -> DataFrame:
        """Return the rows of a batch that no call outside of a query has stored by their offsets under this name."""
        if query.batch == 0 or any(name not in frame.columns for name in PLACE):
            return frame
        spans = spans_of(frame)
        found = self.table.offsets(group, spans)
        return rows_beyond(frame, spans, {each: position.offset for each, position in found.items()})

    def _add_beyond(self, frame: DataFrame, spans: Spans, group: str, topic_ids: Mapping[str, str]) -> None:
        """Store the rows that are not stored yet. A batch may be repeated, and others may store parts of it."""
        for left in reversed(range(MOST_TRIES)):
            found = self.table.offsets(group, spans)
            for each in sorted(found):
                _require_same_topic(self.table, group, each, found[each], topic_ids.get(each.topic))
            offsets = {each: position.offset for each, position in found.items()}
            stops = {
                each: Position(end, topic_ids.get(each.topic)) for each, end in ends_beyond(spans, offsets).items()
            }
            steps = {each: OffsetStep(found.get(each), stop) for each, stop in stops.items()}
            if not steps:
                return
            if any(start < offsets.get(each, 0) for each, (start, _) in spans.items()):
                require_places(
                    frame, f"{self.table!r} has a part of the rows of this batch: to leave it out, exactly_once"
                )
            try:
                self._store(rows_beyond(frame, spans, offsets), group, steps)
            except Fenced as refusal:
                if not left:
                    raise
                log.warning("group %s: rows of a micro-batch were stored meanwhile: %s", group, refusal.text)
            else:
                return

    def made(self, frame: DataFrame | pa.Table) -> Any:
        """Return the rows for the table: those of a frame, opened and transformed."""
        opened_rows = frame if self._opener is None else self._opener(frame)
        return opened_rows if self._rows is None else self._rows(opened_rows)

    def _store(self, frame: DataFrame | pa.Table, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:
        if self.change is None:
            self.table.append(self.made(frame), group, steps)
        else:
            cast("MergeTable", self.table).merge(self.made(frame), group, steps, self.change)


def _batches(of: str) -> TopicPartition:
    """Return the partition whose offset is the number of the next batch of a query, or of the only one of a name."""
    return TopicPartition(f"{BATCHES}{of or 'query'}", 0)


def _require_same_topic(
    table: Table, group: str, partition: TopicPartition, found: Position | None, topic_id: str | None
) -> None:
    if found is not None and not is_same_topic(found.topic_id, topic_id):
        raise OtherTopic.of(repr(table), group, partition, found, topic_id)


def for_each_batch(function: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, Round], object]:
    """Return a function for `GroupStream.run` out of one that was written for `foreachBatch`.

    Its batch ids grow, and none is used twice, not even for rows that are read again after a kill: a table that ignores
    batches by their id would ignore new rows. To store each row once, use `exactly_once(table)`.
    """

    last = 0

    def run(frame: DataFrame, _: Round) -> object:
        nonlocal last
        last = max(last + 1, time.time_ns() // 1000)  # a clock may be set back
        return function(frame, last)

    return run


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
