"""`kohort consume TOPIC…`: records to stdout, one a line.

With --group it is a member: what has been written to stdout is committed, nothing more. SIGINT and
SIGTERM end it after the batch in hand; a reader that goes away ends it without an error.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.cli import output
from kohort.cli.failure import USAGE, run_against
from kohort.cli.lines import Incoming, as_format, as_json, as_value
from kohort.cli.options import add_cluster, number, verb
from kohort.cli.topics import require_topics
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Batch, Consumer

Writer = Callable[[str, int, Incoming], bytes]

POLL_MS = 500
COMMIT_EVERY_S = 5.0
JOIN_S = 10.0

EXAMPLES = """
kohort consume flights --from-beginning --max 5
kohort consume flights --group readers --from-beginning --json | jq .value
kohort consume flights --format '{partition} {offset} {key}={value}' --timeout-ms 2000
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `consume` to the command line."""
    parser = verb(verbs, "consume", "write the records of topics to stdout", run=run, examples=EXAMPLES)
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    parser.add_argument("--group", metavar="GROUP", help="join this group and commit what was written")
    parser.add_argument(
        "--from-beginning", action="store_true", help="start at the first record where nothing is committed"
    )
    parser.add_argument("--max", metavar="N", type=number(1, "a number of records"), help="end after N records")
    parser.add_argument(
        "--timeout-ms", metavar="MS", type=number(1, "a time in ms"), help="end when none has come for so long"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line instead of the value")
    form.add_argument(
        "--format",
        metavar="TEXT",
        help="such as '{time} {key}={value}'; fields: topic partition offset timestamp time key value headers",
    )
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Write records until told to end, and return the exit status."""
    write: Writer = as_json if args.json else as_value
    if args.format is not None:
        try:
            write = as_format(args.format)
        except ValueError as error:
            output.remark(str(error))
            return USAGE
    return run_against(args.bootstrap_server, lambda: follow(args, write))


async def follow(args: argparse.Namespace, write: Writer) -> int:
    """Write records of the topics; return the exit status."""
    from kohort.client import Admin, Consumer

    stop = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with Admin(bootstrap_servers=args.bootstrap_server) as admin:
        counts = await require_topics(admin, args.topics)
    consumer = Consumer(
        *(args.topics if args.group else ()),
        bootstrap_servers=args.bootstrap_server,
        group_id=args.group,
        auto_offset_reset="earliest" if args.from_beginning else "latest",
        enable_auto_commit=False,
    )
    async with consumer:
        if not args.group:
            consumer.assign([TopicPartition(name, n) for name in args.topics for n in range(counts[name])])
        reader = Reader(consumer, write, args.max, args.timeout_ms, commits=bool(args.group))
        await reader.run(stop)
    return 0


class Reader:
    """One run of `consume`: what was written, and what of it is committed."""

    def __init__(
        self, consumer: Consumer, write: Writer, limit: int | None, timeout_ms: int | None, *, commits: bool
    ) -> None:
        self.consumer = consumer
        self.write = write
        self.limit = limit
        self.timeout_s = None if timeout_ms is None else timeout_ms / 1000
        self.commits = commits
        self.count = 0
        self.written: dict[TopicPartition, int] = {}
        self.started = self.heard = self.committed_at = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until the limit, the silence or `stop`; then commit."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            with output.Meter("consuming", total=self.limit) as meter:
                while self.count != self.limit and not self.is_silent():
                    poll = asyncio.ensure_future(self.consumer.poll(timeout_ms=POLL_MS))
                    await asyncio.wait({poll, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    if not poll.done():
                        poll.cancel()
                        break
                    meter.advance(self.put(poll.result()))
                    if stop.is_set():
                        break
                    if time.monotonic() - self.committed_at >= COMMIT_EVERY_S:
                        await self.commit()
        finally:
            stopped.cancel()
            await self.commit()

    def is_silent(self) -> bool:
        """Say whether nothing has come for the time allowed. Joining a group is no silence, within JOIN_S."""
        now = time.monotonic()
        if not self.consumer.assignment() and now - self.started < JOIN_S:
            self.heard = now
        return self.timeout_s is not None and now - self.heard >= self.timeout_s

    def put(self, batches: list[Batch]) -> int:
        """Write batches up to the limit and return the number of records; they count as written once flushed."""
        before = self.count
        reached: dict[TopicPartition, int] = {}
        for batch in batches:
            records = batch.records if self.limit is None else batch.records[: self.limit - self.count]
            if records:
                topic, partition = batch.partition
                output.put_bytes(b"".join(self.write(topic, partition, record) for record in records))
                self.count += len(records)
                reached[batch.partition] = records[-1].offset + 1
        if reached:
            output.flush()
            self.written |= reached
            self.heard = time.monotonic()
        return self.count - before

    async def commit(self) -> None:
        """Commit what was written, for the partitions that are still ours."""
        self.committed_at = time.monotonic()
        if not self.commits:
            return
        ours = {held: offset for held, offset in self.written.items() if held in self.consumer.assignment()}
        self.written.clear()
        if ours:
            await self.consumer.commit(ours)
