"""Reports made by hand: a fleet of any size out of a seed, with groups that storm, starve or carry hostile names."""

from __future__ import annotations

from random import Random

from kohort.fleet.report.fleet_report import (
    BlockingReason,
    FindingLine,
    FleetReport,
    GroupKey,
    GroupLine,
    HeatRow,
    Readiness,
    ReportInput,
    ReportLimits,
    RuleFindings,
    Span,
    Timeline,
    TimelineRow,
    Totals,
    columns_of,
    severity_rank,
)
from kohort.fleet.schema import HOUR_MS, Evidence

START_MS = 1_793_664_000_000
"""3 November 2026 00:00 UTC."""

SCRIPT = "</script><script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
TURNED = "billing\u202egnillib"
RIGHT_TO_LEFT = "מחלקת-חיובים"
LONG = "payments-" * 1_138
HOSTILE = (SCRIPT, IMAGE, TURNED, RIGHT_TO_LEFT, LONG, "", "a\x00b\x1b[31m", "'; --", "&lt;b&gt;", "\u2028]]>")

_RULES = (
    (
        "rebalance_storm",
        "critical",
        "rebalanced {n} times in an hour, each time because {m} was evicted after 45 s",
        "raise session.timeout.ms, and look at why the members' machines stall",
    ),
    ("stuck_group", "critical", "has been preparing a rebalance for {n} minutes; {m} does not rejoin", "restart {m}"),
    (
        "poll_timeout_loop",
        "warning",
        "loses {m} every {n} minutes: its poll loop takes longer than max.poll.interval.ms",
        "poll fewer records at once (max.poll.records), or raise max.poll.interval.ms",
    ),
    ("idle_members", "warning", "has {n} members more than partitions", "stop {n} members, or add partitions"),
    ("eager_group", "info", "would lose 96 % less time with the consumer protocol", "set group.protocol=consumer"),
)


