"""A real broker and mixed real clients under faults at once, and a check that nothing acknowledged was lost.

    python -m interop.torture [--minutes 60] [--seed 7] [--json] [--keep DIRECTORY]
    python -m interop.torture --judge DIRECTORY [--json]    (the files that a run left with --keep, or with a finding)

The seed decides the faults, what is written and the hostile bytes; how processes run beside each other it cannot
decide, so a seed repeats a run in its faults, not in every step. Exit code 0 if every promise held, 1 if one was
broken (each is named, and the histories, the broker's logs and its files are kept), 2 if there is nothing to judge,
130 after a second Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interop.torture.checks.anomaly import Anomaly
from interop.torture.evidence import Evidence, NoEvidence
from interop.torture.run import Run

SHOWN = 20
"""How many anomalies of one kind are printed."""


def main(arguments: list[str]) -> int:
    """Run for the time that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m interop.torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long there are faults (default: 60)")
    parser.add_argument("--seed", type=int, help="which faults; drawn by the time of day when not given")
    parser.add_argument(
        "--json", action="store_true", help="print the summary as one JSON document; progress on stderr"
    )
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep all files there, found something or not")
    parser.add_argument("--judge", type=Path, metavar="DIRECTORY", help="judge the files of an earlier run again")
    given = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, file=sys.stderr if given.json else sys.stdout, flush=True)

    if given.judge is not None:
        return _judge(given.judge, say, is_json=given.json)
    seed = int(time.time()) if given.seed is None else given.seed
    say(f"seed {seed}, {given.minutes:g} minutes: repeat with make torture SEED={seed} MINUTES={given.minutes:g}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="kohort-torture."))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as stack:
            run = Run(stack, folder.resolve(), seed, given.minutes, say)
            for each in run.without:
                say(f"not tried, {each}")
            _torture(run, say)
            is_clean = not run.anomalies
            if not is_clean or given.keep:
                run.keep_data()
    except KeyboardInterrupt:
        say(f"interrupted a second time: nothing was judged; the files are in {folder}")
        return 130
    more = {"seed": seed, "minutes": given.minutes, "not_tried": run.without, "errors_of_clients": run.errors}
    _summarize(run.anomalies, run.tried, folder, say, more if given.json else None)
    if is_clean and not given.keep:
        shutil.rmtree(folder)
    return 0 if is_clean else 1


def _torture(run: Run, say: Callable[[str], None]) -> None:
    run.start()
    try:
        run.torment()
    except KeyboardInterrupt:
        say("interrupted: no more faults; what was done until now is judged. Once more to end at once")
    run.heal()
    run.rest()
    say("the clients end, the broker is killed once more, and its log is read")
    log = run.stop()
    say("the histories are judged")
    run.judge(log)


def _judge(folder: Path, say: Callable[[str], None], *, is_json: bool) -> int:
    try:
        evidence = Evidence.read(folder)
    except NoEvidence as error:
        say(f"nothing was judged: {error}")
        return 2
    anomalies = list(evidence.judge())
    _summarize(anomalies, evidence.counts(), folder, say, {} if is_json else None)
    return 1 if anomalies else 0


def _summarize(
    anomalies: list[Anomaly], tried: Counter[str], folder: Path, say: Callable[[str], None], more: dict[str, Any] | None
) -> None:
    """Print what was tried and found; with `more`, and that, as one JSON document."""
    if more is not None:
        found = [{"name": each.name.name, "where": each.where, "detail": each.detail} for each in anomalies]
        print(
            json.dumps({**more, "tried": tried, "anomalies": found, "files": str(folder) if found else None}, indent=2)
        )
        return
    for what, count in sorted(tried.items()):
        say(f"  {what:32} {count:>12,}")
    shown: Counter[str] = Counter()
    for anomaly in anomalies:
        shown[anomaly.name.name] += 1
        if shown[anomaly.name.name] <= SHOWN:
            say(str(anomaly))
    listed = ", ".join(f"{name} {count}" for name, count in shown.items())
    say(f"{listed}: the files are in {folder}" if shown else "lost: 0, reordered: 0, commits gone back: 0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
