"""`kohort fleet findings` and `tables`, which only look: they read the files themselves and start no Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.fleet_session import guarded, opened
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import unknown
from kohort.cli.terminal.record_lines import iso_time

if TYPE_CHECKING:
    from kohort.fleet.schema import Table
    from kohort.fleet.tables import Tables

WORST_FIRST = ("critical", "warning", "info")


def files_of(tables: Tables, table: Table) -> list[Path]:
    """Return the files that count of a table."""
    base = tables.directory / table.path
    return sorted(file for part in tables.parts.get(table.path, []) for file in (base / part).rglob("*.parquet"))


def findings_of(tables: Tables, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of findings."""
    import pyarrow.parquet as pq

    from kohort.fleet.schema import FINDINGS

    wanted = list(columns or FINDINGS.names)
    return [row for file in files_of(tables, FINDINGS) for row in pq.read_table(file, columns=wanted).to_pylist()]


@guarded
def run_findings(args: argparse.Namespace) -> int:
    """Print what was found, the worst first."""
    rows = findings_of(opened(args.tables, must_hold=True))
    if args.finding is not None and all(row["finding"] != args.finding for row in rows):
        from kohort.fleet.findings.rules import NAMES

        if args.finding not in NAMES:
            raise unknown("finding", args.finding, NAMES, f"there are {', '.join(NAMES)}")
    most = WORST_FIRST.index(args.severity) if args.severity else len(WORST_FIRST)
    kept = [
        row
        for row in rows
        if _rank(row) <= most
        and (args.finding is None or row["finding"] == args.finding)
        and (args.group is None or row["group"] == args.group)
    ]
    kept.sort(key=lambda row: (_rank(row), row["finding"], -(row["value"] or 0), row["source"], row["group"]))
    kept = kept[: args.max]
    if args.json:
        output.put_json([finding_json(row) for row in kept])
    elif not kept:
        output.put("nothing was found")
    else:
        put_findings(kept, has_evidence=args.evidence)
    return 0


def _rank(row: Mapping[str, Any]) -> int:
    severity = row["severity"]
    return WORST_FIRST.index(severity) if severity in WORST_FIRST else len(WORST_FIRST)


def put_findings(rows: Iterable[Mapping[str, Any]], *, has_evidence: bool) -> None:
    """Print findings: a line each, and below it what to do, and what proves it where that is wanted."""
    from kohort.fleet.report.wording import shown_name, shown_sentence

    for row in rows:
        output.put(f"{row['severity']:8}  {row['finding']}  {shown_name(row['group'])} ({shown_name(row['source'])})")
        output.put(f"          {shown_sentence(row['sentence'] or '')}")
        if row["advice"]:
            output.put(f"          to do: {shown_sentence(row['advice'])}")
        for record in (row["evidence"] or ()) if has_evidence else ():
            at = "" if record["at_ms"] is None else f" at {iso_time(record['at_ms'])}"
            place = f"{record['partition']}:{record['offset']}"
            output.put(f"            {place}{at}  {shown_sentence(record['what'] or '')}")


def finding_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding as JSON: the columns of the table, in its order."""
    return {name: row[name] for name in row if name != "evidence"} | {"evidence": list(row["evidence"] or ())}


@guarded
def run_tables(args: argparse.Namespace) -> int:
    """Print what tables there are."""
    import pyarrow.parquet as pq

    from kohort.fleet.schema import TABLES

    tables = opened(args.tables, must_hold=True)
    listed = []
    for table in TABLES:
        files = files_of(tables, table)
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        listed.append((table.path, rows, len(files), sum(file.stat().st_size for file in files)))
    sources = [(source, len(offsets), sum(offsets.values())) for source, offsets in sorted(tables.positions.items())]
    if args.json:
        output.put_json(
            {
                "run": tables.run,
                "tables": [dict(zip(("table", "rows", "files", "bytes"), each, strict=True)) for each in listed],
                "positions": {
                    source: {str(partition): offset for partition, offset in sorted(offsets.items())}
                    for source, offsets in sorted(tables.positions.items())
                },
            }
        )
        return 0
    output.put(f"run {tables.run} of {args.tables}\n")
    output.put(output.table(("table", "rows", "files", "bytes"), listed))
    output.put("")
    output.put(output.table(("source", "partitions", "offsets read"), sources, empty="no source was read"))
    return 0