def report(groups: int = 60, seed: int = 7, hours: int = 72, hostile: bool = True) -> FleetReport:
    """Return the report of a fleet; the first of its groups have hostile names by default."""
    draw = Random(seed)
    limits = ReportLimits()
    columns = columns_of(START_MS, START_MS + hours * HOUR_MS)
    names = [*(HOSTILE if hostile else ()), *(f"team-{draw.randrange(40)}-service-{n}" for n in range(groups))][:groups]
    keys = [GroupKey("prod-a", name) for name in names]
    lines = [_line(draw, key, place, columns.count) for place, key in enumerate(keys)]
    lines.sort(key=lambda line: (severity_rank(line.severity), -line.unowned_s))
    heat = sorted(
        (HeatRow(line.key, _spread(line, columns.count)) for line in lines), key=lambda row: -sum(row.rebalances)
    )
    ranked = sorted(((line.key, line.unowned_s) for line in lines if line.unowned_s), key=lambda each: -each[1])
    fleet = tuple(sum(row.rebalances[column] for row in heat) for column in range(columns.count))
    busy = [row for row in heat if sum(row.rebalances)]
    return FleetReport(
        made_at_ms=columns.until_ms,
        columns=columns,
        totals=Totals(
            len(lines), sum(line.members for line in lines), sum(line.partitions for line in lines),
            (("classic", groups - groups // 4), ("consumer", groups // 4)), (("Stable", groups),), sum(fleet), 3,
            sum(line.unowned_s for line in lines), sum(line.commits for line in lines), 120_000,
            tuple((name, sum(line.severity == name for line in lines)) for name in ("critical", "warning", "info")),
        ),
        rules=tuple(_rule(draw, rule, lines, limits) for rule in _RULES) if lines else (),
        further=(),
        fleet_rebalances=fleet,
        heat=tuple(busy[: limits.heat_groups]),
        heat_left_out=(len(busy[limits.heat_groups :]), sum(sum(row.rebalances) for row in busy[limits.heat_groups :])),
        ranking=tuple(ranked[: limits.ranked_groups]),
        ranking_left_out=(len(ranked[limits.ranked_groups :]), sum(each for _, each in ranked[limits.ranked_groups :])),
        timelines=tuple(_timeline(draw, key) for key, _ in ranked[: min(limits.timelines, groups)]),
        readiness=Readiness(
            groups // 4, groups // 2, groups // 8, groups - groups // 4 - groups // 2 - groups // 8,
            (_reason(keys, groups // 8),), 0,
        ),
        groups=tuple(lines[: limits.groups]),
        read=ReportInput(
            ("prod-a",), 1_204_331, 40_112, (("offset commit", 1_100_000), ("group metadata", 104_331)),
            (("CRC does not match", 3),), 0,
        ),
        limits=limits,
    )  # fmt: skip


def _line(draw: Random, key: GroupKey, place: int, columns: int) -> GroupLine:
    severity = "critical" if place < 4 else "warning" if place < 14 else "info" if draw.random() < 0.3 else None
    rebalances = draw.randrange(80, 300) if place < 4 else draw.randrange(40) if place < 30 else draw.randrange(3)
    spread = sorted({draw.randrange(columns): 0 for _ in range(min(rebalances, columns))})
    share, rest = divmod(rebalances, max(1, len(spread)))
    activity = tuple((column, share + (at < rest)) for at, column in enumerate(spread))
    return GroupLine(
        key, "classic" if place % 4 else "consumer", "Stable", draw.randrange(1, 40), draw.randrange(1, 96),
        (f"orders-{draw.randrange(30)}", "payments"), "range" if place % 4 else "uniform", ("range", "roundrobin"),
        rebalances, rebalances // 40, draw.randrange(60_000), round(rebalances * draw.random() * 40, 1), rebalances * 7,
        draw.randrange(90_000), draw.randrange(4_000) if place % 3 else None, 0.5 if place % 5 else None, START_MS,
        START_MS + 40 * HOUR_MS, START_MS + 40 * HOUR_MS, severity, 1 if severity else 0, activity,
    )  # fmt: skip


def _spread(line: GroupLine, columns: int) -> tuple[int, ...]:
    counts = dict(line.activity)
    return tuple(counts.get(column, 0) for column in range(columns))


def _rule(draw: Random, rule: tuple[str, str, str, str], lines: list[GroupLine], limits: ReportLimits) -> RuleFindings:
    name, severity, sentence, advice = rule
    concerned = [line for line in lines if line.severity == severity] or lines[:1]
    shown = []
    for line in concerned[: limits.findings_of_a_rule]:
        member = f"{draw.choice(('worker', 'reader'))}-{draw.randrange(9)}"
        text, todo = (each.format(n=draw.randrange(3, 90), m=member) for each in (sentence, advice))
        at_ms = START_MS + draw.randrange(72) * HOUR_MS
        evidence = tuple(
            Evidence(draw.randrange(50), draw.randrange(10**7), at_ms + n * 60_000, f"generation {n} without {member}")
            for n in range(4)
        )
        shown.append(
            FindingLine(
                line.key, name, severity, f"{line.key.group} {text}", todo, at_ms, at_ms + HOUR_MS, 3.0, evidence, 9
            )
        )
    return RuleFindings(name, ((severity, len(concerned)),), len(concerned), tuple(shown))


def _reason(keys: list[GroupKey], groups: int) -> BlockingReason:
    return BlockingReason(
        "move it to Kafka's assignors first", "its assignor range-by-hand sends bytes", groups, tuple(keys[:3])
    )


def _timeline(draw: Random, key: GroupKey) -> Timeline:
    members = [f"worker-{n}-{draw.randrange(16**6):06x}" for n in range(draw.randrange(3, 11))]
    rows = []
    for partition in range(draw.randrange(4, 13)):
        spans, at_ms = [], START_MS
        while at_ms < START_MS + HOUR_MS:
            until_ms = min(START_MS + HOUR_MS, at_ms + draw.randrange(200_000, 1_500_000))
            spans.append(Span(draw.choice(members), at_ms, until_ms))
            at_ms = until_ms + draw.choice((0, 0, 3_000, 45_000))
        rows.append(TimelineRow(f"orders-{partition}", tuple(spans)))
    return Timeline(key, START_MS, START_MS + HOUR_MS, tuple(rows), draw.randrange(3), 0)
