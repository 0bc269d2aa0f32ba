"""The fleet's pipeline from segment files to findings: how long, by stage, and what it scales with.

python -m bench.fleet_pipeline --records 50000000

There is no peer: nothing else makes a history of groups out of their log. A long log is one of two million records read
as that of many clusters, so that writing it takes no hour. The row of `make bench` compares, in one run, four times the
records and ten times the groups with a base: linear in records is 1.0, flat in groups is 1.0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.group_log import write
from bench.result import Outcome, Result

LARGEST_LOG = 2_000_000
PARTITIONS = 8


def inputs_of(folder: Path, records: int, groups: int) -> list[str]:
    """Write a log, and return the inputs by which it is read as one of so many records."""
    one = min(records, LARGEST_LOG)
    clusters = max(1, round(records / one))
    write(folder, one, PARTITIONS, max(1, groups // clusters))
    return [f"cluster-{number}={folder}" for number in range(clusters)]


def run_of(records: int, groups: int) -> dict[str, float]:
    """Run the pipeline over a new log, and again; return the seconds of each stage, and the number of `records`."""
    from kohort.fleet import pipeline
    from kohort.fleet.inputs.input_kinds import parse_inputs

    with tempfile.TemporaryDirectory(prefix="kohort-fleet-pipeline.") as folder:
        given = parse_inputs(inputs_of(Path(folder, "log"), records, groups))
        started = time.monotonic()
        done = pipeline.run(given, Path(folder, "tables"))
        took: dict[str, float] = {**done.seconds, "all": time.monotonic() - started, "records": done.records}
        started = time.monotonic()
        if pipeline.run(given, Path(folder, "tables")).is_new:
            raise RuntimeError("the same log was read twice")
        took["nothing new"] = time.monotonic() - started
        return took


def fleet_pipeline(quick: bool) -> Iterator[Outcome]:
    """Yield the records a second, and how the time grows with records and with groups."""
    base, groups = (50_000, 100) if quick else (1_000_000, 1_000)
    run_of(20_000, 40)  # the decoder is compiled from here on
    small = run_of(base, groups)
    large = run_of(4 * base, groups)
    crowded = run_of(base, 10 * groups)
    stages = {name: round(each, 1) for name, each in large.items() if name != "records"}
    note = f"{large['records']:,.0f} records of {groups} groups, by stage {json.dumps(stages)}"
    yield Result("fleet pipeline", "records/s", [large["records"] / large["all"]], [], "", None, note, stages)
    growth = (large["all"] / large["records"]) / (small["all"] / small["records"])
    yield Result("  4x the records, time for each", "ratio", [growth], [], "", None, "1 is linear, less is better")
    growth = (crowded["all"] / crowded["records"]) / (small["all"] / small["records"])
    yield Result("  10x the groups, time for each", "ratio", [growth], [], "", None, "1 is flat")


def main() -> int:
    """Run it once over a log of a size that is asked for, and print the stages."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet_pipeline", description=__doc__)
    parser.add_argument("--records", type=int, default=50_000_000)
    parser.add_argument("--groups", type=int, default=5_000)
    given = parser.parse_args()
    for stage, seconds in run_of(given.records, given.groups).items():
        print(f"{stage:12} {seconds:14,.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
