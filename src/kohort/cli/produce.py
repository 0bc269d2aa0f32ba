"""`kohort produce TOPIC`: every line of stdin becomes a record.

A summary goes to stderr at the end. A line that cannot be read as a record ends the command with 2 and
names its number; what came before it has been sent and is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from kohort.cli import output
from kohort.cli.failure import FAILED, USAGE, CommandFailed, run_against
from kohort.cli.lines import NotARecord, Outgoing, json_line, keyed_line, raw_line
from kohort.cli.options import add_cluster, verb
from kohort.cli.topics import START_TIMEOUT_MS, require_topics
from kohort.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import Producer
    from kohort.client.accumulator import Delivery

CHUNK_BYTES = 1 << 16

EXAMPLES = """
echo hello | kohort produce greetings
kohort produce flights --key-separator , < flights.csv
kohort produce flights --json --compression zstd < flights.jsonl
kohort consume flights --from-beginning --timeout-ms 1000 --json | kohort produce copy --json
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `produce` to the command line."""
    parser = verb(verbs, "produce", "send the lines of stdin to a topic", run=run, examples=EXAMPLES)
    parser.add_argument("topic", metavar="TOPIC")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--key-separator", metavar="TEXT", help="a line is KEY, this text, VALUE (default: all is value)")
    form.add_argument(
        "--json",
        action="store_true",
        help="a line is a JSON object with key, value, headers, partition and timestamp (ms), each optional",
    )
    parser.add_argument("--acks", choices=["all", "1", "0"], default="all", help="what to wait for (default: all)")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Send stdin and return the exit status."""
    read: Callable[[bytes], Outgoing] = raw_line
    if args.json:
        read = json_line
    elif args.key_separator is not None:
        if not args.key_separator:
            output.remark("--key-separator is empty: give at least one character")
            return USAGE
        read = keyed_line(args.key_separator.encode())
    return run_against(args.bootstrap_server, lambda: send(args, read))


async def send(args: argparse.Namespace, read: Callable[[bytes], Outgoing]) -> int:
    """Send every line of stdin; return the exit status."""
    from kohort.client import Admin, Producer

    async with Admin(args.bootstrap_server, start_timeout_ms=START_TIMEOUT_MS, **args.security) as admin:
        await require_topics(admin, [args.topic])
    producer = Producer(
        bootstrap_servers=args.bootstrap_server,
        acks=args.acks,
        compression_type=args.compression,
        allow_auto_create_topics=False,
        **args.security,
    )
    tally = Tally()
    async with producer:
        try:
            with output.Meter(f"producing to {args.topic}") as meter:
                async for lines in stdin_lines():
                    for line in lines:
                        await tally.send(producer, args.topic, line, read)
                    meter.advance(len(lines))
                    tally.count_done()
        finally:
            await producer.flush()
            tally.count_done()
            tally.report(args.topic)
    return FAILED if tally.failed else 0


class Tally:
    """How many lines were read, and how many of their records were acknowledged or refused."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.lines = 0
        self.sent = 0
        self.failed = 0
        self.first_error: KafkaError | None = None
        self.under_way: deque[Delivery] = deque()

    async def send(self, producer: Producer, topic: str, line: bytes, read: Callable[[bytes], Outgoing]) -> None:
        """Send one line. Raises CommandFailed, naming the line, where it cannot become a record of the topic."""
        self.lines += 1
        try:
            record = read(line)
            delivery = await producer.send(
                topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
        except NotARecord as error:
            raise CommandFailed(f"line {self.lines} of stdin is no record: {error}", USAGE) from None
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.MESSAGE_TOO_LARGE):
                raise
            raise CommandFailed(f"line {self.lines} of stdin cannot be sent: {error.text}", USAGE) from None
        self.under_way.append(delivery)

    def count_done(self) -> None:
        """Count the records whose fate is known."""
        while self.under_way and self.under_way[0].done():
            try:
                self.under_way.popleft().result()
                self.sent += 1
            except KafkaError as error:
                self.failed += 1
                self.first_error = self.first_error or error

    def report(self, topic: str) -> None:
        """Print the summary to stderr."""
        took = time.monotonic() - self.started
        output.remark(f"{self.sent:,} record{'s' * (self.sent != 1)} sent to {topic} in {took:.1f} s")
        if self.failed:
            output.remark(f"{self.failed:,} not written; the first: {self.first_error}")


async def stdin_lines() -> AsyncIterator[list[bytes]]:
    """Yield the lines of stdin in groups as they arrive, without line ends; SIGINT and SIGTERM end them."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=8)
    stop = asyncio.Event()

    def pump() -> None:
        # os.read holds no lock of sys.stdin, so the interpreter can end while this thread still waits.
        while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
            asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
        asyncio.run_coroutine_threadsafe(chunks.put(b""), loop)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    threading.Thread(target=pump, name="stdin", daemon=True).start()
    stopped = loop.create_task(stop.wait())
    rest = b""
    while True:
        chunk = loop.create_task(chunks.get())
        await asyncio.wait({chunk, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not chunk.done():
            chunk.cancel()
            return
        if not chunk.result():
            break
        *lines, rest = (rest + chunk.result()).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    stopped.cancel()
    if rest:
        yield [rest.removesuffix(b"\r")]
