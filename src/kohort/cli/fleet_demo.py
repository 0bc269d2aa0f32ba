"""`kohort fleet generate` and `kohort fleet demo`: a fleet whose ills are known, and how many of them are found."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from kohort.cli.fleet_session import are_short, guarded, opened, require_packages, started, writable
from kohort.cli.fleet_tables import findings_of
from kohort.cli.fleet_work import inputs_of, piped, summary_json, told_report, write_report
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.fleet.report.wording import counted

if TYPE_CHECKING:
    from kohort.fleet.generator import Score, Truth
    from kohort.fleet.report.fleet_report import FleetReport


@guarded
def run_generate(args: argparse.Namespace) -> int:
    """Write the log of a fleet."""
    truth = generated(args.directory, args)
    if args.json:
        output.put_json({"directory": str(args.directory), "groups": len(truth.groups), "records": truth.records})
    else:
        output.put(f"{args.directory}: {len(truth.groups):,} groups, {truth.records:,} records")
        output.put(f"read it with: kohort fleet run --tables DIR made={args.directory}")
    return 0


def generated(directory: Path, args: argparse.Namespace) -> Truth:
    """Write the log of a fleet, and tell how long it took. Raises CommandFailed where the directory is not empty."""
    from kohort.fleet.generator import generate

    output.remark(f"making the log of {counted(args.groups, 'group')}, each a copy of a story that is played first")
    began = time.monotonic()
    with output.Meter("making the log", unit="stories and groups") as meter:

        def advanced(done: int, total: int) -> None:
            meter.total = total
            meter.advance(done - meter.count)

        try:
            truth = generate(directory, groups=args.groups, seed=args.seed, days=args.days, progress=advanced)
        except ValueError as wrong:
            raise CommandFailed(str(wrong), USAGE) from None
    output.remark(f"made {len(truth.groups):,} groups: {time.monotonic() - began:.1f} s")
    return truth


@guarded
def run_demo(args: argparse.Namespace) -> int:
    """Make a fleet, read it, find what is wrong with it, and write the report."""
    require_packages()
    log, directory, page = args.out / "log", args.out / "tables", args.out / "report.html"
    opened(directory, must_hold=False)
    for made in (log, directory):  # of an earlier demo, and nothing else: a demo begins anew
        if (made / "truth.json").exists() or (made / "state").is_dir():
            rmtree(made)
    args.out.mkdir(parents=True, exist_ok=True)
    writable(page)
    truth = generated(log, args)
    tables = opened(directory, must_hold=False)
    inputs = inputs_of([f"demo={log}"], None)
    with started(args, is_short=are_short(inputs)) as session:
        summary = piped(session, inputs, tables)
        report = told_report(session, tables)
    write_report(page, report, is_shown=args.open)
    scores = truth.score({(row["group"], row["finding"]) for row in findings_of(tables, columns=("group", "finding"))})
    if args.json:
        from kohort.fleet.report.summary import headline

        written = summary_json(summary, page)
        output.put_json({**written, "headline": headline(report), "scores": [score_json(each) for each in scores]})
        return 0
    put_demo(report, scores)
    output.put(
        f"\n{summary.records:,} records of {len(truth.groups):,} groups in {sum(summary.seconds.values()):.1f} s"
    )
    output.put(f"report: {page}")
    return 0


def put_demo(report: FleetReport, scores: Sequence[Score]) -> None:
    """Print what is wrong, and how much of it was known to be."""
    from kohort.fleet.report.summary import headline, points
    from kohort.fleet.report.wording import shown_name

    output.put(headline(report))
    for point in points(report)[0]:
        where = ", ".join(shown_name(key.group) for key in point.groups[:1])
        more = len(point.groups) - 1 + point.more_groups
        output.put(f"  {point.severity:8}  {point.title}: {where}" + (f" and {more:,} more" if more else ""))
    output.put("")
    rows = [
        (score.finding, score.right, score.wrong, score.missed, *shares(score), score.near_misses, score.fooled)
        for score in scores
    ]
    columns = ("finding", "right", "wrong", "missed", "precision", "recall", "near misses", "fooled by")
    output.put(output.table(columns, rows, empty="nothing was found"))


def shares(score: Score) -> tuple[str, str]:
    """Return precision and recall as they are printed."""
    return f"{score.precision:.3f}", f"{score.recall:.3f}"


def score_json(score: Score) -> dict[str, Any]:
    """Return how a finding did, as JSON."""
    return {
        "finding": score.finding,
        "right": score.right,
        "wrong": score.wrong,
        "missed": score.missed,
        "precision": score.precision,
        "recall": score.recall,
        "near_misses": score.near_misses,
        "fooled": score.fooled,
    }
