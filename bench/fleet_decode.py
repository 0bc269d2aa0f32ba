"""Decoding `__consumer_offsets`: records a second of one core, beside Kafka's own dump tool on the same segment files.

Both run in a process of their own, and what counts is its CPU time, of all threads: ours from bytes to Arrow columns,
every value decoded; theirs from bytes to lines of JSON, which are discarded. What it takes to start is taken off: ours
decodes a short log before its clock begins, from theirs what a run on the short log takes is subtracted. (Ours starts
for twice as long as it then decodes, so that a difference of two runs would be a difference of two start-ups.)
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.group_log import write
from bench.result import Aim, Outcome, Result, interleave
from interop import jars

DUMP = "org.apache.kafka.tools.DumpLogSegments"
OURS = """
import sys, time
from kohort.fleet import bronze
from kohort.fleet.inputs.input_kinds import parse_inputs

def decode(folder):
    return sum(rows.num_rows for piece in bronze.plan(parse_inputs([folder]), {}) for rows in bronze.rows_of(piece))

short, long = sys.argv[1:]
decode(short)
began_s = time.process_time()
print(decode(long), time.process_time() - began_s)
"""


def segments(folder: Path) -> list[str]:
    """Return the segment files under a folder."""
    return [str(file) for file in sorted(folder.glob("**/*.log")) if file.stat().st_size]


def ours(short: Path, long: Path, least: int) -> float:
    """Return the CPU time that our decoder takes for the long log."""
    command = [sys.executable, "-c", OURS, str(short), str(long)]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    count, took_s = output.split()
    if int(count) < least:
        raise RuntimeError(f"{count} of {least} records were decoded")
    return float(took_s)


def theirs(folder: Path) -> float:
    """Return the CPU time that a process of Kafka's dump tool takes for a log."""
    command = jars.command(DUMP, "--offsets-decoder", "--files", ",".join(segments(folder)), heap="1g")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def fleet_decode(quick: bool) -> Iterator[Outcome]:
    """Decode the log of a busy coordinator with both."""
    many, few = (200_000, 20_000) if quick else (1_000_000, 20_000)
    with tempfile.TemporaryDirectory(prefix="kohort-fleet-decode.") as folder:
        long, short = Path(folder, "long"), Path(folder, "short")
        size = write(long, many)
        write(short, few)
        ours(short, short, few)  # compiled code is in its cache from here on
        our_samples, their_samples = interleave(
            lambda: many / ours(short, long, many),
            lambda: (many - few) / (theirs(long) - theirs(short)),
            2 if quick else 3,
        )
    note = f"per second of CPU; {many} records of {size / many:.0f} B, a sixth of them no commits; start-up taken off"
    aim = Aim(10, of_ratio=True)
    yield Result("decode __consumer_offsets", "records/s", our_samples, their_samples, "kafka-dump-log", aim, note)
