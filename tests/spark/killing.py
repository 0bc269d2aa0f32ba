"""Two storing programs that are killed at any moment and started again, and what must be in their table then."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from tests.spark.cluster import Topic
from tests.spark.lake import offsets_of, stored
from tests.spark.storing_job import GROUP, PLACE

from kohort.spark.tables import Table

ROOT = Path(__file__).parent.parent.parent

ORDERS = 10
"""In how many rows of steps a job may store before it waits for the next kill."""


def start(kind: str, where: str, name: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.storing_job", kind, where, name, str(seed)]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    order(job)
    return job


def order(job: subprocess.Popen[bytes]) -> None:
    """Let a job store a little more: what is read after each kill would else grow as fast as the machine is slow."""
    assert job.stdin is not None, "a job is started with a pipe"
    job.stdin.write(b"\n" * ORDERS)
    job.stdin.flush()


def output(job: subprocess.Popen[bytes]) -> IO[bytes]:
    assert job.stdout is not None, "a job is started with a pipe"
    return job.stdout


def kill_often(kind: str, where: str, name: str, table: Table, kills: int, numbers: Callable[[], Iterable[int]]) -> int:
    """Kill one of two jobs `kills` times, when it has stored a little; return how many numbers the table has then."""
    chance = random.Random(7)
    jobs = [start(kind, where, name, seed) for seed in range(2)]
    try:
        for number in range(kills):
            victim = chance.randrange(2)
            for each in jobs:
                order(each)
            for _ in range(chance.randrange(1, 6)):
                assert output(jobs[victim]).readline(), "only a kill ends a job"
            jobs[victim].kill()
            jobs[victim].communicate()
            found = sorted(numbers())  # while the other goes on
            assert found == list(range(len(found)))
            jobs[victim] = start(kind, where, name, number + 2)
    finally:
        for each in jobs:
            each.kill()
            each.communicate()
    reached = stored(table, GROUP, [PLACE])[PLACE]
    assert sorted(numbers()) == list(range(reached))
    return reached


def kill_streams(
    topic: Topic, kind: str, where: str, name: str, table: Table, kills: int, meanwhile: Callable[[], object] = int
) -> int:
    """Kill one of two Spark applications `kills` times in the midst of its rounds, each time another one of the two.

    `meanwhile` is called after each kill. Returns how many records the topic holds, all of which the table has reached.
    """
    chance = random.Random(7)
    command = [topic.bootstrap_servers, topic.name, topic.group_id, kind, where, name]
    jobs = [start_stream(command) for _ in range(2)]
    written = 0
    try:
        for number in range(kills + 1):
            victim = number % 2
            for each in jobs if number == 0 else jobs[1 - victim :][:1]:
                await_line(each, "owns")  # the one that was started last
            written += len(topic.fill(240))
            if number < kills:
                for _ in range(chance.randrange(1, 4)):
                    await_line(jobs[victim], "round")
                jobs[victim].kill()
                jobs[victim].communicate()
                meanwhile()
                jobs[victim] = start_stream(command)
        while sum(offsets_of(table, topic).values()) < written:
            for pipe in select.select([output(each) for each in jobs], [], [], 1)[0]:
                assert os.read(pipe.fileno(), 4096), "only a kill ends a job"
    finally:
        for each in jobs:
            each.kill()
            each.communicate()
    return written


def start_stream(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.storing_stream", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def await_line(job: subprocess.Popen[bytes], wanted: str) -> None:
    """Read what a job says up to a line."""
    assert job.stdout is not None
    while (line := job.stdout.readline().decode().strip()) != wanted:
        assert line, "only a kill ends a job"
