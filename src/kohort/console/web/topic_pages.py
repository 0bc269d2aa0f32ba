"""The pages of topics: records, bytes, how fast they are written, who reads them, and the records of a partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kohort.client import Cluster
from kohort.client.cluster.list_offsets import list_ends, list_offsets
from kohort.client.cluster.metadata import PartitionView
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.console.history.watched_topics import LogLook
from kohort.console.web.record_views import RecordView, record_views
from kohort.console.web.site import OpenPage, Site
from kohort.drawing.display_text import display_name
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.schemas.registry import Registry

TOPICS = 200
LOOKED_AT = 5_000
"""Partitions of topics on one page, at most."""
PARTITIONS = 500
RECORDS = 25
READ_MS = 3_000


class PartitionRow(NamedTuple):
    """A partition of a topic."""

    view: PartitionView
    log: LogLook


class ReadRecords(NamedTuple):
    """Records of a partition from an offset on, and the offset behind them; None where they were not asked for.

    `failure` is why they could not be read.
    """

    views: list[RecordView] | None
    next_offset: int
    failure: str


def topics_page(site: Site, values: Mapping[str, str]) -> OpenPage:
    """Return the page of all topics whose names have some words."""
    topics, now_ms = site.watched.topics, site.now_ms()
    asked = values.get("q", "")[:200]
    words, with_internal = asked.lower().split(), values.get("internal", "")
    found = [
        topic
        for name, topic in sorted(topics.views.items())
        if (with_internal or not (topic.is_internal or name.startswith("__")))
        and all(word in name.lower() for word in words)
    ]
    rows = [(topic, topics.sum(topic), site.watched.readers(topic.name, now_ms)) for topic in found[:TOPICS]]
    names: list[str] = []
    partitions = 0
    for topic, _, _ in rows:
        partitions += len(topic.partitions)
        if partitions <= LOOKED_AT or not names:
            names.append(topic.name)
    parts = {"list": site.render("topics_list.html", rows=rows, found=len(found))}
    live = site.address("/live/topics", q=asked, internal=with_internal)
    return OpenPage("topics.html", "Topics", parts, (), live, tuple(names))


def topic_page(site: Site, values: Mapping[str, str]) -> OpenPage | None:
    """Return the page of one topic, None where there is none."""
    name = values.get("name", "")
    topic = site.watched.topics.views.get(name)
    if topic is None:
        return None
    rows = [PartitionRow(each, site.watched.topics.log(name, number)) for number, each in topic.partitions.items()]
    parts = {
        "head": site.render(
            "topic_head.html", topic=topic, topic_id=topic_id_text(topic.topic_id), sum=site.watched.topics.sum(topic)
        ),
        "readers": site.render("topic_readers.html", readers=site.watched.readers(name, site.now_ms())),
        "partitions": site.render(
            "topic_partitions.html",
            topic=topic,
            rows=sorted(rows, key=lambda row: row.view.partition)[:PARTITIONS],
            left=max(0, len(rows) - PARTITIONS),
        ),
    }
    return OpenPage("topic.html", display_name(name), parts, (), site.address("/live/topic", name=name), (name,))


async def read_records(
    cluster: Cluster, new_consumer: Callable[[], Any], registry: Registry | None, values: Mapping[str, str]
) -> ReadRecords:
    """Return the records of a partition that a page asks for."""
    asked, topic = values.get("partition", ""), cluster.view.topics.get(values.get("name", ""))
    if topic is None or not (asked.isascii() and asked.isdigit() and int(asked) in topic.partitions):
        return ReadRecords(None, 0, "")
    partition = TopicPartition(topic.name, int(asked))
    try:
        first = await list_ends(cluster, [partition], EARLIEST, gone=set(), unknown_ms=0)
        end = await list_ends(cluster, [partition], LATEST, gone=set(), unknown_ms=0)
        start = await _start(cluster, partition, values, first[partition], end[partition])
        records, next_offset = await _read(new_consumer, partition, start, end[partition])
        # The registry is waited for in a thread.
        return ReadRecords(await asyncio.to_thread(record_views, records, registry), next_offset, "")
    except (KafkaError, OSError, TimeoutError, ValueError, KeyError) as error:
        return ReadRecords(None, 0, str(error) or type(error).__name__)


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
) -> tuple[list[Any], int]:
    """Return the records from an offset on, and the offset behind them."""
    consumer = new_consumer()
    records: list[Any] = []
    position = start
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, start)
        while len(records) < RECORDS and position < end:
            batches = await consumer.poll(timeout_ms=READ_MS, max_records=RECORDS - len(records))
            if not batches:
                break
            for batch in batches:
                records += batch
                position = batch.next_offset
    finally:
        await consumer.stop()
    return records, position
