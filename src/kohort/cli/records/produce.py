"""`kohort produce TOPIC`: send every line of stdin as a record.

A summary goes to stderr at the end. A line that cannot be read as a record ends the command with 2 and its line number;
the records before it have been sent and are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from kohort.cli.cluster import admin_of, require_partitions, require_topics, run_against
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed
from kohort.cli.terminal.options import add_client_id, add_cluster, add_option, number, verb
from kohort.cli.terminal.record_lines import (
    NotARecord,
    Outgoing,
    header,
    json_line,
    keyed_line,
    raw_line,
    with_defaults,
)
from kohort.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import Producer
    from kohort.client.producer.accumulator import Delivery

CHUNK_BYTES = 1 << 16

EXAMPLES = """
echo hello | kohort produce greetings
kohort produce flights --key-separator , < flights.csv
kohort produce flights --json --compression zstd < flights.jsonl
kohort produce flights --key N14228 --header source=test --partition 0 < departures.txt
kohort consume flights --from-beginning --timeout-ms 1000 --json | kohort produce copy --json
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `produce` to the command line."""
    parser = verb(verbs, "produce", "send the lines of stdin to a topic", run=run, examples=EXAMPLES)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="TOPIC", nargs="?")
    add_option(which, "--topic TOPIC", "the same")
    add_option(parser, "--key TEXT", "the key of each record whose line has none")
    add_option(
        parser,
        "--header NAME=VALUE",
        "a header of each record whose line has none; may repeat",
        header,
        dest="headers",
        action="append",
        default=[],
    )
    add_option(
        parser,
        "--partition P",
        "where each record goes whose line names no partition (default: by its key)",
        number(0, "a partition"),
    )
    form = parser.add_mutually_exclusive_group()
    add_option(form, "--key-separator TEXT", "a line is KEY, this text, VALUE (default: all is value)")
    add_option(
        form, "--json", "a line is a JSON object with key, value, headers, partition and timestamp (ms), each optional"
    )
    add_option(parser, "--acks", "what to wait for (default: all)", choices=["all", "1", "0"], default="all")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    add_client_id(parser)
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Send stdin and return the exit status."""
    args.topic = args.topic or args.name
    read: Callable[[bytes], Outgoing] = raw_line
    if args.json:
        read = json_line
    elif args.key_separator is not None:
        if not args.key_separator:
            raise CommandFailed("--key-separator is empty: give at least one character", USAGE)
        if args.key is not None:
            raise CommandFailed("--key-separator takes the key from each line: leave --key away, or it", USAGE)
        read = keyed_line(args.key_separator.encode())
    read = with_defaults(read, args.key, tuple(args.headers), args.partition)
    return run_against(args.bootstrap_server, lambda: send(args, read))


async def send(args: argparse.Namespace, read: Callable[[bytes], Outgoing]) -> int:
    """Send every line of stdin; return the exit status."""
    from kohort.client import Producer

    async with admin_of(args) as admin:
        count = (await require_topics(admin, [args.topic], are_made=True))[args.topic]
    require_partitions(args.topic, count, () if args.partition is None else (args.partition,))
    producer = Producer(
        bootstrap_servers=args.bootstrap_server,
        client_id=args.client_id,
        acks=args.acks,
        compression_type=args.compression,
        allow_auto_create_topics=False,
        **args.security,
    )
    tally, stdin = SendCounts(), StdinLines()
    async with producer:
        try:
            with output.Meter(f"producing to {args.topic}") as meter:
                async for lines in stdin:
                    tally.read += len(lines)
                    for line in lines:
                        await tally.send(producer, args.topic, line, read)
                    meter.advance(len(lines))
                    tally.count_done()
        except asyncio.CancelledError:
            # A signal: what was given to the producer by then is still sent.
            tally.unsent = tally.read - tally.lines + stdin.count_unread()
        finally:
            try:
                await producer.flush()
            finally:
                tally.count_done()
                tally.report(args.topic)
    return FAILED if tally.failed or tally.unsent or tally.under_way else 0


class SendCounts:
    """How many lines were read, given to the producer, and acknowledged, refused or neither."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.read = 0
        self.lines = 0
        self.unsent = 0
        self.sent = 0
        self.failed = 0
        self.first_error: KafkaError | None = None
        self.under_way: deque[Delivery] = deque()

    async def send(self, producer: Producer, topic: str, line: bytes, read: Callable[[bytes], Outgoing]) -> None:
        """Send one line. Raises CommandFailed, naming the line, where it cannot become a record of the topic."""
        try:
            delivery = await producer.send(topic, **read(line)._asdict())
        except NotARecord as error:
            raise CommandFailed(f"line {self.lines + 1} of stdin is no record: {error}", USAGE) from None
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.MESSAGE_TOO_LARGE):
                raise
            raise CommandFailed(f"line {self.lines + 1} of stdin cannot be sent: {error.text}", USAGE) from None
        self.lines += 1
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
            output.complain(f"{self.failed:,} not written; the first: {self.first_error}")
        if unknown := len(self.under_way):
            output.complain(f"{unknown:,} not acknowledged by the broker: they may be written, or lost")
        if self.unsent:
            output.complain(f"{self.unsent:,} read from stdin and not sent")


class StdinLines:
    """The lines of stdin as they arrive, read by a thread of its own."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._room = threading.Semaphore(8)
        self._rest = b""

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        """Yield lines in groups, without line ends."""
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()

        def pump() -> None:
            chunk = b"-"
            while chunk and self._room.acquire():
                # os.read takes no lock of sys.stdin, so the interpreter can end while this thread still waits.
                chunk = os.read(stdin, CHUNK_BYTES)
                self._chunks.append(chunk)
                with contextlib.suppress(RuntimeError):  # the loop is closed: the command has ended
                    loop.call_soon_threadsafe(self._arrived.set)

        threading.Thread(target=pump, name="stdin", daemon=True).start()
        while chunk := await self._next():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if lines:
                yield [line.removesuffix(b"\r") for line in lines]
        if rest := self._rest:
            self._rest = b""
            yield [rest.removesuffix(b"\r")]

    async def _next(self) -> bytes:
        """Return the next chunk; it is empty at the end."""
        while not self._chunks:
            self._arrived.clear()
            await self._arrived.wait()
        self._room.release()
        return self._chunks.popleft()

    def count_unread(self) -> int:
        """Return how many lines were taken from stdin and not yielded."""
        return len(b"".join([self._rest, *self._chunks]).splitlines())
