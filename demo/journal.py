"""What a worker did, line by line, in a file that survives its kill: the material of the proof and of the plots.

Every line is handed to the operating system before the worker goes on; a line cut off by a kill is ignored.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.model.assignment import Partitions, by_topic
from kohort.model.ids import TopicPartition
from kohort.spark.rows.rounds import OffsetRange, Round

Kind = Literal["started", "assigned", "revoked", "lost", "began", "written", "committed", "refused", "stopped"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what happened when, in which run of which worker, to which partitions or ranges."""

    at_ms: int
    worker: str
    run: int
    kind: Kind
    generation: int = -1
    round_number: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    ranges: tuple[OffsetRange, ...] = ()

    @property
    def rows(self) -> int:
        """Offsets that the ranges span."""
        return sum(each.size for each in self.ranges)


class Journal:
    """The writer of one run of one worker."""

    def __init__(self, directory: Path, worker: str, run: int) -> None:
        self.worker, self.run = worker, run
        self._file = os.open(directory / f"{worker}-{run}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, kind: Kind, generation: int = -1, partitions: Iterable[TopicPartition] = ()) -> None:
        """Write that something happened to the worker or its partitions."""
        self._write(kind, generation, partitions=by_topic(partitions))

    def note_round(self, kind: Kind, each: Round) -> None:
        """Write that something happened to a round."""
        ranges = [[*span.partition, span.start, span.stop] for span in each.ranges]
        self._write(kind, each.generation, round=each.number, ranges=ranges)

    def _write(self, kind: Kind, generation: int, **more: Any) -> None:
        line = {"at_ms": time.time_ns() // 1_000_000, "worker": self.worker, "run": self.run, "kind": kind}
        line |= {"generation": generation} | more
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


class Notes(RebalanceListener):
    """Writes what happens to a worker's partitions and rounds into its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Note a revocation; the running round has been committed by now."""
        self._journal.note("revoked", partitions=partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Note an assignment."""
        self._journal.note("assigned", partitions=partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Note a loss."""
        self._journal.note("lost", partitions=partitions)

    def finished(self, each: Round, is_committed: bool) -> None:
        """Note whether the group took a round's commit."""
        self._journal.note_round("committed" if is_committed else "refused", each)


def read_journals(directory: Path) -> list[Entry]:
    """Return all workers' entries in the order of time."""
    entries: list[Entry] = []
    for path in sorted(directory.glob("*.jsonl")):
        lines = path.read_bytes().split(b"\n")
        # What follows the last line end was cut off by a kill.
        entries += [_entry(json.loads(line)) for line in lines[:-1]]
    return sorted(entries, key=lambda entry: entry.at_ms)


def _entry(line: dict[str, Any]) -> Entry:
    numbered = line.get("partitions", {}).items()
    partitions = frozenset(TopicPartition(topic, number) for topic, numbers in numbered for number in numbers)
    ranges = tuple(
        OffsetRange(TopicPartition(topic, number), start, stop) for topic, number, start, stop in line.get("ranges", ())
    )
    return Entry(
        line["at_ms"],
        line["worker"],
        line["run"],
        line["kind"],
        line["generation"],
        line.get("round", -1),
        partitions or frozenset(each.partition for each in ranges),
        ranges,
    )
