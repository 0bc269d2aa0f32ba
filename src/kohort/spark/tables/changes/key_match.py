"""Rows of two tables with the same key: where they are, and which of the two is the newer; in Arrow, and as SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

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
