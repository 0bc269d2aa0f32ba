"""The pages of topics: how many records, who reads them, and the records of a partition."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kohort.client import Cluster
from kohort.client.cluster.list_offsets import list_ends, list_offsets
from kohort.client.cluster.metadata import TopicView
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.console.web.site import Shown, Site
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition, topic_id_text

TOPICS = 200
PARTITIONS = 500
RECORDS = 25
VALUE_BYTES = 4_000
"""Of a key or a value as shown."""
READ_MS = 3_000

_SCHEMA_ID_BYTES = 5


class TopicRow(NamedTuple):
    """A topic as a row. `records` is how many offsets its log has, None where that is not known."""

    name: str
    partitions: int
    records: int | None
    readers: list[str]
    is_internal: bool


class PartitionRow(NamedTuple):
    """A partition of a topic."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first: int | None
    end: int | None


class ReadingRow(NamedTuple):
    """A group that has committed offsets of a topic, or owns partitions of it."""

    group_id: str
    partitions: int
    lag: int | None


class RecordView(NamedTuple):
    """A record as the page shows it; `kind` is text, JSON, bytes or none."""

    offset: int
    timestamp_ms: int
    key: str
    kind: str
    value: str
    length: int
    headers: list[tuple[str, str]]


def readers_by_topic(site: Site) -> dict[str, dict[str, ReadingRow]]:
    """Return the groups that read each topic, as far as they were looked at."""
    found: dict[str, dict[str, ReadingRow]] = {}
    for group_id, group in site.watched.groups.items():
        for line in group.partitions():
            groups = found.setdefault(line.partition.topic, {})
            before = groups.get(group_id, ReadingRow(group_id, 0, None))
            lag = before.lag if line.lag is None else (before.lag or 0) + line.lag
            groups[group_id] = ReadingRow(group_id, before.partitions + 1, lag)
    return found


async def topics_page(site: Site, cluster: Cluster, values: Mapping[str, str]) -> Shown:
    """Return the page of all topics whose names have some words."""
    words = values.get("q", "")[:200].lower().split()
    with_internal = bool(values.get("internal"))
    found = [
        topic
        for name, topic in sorted(cluster.view.topics.items())
        if (with_internal or not (topic.is_internal or name.startswith("__")))
        and all(word in name.lower() for word in words)
    ]
    shown = found[:TOPICS]
    wanted = [TopicPartition(topic.name, number) for topic in shown for number in topic.partitions]
    first, end, failure = await _ends(cluster, wanted)
    readers = readers_by_topic(site)
    rows = [
        TopicRow(
            topic.name,
            len(topic.partitions),
            _records(topic, first, end),
            sorted(readers.get(topic.name, ())),
            topic.is_internal,
        )
        for topic in shown
    ]
    more = {"rows": rows, "found": len(found), "words": values.get("q", ""), "internal": with_internal}
    return Shown("topics.html", {**more, "failure": failure})


def _records(topic: TopicView, first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int | None:
    of_topic = [TopicPartition(topic.name, number) for number in topic.partitions]
    if any(each not in end or each not in first for each in of_topic):
        return None
    return sum(end[each] - first[each] for each in of_topic)


async def _ends(
    cluster: Cluster, wanted: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], str]:
    """Return the first and the next offsets, and why they are not known."""
    if not wanted:
        return {}, {}, ""
    try:
        first = await list_ends(cluster, wanted, EARLIEST, gone=set(), unknown_ms=0)
        return first, await list_ends(cluster, wanted, LATEST, gone=set(), unknown_ms=0), ""
    except (KafkaError, OSError, TimeoutError) as error:
        return {}, {}, str(error)


