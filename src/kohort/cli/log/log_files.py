"""`kohort log`, with the verbs `verify PATH…` and `repair PATH…`: the files of a data directory, and what is damaged.

`verify` reads everything and changes nothing; `repair` needs a stopped broker, and takes out only what is damaged. Both
exit with 1 where something damaged is left.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.log import group_logs
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, reason_of
from kohort.cli.terminal.options import add_json, add_option, verb

if TYPE_CHECKING:
    from kohort.broker.os_disk import OsDisk
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
    parser = verbs.add_parser("log", help="verify, repair, check or export log files")
    inner = parser.add_subparsers(metavar="VERB", required=True)
    summary = "read every file of a data directory, and name each damaged, torn, misplaced or missing piece"
    verify = verb(inner, "verify", summary, run=run_verify, examples=VERIFY_EXAMPLES)
    summary = "take damaged pieces out of the files of a stopped broker, and make anew what follows from the rest"
    repair = verb(inner, "repair", summary, run=run_repair, examples=REPAIR_EXAMPLES)
    add_option(repair, "--dry-run", "print what would be done, and change nothing")
    for each in (verify, repair):
        each.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a data directory, or a partition's")
        add_json(each)
    group_logs.register(inner)


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
    for each in found:
        if not args.json:
            for finding in each.findings:
                output.put(f"{each.file(finding)}: {sentence(finding)}\n  {remedy(finding)}")
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
