"""`kohort dlq list|show|replay`: what is in a dead-letter topic, why, and back to where it came from.

The headers are those that `process`, Spark jobs of kohort and Kafka Connect write.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kohort.cli.cluster import ends_of, require_topics, with_admin
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, verb, verb_of_verbs
from kohort.cli.terminal.record_lines import Header, as_json
from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.consumer.finished_offsets import FinishedOffsets, NotRuns, finished_of
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Admin, Batch, Record

_CONNECT = "__connect.errors."
_OURS = "kohort.error."
REPLAYED = "kohort.replayed"
DAMAGED = "kohort.wire.record_batches.CorruptBatch"
"""Its letter has the bytes of a whole record batch: none of them is a record to write again."""
_POLL_MS = 500


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `dlq` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "dlq", "list, show and replay the records of a dead-letter topic")
    example = "kohort dlq list orders.dlq"
    listing = verb(
        inner, "list", "count the records by where they failed, and why", run=with_admin(count), examples=example
    )
    example = "kohort dlq show orders.dlq --error ValueError --max 5\nkohort dlq show orders.dlq --json | jq .error"
    showing = verb(inner, "show", "show the records, each with why it failed", run=with_admin(show), examples=example)
    summary = "write the records to the topics they came from"
    example = (
        "kohort dlq replay orders.dlq --error TimeoutError\nkohort dlq replay orders.dlq --to orders.retry --max 100"
    )
    replaying = verb(inner, "replay", summary, run=with_admin(replay), examples=example)
    add_option(replaying, "--to TOPIC", "write them to this topic instead")
    add_option(replaying, "--group GROUP", "the group whose offsets remember what was replayed (default: TOPIC.replay)")
    for each in (listing, showing, replaying):
        each.add_argument("topic", metavar="TOPIC", help="the dead-letter topic")
        add_option(each, "--error TEXT", "only where the exception's class or message has this text")
        add_option(each, "--from TOPIC", "only what came from this topic", dest="source")
        add_json(each, "one JSON object a line" if each is showing else "one JSON document")
        add_cluster(each)
    for each in (showing, replaying):
        add_option(each, "--max N", "end after N records", number(1, "a number of records"))


def why(record: Record) -> dict[str, str]:
    """Return a dead letter's headers about where it came from and why, by their short names."""
    found: dict[str, str] = {}
    for name, value in record.headers:
        for prefix in (_CONNECT, _OURS):
            if name.startswith(prefix) and value is not None:
                found[name.removeprefix(prefix)] = value.decode(errors="replace")
    return found


def is_wanted(args: argparse.Namespace) -> Callable[[dict[str, str]], bool]:
    """Return whether a record with these headers is one that --error and --from mean."""

    def check(found: dict[str, str]) -> bool:
        error = f"{found.get('exception.class.name', '')} {found.get('exception.message', '')}"
        return (args.error or "") in error and args.source in (None, found.get("topic"))

    return check


async def letters(
    args: argparse.Namespace, admin: Admin, starts: Mapping[TopicPartition, int] | None = None
) -> AsyncIterator[Batch]:
    """Yield the records that the topic has now, from `starts` on, where it has any."""
    from kohort.client import Consumer

    partitions = await partitions_of(args, admin)
    ends = await ends_of(admin, partitions, "latest")
    at = await ends_of(admin, partitions, "earliest") | dict(starts or {})
    left = {each for each in partitions if at[each] < ends[each]}
    async with Consumer(
        bootstrap_servers=args.bootstrap_server, auto_offset_reset="earliest", **args.security
    ) as reader:
        reader.assign(left)
        for each in left:
            reader.seek(each, at[each])
        while left:
            for batch in await reader.poll(_POLL_MS):
                yield batch
            left -= {each for each in left if await reader.position(each) >= ends[each]}


async def partitions_of(args: argparse.Namespace, admin: Admin) -> list[TopicPartition]:
    """Return the partitions of the dead-letter topic. Raises CommandFailed."""
    counts = await require_topics(admin, [args.topic])
    return [TopicPartition(args.topic, each) for each in range(counts[args.topic])]


async def count(args: argparse.Namespace, admin: Admin) -> None:
    """Print how many records failed where, and why."""
    wanted, counts = is_wanted(args), Counter[tuple[str, str, str]]()
    with output.Meter("reading") as meter:
        async for batch in letters(args, admin):
            for record in batch:
                if wanted(found := why(record)):
                    names = ("topic", "connector.name", "exception.class.name")
                    counts[tuple(found.get(name, "-") for name in names)] += 1  # type: ignore[index]
            meter.advance(len(batch))
    rows: list[dict[str, str | int]] = [
        {"TOPIC": topic, "GROUP": group, "EXCEPTION": error, "RECORDS": number}
        for (topic, group, error), number in counts.most_common()
    ]
    document = [{name.lower(): value for name, value in row.items()} for row in rows]
    output.put_result(args, document, output.table_of(rows, empty=f"{args.topic} has no such records"))


