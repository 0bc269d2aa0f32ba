"""Jobs that land a topic in tables under kills, and a check that each row is in each table exactly once.

    python -m interop.lake_torture [--minutes 60] [--seed 7] [--jobs delta,iceberg,…] [--json] [--keep DIRECTORY]

The seed decides the kills and what is written; how processes run beside each other it cannot decide, so a seed repeats
a schedule, not every step. Exit code 0 if every promise held, 1 if one was broken (each is named, and all files are
kept), 2 if a part is missing on this machine, 130 after a second Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from interop.lake_torture.jobs import JOBS, USUAL
from interop.lake_torture.run import Run, summary
from interop.seeded_run import SeededRun, carry_out, options

SHOWN = 20
"""How many findings are printed."""


def main(arguments: list[str]) -> int:
    """Run for the time that is asked for."""
    parser = options("interop.lake_torture", __doc__)
    parser.add_argument(
        "--jobs", default=",".join(USUAL), help=f"which jobs: {', '.join(JOBS)} (default: {','.join(USUAL)})"
    )
    parser.add_argument(
        "--broker", choices=("kohort", "apache"), default="kohort", help="whose broker (default: kohort)"
    )
    given = parser.parse_args(arguments)
    kinds = given.jobs.split(",")
    if unknown := sorted(set(kinds) - set(JOBS)):
        parser.error(f"no job is {', '.join(unknown)}: they are {', '.join(JOBS)}")

    def tried(asked: SeededRun) -> bool:
        with ExitStack() as stack:
            run = Run(
                stack, asked.folder, asked.seed, asked.minutes, kinds, asked.say, is_apache=given.broker == "apache"
            )
            run.go()
        if asked.is_json:
            print(json.dumps({"seed": asked.seed, **summary(run)}, indent=2))
        else:
            _print(run, asked.folder)
        return not run.findings

    return carry_out(given, "torture-lake", tried)


def _print(run: Run, folder: Path) -> None:
    for what, count in run.tried.items():
        print(f"  {what:60} {count:>9,}")
    for what, count in sorted(run.endings.items()):
        print(f"  ended: {what:53} {count:>9,}")
    for name, counts in run.counts.items():
        wrong = f"{counts.missing:,} missing, {counts.twice:,} twice, {counts.foreign:,} foreign"
        print(f"  {name}: {counts.rows:,} rows, {wrong}")
    for finding in run.findings[:SHOWN]:
        print(finding)
    verdict = f"{len(run.findings)} promises broken: the files are in {folder}" if run.findings else "each row once"
    print(f"{run.kills} kills; {verdict}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
