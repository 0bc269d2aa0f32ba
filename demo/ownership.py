"""Which worker owned which partition when, from the workers' journals: the data of the report's picture.

`kohort.group.explain` reports the rebalances and their cost from the coordinator's events. When a worker gave a
partition up is in its journal only, and when it was killed only the demo knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from demo.journal import Entry

WorkerRun = tuple[str, int]


class Tenure(NamedTuple):
    """A worker's ownership of one partition; `until_ms` is None while it lasts."""

    partition: int
    worker: str
    run: int
    from_ms: int
    until_ms: int | None


class Gap(NamedTuple):
    """A partition without an owner between two tenures."""

    partition: int
    from_ms: int
    until_ms: int


def tenures(entries: Sequence[Entry], deaths: Mapping[WorkerRun, int]) -> list[Tenure]:
    """Return who owned which partition when; a tenure that a death ended ends there."""
    open_since: dict[tuple[WorkerRun, int], int] = {}
    found: list[Tenure] = []

    def close(owner: WorkerRun, partition: int, at_ms: int) -> None:
        since = open_since.pop((owner, partition), None)
        if since is not None:
            found.append(Tenure(partition, *owner, since, at_ms))

    for entry in entries:
        owner = entry.worker, entry.run
        for each in entry.partitions:
            if entry.kind == "assigned":
                open_since[owner, each.partition] = entry.at_ms
            elif entry.kind in ("revoked", "lost"):
                close(owner, each.partition, entry.at_ms)
    for owner, partition in list(open_since):
        if owner in deaths:
            close(owner, partition, deaths[owner])
    found += [Tenure(partition, *owner, since, None) for (owner, partition), since in open_since.items()]
    return sorted(found, key=lambda tenure: (tenure.partition, tenure.from_ms))


def gaps(owned: Sequence[Tenure]) -> list[Gap]:
    """Return where a partition had no owner between its first and its last tenure."""
    found: list[Gap] = []
    last: dict[int, int | None] = {}
    for tenure in owned:
        before = last.get(tenure.partition)
        if before is not None and tenure.from_ms > before:
            found.append(Gap(tenure.partition, before, tenure.from_ms))
        last[tenure.partition] = tenure.until_ms
    return found
