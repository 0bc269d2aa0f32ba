"""`Change`: how rows change a table: the columns of the key, what deletes, and which of two changes is the newer.

Pure values in Arrow, and as SQL. Columns whose names begin with two underscores belong to the change and are not
stored, unless they are among `order`: `__deleted`, `__error`, and the place of a record, `__topic`, `__partition`,
`__offset` (or `topic`, `partition`, `offset`, which are stored), which rows with an `order` need not have. Of changes
with an equal order the later record counts. `MergeTable` is what a table does so that its rows may be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from kohort.model.ids import TopicPartition
from kohort.spark.direct_rows import table_of
from kohort.spark.tables.table import OffsetStep, Table, spans_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


np: Any = numpy

DELETED = "__deleted"
"""The column of changes: whether one deletes its key."""

_HERE, _THERE = "__here", "__there"


def matched(rows: pa.Table, changes: pa.Table, keys: Sequence[str]) -> tuple[Any, Any]:
    """Return the numbers of rows that have a change, and of their changes, of which a key has one.

    Columns are compared in the type of `changes`.
    """
    kinds = pa.schema([changes.schema.field(each) for each in keys])
    here = rows.select(keys).cast(pa.schema([pa.field(each.name, each.type) for each in kinds]))
    here = here.append_column(_HERE, pa.array(np.arange(rows.num_rows)))
    there = changes.select(keys).append_column(_THERE, pa.array(np.arange(changes.num_rows)))
    found = here.join(there, list(keys), join_type="inner")
    return found[_HERE].to_numpy(), found[_THERE].to_numpy()


def is_older(changes: pa.Table, rows: pa.Table, order: Sequence[str]) -> Any:
    """Return for each pair whether the change is older than its row; an order that is null is compared with nothing."""
    older, is_equal = np.zeros(rows.num_rows, bool), np.ones(rows.num_rows, bool)
    for each in order:
        mine, other = changes[each], rows[each]
        less = np.asarray(pc.fill_null(pc.less(mine, other), False))
        older |= is_equal & less
        is_equal &= np.asarray(pc.fill_null(pc.equal(mine, other), False))
    return older


def changed_rows(rows: pa.Table, changes: pa.Table, here: Any, there: Any, order: Sequence[str]) -> pa.Table | None:
    """Return rows with the changes of theirs that are not older, None where there are none; see `matched`.

    Columns that `changes` lacks stay as they are.
    """
    pair = changes.take(pa.array(there, pa.int64())), rows.take(pa.array(here, pa.int64()))
    counts = ~is_older(*pair, order)
    here, there = here[counts], there[counts]
    if not len(here):
        return None
    at = np.arange(rows.num_rows)
    gone = here[changes[DELETED].to_numpy()[there]]
    left = pa.array(np.delete(at, gone), pa.int64())
    at[here] = rows.num_rows + there
    taken = pa.array(np.delete(at, gone), pa.int64())
    columns = [
        pa.chunked_array([*rows[each].chunks, *changes[each].cast(rows[each].type).chunks], rows[each].type).take(taken)
        if each in changes.column_names
        else rows[each].take(left)
        for each in rows.column_names
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def is_first_of_key(rows: pa.Table, keys: Sequence[str]) -> Any:
    """Return for each of sorted rows whether another key begins with it."""
    is_first = np.zeros(rows.num_rows, bool)
    is_first[:1] = True
    for each in keys:
        column = rows[each].combine_chunks()
        is_first[1:] |= np.asarray(pc.not_equal(column[1:], column[:-1]))
    return is_first


def of_keys(rows: pa.Table, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows whose key a change has."""
    return rows.take(pa.array(np.unique(matched(rows, changes, keys)[0]), pa.int64()))


def not_older(order: Sequence[str], quoted: Callable[[str], str]) -> str:
    """Return the SQL condition that a change `s` is not older than its row `t`: as `is_older` compares."""
    if not order:
        return "TRUE"
    mine, other = f"s.{quoted(order[0])}", f"t.{quoted(order[0])}"
    is_tie = f"{mine} = {other} AND ({not_older(order[1:], quoted)})"
    return f"({mine} IS NULL OR {other} IS NULL OR {mine} > {other} OR ({is_tie}))"


