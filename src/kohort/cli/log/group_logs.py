"""`kohort log check PATH…` and `kohort log export PATH…`: the segment files of `__consumer_offsets`.

`check` finds records at which some version of Apache Kafka would fail to load the log; it reads a batch at a time and
exits with 1 where it finds any. `export` prints the records as lines of JSON, which `kohort fleet` reads again; keys
and values are hex, so that no byte is lost.
"""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, reason_of
from kohort.cli.terminal.options import add_json, add_option, verb
from kohort.cli.terminal.record_lines import iso_time

if TYPE_CHECKING:
    from kohort.fleet.checked_files import Checked
    from kohort.fleet.load_check import Violation

Version = tuple[int, int, int]
EXAMPLES = """
kohort log check /var/lib/kafka/data
kohort log check __consumer_offsets-7/00000000000000000000.log --kafka 4.1.1
kohort log check ./kohort-data --json | jq .violations[0].sentence
"""
EXPORT_EXAMPLES = """
kohort log export /var/lib/kafka/data | gzip > prod.jsonl.gz
kohort log export __consumer_offsets-7/00000000000000000000.log | jq .offset
"""
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def register(inner: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two verbs to those of `kohort log`."""
    summary = "check whether Apache Kafka can load a log of groups (__consumer_offsets), and where it would fail"
    check = verb(inner, "check", summary, run=run_check, examples=EXAMPLES)
    add_option(check, "--kafka VERSION", "only what this version fails to load", version)
    add_json(check)
    summary = "print the records of a log of groups as lines of JSON, key and value as hex, for `kohort fleet`"
    export = verb(inner, "export", summary, run=run_export, examples=EXPORT_EXAMPLES)
    add_option(export, "--json", "lines of JSON, which is what it prints anyway")
    for each in (check, export):
        each.add_argument(
            "paths", metavar="PATH", nargs="+", type=Path, help="a data directory, a partition's, a segment"
        )


def version(text: str) -> Version:
    """Return the parts of a version such as 4.1.1."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no version of Kafka such as 4.1.1")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def segments_in(paths: list[Path]) -> dict[tuple[int, Path], list[Path]]:
    """Return the segment files at some paths, by partition. Raises CommandFailed."""
    from kohort.fleet.checked_files import NothingToCheck, segments_of

    try:
        return segments_of(paths)
    except NothingToCheck as error:
        raise CommandFailed(str(error), USAGE) from None
    except OSError as error:
        raise CommandFailed(f"cannot read {reason_of(error)}") from None


def run_check(args: argparse.Namespace) -> int:
    """Check, and return the exit status."""
    from kohort.fleet.checked_files import check_partition

    segments = segments_in(args.paths)
    try:
        with output.Meter("checking") as meter:
            found = [check_partition(partition, files, meter.advance) for (partition, _), files in segments.items()]
    except OSError as error:
        raise CommandFailed(f"cannot read {reason_of(error)}") from None
    if args.kafka is not None:
        for each in found:
            each.violations = [one for one in each.violations if one.demand.concerns(args.kafka)]
    if args.json:
        output.put_json(document(found))
    else:
        put_found(found)
    return FAILED if any(each.violations or each.damage for each in found) else 0


def document(found: list[Checked]) -> dict[str, Any]:
    """Return the violations as JSON."""
    return {
        "is_loadable": not any(each.violations or each.damage for each in found),
        "partitions": len(found),
        "records": sum(each.records for each in found),
        "violations": [
            {
                "ticket": one.demand.ticket,
                "versions": one.demand.versions,
                "group": one.step.group,
                "partition": each.partition,
                "offset": one.step.offset,
                "at": iso_time(one.step.at_ms),
                "record_type": one.step.record_type,
                "sentence": one.sentence,
            }
            for each in found
            for one in each.violations
        ],
        "damage": [
            {
                "partition": each.partition,
                "file": str(each.damage.file),
                "position": each.damage.position,
                "offset": each.damage.offset,
                "reason": each.damage.reason,
            }
            for each in found
            if each.damage is not None
        ],
    }


def put_found(found: list[Checked]) -> None:
    """Print the violations: of each group the first record of each ticket."""
    for each in found:
        for (demand, _), violations in groupby(sorted(each.violations, key=_place), key=lambda one: _place(one)[:2]):
            first, *others = violations
            more = f" (and {len(others)} more of this group)" if others else ""
            output.put(f"{each.name} at offset {first.step.offset}: {first.sentence}{more}")
            output.put(f"  {demand}: {first.demand.what}; not loaded by {first.demand.versions}")
        if each.damage is not None:
            file, position, reason = each.damage.file, each.damage.position, each.damage.reason
            output.put(f"{each.name}: {file} cannot be read from byte {position} on: {reason}")
    records = sum(each.records for each in found)
    bad = sum(1 for each in found if each.violations or each.damage)
    verdict = f"{bad} of them would not load everywhere" if bad else "nothing at which a Kafka would fail"
    output.put(f"{records} records in {output.counted(len(found), 'partition')}: {verdict}")


def _place(violation: Violation) -> tuple[str, str, int]:
    return violation.demand.ticket, violation.step.group, violation.step.offset


def run_export(args: argparse.Namespace) -> int:
    """Print the lines, and return the exit status: 1 where a file could not be read to its end."""
    found = segments_in(args.paths)
    are_whole = [_put_file(file, partition) for (partition, _), files in found.items() for file in files]
    return 0 if all(are_whole) else FAILED


def _put_file(file: Path, partition: int) -> bool:
    """Print the lines of a file; return whether it could be read to its end."""
    from kohort.fleet.inputs.export_lines import export_lines
    from kohort.wire.record_batches import CorruptBatch

    try:
        for line in export_lines(file.read_bytes(), partition):
            output.put(line)
    except CorruptBatch as corrupt:
        output.remark(f"{file} was read up to a batch that is broken: {corrupt}")
        return False
    except OSError as error:
        output.remark(f"cannot read {file}: {error.strerror}")
        return False
    return True
