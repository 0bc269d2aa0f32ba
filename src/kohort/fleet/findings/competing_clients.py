"""Rules flapping_instance, zombie_commits and rewound_offsets: two processes act as one member, or offsets went back.

Two members with one group.instance.id fence each other. Two clients that commit for one partition set its offset back
and forth. The coordinator fences members, so in a group with members the other client is a member itself, or a producer
without group metadata. In a group without members any client may commit: a tool that resets offsets, a consumer that
assigns its partitions itself, or a reader of a topic that was made anew. The log does not distinguish them, so what
went back there, or seldom, is only reported as seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.drawing.display_text import counted
from kohort.fleet.findings.facts import CommitOf, EventOf, Facts, Finding, Thresholds, are_close, duration_text
from kohort.fleet.schema import HOUR_MS, Evidence

FLAPPING, ZOMBIES, REWOUND = "flapping_instance", "zombie_commits", "rewound_offsets"


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
            value=float(len(events)),
            evidence=[event.evidence() for event in events],
        )._replace(until_ms=events[-1].at_ms)


def rewound(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find partitions whose offsets went back: again and again while the group had members, or otherwise."""
    by_members: dict[tuple[str, int], list[CommitOf]] = {}
    for commit in facts.returns:
        if facts.had_members(commit.at_ms, commit.offset):
            by_members.setdefault((commit.topic, commit.topic_partition), []).append(commit)
    found = [
        commit
        for commits in by_members.values()
        if are_close([commit.at_ms for commit in commits], settings.zombie_returns, HOUR_MS)
        for commit in commits
    ]
    if found:
        advice = "an instance that should have ended, or a producer without group metadata"
        remark = ", and forward again between"
        yield _rewound(facts, found, ZOMBIES, "critical", remark, f"find the other client of this group: {advice}")
    if others := [commit for commit in facts.returns if commit not in found]:
        owners = "members" if any(facts.had_members(each.at_ms, each.offset) for each in others) else "no members"
        remark = f", while it had {owners}: by a reset, for a topic that was made anew, or by a client that went back"
        yield _rewound(facts, others, REWOUND, "info", remark, "nothing, if it was on purpose: records are read again")


def _rewound(facts: Facts, commits: list[CommitOf], name: str, severity: str, remark: str, advice: str) -> Finding:
    commits = sorted(commits)
    names = list(dict.fromkeys(f"{topic}-{number}" for topic, number in sorted({each[3:5] for each in commits})))
    farthest = max(commit.previous - commit.committed_offset for commit in commits)
    return facts.finding(
        name,
        severity,
        f"offsets of {', '.join(names[:3])} went back {counted(len(commits), 'time')}, "
        f"by up to {counted(farthest, 'record')}{remark}",
        advice,
        since_ms=min(commit.at_ms for commit in commits),
        value=float(len(commits)),
        evidence=[_evidence(commit) for commit in commits],
    )._replace(until_ms=max(commit.at_ms for commit in commits))


def _evidence(commit: CommitOf) -> Evidence:
    what = f"{commit.topic}-{commit.topic_partition} from {commit.previous} back to {commit.committed_offset}"
    if commit.producer_id is not None:
        what += f" by producer {commit.producer_id}"
    return Evidence(commit.partition, commit.offset, commit.at_ms, what)
