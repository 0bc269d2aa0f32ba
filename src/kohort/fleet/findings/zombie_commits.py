"""Rule zombie_commits: two clients commit for one partition, so that its offset goes back and forth.

The coordinator fences members, so the other client is a producer's old transaction, or a program that commits without
membership while the group is empty. A reset of offsets sets each partition back once.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import CommitOf, Evidence, Facts, Finding, are_close
from kohort.fleet.findings.thresholds import HOUR_MS, Thresholds
from kohort.fleet.report.wording import counted

NAME = "zombie_commits"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
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
        NAME,
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
