"""Known faults of a generated fleet, precision and recall of findings against them, and the recorded fleet of the demo.

`python -m tests.fleets --record` in a clone of the repository wrote its log, from groups that were simulated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

FILE = "truth.json"


class KnownFaults(NamedTuple):
    """The findings that are true of one group."""

    scenario: str
    expected: frozenset[str]
    permitted: frozenset[str]
    near: frozenset[str]


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one rule. `near_misses` are groups that resemble its fault, `fooled` how many of them it reported.

    `not_scored` are reported groups whose own fault may or may not have this one as a consequence.
    """

    finding: str
    right: int
    wrong: int
    missed: int
    near_misses: int
    fooled: int
    not_scored: int

    @property
    def precision(self) -> float:
        """The share of reported findings that are true."""
        found = self.right + self.wrong
        return self.right / found if found else 1.0

    @property
    def recall(self) -> float:
        """The share of true findings that were reported."""
        there = self.right + self.missed
        return self.right / there if there else 1.0


@dataclass(frozen=True, slots=True)
class Truth:
    """A generated fleet: its groups by name, when its log begins and ends, and how many records it has."""

    groups: Mapping[str, KnownFaults]
    began_ms: int
    ended_ms: int
    records: int

    def score(self, found: Iterable[tuple[str, str]]) -> list[Score]:
        """Score (group, finding) pairs; permitted ones count neither way."""
        pairs = set(found)
        names = sorted(
            {name for known in self.groups.values() for name in known.expected} | {name for _, name in pairs}
        )
        return [self._score(name, {group for group, other in pairs if other == name}) for name in names]

    def _score(self, name: str, groups: set[str]) -> Score:
        expected = {group for group, known in self.groups.items() if name in known.expected}
        permitted = {group for group, known in self.groups.items() if name in known.permitted}
        near = {group for group, known in self.groups.items() if name in known.near}
        wrong = groups - expected - permitted
        right, fooled = groups & expected, near & wrong
        counts = map(len, (right, wrong, expected - groups, near, fooled, groups - right - wrong))
        return Score(name, *counts)

    def write(self, directory: Path) -> None:
        """Write it beside the log."""
        groups = {name: [known.scenario, *map(sorted, known[1:])] for name, known in self.groups.items()}
        content = {"began_ms": self.began_ms, "ended_ms": self.ended_ms, "records": self.records, "groups": groups}
        (directory / FILE).write_text(json.dumps(content, indent=1) + "\n")


def read_truth(directory: Path) -> Truth:
    """Return what `Truth.write` wrote. Raises FileNotFoundError."""
    content = json.loads((directory / FILE).read_text())
    groups = {
        name: KnownFaults(scenario, *map(frozenset, sets)) for name, (scenario, *sets) in content["groups"].items()
    }
    return Truth(groups, content["began_ms"], content["ended_ms"], content["records"])


ARCHIVE = Path(__file__).with_name("recorded_fleet.zip")
"""A log of `__consumer_offsets`, as segment files."""


def unpack(directory: Path) -> Truth:
    """Write the log into a new or empty directory, and return its known faults. Raises ValueError."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ValueError(f"{directory} is not empty: a fleet is written into a directory of its own")
    with ZipFile(ARCHIVE) as archive:
        archive.extractall(directory)
    return read_truth(directory)
