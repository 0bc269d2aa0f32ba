"""`kohort log`: files of a data directory are verified and repaired, logs of groups checked and exported.

`verify` reads everything and changes nothing; `repair` needs a stopped broker, and takes out only what is damaged. Both
exit with 1 where something damaged is left. `check` finds records of `__consumer_offsets` at which some version of
Apache Kafka would fail to load the log; it reads a batch at a time and exits with 1 where it finds any. `export` prints
the records as lines of JSON, which `kohort fleet` reads again; keys and values are hex, so that no byte is lost.
"""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.terminal import output
from kohort.cli.terminal.confirmation import add_yes, asking, confirm
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, reason_of
from kohort.cli.terminal.options import add_json, add_option, verb, verb_of_verbs
from kohort.cli.terminal.record_lines import iso_time

if TYPE_CHECKING:
    from kohort.broker.os_disk import OsDisk
    from kohort.fleet.load_check import Checked, Violation
    from kohort.log.verification import Damage


VERIFY_EXAMPLES = """
kohort log verify ./kohort-data
kohort log verify /var/lib/kafka/data/orders-0
kohort log verify ./kohort-data --json | jq '.findings[] | select(.loses_records)'
"""
REPAIR_EXAMPLES = """
kohort log repair ./kohort-data --dry-run
kohort log repair ./kohort-data/orders-0
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `log` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "log", "verify, repair, check or export log files")
    summary = "read every file of a data directory, and name each damaged, torn, misplaced or missing piece"
    verify = verb(inner, "verify", summary, run=run_verify, examples=VERIFY_EXAMPLES)
    summary = "take damaged pieces out of the files of a stopped broker, and make anew what follows from the rest"
    repair = verb(inner, "repair", summary, run=asking(run_repair), examples=REPAIR_EXAMPLES)
    add_yes(repair)
    add_option(repair, "--dry-run", "print what would be done, and change nothing")
    for each in (verify, repair):
        each.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a data directory, or a partition's")
        add_json(each)
    register_group_logs(inner)


@dataclass(slots=True)
class VerifiedPartition:
    """The log in one directory, and what was found there."""

    disk: OsDisk
    directory: str
    is_in_use: bool
    records: int = 0
    findings: list[Damage] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The directory, for people."""
        return str(self.disk.root / self.directory)

    def file(self, finding: Damage) -> str:
        """The file of a finding, for people."""
        return str(self.disk.root / finding.file)


def run_verify(args: argparse.Namespace) -> int:
    """Verify, and return the exit status."""
    found = verified(args.paths, is_read_only=True)
    if any(each.is_in_use for each in found):
        output.remark("a broker uses this directory: the newest appends are not looked at")
    if args.json:
        output.put_json(document(found))
    else:
        put_found(found)
        output.remark(summary(found))
    return FAILED if any(each.findings for each in found) else 0


def run_repair(args: argparse.Namespace) -> int:
    """Repair, or print what that would do, and return the exit status."""
    from kohort.log.repair import remedy, repair

    found = verified(args.paths, is_read_only=args.dry_run)
    for each in found:
        if each.is_in_use and not args.dry_run:
            raise CommandFailed(f"{each.disk.root} is used by a running broker: stop it, then repair", USAGE)
    left: list[VerifiedPartition] = []
    for each in found if not args.json else ():
        for finding in each.findings:
            output.put(f"{each.file(finding)}: {sentence(finding)}\n  {remedy(finding)}")
    count = sum(len(each.findings) for each in found)
    if count and not args.dry_run:
        output.flush()
        confirm(
            args, f"repairs {output.counted(count, 'finding')} in the files; what it takes out is stored beside them"
        )
    for each in found:
        if each.findings and not args.dry_run:
            with storage(each.path):
                rest = repair(each.disk, each.directory, each.findings)
            left.append(VerifiedPartition(each.disk, each.directory, each.is_in_use, each.records, rest))
    if args.json:
        output.put_json({**document(found), "left": document(left)["findings"]})
    elif args.dry_run:
        output.remark(f"{summary(found)}; nothing was changed: leave out --dry-run to repair")
    else:
        output.remark(f"{summary(found)}; {summary(left, 'left')}")
    return FAILED if any(each.findings for each in (found if args.dry_run else left)) else 0


