"""Writes the section `lake-torture` of docs/figures.md from the summaries of runs.

    python -m interop.lake_torture.figures SUMMARY.json ...     what `python -m interop.lake_torture --json` printed

Of two readers that do not agree, the one that found more wrong counts.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

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
HEAD = """Rows of a topic in tables after kills; each must be there once
([how](../tests/README.md#torture-of-the-tables)). The kills of a seed are those of one schedule for all jobs.
"After a new topic" is what each job did when its topic was made anew at the end.

| job | seed, minutes | kills | rows in the log | missing | more than once | after a new topic |
|---|---|---|---|---|---|---|
"""


def lines(run: dict[str, Any]) -> list[str]:
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
        log = total["rows"] - total["twice"] - total["foreign"] + total["missing"]
        broken = [each for each in run["findings"] if each["job"].startswith(f"{job}_") and "made anew" in each["name"]]
        anew = "; ".join(f"{each['name']}: {each['detail']}" for each in broken) or "ended with an error"
        about = f"{run['seed']}, {run['minutes']:g} | {run['kills']:,} | {log:,}"
        made.append(f"| {JOBS.get(job, job)} | {about} | {total['missing']:,} | {total['twice']:,} | {anew} |\n")
    return made


def section(runs: list[dict[str, Any]]) -> str:
    """Return the section."""
    return f"## {TITLE}\n\n{HEAD}{''.join(line for run in runs for line in lines(run))}"


def main(files: list[str]) -> int:
    """Write the section, in place of an earlier one."""
    before = PAGE.read_text()
    rest = re.sub(rf"^## {TITLE}\n.*?(?=^## |\Z)", "", before, flags=re.MULTILINE | re.DOTALL).rstrip()
    PAGE.write_text(f"{rest}\n\n{section([json.loads(Path(each).read_text()) for each in files])}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
