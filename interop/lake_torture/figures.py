"""Writes the section `lake-torture` of docs/figures.md from the summaries of runs.

    python -m interop.lake_torture.figures SUMMARY.json ...     what `python -m interop.lake_torture --json` printed

Of two readers that do not agree, the one that found more wrong counts.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

from interop.lake_torture.account import Name

PAGE = Path(__file__).resolve().parents[2] / "docs" / "figures.md"
TITLE = "lake-torture"
JOBS = {
    "delta": "`GroupStream` into Delta",
    "iceberg": "`GroupStream` into Iceberg",
    "postgres": "`GroupStream` into PostgreSQL",
    "spark-delta": "Spark's Kafka source, Delta's sink",
    "delta-merge": "`GroupStream`, upserts into Delta",
    "iceberg-merge": "`GroupStream`, upserts into Iceberg",
    "delta-state": "a query with state, bound to its checkpoint, into Delta",
    "delta-cluster": "`GroupStream` into Delta, tasks in executors",
    "connect": "Iceberg's sink for Kafka Connect",
}
HEAD = """Measured {day}: `python -m interop.lake_torture --json` ([how](../tests/README.md#torture-of-the-tables)),
two cores that other work kept busy. Each row that a job must make of the log has to be in its table once. A seed has
one schedule of kills for all jobs; jobs of one run ran beside each other. "After a new topic" is what a job did when
its topic was made anew in the end.

| run | job | rows due | missing | not read in time | twice | of no record | readers beside saw | after a new topic |
|---|---|---|---|---|---|---|---|---|
"""
DURING = (Name.GAP, Name.TWICE)
ANEW = (Name.ALIVE, Name.NO_SENTENCE, Name.CHANGED)


def lines(number: int, run: dict[str, Any]) -> list[str]:
    """Return the lines of one run, one for each job."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, counts in run["tables"].items():
        table, _, _ = name.partition(", by ")
        job, _, era = table.rpartition("_")
        worst = found.setdefault(job, {}).setdefault(era, dict(counts))
        for key, value in counts.items():
            worst[key] = max(worst[key], value) if key != "rows" else value
    made = []
    for job, eras in found.items():
        total = {key: sum(each[key] for each in eras.values()) for key in ("rows", "missing", "twice", "foreign")}
        due = total["rows"] - total["twice"] - total["foreign"] + total["missing"]
        of_job = [each for each in run["findings"] if each["job"].startswith(f"{job}_")]
        beside = sum(each["name"] in DURING and "while jobs ran" in each["detail"] for each in of_job)
        anew = "; ".join(f"{each['name']} ({each['rows']:,})" for each in of_job if each["name"] in ANEW)
        unread = sum(each["rows"] for each in of_job if each["name"] == Name.NO_END)
        cells = [f"{each:,}" for each in (due, total["missing"] - unread, unread, total["twice"], total["foreign"])]
        seen = f"{beside:,} wrong states" if beside else "nothing wrong"
        cells += [seen, anew or "it ended with an error"]
        made.append(f"| {number} | {JOBS.get(job, job)} | {' | '.join(cells)} |\n")
    return made


def about(number: int, run: dict[str, Any]) -> str:
    """Return what the kills of one run were."""
    parts = [f"{what} {count:,}" for what, count in sorted(run["tried"].items()) if not what.startswith("  ")]
    return (
        f"- Run {number}: seed {run['seed']}, {run['minutes']:g} minutes, {run['kills']:,} kills: {', '.join(parts)}.\n"
    )


def section(runs: list[dict[str, Any]], notes: str) -> str:
    """Return the section, and the notes below it, which are written by hand."""
    numbered = list(enumerate(runs, 1))
    table = "".join(line for each in numbered for line in lines(*each))
    kills = "".join(about(*each) for each in numbered)
    return f"## {TITLE}\n\n{HEAD.format(day=date.today())}{table}\n{kills}{notes}"


def main(files: list[str]) -> int:
    """Write the section in place of an earlier one, whose notes stay."""
    before = PAGE.read_text()
    pattern = rf"^## {TITLE}\n.*?(?=^## |\Z)"
    old = re.search(pattern, before, flags=re.MULTILINE | re.DOTALL)
    notes = re.findall(r"^- (?!Run \d).*\n(?:  .*\n)*", old[0] if old else "", flags=re.MULTILINE)
    rest = re.sub(pattern, "", before, flags=re.MULTILINE | re.DOTALL).rstrip()
    made = section([json.loads(Path(each).read_text()) for each in files], "".join(notes))
    PAGE.write_text(f"{rest}\n\n{made}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
