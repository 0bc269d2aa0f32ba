"""`kohort fleet run|report|findings|tables|demo`.

`run` reads `__consumer_offsets` into tables, `report` writes a page, `findings` and `tables` print the tables with
pyarrow, without Spark, and `demo` is all of it in one command, on the recorded log of a fleet with known faults.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from kohort.cli.fleet.fleet_session import (
    Stages,
    guarded,
    opened,
    properties_of,
    require_packages,
    tasks_of,
    writable,
)
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed, unknown
from kohort.cli.terminal.options import CONFIG_VARIABLE, add_json, add_option, number, setting, verb, verb_of_verbs
from kohort.cli.terminal.record_lines import iso_time

if TYPE_CHECKING:
    from kohort.fleet.ground_truth import Score
    from kohort.fleet.inputs.input_splits import Input
    from kohort.fleet.pipeline import RunSummary
    from kohort.fleet.report.fleet_report import FleetReport
    from kohort.fleet.tables import Tables


WORST_FIRST = ("critical", "warning", "info")

RUN = """
kohort fleet run --tables ./fleet prod=kafka-1:9092,kafka-2:9092 --command-config prod.properties
kohort fleet run --tables ./fleet /var/lib/kafka/data --report fleet.html
kohort fleet run --tables ./fleet eu=eu.dump.gz us=us.dump.gz --json
"""
REPORT = """
kohort fleet report --tables ./fleet --out fleet.html --open
kohort fleet report --tables ./fleet --json | jq .headline
"""
FINDINGS = """
kohort fleet findings --tables ./fleet
kohort fleet findings --tables ./fleet --severity critical --evidence
kohort fleet findings --tables ./fleet --finding idle_members --json | jq .[].group
"""
TABLES = """
kohort fleet tables --tables ./fleet
kohort fleet tables --tables ./fleet --json
"""
DEMO = """
kohort fleet demo
kohort fleet demo --out build/demo --open
"""


def register(verbs: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add `fleet` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "fleet", "analyse all groups of a cluster, and find those that need action")
    _register_run(inner)
    summary = "write a report of the tables as one self-contained HTML page, or as JSON"
    report = verb(inner, "report", summary, run=run_report, examples=REPORT)
    _add_tables(report)
    add_option(report, "--out FILE", "default: fleet.html; or a .json file", page_or_json)
    _add_open(report)
    add_json(report, "the report as one JSON document and write no page, unless --out names one")
    _register_findings(inner)
    summary = "list the tables of a fleet: rows, files and bytes, and how far each source has been read"
    tables = verb(inner, "tables", summary, run=run_tables, examples=TABLES)
    _add_tables(tables)
    add_json(tables)
    summary = "read the log of a recorded fleet, find what is wrong with it, and write the report: all in one"
    demo = verb(inner, "demo", summary, run=run_demo, examples=DEMO)
    add_option(demo, "--out DIR", "default: build/fleet", Path, default=Path("build/fleet"))
    add_option(demo, "--tables WHERE", "a new place for the tables (default: tables in --out)")
    _add_storage(demo)
    _add_open(demo)
    _add_spark(demo)
    add_json(demo)


def _register_run(inner: argparse._SubParsersAction[ArgumentParser]) -> None:
    summary = "read what is new of __consumer_offsets into tables, and find what is wrong with the groups"
    parser = verb(inner, "run", summary, run=run_run, examples=RUN)
    _add_tables(parser, has_runs=False)
    parser.add_argument(
        "inputs",
        metavar="INPUT",
        nargs="+",
        help="[NAME=]WHERE: a cluster as HOST:PORT[,HOST:PORT], a broker's data directory, segment files, what "
        "kafka-dump-log or kohort log export printed, a broker's own log, or metrics of members; NAME is the "
        "source of its groups (default: the cluster's id, or the file's name)",
    )
    # Not add_cluster: a cluster is one of the inputs here, and there may be several.
    add_option(
        parser,
        "--command-config FILE",
        f"how clusters let one in, with Kafka's names (default: ${CONFIG_VARIABLE})",
        dest="properties",
    )
    add_option(parser, "--report FILE", "write the report too, .html or .json", page_or_json)
    _add_open(parser, " (with --report)")
    _add_spark(parser)
    add_json(parser)


def _register_findings(inner: argparse._SubParsersAction[ArgumentParser]) -> None:
    summary = "print the findings, the worst first"
    parser = verb(inner, "findings", summary, run=run_findings, examples=FINDINGS)
    _add_tables(parser)
    add_option(parser, "--severity", "only this, or worse", choices=WORST_FIRST)
    add_option(parser, "--finding NAME", "only the findings of this rule")
    add_option(parser, "--group GROUP", "only of this group")
    add_option(parser, "--evidence", "with the records that prove it")
    add_option(parser, "--max N", "only the first N", number(1, "a number of findings"))
    add_json(parser, "an array of findings with their evidence")


def _add_tables(parser: ArgumentParser, *, has_runs: bool = True) -> None:
    where = "where the tables of the fleet are: a directory, or a URL such as s3://bucket/prefix"
    add_option(parser, "--tables WHERE", where, required=True)
    _add_storage(parser)
    if has_runs:
        of_run = "the tables as this run left them (default: the last one)"
        add_option(parser, "--run N", of_run, number(1, "the number of a run"), dest="of_run")


def _add_storage(parser: ArgumentParser) -> None:
    add_option(
        parser,
        "--storage-config FILE",
        "properties with the options of an object store, such as AWS_ENDPOINT_URL (default: the environment)",
    )


def _add_open(parser: ArgumentParser, when: str = "") -> None:
    add_option(parser, "--open", f"show the page in a browser{when}")


def _add_spark(parser: ArgumentParser) -> None:
    where = "of Spark, whose executors do the work (default: processes of this machine)"
    add_option(parser, "--master MASTER", where)
    add_option(parser, "--conf NAME=VALUE", "a setting of Spark; may repeat", setting, action="append", default=[])


def page_or_json(text: str) -> Path:
    """Return the path of a report, whose suffix makes it a page or JSON."""
    path = Path(text)
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ArgumentTypeError(f"{text!r} is neither .html nor .json")
    return path


@guarded
def run_run(args: argparse.Namespace) -> int:
    """Read what is new into the tables."""
    tables = opened(args, must_exist=False)
    from kohort.fleet.bronze import has_unread
    from kohort.fleet.pipeline import RunSummary

    inputs = inputs_of(args.inputs, args.properties)
    writable(args.report)
    report = None
    if args.report is None and not has_unread(inputs, tables.positions):
        summary = RunSummary(tables.run, positions=tables.positions)
    else:
        summary = piped(args, inputs, tables)
        report = None if args.report is None else gathered_report(tables)
    if report is not None:
        write_report(args.report, report, is_shown=args.open)
    if args.json:
        output.put_json(summary_json(summary, args.report))
        return 0
    put_summary(summary, tables)
    if report is not None:
        output.put(f"report: {args.report}")
    return 0


def inputs_of(given: Sequence[str], properties: str | None) -> list[Input]:
    """Return the inputs. Raises CommandFailed where one cannot be read."""
    from kohort.fleet.inputs.input_kinds import parse_inputs
    from kohort.fleet.inputs.input_splits import WrongInput

    path = properties or os.environ.get(CONFIG_VARIABLE)
    try:
        return parse_inputs(given, properties_of(path or None))
    except (WrongInput, ValueError) as wrong:
        raise CommandFailed(str(wrong), USAGE) from None


def piped(args: argparse.Namespace, inputs: Sequence[Input], tables: Tables) -> RunSummary:
    """Run the pipeline and print its stages."""
    from kohort.fleet import pipeline

    with tasks_of(args) as tasks, Stages(tasks) as stages:
        return pipeline.run(inputs, tables, tasks=tasks, progress=stages)


def put_summary(summary: RunSummary, tables: Tables) -> None:
    """Print what a run did."""
    if not summary.is_new:
        output.put(f"nothing new: {tables} stays as run {summary.run} left it")
        return
    took = sum(summary.seconds.values())
    output.put(f"run {summary.run}: {summary.records:,} records in {took:.1f} s, {summary.findings:,} findings")
    if summary.quarantined:
        output.put(f"{summary.quarantined:,} records could not be read: see bronze/quarantine")


def summary_json(summary: RunSummary, report: Path | None) -> dict[str, Any]:
    """Return what a run did, as JSON."""
    return {
        "run": summary.run,
        "is_new": summary.is_new,
        "records": summary.records,
        "quarantined": summary.quarantined,
        "findings": summary.findings,
        "seconds": summary.seconds,
        "positions": positions_json(summary.positions),
        "report": None if report is None else str(report),
    }


def positions_json(positions: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    """Return how far each partition of each source has been read, in order."""
    return {source: dict(sorted(offsets.items())) for source, offsets in sorted(positions.items())}


@guarded
def run_report(args: argparse.Namespace) -> int:
    """Write a report of the tables."""
    tables = opened(args, must_exist=True)
    out: Path | None = args.out or (None if args.json else Path("fleet.html"))
    writable(out)
    report = gathered_report(tables)
    if out is not None:
        write_report(out, report, is_shown=args.open)
    if args.json:
        from kohort.fleet.report.fleet_report import document

        output.put_json(document(report))
        return 0
    from kohort.fleet.report.fleet_report import headline

    output.put(headline(report))
    output.put(f"report: {out}")
    return 0


def gathered_report(tables: Tables) -> FleetReport:
    """Gather a report, and print how long it took."""
    require_packages()
    from kohort.fleet.report.report_queries import gather

    with Stages() as stages:
        stages("report")
        return gather(lambda table: tables.rows(table).dataset(), now_ms=round(time.time() * 1000))


def write_report(path: Path, report: FleetReport, *, is_shown: bool) -> None:
    """Write a report as a page or JSON by its suffix, atomically."""
    if path.suffix.lower() == ".json":
        from kohort.fleet.report.fleet_report import document

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


@guarded
def run_findings(args: argparse.Namespace) -> int:
    """Print the findings, the worst first."""
    from kohort.fleet.report.fleet_report import severity_rank
    from kohort.fleet.schema import FINDINGS

    rows = opened(args, must_exist=True).small_rows(FINDINGS)
    if args.finding is not None and all(row["finding"] != args.finding for row in rows):
        from kohort.fleet.findings.rules import NAMES

        if args.finding not in NAMES:
            raise unknown("finding", args.finding, NAMES, f"there are {', '.join(NAMES)}")
    chosen = [
        row
        for row in rows
        if severity_rank(row["severity"]) <= severity_rank(args.severity)
        and (args.finding is None or row["finding"] == args.finding)
        and (args.group is None or row["group"] == args.group)
    ]
    chosen.sort(
        key=lambda row: (
            severity_rank(row["severity"]),
            row["finding"],
            -(row["value"] or 0),
            row["source"],
            row["group"],
        )
    )
    chosen = chosen[: args.max]
    if args.json:
        output.put_json([finding_json(row) for row in chosen])
    elif not chosen:
        output.put("nothing was found")
    else:
        put_findings(chosen, has_evidence=args.evidence)
    return 0


def put_findings(rows: Iterable[Mapping[str, Any]], *, has_evidence: bool) -> None:
    """Print findings: a line each, below it the advice, and the evidence with --evidence."""
    from kohort.drawing.display_text import display_name, display_sentence

    for row in rows:
        output.put(
            f"{row['severity']:8}  {row['finding']}  {display_name(row['group'])} ({display_name(row['source'])})"
        )
        output.put(f"          {display_sentence(row['sentence'] or '')}")
        if row["advice"]:
            output.put(f"          to do: {display_sentence(row['advice'])}")
        for record in (row["evidence"] or ()) if has_evidence else ():
            at = "" if record["at_ms"] is None else f" at {iso_time(record['at_ms'])}"
            place = f"{record['partition']}:{record['offset']}"
            output.put(f"            {place}{at}  {display_sentence(record['what'] or '')}")


def finding_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding as JSON: the columns of the table, in its order."""
    return {name: row[name] for name in row if name != "evidence"} | {"evidence": list(row["evidence"] or ())}


