"""`kohort consume TOPIC…`: write records to stdout, one per line.

With --group it is a member that commits what has been written to stdout, and nothing more. SIGINT, SIGTERM and a closed
pipe end it after the current batch, without an error.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import admin_of, ends_of, require_partitions, require_topics, run_against
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import add_client_id, add_cluster, add_option, moment_ms, number, verb
from kohort.cli.terminal.record_lines import JsonValue, as_format, as_json, as_value
from kohort.cli.terminal.registry_option import add_schema_registry, registry_settings
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import CorruptBatch

if TYPE_CHECKING:
    from kohort.client import Admin, Batch, Consumer, Record
    from kohort.schemas.schemas import Headers, SchemaDeserializer, Which

Writer = Callable[["Record"], bytes]

POLL_MS = 500
POLL_RECORDS = 10_000
JOIN_S = 10.0

EXAMPLES = """
kohort consume flights --from-beginning --max 5
kohort consume flights --group readers --from-beginning --json | jq .value
kohort consume '^flights-.*' --group readers
kohort consume flights --format '{partition} {offset} {key}={value}' --timeout-ms 2000
kohort consume flights --partition 0,2 --offset -10
kohort consume flights --timestamp 2026-01-31T12:00:00Z --json
kohort consume orders --schema-registry http://registry:8081 --from-beginning | jq .price
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `consume` to the command line."""
    parser = verb(verbs, "consume", "write the records of topics to stdout", run=run, examples=EXAMPLES)
    text = "a name, or '^…': an expression that whole names match, now or later"
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help=text)
    add_option(parser, "--topic TOPIC", "the same; may repeat", action="append", default=[])
    add_option(parser, "--group GROUP", "join this group and commit what was written")
    add_option(parser, "--from-beginning", "start at the first record where nothing is committed")
    add_option(parser, "--partition P[,P]", "only these partitions of each topic (without --group)", partitions)
    start = parser.add_mutually_exclusive_group()
    add_option(
        start,
        "--offset N",
        "start there in each partition: earliest, latest, an offset, or -N for the last N (without --group)",
        offset,
    )
    add_option(start, "--timestamp ISO", "start at the first record of this time or later (without --group)", moment_ms)
    add_option(parser, "--max N", "end after N records", number(1, "a number of records"))
    add_option(parser, "--timeout-ms MS", "end when no record has arrived for so long", number(1, "a time in ms"))
    form = parser.add_mutually_exclusive_group()
    add_option(form, "--json", "one JSON object a line instead of the value")
    add_option(
        form,
        "--format TEXT",
        "such as '{time} {key}={value}'; fields: topic partition offset timestamp time key value headers",
    )
    add_schema_registry(parser)
    add_client_id(parser)
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Write records until a limit or a signal, and return the exit status."""
    args.topics += args.topic
    if not args.topics:
        raise CommandFailed("name a topic: kohort consume TOPIC", USAGE)
    write: Writer = as_json if args.json else as_value
    if args.format is not None:
        try:
            write = as_format(args.format)
        except ValueError as error:
            raise CommandFailed(str(error), USAGE) from None
    named = ("partition", "offset", "timestamp")
    if given := [f"--{name}" for name in named if getattr(args, name) is not None]:
        if args.group is not None:
            way = f"leave --group away, or move its offsets with `kohort groups reset-offsets {args.group}`"
            raise CommandFailed(f"a group decides where its members read, {given[0]} does not: {way}", USAGE)
        if args.from_beginning and given != ["--partition"]:
            raise CommandFailed(f"--from-beginning and {given[-1]} both set the start: leave one away", USAGE)
        if any(topic.startswith("^") for topic in args.topics):
            raise CommandFailed(f"{given[0]} needs names of topics, not an expression", USAGE)
    return run_against(args.bootstrap_server, lambda: follow(args, write))


def partitions(text: str) -> frozenset[int]:
    """Return the partitions of a list such as 0,2."""
    return frozenset(map(number(0, "a partition"), text.split(",")))


def offset(text: str) -> str | int:
    """Return "earliest", "latest", or a number, below zero where it counts from the end."""
    return text if text in ("earliest", "latest") else number(-(1 << 63), "an offset")(text)


async def starts(args: argparse.Namespace, admin: Admin) -> dict[TopicPartition, int]:
    """Return where to start in each partition that --partition, --offset and --timestamp mean; none without them.

    Raises CommandFailed for a partition that does not exist.
    """
    if args.partition is None and args.offset is None and args.timestamp is None:
        return {}
    counts = await require_topics(admin, args.topics, are_made=True)
    for topic, count in counts.items():
        require_partitions(topic, count, args.partition or ())
    meant = [TopicPartition(topic, each) for topic, n in counts.items() for each in sorted(args.partition or range(n))]
    first, end = await ends_of(admin, meant, "earliest"), await ends_of(admin, meant, "latest")
    if args.timestamp is not None:
        found = await admin.list_offsets(dict.fromkeys(meant, args.timestamp))
        return {each: end[each] if (entry := found[each]) is None else entry.offset for each in meant}
    wanted = args.offset if args.offset is not None else "earliest" if args.from_beginning else "latest"
    if isinstance(wanted, str):
        return first if wanted == "earliest" else end
    chosen = {each: end[each] + wanted if wanted < 0 else wanted for each in meant}
    for each, at in chosen.items():
        chosen[each] = max(first[each], min(at, end[each]))
        if wanted >= 0 and chosen[each] != at:
            available = f"offsets {first[each]} to {end[each] - 1}" if first[each] < end[each] else "no records"
            output.remark(f"{each} has {available}: starting at {chosen[each]}, not {at}")
    return chosen


