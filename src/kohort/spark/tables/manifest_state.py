"""A manifest table as the fold of its entries: which files hold rows, and where each group's partitions stand.

An entry says what it adds to the table; it was checked against the state before it when it was written, so applying
it decides nothing. Pure: it knows no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import Claim, Held, Holdings, TableBroken

FORMAT = 1
"""The format of entries and checkpoints; one of another number is refused."""


class RowsFile(NamedTuple):
    """A Parquet file of the table: its path below the table, how many rows it holds, and its size."""

    path: str
    rows: int
    size: int

    @property
    def staged(self) -> str:
        """The directory that its writer made for it and the files that came with it."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Entry:
    """One atomic change of a table; `kind` is for people who read the log."""

    id: str
    kind: str
    at_ms: int
    schema: Any = None
    added: tuple[RowsFile, ...] = ()
    removed: tuple[str, ...] = ()
    condemned: tuple[str, ...] = ()
    group: str = ""
    held: Mapping[TopicPartition, Held] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the entry as a line of JSON; fields that say nothing are left out."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        found = {"format": FORMAT, **own, "held": holdings_to_json(self.held)}
        return json.dumps({name: value for name, value in found.items() if value}).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> Entry:
        """Return the entry of `to_json`. Raises TableBroken, naming `where`, for anything else."""
        found = _parsed(text, where)
        try:
            return cls(
                found["id"],
                found["kind"],
                found["at_ms"],
                found.get("schema"),
                tuple(RowsFile(*each) for each in found.get("added", ())),
                tuple(found.get("removed", ())),
                tuple(found.get("condemned", ())),
                found.get("group", ""),
                holdings_from_json(found.get("held", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TableBroken(f"{where} is not an entry of a manifest table: {error!r}") from error


@dataclass(slots=True)
class TableState:
    """A table after its entry `version`; -1 is before the first."""

    version: int = -1
    schema: Any = None
    files: dict[str, RowsFile] = field(default_factory=dict)
    groups: dict[str, Holdings] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    condemned: set[str] = field(default_factory=set)
    """Directories whose files may be gone: nothing of them is ever added."""

    def apply(self, entry: Entry) -> None:
        """Change the state by the entry that comes next."""
        self.version += 1
        if entry.schema is not None:
            self.schema = entry.schema
        for path in entry.removed:
            self.retired[self.files.pop(path).staged] = entry.at_ms
        for each in entry.added:
            assert each.staged not in self.condemned, "nothing of a condemned directory is added"
            self.files[each.path] = each
        for name in entry.condemned:
            self.condemned.add(name)
            self.retired.pop(name, None)
        if entry.held:
            self.groups.setdefault(entry.group, {}).update(entry.held)

    def to_json(self) -> bytes:
        """Return the whole state as JSON: what a checkpoint holds."""
        found = {
            "format": FORMAT,
            "version": self.version,
            "schema": self.schema,
            "files": list(self.files.values()),
            "groups": {group: holdings_to_json(held) for group, held in self.groups.items()},
            "retired": self.retired,
            "condemned": sorted(self.condemned),
        }
        return json.dumps(found).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> TableState:
        """Return the state of `to_json`. Raises TableBroken, naming `where`, for anything else."""
        found = _parsed(text, where)
        try:
            return cls(
                found["version"],
                found["schema"],
                {each[0]: RowsFile(*each) for each in found["files"]},
                {group: holdings_from_json(held) for group, held in found["groups"].items()},
                found["retired"],
                set(found["condemned"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TableBroken(f"{where} is not a checkpoint of a manifest table: {error!r}") from error


def holdings_to_json(held: Mapping[TopicPartition, Held]) -> dict[str, dict[str, list[Any]]]:
    """Return holdings as `{topic: {partition: [offset, generation, owner]}}`."""
    topics: dict[str, dict[str, list[Any]]] = {}
    for (topic, partition), each in sorted(held.items()):
        topics.setdefault(topic, {})[str(partition)] = [each.offset, *each.claim]
    return topics


def holdings_from_json(topics: Mapping[str, Mapping[str, list[Any]]]) -> Holdings:
    """Return the holdings of `holdings_to_json`."""
    return {
        TopicPartition(topic, int(partition)): Held(offset, Claim(generation, owner))
        for topic, partitions in topics.items()
        for partition, (offset, generation, owner) in partitions.items()
    }


def _parsed(text: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise TableBroken(f"{where} is not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        version = found.get("format") if isinstance(found, dict) else None
        raise TableBroken(f"{where} has the format {version}, and this kohort reads format {FORMAT}")
    return found