async def topic_page(site: Site, cluster: Cluster, new_consumer: Callable[[], Any], values: Mapping[str, str]) -> Shown:
    """Return the page of one topic, with records of a partition where that was asked for."""
    name = values.get("name", "")
    topic = cluster.view.topics.get(name)
    if topic is None:
        return Shown("message.html", {"title": f"No topic {name}", "sentence": "There is no such topic."}, 404)
    wanted = [TopicPartition(name, number) for number in topic.partitions]
    first, end, failure = await _ends(cluster, wanted)
    rows = [
        PartitionRow(
            number,
            each.leader,
            each.replicas,
            each.in_sync,
            first.get(partition := TopicPartition(name, number)),
            end.get(partition),
        )
        for number, each in sorted(topic.partitions.items())
    ]
    records: list[RecordView] | None = None
    next_offset = None
    asked = values.get("partition", "")
    if asked.isascii() and asked.isdigit() and int(asked) in topic.partitions and not failure:
        partition = TopicPartition(name, int(asked))
        try:
            start = await _start(cluster, partition, values, first[partition], end[partition])
            records, next_offset = await _read(new_consumer, partition, start, end[partition])
        except (KafkaError, OSError, TimeoutError, ValueError, KeyError) as error:
            failure = str(error) or type(error).__name__
    more = {
        "topic": topic,
        "topic_id": topic_id_text(topic.topic_id),
        "rows": rows[:PARTITIONS],
        "left": max(0, len(rows) - PARTITIONS),
        "readers": sorted(readers_by_topic(site).get(name, {}).values()),
        "values": values,
        "records": records,
        "next_offset": next_offset,
        "failure": failure,
    }
    return Shown("topic.html", more)


async def _start(cluster: Cluster, partition: TopicPartition, values: Mapping[str, str], first: int, end: int) -> int:
    """Return the offset to read from: the one asked for, the first one since a time, or a few before the end."""
    offset, time = values.get("offset", "").strip(), values.get("time", "").strip()
    if time:
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            raise ValueError(f"{time[:60]!r} is no ISO 8601 time such as 2026-01-31T12:00:00Z") from None
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        found = (await list_offsets(cluster, {partition: round(moment.timestamp() * 1000)})).get(partition)
        return end if found is None else found.offset
    if offset:
        if not (offset.isascii() and offset.isdigit() and len(offset) < 20):
            raise ValueError(f"{offset[:60]!r} is no offset")
        return min(max(int(offset), first), end)
    return max(first, end - RECORDS)


async def _read(
    new_consumer: Callable[[], Any], partition: TopicPartition, start: int, end: int
) -> tuple[list[RecordView], int]:
    """Return the records from an offset on, and the offset behind them."""
    consumer = new_consumer()
    views: list[RecordView] = []
    position = start
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, start)
        while len(views) < RECORDS and position < end:
            batches = await consumer.poll(timeout_ms=READ_MS, max_records=RECORDS - len(views))
            if not batches:
                break
            for batch in batches:
                views += map(record_view, batch)
                position = batch.next_offset
    finally:
        await consumer.stop()
    return views, position


def record_view(record: Any) -> RecordView:
    """Return a record as text: JSON is indented, what is no UTF-8 is hex, and what is long is cut."""
    kind, value = _shown(record.value)
    return RecordView(
        record.offset,
        record.timestamp_ms,
        "" if record.key is None else _shown(record.key)[1],
        kind,
        value,
        len(record.value or b""),
        [(str(name), "null" if content is None else _shown(content)[1]) for name, content in record.headers[:50]],
    )


def _shown(content: bytes | None) -> tuple[str, str]:
    if content is None:
        return "null", ""
    cut = bytes(content[:VALUE_BYTES])
    more = f"\n… {len(content):,} bytes in all" if len(content) > VALUE_BYTES else ""
    try:
        text = cut.decode() if not more else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        text = "\0"
    if any(ord(each) < 32 and each not in "\t\r\n" for each in text):
        return _bytes_kind(content), _hex(cut[:1024]) + more
    if text[:1] in "{[" and text and not more:
        try:
            return "JSON", json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return "text", text + more


def _bytes_kind(content: bytes) -> str:
    """Return what bytes are: a zero and four bytes of a schema's id are how serializers of a registry begin."""
    if len(content) > _SCHEMA_ID_BYTES and content[0] == 0:
        return f"bytes, perhaps of schema {int.from_bytes(content[1:_SCHEMA_ID_BYTES], 'big')} of a registry"
    return "bytes"


def _hex(content: bytes) -> str:
    lines = []
    for start in range(0, len(content), 16):
        part = content[start : start + 16]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{start:06x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)
