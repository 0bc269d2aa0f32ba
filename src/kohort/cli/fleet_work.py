"""`kohort fleet run` and `kohort fleet report`: from logs to tables, and from tables to a page."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.fleet_progress import Stages
from kohort.cli.fleet_session import are_short, guarded, have_little, opened, started, writable
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import CONFIG_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.fleet.inputs import Input
    from kohort.fleet.pipeline import RunSummary
    from kohort.fleet.report.fleet_report import FleetReport
    from kohort.fleet.tables import Tables


@guarded
def run_run(args: argparse.Namespace) -> int:
    """Read what is new into the tables."""
    tables = opened(args.tables, must_hold=False)
    inputs = inputs_of(args.inputs, args.properties)
    writable(args.report)
    with started(args, is_short=are_short(inputs) and have_little(tables)) as session:
        summary = piped(session, inputs, tables)
        report = None if args.report is None else told_report(session, tables)
    if report is not None:
        write_report(args.report, report, is_shown=args.open)
    if args.json:
        output.put_json(summary_json(summary, args.report))
        return 0
    put_summary(summary, args.tables)
    if report is not None:
        output.put(f"report: {args.report}")
    return 0


def inputs_of(given: Sequence[str], properties: str | None) -> list[Input]:
    """Return what the inputs are. Raises CommandFailed where one is nothing that can be read."""
    from kohort.fleet.inputs import WrongInput, parse_inputs

    path = properties or os.environ.get(CONFIG_VARIABLE)
    settings: Mapping[str, str] = {}
    if path:
        from kohort.client.config_file import read_properties

        try:
            settings = read_properties(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise CommandFailed(f"{path}: {error}", USAGE) from None
    try:
        return parse_inputs(given, settings)
    except (WrongInput, ValueError) as wrong:
        raise CommandFailed(str(wrong), USAGE) from None


def piped(session: SparkSession, inputs: Sequence[Input], tables: Tables) -> RunSummary:
    """Run the pipeline and tell its stages."""
    from kohort.fleet import pipeline
    from kohort.fleet.tables import TablesBusy

    try:
        with Stages(session) as stages:
            return pipeline.run(session, inputs, tables, progress=stages)
    except TablesBusy as busy:
        raise CommandFailed(str(busy)) from None


def put_summary(summary: RunSummary, directory: Path) -> None:
    """Print what a run did."""
    if not summary.is_new:
        output.put(f"nothing new: {directory} stays as run {summary.run} left it")
        return
    took = sum(summary.seconds.values())
    output.put(f"run {summary.run}: {summary.records:,} records in {took:.1f} s, {summary.findings:,} findings")
    if summary.quarantined:
        output.put(f"{summary.quarantined:,} could not be read and were put aside: see bronze/quarantine")


def summary_json(summary: RunSummary, report: Path | None) -> dict[str, Any]:
    """Return what a run did, as JSON."""
    return {
        "run": summary.run,
        "is_new": summary.is_new,
        "records": summary.records,
        "quarantined": summary.quarantined,
        "findings": summary.findings,
        "seconds": summary.seconds,
        "positions": {
            source: {str(partition): offset for partition, offset in sorted(offsets.items())}
            for source, offsets in sorted(summary.positions.items())
        },
        "report": None if report is None else str(report),
    }


@guarded
def run_report(args: argparse.Namespace) -> int:
    """Write what the tables say."""
    tables = opened(args.tables, must_hold=True)
    out: Path | None = args.out or (None if args.json else Path("fleet.html"))
    writable(out)
    with started(args, is_short=have_little(tables)) as session:
        report = told_report(session, tables)
    if out is not None:
        write_report(out, report, is_shown=args.open)
    if args.json:
        from kohort.fleet.report.report_json import document

        output.put_json(document(report))
        return 0
    from kohort.fleet.report.summary import headline

    output.put(headline(report))
    output.put(f"report: {out}")
    return 0


def told_report(session: SparkSession, tables: Tables) -> FleetReport:
    """Gather a report, and tell how long it took."""
    from kohort.fleet.report.report_queries import Frames, gather

    with Stages(session) as stages:
        stages("report")
        return gather(Frames.read(session, tables), now_ms=round(time.time() * 1000))


def write_report(path: Path, report: FleetReport, *, is_shown: bool) -> None:
    """Write a report as what its name says, whole or not at all."""
    if path.suffix.lower() == ".json":
        from kohort.fleet.report.report_json import document

        text = json.dumps(document(report), ensure_ascii=False, indent=1) + "\n"
    else:
        from kohort.fleet.report.page import page

        text = page(report)
    beside = path.with_name(f".{path.name}.next")
    beside.write_text(text, encoding="utf-8", errors="backslashreplace")
    beside.replace(path)
    if is_shown:
        import webbrowser

        if not webbrowser.open(path.absolute().as_uri()):
            output.remark(f"no browser could be started: open {path} in one")