def verified(paths: list[Path], *, is_read_only: bool) -> list[VerifiedPartition]:
    """Return the logs at some paths with what is wrong in each. Raises CommandFailed."""
    from kohort.log.verification import verify

    found = [each for path in paths for each in partitions_at(path, is_read_only=is_read_only)]
    with output.Meter("reading", unit="bytes") as meter:
        for each in found:
            with storage(each.path):
                read, each.findings = verify(each.disk, each.directory, meter.advance, is_in_use=each.is_in_use)
            each.records = read.records
    return found


def partitions_at(path: Path, *, is_read_only: bool) -> list[VerifiedPartition]:
    """Return the logs of a data directory, or that of a partition's directory. Raises CommandFailed."""
    from kohort.broker.os_disk import OsDisk
    from kohort.log.segment import base_offsets
    from kohort.log.verification import partitions_of

    with storage(str(path)):
        if not path.is_dir():
            raise CommandFailed(f"{path} is no directory", USAGE)
        is_partition = bool(base_offsets([each.name for each in path.iterdir()], ".log"))
        disk = OsDisk(path.absolute().parent if is_partition else path, is_read_only=is_read_only)
        names = [path.absolute().name] if is_partition else partitions_of(disk)
        is_in_use = disk.is_locked
    if not names:
        raise CommandFailed(f"{path} is neither a data directory nor a partition's: it has no log", USAGE)
    return [VerifiedPartition(disk, name, is_in_use) for name in names]


@contextmanager
def storage(path: str) -> Iterator[None]:
    """Have an error of the disk be a sentence."""
    try:
        yield
    except OSError as error:
        raise CommandFailed(reason_of(error) if error.filename else f"{path}: {reason_of(error)}") from None


def sentence(finding: Damage) -> str:
    """Return what was found, in words."""
    at = f" at byte {finding.position}" if finding.size else ""
    lost = ""
    if finding.offsets is not None:
        first, last = finding.offsets
        lost = f"; offset {first} is lost" if first == last else f"; offsets {first} to {last} are lost"
    return f"{finding.kind.value}{at}: {finding.reason}{lost}"


def put_found(found: list[VerifiedPartition]) -> None:
    """Print each finding on a line."""
    for each in found:
        for finding in each.findings:
            output.put(f"{each.file(finding)}: {sentence(finding)}")


def summary(found: list[VerifiedPartition], word: str = "found") -> str:
    """Return how much was read, and how much is damaged."""
    findings = [finding for each in found for finding in each.findings]
    if word != "found":
        return f"{output.counted(len(findings), 'finding')} {word}"
    records = sum(each.records for each in found)
    read = f"{output.counted(len(found), 'partition')} with {output.counted(records, 'record')}"
    if not findings:
        return f"{read}: every byte is sound"
    losing = sum(finding.loses_records for finding in findings)
    return f"{read}: {output.counted(len(findings), 'finding')}, {losing} of them about records"


def document(found: list[VerifiedPartition]) -> dict[str, Any]:
    """Return what was found as JSON."""
    return {
        "is_sound": not any(each.findings for each in found),
        "partitions": len(found),
        "records": sum(each.records for each in found),
        "findings": [
            {
                "kind": finding.kind.value,
                "file": each.file(finding),
                "position": finding.position,
                "size": finding.size,
                "first_offset": finding.offsets[0] if finding.offsets else None,
                "last_offset": finding.offsets[1] if finding.offsets else None,
                "loses_records": finding.loses_records,
                "reason": finding.reason,
            }
            for each in found
            for finding in each.findings
        ],
    }


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


def register_group_logs(inner: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    from kohort.fleet.load_check import NothingToCheck, segments_of

    try:
        return segments_of(paths)
    except NothingToCheck as error:
        raise CommandFailed(str(error), USAGE) from None
    except OSError as error:
        raise CommandFailed(f"cannot read {reason_of(error)}") from None


def run_check(args: argparse.Namespace) -> int:
    """Check, and return the exit status."""
    from kohort.fleet.load_check import check_partition

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
        output.put_json(checked_json(found))
    else:
        put_checked(found)
    return FAILED if any(each.violations or each.damage for each in found) else 0


def checked_json(found: list[Checked]) -> dict[str, Any]:
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


def put_checked(found: list[Checked]) -> None:
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
