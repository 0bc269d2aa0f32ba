"""What one task reads: a file, or a range of offsets of a live cluster, as plain values that travel to executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

Kind = Literal["segment", "cluster", "dump", "export", "metrics", "broker_log"]

NO_END: Final = 1 << 62
OFFSETS_TOPIC: Final = "__consumer_offsets"


class WrongInput(ValueError):
    """An input that cannot be what it was said to be; the text is one sentence for whoever named it."""


@dataclass(frozen=True, slots=True)
class Input:
    """Something to read: a cluster by its addresses, files by their paths. `source` is what its rows are called by."""

    kind: Kind
    source: str
    where: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an input: a file's or a range's records with `start` ≤ offset < `stop`.

    `size` is in bytes; of a dump the partition is -1, because its lines say it, and `starts` has where each begins.
    """

    kind: Kind
    source: str
    where: str
    partition: int
    start: int = 0
    stop: int = NO_END
    size: int = 0
    starts: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


Since = Mapping[str, Mapping[int, int]]
"""By source and partition, the offset from which on records are wanted: what an earlier run gave as `next_offset`."""


def packed(pieces: Iterable[Piece], most_bytes: int) -> list[list[Piece]]:
    """Return pieces in tasks of about `most_bytes`, each with pieces of one source and in their order."""
    tasks: list[list[Piece]] = []
    held = most_bytes
    for piece in pieces:
        # A file costs something even when it is small: opening it, and a row that says how far it was read.
        cost = piece.size + (1 << 16)
        if held + cost > most_bytes or tasks[-1][0].source != piece.source:
            tasks.append([])
            held = 0
        tasks[-1].append(piece)
        held += cost
    return tasks


def to_json(tasks: list[list[Piece]]) -> str:
    """Return tasks as text."""
    return json.dumps([[asdict(piece) for piece in task] for task in tasks])


def from_json(text: str) -> list[list[Piece]]:
    """Return the tasks that a text stands for."""
    return [[Piece(**piece) for piece in task] for task in json.loads(text)]
