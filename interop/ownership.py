"""Owners of partitions over time, as the members of a group reported them: never two at once, nothing read in vain.

A span begins when a member's callback has assigned a partition to it, and ends when it reports the revocation, before
its callback returns; so two spans that overlap are two owners, whatever a library does in between. A member that
leaves without a callback ends its spans when it stops polling, one that is killed when it is dead. A span that ends as
lost proves nothing: its member learnt of it after the partition had another owner.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from interop.account import Account


class Span(NamedTuple):
    """One partition in one member's hands."""

    partition: int
    start_s: float
    end_s: float
    holder: str
    is_lost: bool


def spans(member: Account) -> list[Span]:
    """Return what a member held, in the order of the ends."""
    found: list[Span] = []
    since: dict[int, float] = {}
    for at_s, (why, owned) in zip(member.changed_s, member.changes, strict=True):
        # An eager assignment is the whole of it: what was held and is held again was never given up.
        gone = sorted(since.keys() - owned)
        found += [Span(partition, since.pop(partition), at_s, member.name, why == "lost") for partition in gone]
        since |= dict.fromkeys(owned - since.keys(), at_s)
    end_s = math.inf if member.ended_s is None else member.ended_s
    return found + [Span(partition, start_s, end_s, member.name, False) for partition, start_s in sorted(since.items())]


def check_single_owner(everyone: Iterable[Account], *, may_lose: Sequence[Account] = ()) -> None:
    """Check that no partition ever had two owners at once; only members in `may_lose` may report a loss.

    So may a member that leaves: Java calls it a loss when a round goes on meanwhile, and ours does too.
    """
    every: list[Span] = []
    for member in everyone:
        found = spans(member)
        left_s = math.inf if member.ended_s is None else member.ended_s
        lost = [span for span in found if span.is_lost and span.end_s < left_s]
        assert not lost or member in may_lose, f"{lost[0].holder} reported as lost {lost[0].partition}"
        every += (span for span in found if not span.is_lost)
    every.sort()
    for before, after in itertools.pairwise(every):
        if before.partition == after.partition:
            both_s = before.end_s - after.start_s
            assert both_s <= 0, f"{before.holder} and {after.holder} both held {before.partition} for {both_s:.3f} s"


def check_repeats(everyone: Sequence[Account]) -> int:
    """Check that what was read again had not been committed when its next holder got the partition; return how many."""
    commits: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for member in everyone:
        for at_s, offsets in member.commits:
            for partition, offset in offsets.items():
                commits[partition].append((at_s, offset))
    for confirmed in commits.values():
        confirmed.sort()
    reads: dict[tuple[int, int], list[tuple[float, Account]]] = defaultdict(list)
    for member in everyone:
        for at_s, row in zip(member.read_s, member.rows, strict=True):
            reads[row[0], row[1]].append((at_s, member))
    repeats = 0
    for (partition, offset), readings in sorted(reads.items()):
        for at_s, member in sorted(readings, key=lambda reading: reading[0])[1:]:
            since_s = _held_since(member, partition, at_s)
            before = commits[partition][: bisect_right(commits[partition], (since_s, 0))]
            committed = max((up_to for _, up_to in before), default=0)
            assert committed <= offset, f"{member.name} read {partition}@{offset} again, committed was {committed}"
            repeats += 1
    return repeats


def _held_since(member: Account, partition: int, at_s: float) -> float:
    return max(span.start_s for span in spans(member) if span.partition == partition and span.start_s <= at_s)


def kept(member: Account, held: Iterable[int], since: int) -> set[int]:
    """Return which of the partitions it has held without a break, over its changes from number `since` on."""
    return set(held).intersection(*(owned for _, owned in member.changes[since:]))


def longest_pause_s(member: Account, partition: int, start_s: float, end_s: float) -> float:
    """Return the longest time in which a member read nothing of a partition."""
    times = [at_s for at_s, partitions in member.reads if partition in partitions and start_s < at_s < end_s]
    return max(after - before for before, after in zip([start_s, *times], [*times, end_s], strict=True))
