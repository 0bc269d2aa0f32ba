"""Whether committed offsets are a register that keeps its last acknowledged value.

A fetched offset must be one that was committed before the answer, and that no acknowledged commit had surely replaced
before the question. A commit whose outcome is unknown may take effect at any time after it was sent: it excuses a
value that went back, as it does for Knossos.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from interop.torture.checks.anomaly import Anomaly, Name
from interop.torture.history import UNKNOWN, Commit, GroupHistory, OffsetFetch


def check_commits(group: GroupHistory) -> Iterator[Anomaly]:
    """Compare the committed offsets that were seen with those that members committed."""
    commits: dict[int, list[Commit]] = defaultdict(list)
    for reader in group.readers:
        for commit in reader.commits:
            commits[commit.partition].append(commit)
    fetches: dict[int, list[OffsetFetch]] = defaultdict(list)
    for fetch in group.fetches:
        fetches[fetch.partition].append(fetch)
    for partition, of_partition in sorted(fetches.items()):
        where = f"{group.name} {group.topic}-{partition}"
        yield from _check_register(where, commits[partition], of_partition)


def _check_register(where: str, commits: list[Commit], fetches: list[OffsetFetch]) -> Iterator[Anomaly]:
    acknowledged = sorted((c for c in commits if c.acked_s != UNKNOWN), key=lambda commit: commit.acked_s)
    times = [commit.acked_s for commit in acknowledged]
    highest = list(accumulate((commit.offset for commit in acknowledged), max))
    by_offset: dict[int, list[Commit]] = defaultdict(list)
    for commit in commits:
        by_offset[commit.offset].append(commit)
    for fetch in fetches:
        before = bisect_left(times, fetch.sent_s)
        # The commits that were surely made before the question; the last of them that began replaced the others.
        sure = acknowledged[:before]
        lowest = highest[before - 1] if before else -1
        if fetch.offset == -1 and not sure:
            continue
        possible = [commit for commit in by_offset[fetch.offset] if commit.sent_s < fetch.answered_s]
        if fetch.offset != -1 and not possible:
            yield Anomaly(Name.COMMIT_FROM_NOWHERE, where, f"{fetch.offset} at {fetch.answered_s:.3f}")
        elif fetch.offset < lowest and not _is_excused(possible, sure):
            detail = f"{fetch.offset} at {fetch.answered_s:.3f}, after {lowest} had been acknowledged"
            yield Anomaly(Name.LOWERED_COMMIT, where, detail)


def _is_excused(possible: list[Commit], sure: list[Commit]) -> bool:
    latest_s = max(commit.sent_s for commit in sure)
    return any(commit.acked_s >= latest_s for commit in possible)


def check_rising(group: GroupHistory) -> Iterator[Anomaly]:
    """Check a group whose commits are not known, those of transactions: what was seen once is never lower later."""
    highest: dict[int, OffsetFetch] = {}
    for fetch in sorted(group.fetches, key=lambda each: each.answered_s):
        before = highest.get(fetch.partition)
        if before is not None and fetch.offset < before.offset and fetch.sent_s > before.answered_s:
            where = f"{group.name} {group.topic}-{fetch.partition}"
            yield Anomaly(Name.LOWERED_COMMIT, where, f"{fetch.offset} at {fetch.answered_s:.3f} after {before.offset}")
        if before is None or fetch.offset > before.offset:
            highest[fetch.partition] = fetch
