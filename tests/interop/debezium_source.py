"""A table of a database as Debezium reports it, and in plain Python what a reader of its topic must have.

Keys are composite. There are a snapshot, inserts, updates, deletes with tombstones, updates of the key itself, and a
column that is added in the middle; some records have their schema around them, as Debezium's default is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

from kohort.wire.record_batches import Record

BEFORE = "tenant INT, code STRING, name STRING, qty BIGINT, tags ARRAY<STRUCT<tag: STRING>>"
AFTER = f"{BEFORE}, note STRING"
"""The columns of a row before and after one was added."""

Key = tuple[int, str]
Row = dict[str, Any]


class Change(NamedTuple):
    """A record of the topic: `row` is None for a deletion."""

    key: Key
    row: Row | None
    ts_ms: int
    text: str | None


class Source:
    """The table; `topic` has what it reported, by partition."""

    def __init__(self, partitions: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._rows: dict[Key, Row] = {}
        self._now = 1_700_000_000_000
        self.has_note = False
        self.topic: list[list[Change]] = [[] for _ in range(partitions)]

    def snapshot(self, count: int) -> None:
        """Report rows that were there before."""
        for _ in range(count):
            key = self._any_key()
            if key not in self._rows:
                self._store(key, "r")

    def change(self, count: int) -> None:
        """Make changes of any kind."""
        for _ in range(count):
            key = self._any_key()
            if key not in self._rows:
                self._store(key, "c")
            elif (dice := self._chance.random()) < 0.25:
                self._delete(key)
            elif dice < 0.4 and (other := self._any_key()) not in self._rows:
                self._delete(key)
                self._store(other, "c")
            else:
                self._store(key, "u")

    def _any_key(self) -> Key:
        return self._chance.randrange(3), self._chance.choice(["a", "", "ü/x", 'it\'s "b"', "null", "7"])

    def _store(self, key: Key, op: str) -> None:
        tags = self._chance.choice([None, [], [{"tag": None}], [{"tag": "x"}, {"tag": "é"}]])
        row = {"tenant": key[0], "code": key[1], "name": self._chance.choice([None, "", "Åse"]), "tags": tags}
        row["qty"] = self._chance.choice([None, 0, -1, 1 << 60])
        if self.has_note:
            row["note"] = self._chance.choice([None, "n"])
        before, self._rows[key] = self._rows.get(key), row
        self._report(key, op, before if op == "u" else None, row)

    def _delete(self, key: Key) -> None:
        # Of a deleted row there may be the key alone, as PostgreSQL has it by default.
        before = self._rows.pop(key)
        shown = before if self._chance.random() < 0.5 else {**dict.fromkeys(before), "tenant": key[0], "code": key[1]}
        self._report(key, "d", shown, None)
        self._append(Change(key, None, self._now, None))

    def _report(self, key: Key, op: str, before: Row | None, row: Row | None) -> None:
        self._now += self._chance.randrange(1, 5)
        value: Any = {"before": before, "after": row, "op": op, "ts_ms": self._now, "source": {"lsn": self._now}}
        self._append(Change(key, row, self._now, json.dumps(self._wrapped(value))))

    def _append(self, change: Change) -> None:
        self.topic[crc32(repr(change.key).encode()) % len(self.topic)].append(change)

    def _wrapped(self, value: Any) -> Any:
        return {"schema": {"type": "struct"}, "payload": value} if self._chance.random() < 0.3 else value

    def record_of(self, change: Change) -> Record:
        """Return a change as a record of Kafka."""
        key = json.dumps(self._wrapped({"tenant": change.key[0], "code": change.key[1]})).encode()
        return Record(0, change.ts_ms, key, None if change.text is None else change.text.encode())

    def rows_at(self, offsets: Mapping[int, int]) -> dict[Key, Row]:
        """Return the rows by key after what lies before offsets."""
        rows: dict[Key, Row] = {}
        for partition, stop in offsets.items():
            for each in self.topic[partition][:stop]:
                rows.pop(each.key, None)
                if each.row is not None:
                    rows[each.key] = each.row
        return rows

    def versions_at(self, offsets: Mapping[int, int]) -> list[tuple[Key, Row, int, int | None]]:
        """Return the versions of rows: key, row, and the times from and to which they are valid."""
        versions: list[tuple[Key, Row, int, int | None]] = []
        last: dict[Key, Change] = {}
        for partition, stop in offsets.items():
            for each in self.topic[partition][:stop]:
                if (open_since := last.get(each.key)) is not None and open_since.row is not None:
                    versions.append((each.key, open_since.row, open_since.ts_ms, each.ts_ms))
                last[each.key] = each
        return versions + [(key, each.row, each.ts_ms, None) for key, each in last.items() if each.row is not None]
