"""Rule poll_timeout_loop: a member repeatedly exceeds max.poll.interval.ms, leaves and rejoins.

A log has no reason for a leave. But a consumer stores its `max.poll.interval.ms` as its rebalance timeout, and a member
that misses a poll stays for one such interval after its last poll, which follows its join at once. Repeated stays of
that length, of one client on one host, hardly have another cause. A member of the consumer protocol has the same id as
long as its process runs: under it a member may return at once, as librdkafka's do, which leave only when they poll
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kohort.fleet.findings.facts import EventOf, Facts, Finding, duration_text
from kohort.fleet.findings.thresholds import Thresholds

NAME = "poll_timeout_loop"
LEAST_STAY = 0.95
"""A stay is a little shorter than the interval, because of clocks and heartbeats."""


class Stay(NamedTuple):
    """One membership of a client."""

    joined: EventOf
    left: EventOf
    interval_ms: int

    @property
    def length_ms(self) -> int:
        """Its duration."""
        return self.left.at_ms - self.joined.at_ms


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find clients whose memberships last one poll interval."""
    for (client_id, host), stays in sorted(_stays(facts).items()):
        times = Counter(stay.joined.member for stay in stays)
        run: list[Stay] = []
        longest: list[Stay] = []
        for stay in stays:
            if run and not _follows(run[-1], stay, settings):
                run = []
            comes_back = times[stay.joined.member] > 1
            run = [*run, stay] if _is_timeout(stay, settings, comes_back=comes_back) else []
            longest = max(longest, run, key=len)
        if not _is_loop(longest, settings):
            continue
        interval_ms = longest[-1].interval_ms
        yield facts.finding(
            NAME,
            "warning",
            f"{client_id} on {host} left {len(longest)} times when its max.poll.interval.ms of "
            f"{duration_text(interval_ms)} was over, and joined again each time",
            "the records of one poll take too long: set a smaller max.poll.records, or a longer max.poll.interval.ms",
            since_ms=longest[0].joined.at_ms,
            until_ms=longest[-1].left.at_ms,
            value=float(len(longest)),
            evidence=[each.evidence() for stay in longest for each in (stay.joined, stay.left)],
        )


def _stays(facts: Facts) -> dict[tuple[str, str], list[Stay]]:
    """Return the finished stays of each client on each host."""
    joined: dict[str, EventOf] = {}
    found: dict[tuple[str, str], list[Stay]] = {}
    for event in facts.of("joined", "left", "evicted"):
        member = event.member or ""
        if event.event == "joined":
            joined[member] = event
            continue
        began = joined.pop(member, None)
        interval_ms = began.details.get("rebalance_timeout_ms") if began is not None else None
        if began is not None and interval_ms:
            who = began.client_id or "", began.host or ""
            found.setdefault(who, []).append(Stay(began, event, int(interval_ms)))
    return found


def _is_timeout(stay: Stay, settings: Thresholds, *, comes_back: bool) -> bool:
    """Whether a stay lasted a poll interval; a member that leaves when it polls again stays for its absence too."""
    most = settings.loop_absence_most if comes_back else settings.loop_stay_most
    return LEAST_STAY * stay.interval_ms <= stay.length_ms <= most * stay.interval_ms


def _follows(before: Stay, stay: Stay, settings: Thresholds) -> bool:
    """Whether a client left before it rejoined: a crashed one was still a member when its next process joined."""
    absence_ms = stay.joined.at_ms - before.left.at_ms
    is_same = stay.joined.member == before.joined.member
    return (
        (0 if is_same else settings.loop_absence_least_ms)
        <= absence_ms
        <= settings.loop_absence_most * stay.interval_ms
    )


def _is_loop(stays: list[Stay], settings: Thresholds) -> bool:
    last = settings.loop_stays - 1
    return any(
        later.left.at_ms - first.joined.at_ms <= settings.loop_within_ms
        for first, later in zip(stays, stays[last:], strict=False)
    )
