"""Sources of the group events that `kohort explain` reads: a cluster, a broker's data directory, or a file.

Reading changes nothing. A cluster is read without a group; a directory is read without a broker, up to the last whole
batch.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli.terminal.failure import FAILED, USAGE, CommandFailed, reason_of
from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, GroupReport, parsed_event
from kohort.model.errors import KafkaError
from kohort.model.ids import EVENT_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kohort.client import Consumer

EVENTS = TopicPartition(EVENT_TOPIC, 0)
POLL_RECORDS = 10_000
IDLE_MS = 500
RECENT_EVENTS = 50_000
"""How many of the latest events of all groups are read where only the last rebalance is needed."""


LISTED_EVENTS = 10_000
"""As `RECENT_EVENTS`, where the last cause of each group is listed."""

Counted = Callable[[int], object]
"""Called with the number of events read since the last call."""


class GroupFilter:
    """Selects one group's events, all groups' without a name; collects the names of other groups."""

    def __init__(self, group_id: str | None) -> None:
        self.group_id = group_id
        self.others: set[str] = set()
        self._key = None if group_id is None else group_id.encode()

    def read(self, key: bytes | None, value: bytes | None) -> EventFields | None:
        """Return the event of a record, or None when it is not the group's, or none of ours."""
        if value is not None and self._key in (None, key):
            return parsed_event(value)
        if key is not None and key != self._key:
            self.others.add(key.decode("utf-8", "replace"))
        return None


# -- a cluster


@dataclass(slots=True)
class Bookmark:
    """The offset behind the last event that was read; None where none was."""

    position: int | None = None


async def live_events(
    consumer: Consumer,
    picked: GroupFilter,
    counted: Counted,
    *,
    following: bool = False,
    last: int | None = None,
    bookmark: Bookmark | None = None,
) -> AsyncIterator[EventFields | None]:
    """Yield the group's events; then end, or continue with new ones, with a None for each idle wait.

    They begin at the bookmark, which moves with them; else with the first of the `last` ones of all groups, or the
    first one.
    """
    bookmark = bookmark or Bookmark()
    end = (await consumer.end_offsets([EVENTS]))[EVENTS]
    position = (await consumer.beginning_offsets([EVENTS]))[EVENTS]
    if bookmark.position is not None and position <= bookmark.position <= end:
        position = bookmark.position
    elif last is not None:
        position = max(position, end - last)
    consumer.assign([EVENTS])
    consumer.seek(EVENTS, position)
    while following or position < end:
        batches = await consumer.poll(timeout_ms=IDLE_MS, max_records=POLL_RECORDS)
        for batch in batches:
            for record in batch:
                if (event := picked.read(record.key, record.value)) is not None:
                    yield event
            counted(batch.next_offset - position)
            bookmark.position = position = batch.next_offset
        if following and position >= end:
            yield None


def event_consumer(bootstrap_servers: str, security: dict[str, Any]) -> Consumer:
    """Return a consumer without a group, not started, for the topic of group events."""
    from kohort.client import Consumer

    return Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **security)


async def fold_recent(
    bootstrap_servers: str,
    security: dict[str, Any],
    group_id: str,
    fold: Callable[[EventFields], object],
    counted: Counted = lambda _: None,
) -> None:
    """Pass the latest events of a group to `fold`."""
    async with event_consumer(bootstrap_servers, security) as consumer:
        async for event in live_events(consumer, GroupFilter(group_id), counted, last=RECENT_EVENTS):
            if event is not None:
                fold(event)


async def recent_history(bootstrap_servers: str, security: dict[str, Any], group_id: str) -> GroupReport:
    """Return the recent history of a group from the events of its cluster."""
    explanation = Explanation(group_id, last=1, keeps_events=False)
    await fold_recent(bootstrap_servers, security, group_id, explanation.fold)
    return explanation.report(now_ms())


async def recent_histories(bootstrap_servers: str, security: dict[str, Any]) -> dict[str, GroupReport]:
    """Return the recent history of each group of which there are recent events."""
    explanations: dict[str, Explanation] = {}
    async with event_consumer(bootstrap_servers, security) as consumer:
        async for event in live_events(consumer, GroupFilter(None), lambda _: None, last=LISTED_EVENTS):
            if event is not None:
                group_id = str(event.get("group"))
                explanation = explanations.setdefault(group_id, Explanation(group_id, last=1, keeps_events=False))
                try:
                    explanation.fold(event)
                except KafkaError:  # another program wrote it: what is known of that group is doubtful
                    del explanations[group_id]
    return {group_id: each.report(now_ms()) for group_id, each in explanations.items()}


# -- a directory


def require_directory(directory: Path) -> None:
    """Raise CommandFailed where a broker's data directory does not exist."""
    if not directory.is_dir():
        raise CommandFailed(f"there is no directory {directory}: give the --data directory of a kohort broker", USAGE)


def stored_events(directory: Path, picked: GroupFilter, counted: Counted) -> Iterator[EventFields]:
    """Yield the group's events from the segments of a broker that need not run. Raises CommandFailed."""
    from kohort.broker.os_disk import OsDisk
    from kohort.log.disk import StorageError
    from kohort.log.segment import base_offsets, segment_name

    require_directory(directory)
    disk = OsDisk(directory, is_read_only=True)
    where = str(EVENTS)
    try:
        bases = base_offsets(disk.list(where), ".log")
        if not bases:
            raise CommandFailed(
                f"{directory} has no group events (no {where}): it is not the --data directory of a kohort broker, "
                "or no group ever had a member there",
                USAGE,
            )
        for base in bases:
            file = disk.open(f"{where}/{segment_name(base, '.log')}")
            yield from _events_in(file.read(0, file.size), picked, counted)
            file.close()
    except StorageError as error:
        raise CommandFailed(f"{directory} cannot be read: {reason_of(error)}", FAILED) from None
    finally:
        disk.close()


def _events_in(content: memoryview, picked: GroupFilter, counted: Counted) -> Iterator[EventFields]:
    """Yield the group's events in a segment, without a last batch that a crash left incomplete."""
    from kohort.wire.record_batches import CorruptBatch, check_batch, decode_batch, iter_batches

    with suppress(CorruptBatch):
        for header, batch in iter_batches(content):
            try:
                check_batch(batch)
                records = decode_batch(batch)
            except CorruptBatch:
                continue
            for record in records:
                if (event := picked.read(record.key, record.value)) is not None:
                    yield event
            counted(header.record_count)


# -- a file


def filed_events(path: Path, picked: GroupFilter, counted: Counted) -> Iterator[EventFields]:
    """Yield the group's events from lines of JSON, as `kohort consume __kohort_group_events` prints them."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                event = parsed_event(line)
                counted(1)
                if event is None:
                    continue
                if event.get("group") == picked.group_id:
                    yield event
                else:
                    picked.others.add(str(event.get("group")))
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}", USAGE) from None


def now_ms() -> int:
    """Return the time of this machine, as milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
