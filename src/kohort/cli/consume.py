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
from kohort.cli.topics import START_TIMEOUT_MS, require_topics

if TYPE_CHECKING:
    from kohort.client import Batch, Consumer

Writer = Callable[[str, int, Incoming], bytes]

POLL_MS = 500
POLL_RECORDS = 10_000
JOIN_S = 10.0

EXAMPLES = """
kohort consume flights --from-beginning --max 5
kohort consume flights --group readers --from-beginning --json | jq .value
kohort consume '^flights-.*' --group readers
kohort consume flights --format '{partition} {offset} {key}={value}' --timeout-ms 2000
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `consume` to the command line."""
    parser = verb(verbs, "consume", "write the records of topics to stdout", run=run, examples=EXAMPLES)
    parser.add_argument(
        "topics", metavar="TOPIC", nargs="+", help="a name, or '^…': an expression that whole names match, now or later"
    )
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
    async with Admin(args.bootstrap_server, start_timeout_ms=START_TIMEOUT_MS, **args.security) as admin:
        await require_topics(admin, [topic for topic in args.topics if not topic.startswith("^")])
    # Auto-commit takes a batch as finished when poll is called again: when it has been written and flushed.
    consumer = Consumer(
        *dict.fromkeys(args.topics),
        bootstrap_servers=args.bootstrap_server,
        group_id=args.group,
        auto_offset_reset="earliest" if args.from_beginning else "latest",
        **args.security,
    )
    async with consumer:
        await Reader(consumer, write, args.max, args.timeout_ms).run(stop)
    return 0


class Reader:
    """One run of `consume`: how much was written, and when something last came."""

    def __init__(self, consumer: Consumer, write: Writer, limit: int | None, timeout_ms: int | None) -> None:
        self.consumer = consumer
        self.write = write
        self.limit = limit
        self.timeout_s = None if timeout_ms is None else timeout_ms / 1000
        self.count = 0
        self.started = self.heard = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until the limit, the silence or `stop`. Raises OutputClosed."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            with output.Meter("consuming", total=self.limit) as meter:
                while self.count != self.limit and not self.is_silent():
                    room = POLL_RECORDS if self.limit is None else min(self.limit - self.count, POLL_RECORDS)
                    poll = asyncio.ensure_future(self.consumer.poll(self.patience_ms(), room))
                    await asyncio.wait({poll, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    if not poll.done():
                        poll.cancel()
                        break
                    meter.advance(self.put(poll.result()))
                    if stop.is_set():
                        break
        finally:
            stopped.cancel()

    def patience_ms(self) -> int:
        """Return how long one poll may wait: not beyond the silence that ends the command."""
        if self.timeout_s is None:
            return POLL_MS
        left_s = self.heard + self.timeout_s - time.monotonic()
        return max(1, min(POLL_MS, round(left_s * 1000)))

    def is_silent(self) -> bool:
        """Say whether nothing has come for the time allowed. Joining a group is no silence, within JOIN_S."""
        now = time.monotonic()
        if not self.consumer.assignment() and now - self.started < JOIN_S:
            self.heard = now
        return self.timeout_s is not None and now - self.heard >= self.timeout_s

    def put(self, batches: list[Batch]) -> int:
        """Write batches and return the number of their records."""
        before = self.count
        for batch in batches:
            topic, partition = batch.partition
            output.put_bytes(b"".join(self.write(topic, partition, record) for record in batch))
            self.count += len(batch)
        if batches:
            output.flush()
            self.heard = time.monotonic()
        return self.count - before
