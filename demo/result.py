"""The pipeline's result: Parquet files, each the totals of one range of offsets of one partition, by one round.

The law: a worker that reads a range again writes a file that begins at the same offset, in a later
generation or a later round of the same one. So the result is, per partition, the chain from offset 0
that takes the newest file at each step; files beside the chain belong to rounds that were lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from demo.flights import NOTHING, Group, Totals

GROUP_COLUMNS = ("origin", "carrier", "month")
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)-g(\d+)-r(\d+)\.parquet")


class Part(NamedTuple):
    """One file: partition, offsets from `start` to before `stop`, and the generation and round that wrote it."""

    partition: int
    start: int
    stop: int
    generation: int
    round_number: int

    @property
    def name(self) -> str:
        """The file's name, which sorts by partition and offset."""
        span = f"{self.partition:02d}-{self.start:09d}-{self.stop:09d}"
        return f"{span}-g{self.generation:04d}-r{self.round_number:05d}.parquet"


def write_part(directory: Path, part: Part, totals: pa.Table) -> None:
    """Write one file; it appears whole or not at all, and again over itself."""
    unfinished = directory / f".{part.name}.{os.getpid()}"
    pq.write_table(totals, unfinished)
    os.replace(unfinished, directory / part.name)


def list_parts(directory: Path) -> list[Part]:
    """Return the files that are there."""
    names = (_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(Part(*map(int, name.groups())) for name in names if name)


@dataclass(frozen=True, slots=True)
class Chain:
    """One partition's files that count, those that do not, and the offsets that no file covers."""

    parts: tuple[Part, ...]
    superseded: tuple[Part, ...]
    gaps: tuple[tuple[int, int], ...]


def resolve(parts: Iterable[Part], ends: Sequence[int]) -> list[Chain]:
    """Return the chain of every partition, up to the end of its log."""
    held: dict[int, list[Part]] = {}
    for part in parts:
        held.setdefault(part.partition, []).append(part)
    return [_chain(held.get(partition, []), end) for partition, end in enumerate(ends)]


def _chain(parts: list[Part], end: int) -> Chain:
    newest: dict[int, Part] = {}
    for written in sorted(parts, key=lambda each: (each.generation, each.round_number)):
        newest[written.start] = written
    taken: list[Part] = []
    gaps: list[tuple[int, int]] = []
    position = 0
    while position < end:
        part = newest.get(position)
        if part is None:
            following = min([start for start in newest if start > position] + [end])
            gaps.append((position, following))
            position = following
        else:
            taken.append(part)
            position = part.stop
    return Chain(tuple(taken), tuple(each for each in parts if each not in taken), tuple(gaps))


@dataclass(slots=True)
class Result:
    """What the files that count add up to."""

    totals: dict[Group, Totals] = field(default_factory=dict)
    rows: int = 0
    misfits: list[tuple[Part, int]] = field(default_factory=list)
    """Files whose rows are not as many as the offsets they cover, with their rows."""


def read_result(directory: Path, chains: Iterable[Chain]) -> Result:
    """Add up the files of the chains."""
    result = Result()
    for chain in chains:
        for part in chain.parts:
            rows = 0
            for row in pq.read_table(directory / part.name).to_pylist():
                group = Group(*(row[name] for name in GROUP_COLUMNS))
                totals = Totals(*(row[name] for name in Totals._fields))
                result.totals[group] = result.totals.get(group, NOTHING).plus(totals)
                rows += totals.flights
            result.rows += rows
            if rows != part.stop - part.start:
                result.misfits.append((part, rows))
    return result
