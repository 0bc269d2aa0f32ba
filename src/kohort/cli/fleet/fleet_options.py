"""Options of `kohort fleet run|report|findings|tables|generate|demo`.

`run` reads `__consumer_offsets` into tables, `report` writes a page, `findings` and `tables` print the tables,
`generate` writes the log of a fleet with known faults, and `demo` is all of it in one command.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from kohort.cli.fleet.fleet_commands import run_demo, run_findings, run_generate, run_report, run_run, run_tables
from kohort.cli.terminal.options import CONFIG_VARIABLE, add_json, number, setting, verb

SEVERITIES = ("critical", "warning", "info")
MASTER = "local[*]"

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
GENERATE = """
kohort fleet generate ./log --groups 2000 --seed 7
kohort fleet run --tables ./fleet made=./log
"""
DEMO = """
kohort fleet demo
kohort fleet demo --groups 5000 --out build/large --open
"""


def register(verbs: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add `fleet` and its verbs to the command line."""
    parser = verbs.add_parser("fleet", help="analyse all groups of a cluster, and find those that need action")
    inner = parser.add_subparsers(metavar="VERB", required=True)
    _register_run(inner)
    summary = "write a report of the tables as one self-contained HTML page, or as JSON"
    report = verb(inner, "report", summary, run=run_report, examples=REPORT)
    _add_tables(report)
    _add_out(report, default=Path("fleet.html"))
    _add_spark(report)
    add_json(report, "the report as one JSON document and write no page, unless --out names one")
    _register_findings(inner)
    summary = "list the tables of a fleet: rows, files and bytes, and how far each source has been read"
    tables = verb(inner, "tables", summary, run=run_tables, examples=TABLES)
    _add_tables(tables)
    add_json(tables)
    summary = "write the log of a fleet with known faults, as segment files of __consumer_offsets"
    generate = verb(inner, "generate", summary, run=run_generate, examples=GENERATE)
    generate.add_argument("directory", metavar="DIR", type=Path, help="a directory that is new or empty")
    _add_fleet(generate)
    add_json(generate)
    summary = "make a fleet, read its log, find what is wrong with it, and write the report: all in one"
    demo = verb(inner, "demo", summary, run=run_demo, examples=DEMO)
    demo.add_argument("--out", metavar="DIR", type=Path, default=Path("build/fleet"), help="default: build/fleet")
    demo.add_argument("--open", action="store_true", help="show the page in a browser")
    _add_fleet(demo)
    _add_spark(demo)
    add_json(demo)


def _register_run(inner: argparse._SubParsersAction[ArgumentParser]) -> None:
    summary = "read what is new of __consumer_offsets into tables, and find what is wrong with the groups"
    parser = verb(inner, "run", summary, run=run_run, examples=RUN)
    _add_tables(parser)
    parser.add_argument(
        "inputs",
        metavar="INPUT",
        nargs="+",
        help="[NAME=]WHERE: a cluster as HOST:PORT[,HOST:PORT], a broker's data directory, segment files, what "
        "kafka-dump-log or kohort log export printed, a broker's own log, or metrics of members; NAME is the "
        "source of its groups (default: the cluster's id, or the file's name)",
    )
    # Not add_cluster: a cluster is one of the inputs here, and there may be several.
    parser.add_argument(
        "--command-config",
        dest="properties",
        metavar="FILE",
        help=f"how clusters let one in, with Kafka's names (default: ${CONFIG_VARIABLE})",
    )
    parser.add_argument("--report", metavar="FILE", type=page_or_json, help="write the report too, .html or .json")
    parser.add_argument("--open", action="store_true", help="show the page in a browser (with --report)")
    _add_spark(parser)
    add_json(parser)


def _register_findings(inner: argparse._SubParsersAction[ArgumentParser]) -> None:
    summary = "print the findings, the worst first"
    parser = verb(inner, "findings", summary, run=run_findings, examples=FINDINGS)
    _add_tables(parser)
    parser.add_argument("--severity", choices=SEVERITIES, help="only this, or worse")
    parser.add_argument("--finding", metavar="NAME", help="only the findings of this rule")
    parser.add_argument("--group", metavar="GROUP", help="only of this group")
    parser.add_argument("--evidence", action="store_true", help="with the records that prove it")
    parser.add_argument("--max", metavar="N", type=number(1, "a number of findings"), help="only the first N")
    add_json(parser, "an array of findings with their evidence")


def _add_tables(parser: ArgumentParser) -> None:
    parser.add_argument("--tables", metavar="DIR", type=Path, required=True, help="where the tables of the fleet are")


def _add_out(parser: ArgumentParser, default: Path) -> None:
    parser.add_argument("--out", metavar="FILE", type=page_or_json, help=f"default: {default}; or a .json file")
    parser.add_argument("--open", action="store_true", help="show the page in a browser")


def _add_fleet(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--groups", metavar="N", type=number(1, "a number of groups"), default=1000, help="how many (1000)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=number(0, "a seed"), default=1, help="the same seed, the same log (1)"
    )
    parser.add_argument("--days", metavar="N", type=number(1, "a number of days"), default=8, help="how long (8)")


def _add_spark(parser: ArgumentParser) -> None:
    parser.add_argument("--master", metavar="MASTER", default=MASTER, help=f"of Spark (default: {MASTER})")
    parser.add_argument(
        "--conf", metavar="NAME=VALUE", type=setting, action="append", default=[], help="a setting of Spark; may repeat"
    )


def page_or_json(text: str) -> Path:
    """Return the path of a report, whose suffix makes it a page or JSON."""
    path = Path(text)
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ArgumentTypeError(f"{text!r} is neither .html nor .json")
    return path
