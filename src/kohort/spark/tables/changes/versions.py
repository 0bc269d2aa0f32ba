"""A row's history (SCD type 2): the versions of keys out of all their changes, in whichever order these came.

A version is valid from its own order up to that of the next change of its key, so versions of a key do not overlap,
and leave a gap only where the key was deleted. Deletions have no row: they are stored in a table beside. Of changes
of a key with an equal order the one that came last counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from kohort.spark.tables.changes.row_change import (
    CURRENT,
    DELETED,
    FROM,
    TO,
    Change,
    filled_orders,
    is_first_of_key,
    is_older,
    last_of,
    matched,
    of_keys,
    sorted_by,
)

np: Any = numpy

_CAME, _IS_NEW = "__came", "__is_new"
_DELETION, _VERSION, _CHANGE = 0, 1, 2
"""When a change came: a stored deletion gave way to a version of the same order, or there would be no such version."""


def changed_versions(changes: pa.Table, versions: pa.Table, deletions: pa.Table, change: Change) -> pa.Table:
    """Return the versions that a table has to take, and with `DELETED` those to remove; by key and `valid_from`.

    `versions` and `deletions` have all that is stored of the keys of `changes`.
    """
    (order,) = change.order
    versions, deletions = (of_keys(each, changes, change.keys) for each in (versions, deletions))
    kind = changes.schema.field(order).type
    stored = _with(versions, order, versions[FROM].cast(kind))
    parts = [
        _with(_with(deletions, _CAME, _DELETION), DELETED, True),
        _with(_with(stored, _CAME, _VERSION), DELETED, False),
        _with(changes, _CAME, _CHANGE),
    ]
    rows = pa.concat_tables(parts, promote_options="permissive")
    rows = rows.filter(pc.is_valid(rows[order]))  # of a deletion without one nothing is stored that it could delete
    rows = sorted_by(rows, (*change.keys, order, _CAME))
    rows = sorted_by(last_of(rows, (*change.keys, order)), (*change.keys, order))
    if not rows.num_rows:
        return rows.drop([_CAME])
    since = rows[order].combine_chunks()
    is_last = np.append(is_first_of_key(rows, change.keys)[1:], True)
    until = since.take(pa.array(np.arange(1, len(since) + 1), mask=is_last))
    is_as_stored = pc.fill_null(pc.equal(rows[TO].cast(kind), until), False)
    is_as_stored = pc.or_(is_as_stored, pc.and_(pc.is_null(rows[TO]), pa.array(is_last)))
    is_stored = pc.or_(pc.equal(rows[_CAME], _DELETION), pc.and_(pc.equal(rows[_CAME], _VERSION), is_as_stored))
    rows = _with(_with(_with(rows, FROM, since), TO, until), CURRENT, pa.array(is_last))
    return rows.filter(pc.invert(is_stored)).drop([_CAME])


def following(changes: pa.Table, stored: Sequence[pa.Table], change: Change) -> pa.Table:
    """Return changes in which a deletion without an order has the newest that is stored of its key, if one is.

    `stored` are rows and deletions that have the columns of the key and of the order.
    """
    parts = [_with(each, _IS_NEW, False) for each in stored]
    rows = pa.concat_tables([*parts, _with(changes, _IS_NEW, True)], promote_options="permissive")
    rows = filled_orders(rows, change.keys, change.order, (_IS_NEW, *change.order))
    return rows.filter(rows[_IS_NEW]).select(changes.column_names)


def not_ended(changes: pa.Table, deletions: pa.Table, change: Change) -> pa.Table:
    """Return the changes that no stored deletion of their key is newer than."""
    last = last_of(sorted_by(deletions, change.order), change.keys)
    here, there = matched(last, changes, change.keys)
    pair = changes.take(pa.array(there, pa.int64())), last.take(pa.array(here, pa.int64()))
    ended = there[is_older(*pair, change.order)]
    return changes.take(pa.array(np.delete(np.arange(changes.num_rows), ended), pa.int64()))


def _with(rows: pa.Table, name: str, value: Any) -> pa.Table:
    column = pa.repeat(pa.scalar(value), rows.num_rows) if isinstance(value, bool | int) else value
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, column) if at < 0 else rows.set_column(at, name, column)