async def show(args: argparse.Namespace, admin: Admin) -> None:
    """Print each record with why it failed."""
    wanted, left = is_wanted(args), args.max
    async for batch in letters(args, admin):
        for record in batch:
            if left == 0:
                return
            if not wanted(found := why(record)):
                continue
            left = None if left is None else left - 1
            document = json.loads(as_json(record))
            output.put_result(args, document | {"error": found}, _shown(document, found))


def _shown(document: dict[str, Any], found: dict[str, str]) -> str:
    origin = f"{found.get('topic', '?')}-{found.get('partition', '?')} offset {found.get('offset', '?')}"
    place = f"{document['partition']} offset {document['offset']}"
    lines = [
        f"partition {place}, from {origin}, group {found.get('connector.name', '?')}",
        f"  {found.get('exception.class.name', '?')}: {found.get('exception.message', '')}",
        f"  key {json.dumps(document['key'], ensure_ascii=False)}",
        f"  value {json.dumps(document['value'], ensure_ascii=False)}",
    ]
    return "\n".join(lines)


class Replayed:
    """What a group has replayed: committed as `process` commits, so that what is left out now can be replayed later."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._group = group
        self._works: dict[TopicPartition, FinishedOffsets] = {}

    async def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up where the group continues, and return it. Raises `KafkaError`."""
        for partition, committed in (await self._admin.group_offsets(self._group)).items():
            finished: list[range] = []
            with suppress(NotRuns):
                finished = finished_of(committed.offset, committed.metadata)
            self._works[partition] = FinishedOffsets(committed.offset, finished)
        return {each: self._works[each].offset for each in partitions if each in self._works}

    def missing(self, batch: Batch) -> list[Record]:
        """Return the records of a batch that were not replayed."""
        work = self._works.setdefault(batch.partition, FinishedOffsets(batch.first_offset))
        taken = set(work.take([record.offset for record in batch], batch.next_offset))
        return [record for record in batch if record.offset in taken]

    def finish(self, partition: TopicPartition, offset: int) -> None:
        """Count a record as replayed."""
        self._works[partition].finish(offset)

    async def commit(self) -> None:
        """Commit what was replayed. Raises `KafkaError`."""
        offsets = {each: OffsetAndMetadata(work.offset, work.metadata()) for each, work in self._works.items()}
        await self._admin.reset_offsets(self._group, offsets)


async def replay(args: argparse.Namespace, admin: Admin) -> None:
    """Write each record to the topic it came from, once."""
    from kohort.client import Producer

    wanted, group = is_wanted(args), args.group or f"{args.topic}.replay"
    replayed = Replayed(admin, group)
    starts = await replayed.starts(await partitions_of(args, admin))
    sent = left_out = 0
    producer = Producer(args.bootstrap_server, allow_auto_create_topics=False, **args.security)
    with output.Meter("replaying", total=args.max) as meter:
        async with producer:
            async for batch in letters(args, admin, starts):
                before = sent
                try:
                    for record in replayed.missing(batch):
                        found = why(record)
                        if sent == args.max or not wanted(found) or found.get("exception.class.name") == DAMAGED:
                            left_out += 1
                            continue
                        await (await producer.send(*_target(args, batch.partition, record, found)))
                        replayed.finish(batch.partition, record.offset)
                        sent += 1
                finally:
                    if sent > before:
                        await replayed.commit()
                meter.advance(sent - before)
    text = f"replayed {output.counted(sent, 'record')} of {args.topic}"
    text += f", left out {left_out}" if left_out else ""
    output.put_result(args, {"topic": args.topic, "replayed": sent, "left_out": left_out, "group": group}, text)


def _target(
    args: argparse.Namespace, partition: TopicPartition, record: Record, found: Mapping[str, str]
) -> tuple[str, bytes | None, bytes | None, None, int, list[Header]]:
    """Return the arguments of `send` for a dead letter: topic, value, key, time and headers. Raises CommandFailed."""
    topic = args.to or found.get("topic")
    if topic is None:
        text = f"offset {record.offset} of {partition} has no header with the topic it came from: give --to TOPIC"
        raise CommandFailed(text, FAILED)
    if topic == args.topic:
        raise CommandFailed(f"{topic} is the dead-letter topic itself: give --to another topic", FAILED)
    own = [each for each in record.headers if not each[0].startswith((_CONNECT, _OURS))]
    headers = [*own, (REPLAYED, f"{partition} offset {record.offset}".encode())]
    return topic, record.value, record.key, None, max(0, record.timestamp_ms), headers