async def follow(args: argparse.Namespace, write: Writer) -> int:
    """Write records of the topics; return the exit status."""
    from kohort.client import Consumer

    async with admin_of(args) as admin:
        await require_topics(admin, [topic for topic in args.topics if not topic.startswith("^")], are_made=True)
        at = await starts(args, admin)
    # Auto-commit regards a batch as processed at the next poll: when it has been written and flushed.
    read = readable(args)
    consumer = Consumer(
        *(() if at else dict.fromkeys(args.topics)),
        bootstrap_servers=args.bootstrap_server,
        group_id=args.group,
        client_id=args.client_id,
        auto_offset_reset="earliest" if args.from_beginning else "latest",
        key_deserializer=read,
        value_deserializer=read,
        **args.security,
    )
    async with consumer:
        if at:
            consumer.assign(at)
            for partition, start in at.items():
                consumer.seek(partition, start)
        # A signal, or a reader that closed the pipe: the consumer commits what was written, and leaves its group.
        with contextlib.suppress(asyncio.CancelledError):
            await RecordPrinter(consumer, write, args.max, args.timeout_ms).run()
    return 0


def readable(args: argparse.Namespace) -> SchemaValues | None:
    """Return what reads keys and values by a registry's schemas, None without one. Raises CommandFailed."""
    settings = registry_settings(args)
    if settings is None:
        return None
    from kohort.schemas import Schemas
    from kohort.schemas.registry import registry_of

    try:
        return SchemaValues(Schemas(registry_of(settings)).deserializer(as_json=True))
    except ImportError as error:
        raise CommandFailed(str(error), USAGE) from error


class SchemaValues:
    """Reads what names a schema as JSON, and leaves everything else as it is, with one remark for each reason."""

    def __init__(self, deserializer: SchemaDeserializer) -> None:
        self._deserializer = deserializer
        self._remarks: set[str] = set()
        self._unknown: set[int | str] = set()

    def __call__(self, content: bytes) -> object:
        """Return a value."""
        return self.of_record(content, (), "value")

    def of_record(self, content: bytes, headers: Headers, which: Which) -> object:
        """Return a key or value. Raises NotReady; a registry that does not answer then ends the command."""
        from kohort.client.errors import NotReady
        from kohort.schemas.schemas import schema_of

        try:
            schema, _ = schema_of(content, headers, which)
        except ValueError:
            return content
        if schema in self._unknown:
            return content
        try:
            return JsonValue(self._deserializer.of_record(content, headers, which))
        except NotReady as error:
            raise NotReady(f"schema {schema}", partial(self._load, schema, error.load)) from None
        except ValueError as error:
            self._remark(str(error))
            return content

    def _load(self, schema: int | str, load: Callable[[], object]) -> None:
        from kohort.schemas import SchemaUnknown

        try:
            load()
        except SchemaUnknown as error:
            self._unknown.add(schema)
            self._remark(str(error.args[0]))

    def _remark(self, text: str) -> None:
        if text not in self._remarks:
            self._remarks.add(text)
            output.remark(f"records are written as they are: {text}")


class RecordPrinter:
    """One run of `consume`: the records written so far, and the time of the last one."""

    def __init__(self, consumer: Consumer[Any, Any], write: Writer, limit: int | None, timeout_ms: int | None) -> None:
        self.consumer = consumer
        self.write = write
        self.limit = limit
        self.timeout_s = None if timeout_ms is None else timeout_ms / 1000
        self.count = 0
        self.corrupt: CorruptBatch | None = None
        self.started = self.last_record_s = time.monotonic()

    async def run(self) -> None:
        """Write until the limit or the timeout. Raises OutputClosed.

        Of a partition with a record batch that cannot be read, the records before it are written. The other partitions
        are read on for as long as they have records; then `CorruptBatch` is raised.
        """
        with output.Meter("consuming", total=self.limit) as meter:
            while self.count != self.limit and not self.is_timed_out():
                room = POLL_RECORDS if self.limit is None else min(self.limit - self.count, POLL_RECORDS)
                try:
                    batches = await self.consumer.poll(self.poll_timeout_ms(), room)
                except CorruptBatch as error:
                    self.leave_out(error)
                    continue
                if self.corrupt is not None and not batches:
                    break
                meter.advance(self.put(batches))
        if self.corrupt is not None:
            raise self.corrupt

    def leave_out(self, error: CorruptBatch) -> None:
        """Pause the partition of the error, and print where its reading stopped."""
        if error.partition is None:
            raise error
        self.consumer.pause([error.partition])
        if self.corrupt is not None:
            output.remark(self.corrupt.text)
        self.corrupt = error

    def poll_timeout_ms(self) -> int:
        """Return the timeout of one poll, which ends no later than the command's timeout."""
        if self.timeout_s is None:
            return POLL_MS
        left_s = self.last_record_s + self.timeout_s - time.monotonic()
        return max(1, min(POLL_MS, round(left_s * 1000)))

    def is_timed_out(self) -> bool:
        """Whether no record has arrived within the timeout. Joining a group does not count, for up to JOIN_S."""
        now = time.monotonic()
        if not self.consumer.assignment() and now - self.started < JOIN_S:
            self.last_record_s = now
        return self.timeout_s is not None and now - self.last_record_s >= self.timeout_s

    def put(self, batches: list[Batch]) -> int:
        """Write batches and return the number of their records."""
        before = self.count
        for batch in batches:
            output.put_bytes(b"".join(map(self.write, batch)))
            self.count += len(batch)
        if batches:
            output.flush()
            self.last_record_s = time.monotonic()
        return self.count - before
