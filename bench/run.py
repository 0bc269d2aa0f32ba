"""Runs the rows, prints the table, writes build/bench/results.json.

python -m bench [--only ROW,ROW] [--missing] [--quick] [--json FILE]

The file keeps the newest figures of each row: who measures one row again leaves the others as they were. Several runs
may write the same file at the same time.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from interop.unavailable import Unavailable

from bench.assignors import assignors
from bench.clients import clients
from bench.codec_row import codec
from bench.commit_cost import commit_cost
from bench.coordinator import coordinator, coordinator_over_tls
from bench.decode import decode
from bench.first_query import first_query
from bench.fleet_decode import fleet_decode
from bench.fleet_pipeline import fleet_pipeline
from bench.gateway_held import gateway_held
from bench.gateway_settle import gateway_settle
from bench.gateway_traffic import gateway_traffic
from bench.group_stream import group_stream
from bench.lag import lag
from bench.lakehouse import lakehouse, lakehouse_merge
from bench.large_group import acl_checks, large_group
from bench.rebalance import rebalance
from bench.replay import replay
from bench.result import Load, Outcome, Result, Skipped, line
from bench.roll import CELLS, KILLS, parked, rolls
from bench.round_latency import round_latency
from bench.scaler import scaler
from bench.server_assignors import server_rows
from bench.services import services
from bench.settle import settle
from bench.spark_read import spark_read
from bench.spark_sink import spark_sink
from bench.startup import startup
from bench.streams import streams, streams_join
from bench.streams_groups import streams_groups
from bench.takeover import takeover
from bench.throughput import throughput, throughput_over_tls
from bench.topic_to_topic import topic_to_topic
from bench.transactions import transactions

ROWS: Mapping[str, Callable[[bool], Iterator[Outcome]]] = {
    "startup": startup,
    "replay": replay,
    "coordinator": coordinator,
    "coordinator-tls": coordinator_over_tls,
    "large-group": large_group,
    "acl-checks": acl_checks,
    "rebalance": rebalance,
    "settle": settle,
    **{cell.row: partial(rolls, cell=cell) for cell in [*CELLS, *KILLS]},
    "parked": parked,
    "throughput": throughput,
    "throughput-tls": throughput_over_tls,
    "transactions": transactions,
    "services": services,
    "clients": clients,
    "streams": streams,
    "streams-join": streams_join,
    "streams-groups": streams_groups,
    "gateway-settle": gateway_settle,
    "gateway-traffic": gateway_traffic,
    "gateway-held": gateway_held,
    "scaler": scaler,
    "codec": codec,
    "assignors": assignors,
    "server-assignors": server_rows,
    "spark": spark_read,
    "spark-sink": spark_sink,
    "decode": decode,
    "group-stream": group_stream,
    "round-latency": round_latency,
    "topic-to-topic": topic_to_topic,
    "lakehouse": lakehouse,
    "commit-cost": commit_cost,
    "lakehouse-merge": lakehouse_merge,
    "first-query": first_query,
    "takeover": takeover,
    "lag": lag,
    "fleet-decode": fleet_decode,
    "fleet-pipeline": fleet_pipeline,
}
FAMILIES = ("roll", "kill")
"""Rows that are many; of `roll`, `roll-CLIENTS-PROTOCOL-COMMITS-PACE`, and of `kill`, `kill-PROTOCOL`."""
RESULTS = Path(__file__).resolve().parent.parent / "build" / "bench" / "results.json"
QUICK_RESULTS = RESULTS.with_name("quick.json")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Figures beside their peers, in one run")
    others = [name for name in ROWS if name.partition("-")[0] not in FAMILIES]
    shown = f"of {', '.join([*others, *FAMILIES])}; the beginning of names, up to a hyphen, means all of them"
    parser.add_argument("--only", metavar="ROW,ROW", default=",".join(ROWS), help=shown)
    parser.add_argument("--missing", action="store_true", help="no row that the file of figures has already")
    parser.add_argument("--quick", action="store_true", help="short samples: shows that the rows work, no more")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where the figures go")
    given = parser.parse_args()
    given.json = given.json or (QUICK_RESULTS if given.quick else RESULTS)
    names = given.only.split(",")
    if unknown := [name for name in names if not rows_of(name)]:
        parser.error(f"no such row: {', '.join(unknown)} ({shown})")
    known = measured(given.json) if given.missing else set()
    given.only = [row for name in names for row in rows_of(name) if row not in known]
    return given


def rows_of(name: str) -> list[str]:
    """Return the row of a name, else those whose names begin with it and a hyphen."""
    return [name] if name in ROWS else [row for row in ROWS if row.startswith(f"{name}-")]


def measured(file: Path) -> set[str]:
    """Return the rows of which a file has figures."""
    return {each["row"] for each in kept(file, ()) if "skipped" not in each}


def measure(name: str, quick: bool) -> Iterator[Outcome]:
    """Yield one row's lines; a peer that cannot be had, or a failure, becomes a line with its reason."""
    try:
        yield from ROWS[name](quick)
    except (Unavailable, ImportError) as reason:
        yield Skipped(name, str(reason))
    except Exception as error:  # one row must not cost the others
        traceback.print_exc()
        yield Skipped(name, f"failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def as_json(outcome: Outcome, row: str, cores: float) -> dict[str, Any]:
    """Return one line for the results file."""
    at = {"row": row, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    if isinstance(outcome, Skipped):
        return {**at, "name": outcome.name, "skipped": outcome.reason}
    return {**at, "busy_cores": round(cores, 2), **outcome.as_json()}


def kept(file: Path, replaced: Collection[str]) -> list[dict[str, Any]]:
    """Return what a file has of rows that were not measured now, and that there are."""
    try:
        before = json.loads(file.read_text())["results"]
    except (FileNotFoundError, ValueError, KeyError):
        return []
    return [each for each in before if each["row"] in ROWS and each["row"] not in replaced]


def store(given: argparse.Namespace, found: list[dict[str, Any]], load: tuple[float, float, float]) -> None:
    """Write what was measured so far; rows that the file has and this run has not reached stay in it."""
    given.json.parent.mkdir(parents=True, exist_ok=True)
    with given.json.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may have added rows since
        others = kept(given.json, {each["row"] for each in found})
        document = {
            "quick": given.quick,
            "cores": os.cpu_count(),
            "load_before": load,
            "load_after": os.getloadavg(),
            "python": platform.python_version(),
            "machine": platform.platform(),
            "results": sorted([*others, *found], key=lambda each: list(ROWS).index(each["row"])),
        }
        given.json.write_text(json.dumps(document, indent=1, default=str) + "\n")


def main() -> int:
    """Run what was asked for; the exit code is 1 when a row failed, and 0 when an aim is merely missed."""
    given = arguments()
    load = os.getloadavg()
    print(f"{'':34} {'ours':>16} {'theirs':>16} {'ratio':>8} {'aim':>10} {'met':>4}  peer")
    found: list[dict[str, Any]] = []
    has_failed = False
    for name in given.only:
        busy = Load()
        for outcome in measure(name, given.quick):
            print(line(outcome), flush=True)
            found.append(as_json(outcome, name, busy.cores()))
            has_failed |= isinstance(outcome, Skipped) and outcome.reason.startswith("failed")
        print(f"{'':34} {busy.cores():.2f} of {os.cpu_count()} cores were busy, everything on the machine counted\n")
        store(given, found, load)  # after each row: a run that is interrupted keeps what it measured
    aims = [each for each in found if each.get("is_met") is not None]
    print(f"{sum(each['is_met'] for each in aims)} of {len(aims)} aims met · {given.json}")
    return 1 if has_failed else 0


__all__ = ["ROWS", "Result", "main"]

if __name__ == "__main__":
    sys.exit(main())
