"""Decoding `__consumer_offsets`: records a second of one core, beside Kafka's own dump tool on the same segment files.

Both run in a process of their own, and what counts is its CPU time, of all threads: ours from bytes to Arrow columns,
every value decoded; theirs from bytes to lines of JSON, which nobody reads. What a process takes to start is measured
on a short log and taken off, so that the figures are those of a long one.
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
import sys
from kohort.fleet import bronze
from kohort.fleet.bronze.tasks import rows_of
from kohort.fleet.inputs import parse_inputs
pieces = bronze.plan(parse_inputs(sys.argv[1:]), {})
print(sum(rows.num_rows for piece in pieces for rows in rows_of(piece)))
"""


def segments(folder: Path) -> list[str]:
    """Return the segment files under a folder."""
    return [str(file) for file in sorted(folder.glob("**/*.log")) if file.stat().st_size]


def cpu_s(command: list[str], *, text: bool = False) -> tuple[float, str]:
    """Run a command to its end; return the CPU time of its process, and what it printed when that is asked for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.PIPE if text else subprocess.DEVNULL
    done = subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout or ""


def ours(folder: Path, least: int) -> float:
    """Return the CPU time that our decoder takes for a log."""
    took_s, said = cpu_s([sys.executable, "-c", OURS, str(folder)], text=True)
    if int(said) < least:
        raise RuntimeError(f"{said.strip()} of {least} records were decoded")
    return took_s


def theirs(folder: Path) -> float:
    """Return the CPU time that Kafka's dump tool takes for a log."""
    return cpu_s(jars.command(DUMP, "--offsets-decoder", "--files", ",".join(segments(folder)), heap="1g"))[0]


def fleet_decode(quick: bool) -> Iterator[Outcome]:
    """Decode the log of a busy coordinator with both."""
    many, few = (200_000, 20_000) if quick else (1_000_000, 20_000)
    with tempfile.TemporaryDirectory(prefix="kohort-fleet-decode.") as folder:
        long, short = Path(folder, "long"), Path(folder, "short")
        size = write(long, many)
        write(short, few)
        ours(short, few)  # compiled code is in its cache from here on
        our_samples, their_samples = interleave(
            lambda: (many - few) / (ours(long, many) - ours(short, few)),
            lambda: (many - few) / (theirs(long) - theirs(short)),
            2 if quick else 3,
        )
    note = f"per second of CPU; {many} records of {size / many:.0f} B, a sixth of them no commits; start-up taken off"
    aim = Aim(10, of_ratio=True)
    yield Result("decode __consumer_offsets", "records/s", our_samples, their_samples, "kafka-dump-log", aim, note)
