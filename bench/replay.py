"""A coordinator that takes over reads its partition of `__consumer_offsets`: a million uncleaned records.

Both brokers read the same segment files, each in a process that has just started. What is compared is the CPU time of
the one thread that loads, so that what else the machine does takes nothing from either; a JVM compiles meanwhile in
other threads, which the note counts. Times by the wall are those of our node's start, and of Apache Kafka's log.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from interop.kafka import ApacheKafka
from interop.moved_logs import OFFSETS, list_topics, to_kafka
from interop.process import CLOCK_TICKS
from interop.waiting import eventually

from bench.group_log import write
from bench.result import Aim, Outcome, Result
from kohort.model.errors import KafkaError
from kohort.sync import Admin

LOADED = re.compile(rf"Finished loading of metadata from {OFFSETS}-0 .* in (\d+)ms .* Loaded (\d+) records")
LOADER = "kafka-scheduler"
"""The thread of Apache Kafka's coordinator that loads; nothing else of note runs in it while the broker starts."""

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.retention.minutes": "5000000",
    "log.cleaner.min.cleanable.ratio": "1",  # the next start shall find what this one found
}
START = """
import json, os, re, sys, time
from kohort.broker.os_disk import OsDisk
from kohort.node.configuration.config import Config
from kohort.node.node import Node
from kohort.node import coordinator
now_ms = int(time.time() * 1000)
node = Node(Config({}), OsDisk(sys.argv[1]), os.urandom, now_ms)
began, began_cpu = time.perf_counter(), time.process_time()
node.start(now_ms)
took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
(hosted,) = node.coordinator.partitions
status = open("/proc/self/status").read()
print(json.dumps({
    "wall_s": took_s, "cpu_s": cpu_s, "status": hosted.status.value, "groups": len(hosted.shard.groups),
    "rss_mib": int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) / 1024,
}))
node.stop(now_ms)
"""


def start_ours(folder: Path) -> dict[str, Any]:
    """Start a node on a folder in a process of its own, and return what that took."""
    done = subprocess.run([sys.executable, "-c", START, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the node did not start: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if found["status"] != "active":
        raise RuntimeError(f"the groups were not loaded: {done.stderr.strip()[-300:]}")
    return found


def cpu_s(pid: int, thread: str = "") -> float:
    """Return the CPU time of the threads of a process whose names begin like this."""
    ticks = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            ticks += int(fields[11]) + int(fields[12]) if name.startswith(thread) else 0
    return ticks / CLOCK_TICKS


def start_kafka(broker: ApacheKafka, records: int) -> dict[str, float]:
    """Start Apache Kafka on its data, and return what its coordinator's load took."""
    broker.restart()
    try:
        pid = broker.child.pid
        eventually(lambda: "Scheduling loading" in broker.child.text(), True, 120)
        before_s = cpu_s(pid)
        eventually(lambda: LOADED.search(broker.child.text()) is not None, True, 240)
        found = LOADED.search(broker.child.text())
        assert found is not None, "it was there a moment ago"
        if int(found[2]) < records:
            raise RuntimeError(f"Apache Kafka loaded {found[2]} of {records} records")
        return {"wall_s": int(found[1]) / 1000, "cpu_s": cpu_s(pid, LOADER), "process_s": cpu_s(pid) - before_s}
    finally:
        broker.stop()


def replay(quick: bool) -> Iterator[Outcome]:
    """Load the log in both brokers in turn."""
    records = 100_000 if quick else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="kohort-replay."))
    try:
        size = write(folder, records)
        list_topics(folder, {OFFSETS: (b"O" * 16, 1)}, "A" * 22, 0)
        with ApacheKafka(SETTINGS, wait_s=240) as broker:
            with Admin(bootstrap_servers=broker.bootstrap) as admin, suppress(KafkaError):
                admin.describe_groups(["none"])  # a FindCoordinator makes Kafka create the topic
            eventually((broker.logs / f"{OFFSETS}-0").is_dir, True, 30)
            broker.stop()
            to_kafka(folder, broker.logs, [OFFSETS])
            ours: list[dict[str, Any]] = []
            theirs: list[dict[str, Any]] = []
            for _ in range(2 if quick else 5):
                ours.append(start_ours(folder))
                theirs.append(start_kafka(broker, records))
        walls = [statistics.median(run["wall_s"] for run in runs) for runs in (ours, theirs)]
        compiled = statistics.median(run["process_s"] for run in theirs)
        last = ours[-1]
        what = f"{records:,} records, {size >> 20} MiB, {last['groups']:,} groups, {last['rss_mib']:.0f} MiB after it"
        times = f"by the wall {walls[0]:.1f} beside {walls[1]:.1f} s; all threads of the JVM: {compiled:.1f} s"
        our_cpu, their_cpu = ([run["cpu_s"] for run in runs] for runs in (ours, theirs))
        aim = Aim(1, of_ratio=True, at_most=True)
        note = f"{what}; {times}"
        extra = {"ours": ours, "theirs": theirs}
        yield Result("groups loaded from their log, CPU", "s", our_cpu, their_cpu, "Apache Kafka", aim, note, extra)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
