"""The command line of a run of faults: its options, the folder of its files, and its exit code."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interop.unavailable import Unavailable


@dataclass(frozen=True, slots=True)
class SeededRun:
    """What was asked for: which faults, how long, where files go, and whether stdout is for one JSON document."""

    seed: int
    minutes: float
    folder: Path
    is_json: bool

    def say(self, line: str) -> None:
        """Print a line of progress."""
        print(line, file=sys.stderr if self.is_json else sys.stdout, flush=True)


def options(package: str, text: str | None) -> argparse.ArgumentParser:
    """Return the options that every run of faults has."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long there are faults (default: 60)")
    parser.add_argument("--seed", type=int, help="which faults; drawn by the time of day when not given")
    parser.add_argument(
        "--json", action="store_true", help="print the summary as one JSON document; progress on stderr"
    )
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep all files there, found something or not")
    return parser


def carry_out(given: argparse.Namespace, target: str, torture: Callable[[SeededRun], bool]) -> int:
    """Run faults, and return the exit code. `torture` returns whether every promise held; then no file is kept."""
    folder = given.keep or Path(tempfile.mkdtemp(prefix=f"kohort-{target}."))
    folder.mkdir(parents=True, exist_ok=True)
    seed = int(time.time()) if given.seed is None else given.seed
    run = SeededRun(seed, given.minutes, folder.resolve(), given.json)
    run.say(f"seed {seed}, {run.minutes:g} minutes: repeat with make {target} SEED={seed} MINUTES={run.minutes:g}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        is_clean = torture(run)
    except Unavailable as error:
        run.say(f"nothing was tried: {error}")
        return 2
    except KeyboardInterrupt:
        run.say(f"interrupted a second time: nothing was judged; the files are in {folder}")
        return 130
    if is_clean and not given.keep:
        shutil.rmtree(folder)
    return 0 if is_clean else 1
