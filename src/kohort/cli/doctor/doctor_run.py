"""`kohort doctor`: look at this machine, at a cluster and at its groups, and print what is wrong and what to do.

It changes nothing. Exit status 1 where something is wrong now; warnings name what goes wrong in a case.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from kohort.cli.doctor.findings import DoctorFinding, Severity
from kohort.cli.terminal.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    add_cluster,
    add_json,
    host_and_port,
    verb,
)

_EXAMPLES = """
kohort doctor
kohort doctor --bootstrap-server kafka-1:9092
kohort doctor --bootstrap-server kafka-1:9092 --command-config admin.properties --json | jq .findings
"""
_COLOURS = {Severity.WARNING: "\x1b[33m", Severity.ERROR: "\x1b[31m"}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `doctor` to the command line."""
    summary = "look at what is installed, at a cluster, and at what its groups do with KIP-848"
    parser = verb(verbs, "doctor", summary, run=run, examples=_EXAMPLES)
    add_json(parser, "the findings as one JSON document")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings, and return 1 where something is wrong."""
    from kohort.cli.doctor.installation import installation, port_of
    from kohort.cli.terminal import output

    findings = list(installation())
    is_named = args.bootstrap_is_given or BOOTSTRAP_VARIABLE in os.environ or "--context" in args.cluster_options
    if not is_named:
        listens, finding = port_of(*host_and_port(DEFAULT_BOOTSTRAP))
        findings.append(finding)
        is_named = listens
    if is_named:
        findings += _of_cluster(args)
    counts = Counter(each.severity for each in findings)
    is_wrong = bool(counts[Severity.ERROR])
    if args.json:
        rows = [{**each._asdict(), "severity": each.severity.value, "fix": each.fix or None} for each in findings]
        output.put_json({"is_wrong": is_wrong, "findings": rows})
    else:
        for each in findings:
            label = output.coloured(f"{each.severity:<8}", _COLOURS.get(each.severity, ""), sys.stdout)
            output.put(f"{label}{each.about}: {each.text}" + (f"\n{'':8}→ {each.fix}" if each.fix else ""))
        shown = [output.counted(counts[each], each.value) for each in (Severity.ERROR, Severity.WARNING)]
        output.put(f"\n{' and '.join(shown)}")
    return int(is_wrong)


def _of_cluster(args: argparse.Namespace) -> list[DoctorFinding]:
    """Return the findings of the cluster; that it cannot be reached or logged in to is one of them."""
    from kohort.cli.cluster import run_against
    from kohort.cli.doctor.cluster_checks import check_cluster
    from kohort.cli.terminal.failure import CommandFailed

    findings: list[DoctorFinding] = []

    async def look() -> int:
        async for finding in check_cluster(args):
            findings.append(finding)  # noqa: PERF401 -- those before a failure count
        return 0

    try:
        run_against(args.bootstrap_server, look)
    except CommandFailed as failure:
        about = f"cluster {args.bootstrap_server}"
        findings.append(DoctorFinding(Severity.ERROR, "cluster", about, failure.sentence))
    return findings
