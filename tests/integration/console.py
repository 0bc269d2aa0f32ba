"""Runs the `console` blocks of a document as a reader would type them, and gives back what really came out.

`kohort broker … &`, `kohort console &` and members of a group run beside the others, the first two on free ports, until
`kill %N`; everything else is a shell command in the same directory. What differs from run to run (ports, ids, times) is
written the way the documents write it.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kohort import Admin, KafkaError

ADDRESS = "127.0.0.1:9092"
MEMBER = re.compile(r"kohort consume .*--group (\w+)|kohort run (\w+):")
"""What is a member of a group; a service is in the group of its module's name."""
SHOWN = re.compile(r"^<!-- examples/\S+/(\w+\.py) -->\n+```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A program that the reader saves beside the others."""


class Step(NamedTuple):
    """One command of a document and the output written under it."""

    line: int
    command: str
    output: str


def steps(document: str) -> Iterator[Step]:
    """Yield the commands of a document's `console` blocks in order."""
    for block in re.finditer(r"^```console\n(.*?)^```", document, flags=re.MULTILINE | re.DOTALL):
        first = document[: block.start(1)].count("\n") + 1
        lines = block.group(1).splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            command = [lines[start][2:]]
            at = start + 1
            while command[-1].endswith("\\"):
                command.append(lines[at])
                at += 1
            yield Step(first + start, "\n".join(command), "\n".join(lines[at:end]))


async def have_read(address: str, group: str, members: int) -> None:
    """Wait until a group has so many members, is stable, and has read everything."""
    async with asyncio.timeout(30), Admin(address) as admin:
        while True:
            try:
                found = (await admin.describe_groups([group]))[group]
                committed = await admin.group_offsets(group)
                ends = await admin.list_offsets(dict.fromkeys(committed, "latest"))
            except KafkaError:
                continue  # it has no members yet
            has_read = all(ends[partition].offset == at.offset for partition, at in committed.items())
            if found.state == "Stable" and len(found.members) == members and committed and has_read:
                return


class Console:
    """A directory, an environment, and what runs in it, numbered from 1 as a shell does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
        }
        self.environment.pop("KOHORT_BOOTSTRAP", None)
        self.jobs: list[subprocess.Popen[str]] = []
        self.members: dict[int, str] = {}
        """The group of each job that is a member of one."""

    def save_programs(self, document: str) -> None:
        """Save the programs that a document shows and that are no script of `examples/`."""
        for name, text in SHOWN.findall(document):
            (self.directory / name).write_text(text, encoding="utf-8")

    def run(self, command: str) -> str:
        """Run a command and return its output, stdout and stderr as they came."""
        if command.startswith(("kohort broker ", "kohort console")) and command.endswith(" &"):
            return self.normal(self.start_server(command.removesuffix(" &")))
        if command.startswith("kill %"):
            for number in re.findall(r"%(\d+)", command):
                self.end(int(number))
            return ""
        # A reader types more slowly than a group moves: its members have joined, and have read what was written.
        for group in set(self.members.values()):
            members = sum(each == group for each in self.members.values())
            asyncio.run(have_read(self.environment["KOHORT_BOOTSTRAP"], group, members))
        if (member := MEMBER.match(command)) and command.endswith(" &"):
            self.jobs.append(self.started(["bash", "-c", f"exec {command.removesuffix(' &')}"]))
            self.members[len(self.jobs)] = member[1] or member[2]
            return ""
        outcome = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return self.normal(outcome.stdout.rstrip("\n"))

    def started(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a process of the document."""
        return subprocess.Popen(
            command,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start_server(self, command: str) -> str:
        """Start a broker, which ends another one, or a console on a free port; return the line that it prints."""
        is_broker = command.startswith("kohort broker ")
        if is_broker:
            self.close()
        server = self.started([*command.split(), "--port", "0"])
        self.jobs.append(server)
        assert server.stdout is not None
        ready = server.stdout.readline().rstrip("\n")
        if is_broker:
            self.environment["KOHORT_BOOTSTRAP"] = ready.rpartition(" ")[2]
        return ready

    def normal(self, output: str) -> str:
        """Return output with what differs from run to run as the documents write it."""
        if address := self.environment.get("KOHORT_BOOTSTRAP"):
            output = output.replace(address, ADDRESS)
        output = re.sub(r"127\.0\.0\.1:\d+/\?token=[\w-]+", "127.0.0.1:8383/?token=…", output)
        output = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "5f0f…", output)
        output = re.sub(r"\bid [\w-]{22}(?![\w-])", "id 6hN1…", output)
        output = re.sub(r'"topic_id": "[\w-]{22}"', '"topic_id": "6hN1…"', output)
        output = re.sub(r'"(at|ended)_ms"(: ?)\d{13}', r'"\1_ms"\g<2>1767225600000', output)
        output = re.sub(r'("lag_seconds"): (?!0\.0\b)\d+\.\d+', r"\1: 0.1", output)
        output = re.sub(r"(?<=  )(under 0\.1|\d*[1-9.]\d*) s(?=  )", lambda age: "0.1 s".ljust(len(age[0])), output)
        output = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-01T00:00:00.000Z", output)
        return re.sub(r"\bin \d+\.\d s\b", "in 0.1 s", output)

    def end(self, number: int) -> None:
        """End one of the processes, as `kill %N` does, and wait for its end."""
        job = self.jobs[number - 1]
        self.members.pop(number, None)
        job.terminate()
        job.wait(timeout=10)
        assert job.stdout is not None
        job.stdout.close()

    def close(self) -> None:
        """End what still runs, the broker last."""
        for number in range(len(self.jobs), 0, -1):
            self.end(number)
        self.jobs.clear()


def rewritten(document: str, directory: Path) -> str:
    """Return a document with what its commands print now."""
    console = Console(directory)
    lines = document.split("\n")
    console.save_programs(document)
    try:
        written = [(step, console.run(step.command)) for step in steps(document)]
    finally:
        console.close()
    for step, printed in reversed(written):
        start = step.line + step.command.count("\n") + 1
        old = step.output.count("\n") + 1 if step.output else 0
        lines[start - 1 : start - 1 + old] = printed.split("\n") if printed else []
    return "\n".join(lines)


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            Path(name).write_text(rewritten(Path(name).read_text(encoding="utf-8"), Path(scratch)), encoding="utf-8")
