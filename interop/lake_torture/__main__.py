"""Jobs that land a topic in tables under kills, and a check that each row is in each table exactly once.

    python -m interop.lake_torture [--minutes 60] [--seed 7] [--jobs delta,iceberg,postgres] [--json] [--keep DIRECTORY]

The seed decides the kills and what is written; how processes run beside each other it cannot decide, so a seed repeats
a schedule, not every step. Exit code 0 if every promise held, 1 if one was broken (each is named, and all files are
kept), 2 if a part is missing on this machine, 130 after a second Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from interop.lake_torture.jobs import JOBS
from interop.lake_torture.run import Run, summary
from interop.unavailable import Unavailable

OURS = ("delta", "iceberg", "postgres")
SHOWN = 20
"""How many findings are printed."""


def main(arguments: list[str]) -> int:
    """Run for the time that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m interop.lake_torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long there are kills (default: 60)")
    parser.add_argument("--seed", type=int, help="which kills; drawn by the time of day when not given")
    parser.add_argument(
        "--jobs", default=",".join(OURS), help=f"which jobs: {', '.join(JOBS)} (default: {','.join(OURS)})"
    )
    parser.add_argument(
        "--broker", choices=("kohort", "apache"), default="kohort", help="whose broker (default: kohort)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summary as one JSON document; progress on stderr"
    )
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep all files there, found something or not")
    given = parser.parse_args(arguments)
    kinds = given.jobs.split(",")
    if unknown := sorted(set(kinds) - set(JOBS)):
        parser.error(f"no job is {', '.join(unknown)}: they are {', '.join(JOBS)}")

    def say(line: str) -> None:
        print(line, file=sys.stderr if given.json else sys.stdout, flush=True)

    seed = int(time.time()) if given.seed is None else given.seed
    say(f"seed {seed}, {given.minutes:g} minutes: repeat with make torture-lake SEED={seed} MINUTES={given.minutes:g}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="kohort-lake-torture."))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as stack:
            run = Run(stack, folder.resolve(), seed, given.minutes, kinds, say, is_apache=given.broker == "apache")
            run.go()
    except Unavailable as error:
        say(f"nothing was tried: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"interrupted a second time: nothing was judged; the files are in {folder}")
        return 130
    found = summary(run)
    if given.json:
        print(json.dumps({"seed": seed, "minutes": given.minutes, **found}, indent=2))
    else:
        _print(run, folder)
    if not run.findings and not given.keep:
        shutil.rmtree(folder)
    return 1 if run.findings else 0


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
