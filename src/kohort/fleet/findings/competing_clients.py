"""Rules flapping_instance and zombie_commits: two processes act as one member.

Two members with one group.instance.id fence each other. Two clients that commit for one partition set its offset back
and forth: the coordinator fences members, so the other client is a producer's old transaction, or a program that
commits without membership while the group is empty. A reset of offsets sets each partition back once.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import CommitOf, EventOf, Facts, Finding, are_close, duration_text
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted
from kohort.fleet.schema import HOUR_MS, Evidence

FLAPPING, ZOMBIES = "flapping_instance", "zombie_commits"


def flapping(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find instance ids that changed their member id too often in a short time."""
    taken: dict[str, list[EventOf]] = {}
    for event in facts.of("rejoined"):
        if event.instance:
            taken.setdefault(event.instance, []).append(event)
    for instance, events in sorted(taken.items()):
        if not are_close([event.at_ms for event in events], settings.flaps, settings.flaps_within_ms):
            continue
        hosts = sorted({event.host for event in events if event.host})
        yield facts.finding(
            FLAPPING,
            "critical",
            f"{instance} was taken over {len(events)} times in {duration_text(events[-1].at_ms - events[0].at_ms)}, "
            f"from {counted(len(hosts), 'host')} ({', '.join(hosts[:3])})",
            "two processes have the same group.instance.id, or one is restarted all the time: give each its own",
            since_ms=events[0].at_ms,
            until_ms=events[-1].at_ms,
            value=float(len(events)),
            evidence=[event.evidence() for event in events],
        )


def zombies(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find partitions whose offsets went back again and again within an hour."""
    returns: dict[tuple[str, int], list[CommitOf]] = {}
    for commit in facts.returns:
        returns.setdefault((commit.topic, commit.topic_partition), []).append(commit)
    found = {
        partition: commits
        for partition, commits in sorted(returns.items())
        if are_close([commit.at_ms for commit in commits], settings.zombie_returns, HOUR_MS)
    }
    if not found:
        return
    commits = sorted(commit for each in found.values() for commit in each)
    names = ", ".join(f"{topic}-{number}" for topic, number in list(found)[:3])
    farthest = max(commit.previous - commit.committed_offset for commit in commits)
    yield facts.finding(
        ZOMBIES,
        "critical",
        f"offsets of {names} went back {len(commits)} times, by up to {counted(farthest, 'record')}, "
        "and forward again between",
        "find the other client of this group: an instance that should have ended, or a producer without group metadata",
        since_ms=commits[0].at_ms,
        until_ms=max(commit.at_ms for commit in commits),
        value=float(len(commits)),
        evidence=[_evidence(commit) for commit in commits],
    )


def _evidence(commit: CommitOf) -> Evidence:
    what = f"{commit.topic}-{commit.topic_partition} from {commit.previous} back to {commit.committed_offset}"
    if commit.producer_id is not None:
        what += f" by producer {commit.producer_id}"
    return Evidence(commit.partition, commit.offset, commit.at_ms, what)
