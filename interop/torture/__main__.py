"""A real broker and mixed real clients under faults at once, and a check that nothing acknowledged was lost.

    python -m interop.torture [--minutes 60] [--seed 7] [--json] [--keep DIRECTORY]
    python -m interop.torture --judge DIRECTORY [--json]    (the files that a run left with --keep, or with a finding)

The seed decides the faults, what is written and the hostile bytes; how processes run beside each other it cannot
decide, so a seed repeats a run in its faults, not in every step. Exit code 0 if every promise held, 1 if one was
broken (each is named, and the histories, the broker's logs and its files are kept), 2 if there is nothing to judge,
130 after a second Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interop.seeded_run import SeededRun, carry_out, options
from interop.torture.checks.anomaly import Anomaly
from interop.torture.evidence import Evidence, NoEvidence
from interop.torture.run import Run

SHOWN = 20
"""How many anomalies of one kind are printed."""


def main(arguments: list[str]) -> int:
    """Run for the time that is asked for."""
    parser = options("interop.torture", __doc__)
    parser.add_argument("--judge", type=Path, metavar="DIRECTORY", help="judge the files of an earlier run again")
    given = parser.parse_args(arguments)
    if given.judge is not None:
        return _judge(given.judge, is_json=given.json)
    return carry_out(given, "torture", _tried)


def _tried(asked: SeededRun) -> bool:
    """Try what was asked for, and print what was found; return whether every promise held."""
    with ExitStack() as stack:
        run = Run(stack, asked.folder, asked.seed, asked.minutes, asked.say)
        for each in run.without:
            asked.say(f"not tried, {each}")
        _torture(run, asked.say)
        run.keep_data()
    more = {"seed": asked.seed, "minutes": asked.minutes, "not_tried": run.without, "errors_of_clients": run.errors}
    _summarize(run.anomalies, run.tried, asked.folder, more if asked.is_json else None)
    return not run.anomalies


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


def _judge(folder: Path, *, is_json: bool) -> int:
    try:
        evidence = Evidence.read(folder)
    except NoEvidence as error:
        print(f"nothing was judged: {error}", file=sys.stderr if is_json else sys.stdout)
        return 2
    anomalies = list(evidence.judge())
    _summarize(anomalies, evidence.counts(), folder, {} if is_json else None)
    return 1 if anomalies else 0


def _summarize(anomalies: list[Anomaly], tried: Counter[str], folder: Path, more: dict[str, Any] | None) -> None:
    """Print what was tried and found; with `more`, and that, as one JSON document."""
    if more is not None:
        found = [{"name": each.name.name, "where": each.where, "detail": each.detail} for each in anomalies]
        print(
            json.dumps({**more, "tried": tried, "anomalies": found, "files": str(folder) if found else None}, indent=2)
        )
        return
    for what, count in sorted(tried.items()):
        print(f"  {what:32} {count:>12,}")
    shown: Counter[str] = Counter()
    for anomaly in anomalies:
        shown[anomaly.name.name] += 1
        if shown[anomaly.name.name] <= SHOWN:
            print(str(anomaly))
    listed = ", ".join(f"{name} {count}" for name, count in shown.items())
    print(f"{listed}: the files are in {folder}" if shown else "lost: 0, reordered: 0, commits gone back: 0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
