"""The group's rebalances as its coordinator recorded them, and who owned what as the workers lived it.

Rebalances, with cause and duration, come from the topic of group events; ownership comes from the
workers' journals, because only a worker knows when it really let go, and only the demo when it died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.demo.journal import Entry

WorkerRun = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """From the moment the coordinator opened a round to the assignment it stored. Times are epoch milliseconds."""

    opened_ms: int
    assigned_ms: int
    generation: int
    cause: str
    member: str
    detail: str
    assignments: Mapping[str, int]
    """Partitions per worker."""

    @property
    def duration_ms(self) -> int:
        """How long the coordinator saw the group without an assignment."""
        return self.assigned_ms - self.opened_ms


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


def read_rebalances(events: Iterable[Mapping[str, Any]], group_id: str) -> list[Rebalance]:
    """Return the completed rebalances of a group from its events."""
    names: dict[str, str] = {}
    opened: Mapping[str, Any] | None = None
    found: list[Rebalance] = []
    for event in events:
        if event.get("group") != group_id:
            continue
        if event["event"] == "member_joined":
            names[event["member"]] = str(event.get("client") or event["member"])
        elif event["event"] == "round_opened" and opened is None:
            opened = event
        elif event["event"] == "assignment_stored" and opened is not None:
            found.append(_rebalance(opened, event, names))
            opened = None
    return found


def _rebalance(opened: Mapping[str, Any], stored: Mapping[str, Any], names: Mapping[str, str]) -> Rebalance:
    cause = opened["cause"]
    assignments = {
        names.get(member, member): sum(len(numbers) for numbers in topics.values())
        for member, topics in (stored.get("assignments") or {}).items()
    }
    member = cause.get("member") or ""
    return Rebalance(
        opened["at_ms"],
        stored["at_ms"],
        stored.get("generation", -1),
        str(cause["kind"]).replace("_", " "),
        names.get(member, member),
        cause.get("detail", ""),
        assignments,
    )


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


def unowned_partition_s(each: Rebalance, following: Rebalance | None, all_gaps: Iterable[Gap]) -> float:
    """Return the partition-seconds without an owner that ended with a rebalance's assignment."""
    before_ms = each.opened_ms
    after_ms = following.opened_ms if following else None
    mine = [gap for gap in all_gaps if gap.until_ms >= before_ms and (after_ms is None or gap.until_ms < after_ms)]
    return sum(gap.until_ms - gap.from_ms for gap in mine) / 1000
