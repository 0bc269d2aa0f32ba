"""`kohort log export PATH…`: the records of `__consumer_offsets` as lines of JSON, which `kohort fleet` reads again.

Keys and values are hex, so nothing of them is lost. It reads files only, one at a time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed

EXAMPLES = """
kohort log export /var/lib/kafka/data | gzip > prod.jsonl.gz
kohort log export __consumer_offsets-7/00000000000000000000.log | jq .offset
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", type=Path, help="a data directory, a partition's, a segment"
    )
    parser.add_argument("--json", action="store_true", help="lines of JSON, which is what it prints anyway")


def run_export(args: argparse.Namespace) -> int:
    """Print the lines, and return the exit status: 1 where a file could not be read to its end."""
    from kohort.fleet.log_check.checked_files import NothingToCheck, segments_of

    try:
        segments = segments_of(args.paths)
    except NothingToCheck as error:
        raise CommandFailed(str(error), USAGE) from None
    is_whole = True
    for (partition, _), files in segments.items():
        for file in files:
            is_whole &= _put_file(file, partition)
    return 0 if is_whole else FAILED


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
