"""Rules rebalance_storm, stuck_group and poll_timeout_loop: rebalances one after another, or one that does not end.

A classic group's log has nothing of a rebalance that does not end: it shows as members without commits. Nor has a log
a reason for a leave. But a consumer stores its `max.poll.interval.ms` as its rebalance timeout, and a member that
misses a poll stays for one such interval after its last poll, which follows its join at once. Repeated stays of that
length, of one client on one host, hardly have another cause. A member of the consumer protocol has the same id as long
as its process runs: under it a member may return at once, as librdkafka's do, which leave only when they poll again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kohort.client.admin.group_descriptions import REBALANCING
from kohort.drawing.display_text import counted
from kohort.fleet.findings.facts import EventOf, Facts, Finding, HourOf, Thresholds, duration_text
from kohort.fleet.schema import HOUR_MS, Evidence

STORM, STUCK = "rebalance_storm", "stuck_group"
ROUNDS = ("generation_formed", "epoch_bumped")
GOINGS = ("left", "evicted")
COMINGS = ("joined", *GOINGS, "rejoined")
WAY = ("epoch_bumped", "target", "revoking", "generation_formed", "joined")


def storm(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find consecutive hours with too many rebalances in each."""
    for hours in _stormy(facts.hours, settings.storm_rebalances_per_hour):
        began_ms, ended_ms = hours[0].hour_ms, hours[-1].hour_ms + HOUR_MS
        rounds = [each for each in facts.of(*ROUNDS) if began_ms <= each.at_ms < ended_ms]
        if not rounds or rounds[-1].at_ms - rounds[0].at_ms < settings.storm_ms:
            continue
        moves = [each for each in facts.of(*COMINGS) if began_ms <= each.at_ms < ended_ms]
        worst = max(hours, key=lambda hour: hour.rebalances)
        total = sum(hour.rebalances for hour in hours)
        since_ms, until_ms = rounds[0].at_ms, rounds[-1].at_ms
        is_on = until_ms > facts.now_ms - HOUR_MS
        in_worst = [each for each in (*rounds, *moves) if worst.hour_ms <= each.at_ms < worst.hour_ms + HOUR_MS]
        yield facts.finding(
            STORM,
            "critical" if is_on else "warning",
            f"{total} rebalances in {duration_text(until_ms - since_ms)}, up to {worst.rebalances} in an hour"
            + _restless(moves),
            "find in that member's log why it ends; group.instance.id or a longer session timeout avoids rebalances",
            since_ms=since_ms,
            value=float(worst.rebalances),
            evidence=sorted(each.evidence() for each in in_worst),
        )._replace(until_ms=until_ms)


def _stormy(hours: Sequence[HourOf], least: int) -> Iterator[list[HourOf]]:
    run: list[HourOf] = []
    for hour in hours:
        if run and (hour.hour_ms != run[-1].hour_ms + HOUR_MS or hour.rebalances < least):
            yield run
            run = []
        if hour.rebalances >= least:
            run.append(hour)
    if run:
        yield run


def _restless(moves: Sequence[EventOf]) -> str:
    """Name the member that caused most changes, if one did."""
    count = Counter(each.instance or each.client_id for each in moves if each.client_id)
    if not count:
        return ""
    (name, most), *_ = count.most_common(1)
    return f"; {name} joined or left in {most} of {len(moves)} changes" if 2 * most > len(moves) else ""


def stuck(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a rebalance, or a time without commits, that lasts too long."""
    if not facts.members:
        return
    yield from _rebalance(facts, settings)
    yield from _without_commits(facts, settings)


def _rebalance(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    since_ms = facts.running_since_ms
    if since_ms is None or facts.state not in REBALANCING or facts.now_ms - since_ms < settings.stuck_rebalance_ms:
        return
    way = [each for each in facts.of(*WAY) if each.at_ms >= since_ms]
    who = _revoking(facts, since_ms)
    waits = f": it waits for {', '.join(who[:3])} to revoke partitions" if who else ""
    yield facts.finding(
        STUCK,
        "critical",
        f"a rebalance has been running for {duration_text(facts.now_ms - since_ms)}{waits}",
        "restart the member that delays it; with a shorter max.poll.interval.ms it would have been evicted",
        since_ms=since_ms,
        value=(facts.now_ms - since_ms) / 1000,
        evidence=[each.evidence() for each in way],
    )


def _revoking(facts: Facts, since_ms: int) -> list[str]:
    """Return the members that have been asked to revoke partitions since then, and have not done so."""
    asked: dict[str | None, str] = {}
    for each in facts.of("revoking", "revoked", *GOINGS):
        if each.at_ms < since_ms:
            continue
        if each.event == "revoking":
            asked[each.member] = each.client_id or each.member or ""
        else:
            asked.pop(each.member, None)
    return sorted(set(asked.values()))


def _without_commits(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    last_ms = facts.last_commit_ms
    if (
        last_ms is None
        or len(facts.hours_with_commits) < settings.stuck_hours_with_commits
        or facts.state in REBALANCING
    ):
        return
    if facts.lag == 0:  # nothing to commit
        return
    silence_ms = facts.now_ms - last_ms
    if silence_ms < max(settings.stuck_silence_ms, settings.stuck_silence_factor * facts.longest_silence_ms):
        return
    last = Evidence(facts.partition, facts.last_offset, last_ms, "the last commit, or the last record after it")
    yield facts.finding(
        STUCK,
        "critical",
        f"{counted(facts.members, 'member')} and no commit for {duration_text(silence_ms)}; "
        f"before, it was never longer than {duration_text(facts.longest_silence_ms)}",
        "check its members: in the classic protocol a rebalance that one of them delays leaves no other trace",
        since_ms=last_ms,
        value=silence_ms / 1000,
        evidence=[last],
    )


LOOP = "poll_timeout_loop"
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


def loop(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
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
            LOOP,
            "warning",
            f"{client_id} on {host} left {len(longest)} times when its max.poll.interval.ms of "
            f"{duration_text(interval_ms)} was over, and joined again each time",
            "the records of one poll take too long: set a smaller max.poll.records, or a longer max.poll.interval.ms",
            since_ms=longest[0].joined.at_ms,
            value=float(len(longest)),
            evidence=[each.evidence() for stay in longest for each in (stay.joined, stay.left)],
        )._replace(until_ms=longest[-1].left.at_ms)


def _stays(facts: Facts) -> dict[tuple[str, str], list[Stay]]:
    """Return the finished stays of each client on each host."""
    joined: dict[str, EventOf] = {}
    found: dict[tuple[str, str], list[Stay]] = {}
    for event in facts.of("joined", *GOINGS):
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
