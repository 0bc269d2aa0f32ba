"""Inputs and their splits: a file, or a range of offsets of a live cluster, as plain values sent to executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Kind = Literal["segment", "cluster", "dump", "export", "metrics", "broker_log"]

NO_END: Final = 1 << 62
OFFSETS_TOPIC: Final = "__consumer_offsets"


class WrongInput(ValueError):
    """An input that does not exist or cannot be read; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input: a cluster by its addresses, or files by their paths. `source` is the name in its rows."""

    kind: Kind
    source: str
    where: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Split:
    """Part of an input: a file's or a range's records with `start` ≤ offset < `stop`.

    `size` is in bytes. A dump has partition -1, because its lines name partitions, and `starts` by partition.
    """

    kind: Kind
    source: str
    where: str
    partition: int
    start: int = 0
    stop: int = NO_END
    size: int = 0
    starts: Mapping[int, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


Since = Mapping[str, Mapping[int, int]]
"""By source and partition, the first offset to read: the `next_offset` of an earlier run."""


def packed(splits: Iterable[Split], most_bytes: int) -> list[list[Split]]:
    """Return pieces in tasks of about `most_bytes`, each with pieces of one source and in their order."""
    tasks: list[list[Split]] = []
    size = most_bytes
    for split in splits:
        # A small file has a cost too: opening it, and a row with the position reached.
        cost = split.size + (1 << 16)
        if size + cost > most_bytes or tasks[-1][0].source != split.source:
            tasks.append([])
            size = 0
        tasks[-1].append(split)
        size += cost
    return tasks


def text_splits(given: Input, since: Since) -> list[Split]:
    """Return a piece for each file."""
    starts = since.get(given.source, {})
    assert given.kind not in ("cluster", "segment"), "an input of these kinds is no text"
    return [
        Split(given.kind, given.source, where, -1, 0, NO_END, Path(where).stat().st_size, starts)
        for where in given.where
    ]
