"""Metrics of the groups of any cluster: lag in records and seconds, owners, members, rebalances by cause.

The cluster is looked at in an interval, and a scrape gets the last look, however many scrape. Rebalances are counted
from the group events that our broker and gateway write; without them, from the differences between two looks: one that
begins and ends between them is not seen where it changed neither members nor owners, and times are those of the looks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kohort.cli.group_state.group_events import LISTED_EVENTS, Bookmark, GroupFilter, event_consumer, live_events
from kohort.client import Admin
from kohort.client.admin.group_descriptions import GroupDescription
from kohort.console.history.inferred_history import InferredHistory
from kohort.group.explain.rebalance_counter import RebalanceCounter
from kohort.model.errors import KafkaError
from kohort.model.exposition import Labels, MetricFamily, counter, gauge
from kohort.model.ids import EVENT_TOPIC, TopicPartition
from kohort.model.lag import Lag, group_lag

log = logging.getLogger("kohort.exporter")

PREFIX = "kohort_group"
MOST_PARTITIONS = 20_000
"""Partitions of groups that have labels of their own; of others only their groups' sums are exported."""

AT_A_TIME = 20
"""Of how many groups is asked at the same time."""


@dataclass
class ExportedGroups:
    """The groups of a cluster that `is_wanted` selects, as of the last look. `isolation_level` is that of the lag."""

    admin: Admin
    bootstrap_servers: str
    security: dict[str, Any]
    is_wanted: Callable[[str], bool] = lambda _: True
    isolation_level: str = "read_uncommitted"
    _groups: list[tuple[GroupDescription, Mapping[TopicPartition, Lag]]] = field(default_factory=list)
    _rebalances: RebalanceCounter = field(default_factory=RebalanceCounter)
    _inferred: RebalanceCounter = field(default_factory=RebalanceCounter)
    _histories: dict[str, InferredHistory] | None = None
    """Of each group what looks have shown; None while its events are read, or before that is known."""
    _failures: int = 0
    _took_s: float = 0.0
    _looked_s: float = 0.0
    _failure: str = "the cluster was not looked at yet"

    async def run(self, interval_s: float) -> None:
        """Look again and again, until it is cancelled."""
        following = asyncio.create_task(self._follow_events(interval_s), name="kohort exporter events")
        try:
            while True:
                with suppress(KafkaError):
                    await self.look()
                await asyncio.sleep(interval_s)
        finally:
            following.cancel()

    async def look(self) -> None:
        """Look at every group once. Raises KafkaError where that is impossible; the last look stays."""
        began_s, at_a_time = time.monotonic(), asyncio.Semaphore(AT_A_TIME)
        try:
            listed = [each.group_id for each in await self.admin.list_groups() if self.is_wanted(each.group_id)]
            found = await asyncio.gather(*[self._look_at(each, at_a_time) for each in listed])
        except KafkaError as error:
            self._failures += 1
            if error.text != self._failure:
                log.warning("the groups cannot be looked at: %s", error.text)
            self._failure = error.text
            raise
        self._groups = [each for each in found if each is not None]
        self._infer(set(listed))
        self._took_s, self._looked_s, self._failure = time.monotonic() - began_s, time.time(), ""

    async def _look_at(
        self, group_id: str, at_a_time: asyncio.Semaphore
    ) -> tuple[GroupDescription, Mapping[TopicPartition, Lag]] | None:
        async with at_a_time:
            try:
                described = (await self.admin.describe_groups([group_id]))[group_id]
                isolation_level, owners = self.isolation_level, described.owners
                return described, await self.admin.lag(group_id, isolation_level=isolation_level, assigned=owners)
            except KafkaError as error:  # a group that is gone by now, of another type, or that may not be read
                self._failures += 1
                log.info("group %s is left out: %s", group_id, error.text)
                return None

    def _infer(self, listed: set[str]) -> None:
        """Count the rebalances that are over by this look; `listed` are the groups that exist."""
        if self._histories is None:
            return
        at_ms = time.time_ns() // 1_000_000
        described: dict[str, GroupDescription | None] = {group.group_id: group for group, _ in self._groups}
        gone = dict.fromkeys(self._histories.keys() - listed)
        for group_id, group in {**described, **gone}.items():
            history = self._histories.setdefault(group_id, InferredHistory(group_id, last=1))
            if (ended := history.fold(at_ms, group)) is not None:
                self._inferred.add(group_id, ended)
        for group_id in gone:
            del self._histories[group_id]

    async def _follow_events(self, interval_s: float) -> None:
        bookmark = Bookmark()  # what was counted is not counted again after a broker's restart
        while True:
            try:
                is_without = EVENT_TOPIC not in {topic.name for topic in await self.admin.list_topics()}
                if not is_without:
                    async with event_consumer(self.bootstrap_servers, self.security) as consumer:
                        picked = GroupFilter(None)
                        events = live_events(
                            consumer, picked, lambda _: None, following=True, last=LISTED_EVENTS, bookmark=bookmark
                        )
                        async for event in events:
                            self._histories = None
                            if event is not None and self.is_wanted(str(event.get("group"))):
                                self._rebalances.count(event)
            except KafkaError as error:
                is_without = not error.code.is_retriable
            if is_without and self._histories is None:
                self._histories = {}
            await asyncio.sleep(interval_s)

    def unready(self) -> str:
        """Return why there is nothing to scrape, or an empty text."""
        return self._failure

    def families(self) -> Iterator[MetricFamily]:
        """Yield all metrics, as of the last look."""
        yield gauge("kohort_exporter_look_seconds", "How long the last look at the cluster took.", self._took_s)
        yield gauge("kohort_exporter_last_look_timestamp_seconds", "When it ended.", self._looked_s)
        yield gauge("kohort_exporter_up", "Whether the last look succeeded.", float(not self._failure))
        yield counter("kohort_exporter_failures_total", "Looks, and groups in looks, that failed.", self._failures)
        yield from self._of_groups()
        yield from self._of_partitions()
        yield from self._rebalances.families(PREFIX, self._inferred)

    def _of_groups(self) -> Iterator[MetricFamily]:
        infos: list[tuple[Labels, float]] = []
        unknown: Counter[tuple[str, str]] = Counter()
        sums: dict[str, list[tuple[Labels, float]]] = {name: [] for name in _OF_A_GROUP}
        for group, lags in self._groups:
            labels = {"group": group.group_id}
            infos.append(({**labels, "type": group.group_type, "state": group.state, "assignor": group.protocol}, 1))
            sums["members"].append((labels, len(group.members)))
            sums["unowned_partitions"].append((labels, len(lags.keys() - group.owners.keys()) if group.members else 0))
            lag = group_lag(lags.values())
            if lag.records is not None:
                sums["lag_records"].append((labels, lag.records))
            if lag.seconds is not None:
                sums["lag_seconds"].append((labels, lag.seconds))
            unknown.update((group.group_id, each.reason.value) for each in lags.values() if each.reason is not None)
        yield gauge(f"{PREFIX}_info", "A group, with its type, state and assignor.", infos)
        for name, samples in sums.items():
            yield gauge(f"{PREFIX}_{name}", _OF_A_GROUP[name], samples)
        yield gauge(
            f"{PREFIX}_lag_unknown_partitions",
            "Partitions of which the lag, or its seconds, is unknown, by reason.",
            [({"group": group, "reason": reason}, count) for (group, reason), count in sorted(unknown.items())],
        )

    def _of_partitions(self) -> Iterator[MetricFamily]:
        records: list[tuple[Labels, float]] = []
        seconds: list[tuple[Labels, float]] = []
        owners: list[tuple[Labels, float]] = []
        left, left_out = MOST_PARTITIONS, 0
        for group, lags in self._groups:
            owner_of = group.owners
            partitions = sorted(lags.keys() | owner_of.keys())
            if len(partitions) > left:
                left_out += len(partitions)
                continue
            left -= len(partitions)
            for partition in partitions:
                labels = {"group": group.group_id, "topic": partition.topic, "partition": partition.partition}
                lag, owner = lags.get(partition), owner_of.get(partition)
                if lag is not None and lag.records is not None:
                    records.append((labels, lag.records))
                if lag is not None and lag.seconds is not None:
                    seconds.append((labels, lag.seconds))
                if owner is not None:
                    owners.append(({**labels, "client_id": owner.client_id, "host": owner.client_host}, 1))
        yield gauge(f"{PREFIX}_partition_lag_records", "Records that a group has not committed.", records)
        yield gauge(f"{PREFIX}_partition_lag_seconds", "For how long the oldest of them has been there.", seconds)
        yield gauge(f"{PREFIX}_partition_owner", "The member that a partition is assigned to.", owners)
        yield gauge("kohort_exporter_partitions_left_out", "Partitions beyond the limit of labels.", left_out)


_OF_A_GROUP = {
    "members": "Members of a group.",
    "unowned_partitions": "Partitions with a committed offset that no member of a group with members owns.",
    "lag_records": "Records that a group has not committed, of all its partitions.",
    "lag_seconds": "For how long the oldest record that a group has not committed has been there.",
}