@guarded
def run_tables(args: argparse.Namespace) -> int:
    """Print what tables there are."""
    from kohort.fleet.schema import TABLES

    tables = opened(args, must_exist=True)
    listed: list[dict[str, output.Cell]] = []
    for table in TABLES:
        files = tables.files(table)
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        listed.append({"table": table.path, "rows": rows, "files": len(files), "bytes": size})
    sources = [(source, len(offsets), sum(offsets.values())) for source, offsets in sorted(tables.positions.items())]
    if args.json:
        output.put_json({"run": tables.run, "tables": listed, "positions": positions_json(tables.positions)})
        return 0
    output.put(f"run {tables.run} of {args.tables}\n")
    output.put(output.table_of(listed))
    output.put("")
    output.put(output.table(("source", "partitions", "offsets read"), sources, empty="no source was read"))
    return 0


@guarded
def run_demo(args: argparse.Namespace) -> int:
    """Read the recorded fleet, find what is wrong with it, and write the report."""
    from kohort.fleet.ground_truth import unpack
    from kohort.fleet.schema import FINDINGS

    require_packages()
    log, directory, page = args.out / "log", args.out / "tables", args.out / "report.html"
    for made in (log, directory):  # of an earlier demo, and nothing else: a demo begins anew
        if any((made / each).exists() for each in ("truth.json", "bronze/records", "state/runs")):
            rmtree(made)
    args.tables = args.tables or str(directory)
    tables = opened(args, must_exist=False)
    if tables.run:
        raise CommandFailed(f"{tables} holds tables of a fleet: a demo needs a place of its own", USAGE)
    args.out.mkdir(parents=True, exist_ok=True)
    writable(page)
    try:
        truth = unpack(log)
    except ValueError as wrong:
        raise CommandFailed(str(wrong), USAGE) from None
    inputs = inputs_of([f"demo={log}"], None)
    summary = piped(args, inputs, tables)
    report = gathered_report(tables)
    write_report(page, report, is_shown=args.open)
    scores = truth.score({(row["group"], row["finding"]) for row in tables.small_rows(FINDINGS)})
    if args.json:
        from kohort.fleet.report.fleet_report import headline

        written = summary_json(summary, page)
        shown = [asdict(each) | {"precision": each.precision, "recall": each.recall} for each in scores]
        output.put_json({**written, "headline": headline(report), "scores": shown})
        return 0
    put_demo(report, scores)
    output.put(
        f"\n{summary.records:,} records of {len(truth.groups):,} groups in {sum(summary.seconds.values()):.1f} s"
    )
    output.put(f"report: {page}")
    return 0


def put_demo(report: FleetReport, scores: Sequence[Score]) -> None:
    """Print the findings and their precision and recall."""
    from kohort.drawing.display_text import display_name
    from kohort.fleet.report.fleet_report import headline, points

    output.put(headline(report))
    for point in points(report)[0]:
        where = ", ".join(display_name(key.group) for key in point.groups[:1])
        more = len(point.groups) - 1 + point.more_groups
        output.put(f"  {point.severity:8}  {point.title}: {where}" + (f" and {more:,} more" if more else ""))
    output.put("")
    rows = [
        (
            *(s.finding, s.right, s.wrong, s.missed, f"{s.precision:.3f}", f"{s.recall:.3f}"),
            *(s.near_misses, s.fooled, s.not_scored),
        )
        for s in scores
    ]
    columns = ("finding", "right", "wrong", "missed", "precision", "recall", "near misses", "fooled by", "not scored")
    output.put(output.table(columns, rows, empty="nothing was found"))
