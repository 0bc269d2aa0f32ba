"""Changes of rows by key as SQL of PostgreSQL: `s` are the changes of a round, `t` the rows, `d` the deletions.

The statements of a round run in one transaction, in which no other one changes rows of the table. A history is put
right by them as a whole: the versions of each changed key end where the next one, or a deletion, begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kohort.spark.tables.changes.key_match import DELETED, not_older
from kohort.spark.tables.changes.row_change import CURRENT, FROM, TO, Change
from kohort.spark.tables.postgres_connection import quoted


def statements(
    change: Change, names: Sequence[str], rows: str, changes: str, deletions: str, *, is_unordered: bool
) -> Iterator[str]:
    """Yield what changes the table `rows` by `changes`, which have the columns `names` and `DELETED`.

    `is_unordered`: some deletions have no order.
    """
    keys, same = change.keys, partial(_equal, change.keys)
    gone = f"s.{quoted(DELETED)}"
    if change.order:
        first, listed = change.order[0], column_list((*keys, *change.order))
        if is_unordered:
            yield _ordered(change, rows, changes, deletions)
        yield (
            f"INSERT INTO {deletions} ({listed}) SELECT {listed} FROM {changes} s"
            f" WHERE {gone} AND {quoted(first)} IS NOT NULL ON CONFLICT DO NOTHING"
        )
        if change.is_history:
            yield f"DELETE FROM {changes} WHERE {quoted(first)} IS NULL"
        else:
            ended = f"({column_list(change.order, 's')}) < ({column_list(change.order, 'd')})"
            yield f"DELETE FROM {changes} s USING {deletions} d WHERE {same('d')} AND {ended}"
    counts = not_older(change.condition, quoted)
    match = same("t")
    columns, values = [quoted(each) for each in names], [f"s.{quoted(each)}" for each in names]
    if change.is_history:
        match += f" AND t.{quoted(FROM)} = s.{quoted(first)}"
    yield f"DELETE FROM {rows} t USING {changes} s WHERE {gone} AND {match} AND {counts}"
    taken = ", ".join(f"{column} = {value}" for column, value in zip(columns, values, strict=True))
    yield f"UPDATE {rows} t SET {taken} FROM {changes} s WHERE NOT {gone} AND {match} AND {counts}"
    if change.is_history:
        columns, values = [*columns, *map(quoted, (FROM, CURRENT))], [*values, f"s.{quoted(first)}", "TRUE"]
    yield (
        f"INSERT INTO {rows} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {changes} s"
        f" WHERE NOT {gone} AND NOT EXISTS (SELECT FROM {rows} t WHERE {match})"
    )
    if change.is_history:
        yield _ended(change, rows, changes, deletions)


def _ordered(change: Change, rows: str, changes: str, deletions: str) -> str:
    """Return what gives deletions without an order the newest that is stored of their key."""
    keys, listed, gone = change.keys, column_list((*change.keys, *change.order)), f"s.{quoted(DELETED)}"
    is_asked = f"{gone} AND s.{quoted(change.order[0])} IS NULL"
    stored = " UNION ALL ".join(
        f"SELECT {listed} FROM {each} t WHERE EXISTS (SELECT FROM {changes} s WHERE {is_asked} AND {_equal(keys, 't')})"
        for each in (rows, deletions)
    )
    newest = ", ".join(f"{quoted(each)} DESC NULLS LAST" for each in change.order)
    return (
        f"UPDATE {changes} s SET ({column_list(change.order)}) = ROW({column_list(change.order, 't')})"
        f" FROM (SELECT DISTINCT ON ({column_list(keys)}) * FROM ({stored}) a ORDER BY {column_list(keys)}, {newest}) t"
        f" WHERE {is_asked} AND {_equal(keys, 't')}"
    )


def _ended(change: Change, rows: str, changes: str, deletions: str) -> str:
    """Return what ends each version of the changed keys where the next one, or a deletion, begins."""
    keys, since, until, current = change.keys, *map(quoted, (FROM, TO, CURRENT))
    order = quoted(change.order[0])
    deleted = f"SELECT min(d.{order}) FROM {deletions} d WHERE {_equal(keys, 'd', 't')} AND d.{order} > t.{since}"
    following = f"lead(t.{since}) OVER (PARTITION BY {column_list(keys, 't')} ORDER BY t.{since})"
    versions = (
        f"SELECT {column_list((*keys, FROM), 't')}, LEAST({following}, ({deleted})) AS ends FROM {rows} t"
        f" WHERE EXISTS (SELECT FROM {changes} s WHERE {_equal(keys, 't')})"
    )
    return (
        f"UPDATE {rows} t SET {until} = s.ends, {current} = s.ends IS NULL FROM ({versions}) s"
        f" WHERE {_equal((*keys, FROM), 't')}"
        f" AND (t.{until} IS DISTINCT FROM s.ends OR t.{current} IS DISTINCT FROM (s.ends IS NULL))"
    )


def _equal(columns: Sequence[str], of: str, beside: str = "s") -> str:
    return " AND ".join(f"{of}.{quoted(each)} = {beside}.{quoted(each)}" for each in columns)


def column_list(names: Sequence[str], of: str = "") -> str:
    """Return names as SQL, separated by commas, each with the alias of its table if that is given."""
    return ", ".join(f"{of}.{quoted(each)}" if of else quoted(each) for each in names)