ERROR = "__error"
"""The column of changes: why a record cannot be taken for one."""

PLACE = ("topic", "partition", "offset")
FROM, TO, CURRENT = "valid_from", "valid_to", "is_current"
"""The columns of a history: the orders from and up to which (exclusive) a version is valid, and whether it still is."""

_NUMBER = "__number"


class BadChange(ValueError):
    """A record cannot change the table; the text names its place and the cause."""


@dataclass(frozen=True, slots=True)
class Change:
    """How rows change a table: `delete` is a condition in Spark's SQL; with `is_history` each version is a row.

    Raises ValueError.
    """

    keys: tuple[str, ...]
    order: tuple[str, ...] = ()
    delete: str | None = None
    is_history: bool = False

    def __post_init__(self) -> None:
        if not self.keys or len({*self.keys, *self.order}) < len(self.keys) + len(self.order):
            raise ValueError(f"merge_on={self.keys} and order={self.order} name each column once, and one at least")
        if self.is_history and len(self.order) != 1:
            raise ValueError("history=True needs order, one column: from its value on a version is valid")

    @property
    def matches(self) -> tuple[str, ...]:
        """The columns by which a change finds its row in a table."""
        return (*self.keys, FROM) if self.is_history else self.keys

    @property
    def condition(self) -> tuple[str, ...]:
        """The columns that must not be less in a change than in its row; a history was compared before."""
        return () if self.is_history else self.order

    def columns_in(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns that a table has of these rows. Raises ValueError where a needed one is missing."""
        names = [each.name for each in rows]
        place = () if self.order else _place(names) or PLACE
        if missing := [each for each in (*self.keys, *self.order, *place) if each not in names]:
            raise ValueError(
                f"rows have no column {', '.join(missing)}: it needs those of merge_on and order, and where there is no"
                " order topic, partition and offset (as __topic, __partition, __offset they are not stored)"
            )
        for each in rows:
            if each.name in self.keys and (pa.types.is_nested(each.type) or pa.types.is_floating(each.type)):
                # Readers and engines differ in whether NaN is NaN, and 0.0 is -0.0.
                raise ValueError(f"{each.name} is {each.type}: a key has no nested and no floating columns, cast it")
        columns = [pa.field(each.name, each.type) for each in rows if each.name in self._stored(names)]
        if self.is_history:
            if taken := {FROM, TO, CURRENT}.intersection(names):
                raise ValueError(f"rows have a column {min(taken)}, which is the history's: rename it")
            kind = rows.field(self.order[0]).type
            columns += [pa.field(FROM, kind), pa.field(TO, kind), pa.field(CURRENT, pa.bool_())]
        return pa.schema(columns)

    def collect(self, frame: DataFrame | pa.Table) -> pa.Table:
        """Return the last change of each key in a frame, of a history the last of each order, with `DELETED`.

        Raises BadChange for a record that is none, ValueError.
        """
        if self.delete is not None:
            assert not isinstance(frame, pa.Table), "a condition of Spark is for its frames"
            from pyspark.sql import functions

            frame = frame.withColumn(DELETED, functions.expr(f"coalesce(({self.delete}), false)"))
        return self.last_changes(table_of(frame))

    def last_changes(self, rows: pa.Table) -> pa.Table:
        """Return the last change of each key, of a history the last of each order. Raises BadChange, ValueError."""
        names = rows.column_names
        place = _place(names)
        stored = self._stored(names)
        if DELETED not in names:
            rows = rows.append_column(DELETED, pa.repeat(pa.scalar(False), rows.num_rows))
        self._require_sound(rows, place)
        if any(rows[each].null_count for each in self.order):
            rows = filled_orders(rows, self.keys, self.order, place)
        rows = sorted_by(rows, (*self.order, *place))
        by = (*self.keys, *self.order) if self.is_history else self.keys
        return last_of(rows, by).select([*stored, DELETED])

    def _stored(self, names: Iterable[str]) -> list[str]:
        return [each for each in names if not each.startswith("__") or each in self.order]

    def _faults(self, rows: pa.Table) -> Iterator[tuple[Any, str]]:
        """Yield which rows have a fault, and its text."""
        for each in self.keys:
            yield pc.is_null(rows[each]), f"the column {each} of the key is null"
        for each in self.order:
            # A deletion without an order has that of the change before it, which only the place of records shows.
            needs_order = pc.invert(rows[DELETED]) if _place(rows.column_names) else pc.is_valid(rows[DELETED])
            yield pc.and_(pc.is_null(rows[each]), needs_order), f"{each} is null, by which changes are ordered"
            if pa.types.is_floating(rows[each].type):
                yield pc.fill_null(pc.is_nan(rows[each]), False), f"{each} is NaN, by which changes are ordered"

    def _require_sound(self, rows: pa.Table, place: Sequence[str]) -> None:
        """Raise BadChange for the first record that is no change."""
        errors = rows[ERROR] if ERROR in rows.column_names else pa.nulls(rows.num_rows, pa.string())
        for is_bad, text in [(pc.is_valid(errors), ""), *self._faults(rows)]:
            if (at := pc.index(is_bad, pa.scalar(True)).as_py()) >= 0:
                found = [rows[each][at].as_py() for each in (place or self.keys)]
                where = "{}-{}, offset {}".format(*found) if place else f"the row of the key {found}"
                why = text or errors[at].as_py()
                raise BadChange(f"{where}: {why}. Correct such records, or filter them out")


def _place(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a record's place, none where rows do not have all: a count over records has no place."""
    own = tuple(f"__{each}" for each in PLACE)
    return next((each for each in (own, PLACE) if set(each) <= set(names)), ())


def sorted_by(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return rows in ascending order, nulls first."""
    keys = rows.select(columns)
    for each in reversed([each for each in columns if rows[each].null_count]):
        keys = keys.add_column(keys.schema.get_field_index(each), f"{each} is known", pc.is_valid(rows[each]))
    return rows.take(pc.sort_indices(keys, sort_keys=[(each, "ascending") for each in keys.column_names]))


def last_of(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """Return the last row of each combination of values."""
    numbered = rows.select(by).append_column(_NUMBER, pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(by, use_threads=False).aggregate([(_NUMBER, "max")])[f"{_NUMBER}_max"]
    return rows.take(last)


def filled_orders(rows: pa.Table, keys: Sequence[str], order: Sequence[str], by: Sequence[str]) -> pa.Table:
    """Return rows in which a deletion without an order has that of the change before it, by `by`, of the same key.

    A tombstone has no value, so none of its columns. Where there is none before it, its order stays null.
    """
    rows = sorted_by(rows, (*keys, *by))
    number = np.arange(rows.num_rows)
    first = np.maximum.accumulate(np.where(is_first_of_key(rows, keys), number, 0))
    is_known = np.logical_and.reduce([np.asarray(pc.is_valid(rows[each])) for each in order])
    known = np.maximum.accumulate(np.where(is_known, number, -1))
    taken = pa.array(known, mask=known < first)
    for each in order:
        rows = rows.set_column(rows.schema.get_field_index(each), each, rows[each].take(taken))
    return rows


class MergeTable(Table, Protocol):
    """A table whose rows have keys."""

    def merge(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, OffsetStep], change: Change) -> None:
        """Change rows by `change.collect(frame)` and take the steps, all or nothing.

        Raises Fenced, SchemaMismatch, TableBroken, BadChange, ValueError.
        """


class Write(NamedTuple):
    """Rows for a table: added, or with a `change` changed by key."""

    table: Any
    frame: DataFrame | pa.Table
    change: Change | None = None


def refused(writes: Iterable[Write], group: str, steps: Mapping[TopicPartition, OffsetStep]) -> str:
    """Return what tables did whose step failed, for `in_a_sentence`."""
    failed = "did not confirm the changes of" if all(each.change for each in writes) else "did not confirm the rows of"
    return f"{failed} group {group}, {spans_in(steps)}"
