"""Follows a cluster: looks at its groups again and again, and reads its events where it has any.

A look lists all groups, and describes those that changed, those on an open page, and a few of the others in turn. Where
no page is open and nothing changes, looks are ten seconds apart.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from kohort.client import Cluster, Consumer
from kohort.client.cluster.lag_reader import LagReader
from kohort.client.cluster.offset_specs import EARLIEST
from kohort.console.cluster_requests import (
    committed_offsets,
    describe,
    end_offsets,
    list_groups,
    log_sizes,
)
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.history.watched_group import CoordinatedGroup
from kohort.console.topic_follower import TopicFollower
from kohort.gateway.server.order_topic import ORDERS, UnreadableOrder, orders_in
from kohort.group.explain.rebalance_report import parsed_event
from kohort.model.errors import KafkaError
from kohort.model.ids import EVENT_TOPIC, TopicPartition

EVENTS = TopicPartition(EVENT_TOPIC, 0)
PAST_EVENTS = 50_000
"""How many of the latest events of all groups are read at the start."""

SHOWN_S, OPEN_S, IDLE_S = 1.0, 2.0, 10.0
"""Between two looks: with groups on an open page that rebalance, with an open page, and without one."""
TURN_S, IDLE_TURN_S = 30.0, 60.0
"""After which every group was looked at, with an open page and without one."""
TURNS_PER_S = 50
"""Groups looked at in turn, at most: of ten thousand, each one every 200 s."""
GROUPS = 200
"""Looked at before what they show is on the page."""
AGED = 10
"""Groups whose unread records are read at a look, at most: those of which an offset has moved."""
AGED_MS = 60_000
"""After so long they are read again where none has: retention may have taken them."""
TOPICS_S = 5.0
"""Between two looks at the logs of topics on open pages."""
METADATA_S = 30.0
REMARKS = 50


class SetShown(Protocol):
    """Sets which groups and which topics an open page has."""

    def __call__(self, group_ids: Iterable[str], topics: Iterable[str] = ()) -> None: ...


class ClusterPoller:
    """Carries a `WatchedCluster` forward, until its task is cancelled.

    `open_s` is how long it waits between two looks with a page open, in place of SHOWN_S and OPEN_S.
    """

    def __init__(
        self,
        cluster: Cluster,
        watched: WatchedCluster,
        event_consumer: Callable[[], Consumer],
        now_ms: Callable[[], int],
        sentence_of: Callable[[BaseException], str],
        open_s: float | None = None,
    ) -> None:
        self.watched = watched
        self.cluster = cluster
        self._now_ms = now_ms
        self._sentence_of = sentence_of
        self._open_s = open_s
        self._shown: Counter[str] = Counter()
        self._topics: Counter[str] = Counter()
        self._topics_s = 0.0
        self._pages = 0
        self._due: dict[str, None] = {}
        self._aged: dict[str, None] = {}
        self._missing: set[str] = set()
        """Topics of committed offsets that do not exist: at most as many as groups name."""
        self._lag_reader = LagReader(cluster, now_ms)
        self._turn: deque[str] = deque()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._followers = {
            EVENTS.topic: TopicFollower(event_consumer, EVENTS, PAST_EVENTS, self._fold_events),
            ORDERS.topic: TopicFollower(event_consumer, ORDERS, 1 << 62, self._fold_orders),
        }
        self._remarks: dict[str, None] = {}
        self._metadata_s = 0.0

    @contextmanager
    def page_open(self) -> Iterator[SetShown]:
        """A page is open within the block; yield what sets the groups that are on it, which are looked at each time."""
        shown: list[str] = []
        shown_topics: list[str] = []

        def show(group_ids: Iterable[str], topics: Iterable[str] = ()) -> None:
            self._shown.subtract(shown)
            self._topics.subtract(shown_topics)
            shown[:], shown_topics[:] = group_ids, topics
            self._shown.update(shown)
            self._topics.update(shown_topics)
            self._shown += Counter()  # drops those on no page
            self._topics += Counter()

        self._pages += 1
        self._wanted.set()
        try:
            yield show
        finally:
            show(())
            self._pages -= 1

    def look_soon(self, group_id: str) -> None:
        """Look at a group at once: something was changed."""
        self._due[group_id] = None
        self._wanted.set()

    async def changed(self, version: int) -> None:
        """Wait until the version of the cluster is another one."""
        while self.watched.version == version:
            await self._changed.wait()

    async def look_once(self) -> None:
        """Look at all groups once, their lags in seconds too, and read the events that there are.

        Raises `KafkaError`, `OSError`, `TimeoutError`.
        """
        await self._look()
        if EVENTS.topic in self.cluster.view.topics:
            await self._followers[EVENTS.topic].read(is_following=False)
        groups = list(self.watched.groups)
        for start in range(0, len(groups), AGED):
            await asyncio.gather(*map(self._read_lag, groups[start : start + AGED]))
        self._succeed()

    async def run(self) -> None:
        """Look again and again. A cluster that does not answer is a problem of the page, not the end."""
        following = [
            asyncio.create_task(follower.follow(partial(self._has_topic, topic)), name=f"kohort console {topic}")
            for topic, follower in self._followers.items()
        ]
        try:
            while True:
                await self._look_once()
                self._notify()
                pause_s = self._pause_s()
                try:
                    async with asyncio.timeout(pause_s):
                        await self._wanted.wait()
                except TimeoutError:
                    pass
                self._wanted.clear()
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    # -- looks

    def _pause_s(self) -> float:
        if not self._pages:
            return IDLE_S
        if self._open_s is not None:
            return self._open_s
        groups = self.watched.groups
        is_moving = any(group_id in groups and not groups[group_id].is_settled for group_id in self._shown)
        return SHOWN_S if is_moving or len(self._shown) == 1 else OPEN_S

    async def _look_once(self) -> None:
        try:
            await self._look()
        except (KafkaError, OSError, TimeoutError) as error:
            self._metadata_s = 0.0
            self.watched.fail(self._now_ms(), self._sentence_of(error))

    async def _look(self) -> None:
        cluster, watched = self.cluster, self.watched
        await cluster.start()
        now_s = asyncio.get_running_loop().time()
        self._remarks = {}
        if now_s - self._metadata_s >= METADATA_S:
            await cluster.refresh()
            self._metadata_s = now_s
        listing = await list_groups(cluster, self._remark)
        changed = watched.fold_listing(listing.groups, self._now_ms())
        if any(group_id not in self._due for group_id in changed) and not watched.has_events:
            cluster.request_refresh()  # the first group of a cluster makes its topic of events
        due = [*self._due, *changed, *self._shown, *self._in_turn()]
        due += [group_id for group_id, group in watched.groups.items() if not group.is_settled]
        self._due = dict.fromkeys(
            each for each in due if each in watched.groups and watched.groups[each].listed.node_id in listing.node_ids
        )
        while part := [watched.groups[each].listed for each in list(self._due)[:GROUPS] if each in watched.groups]:
            await self._look_at(part)
            for each in part:
                self._due.pop(each.group_id, None)
            self._notify()
        await self._read_lags()
        watched.topics.views = cluster.view.topics
        if self._topics and now_s - self._topics_s >= TOPICS_S:
            self._topics_s = now_s
            await self.look_at_topics(list(self._topics))
        self._succeed()

    def _succeed(self) -> None:
        unread = [each.problem for each in self._followers.values() if each.problem]
        self.watched.succeed([*unread, *self._remarks][:REMARKS])

    def _has_topic(self, name: str) -> bool:
        return self.watched.is_seen and name in self.cluster.view.topics

    def _in_turn(self) -> list[str]:
        """Return a few groups, so that all had their turn after TURN_S."""
        if not self._turn:
            self._turn.extend(self.watched.groups)
        pause_s = self._pause_s()
        turn_s = TURN_S if self._pages else IDLE_TURN_S
        count = min(len(self.watched.groups) * pause_s / turn_s, TURNS_PER_S * pause_s)
        return [self._turn.popleft() for _ in range(min(int(count) + 1, len(self._turn)))]

    async def _look_at(self, groups: list[CoordinatedGroup]) -> None:
        described = await describe(self.cluster, groups, self._remark)
        at_ms = self._now_ms()
        for group_id, description in described.items():
            self.watched.fold_description(at_ms, group_id, description)
        committed = await committed_offsets(self.cluster, groups, self._remark)
        watched = self.watched.groups
        partitions = {partition for offsets in committed.values() for partition in offsets}
        partitions |= {each for group_id in committed if group_id in watched for each in watched[group_id].owners}
        await self._find_topics({partition.topic for partition in partitions})
        ends = await end_offsets(self.cluster, sorted(partitions), self._remark)
        at_ms = self._now_ms()
        for group_id, offsets in committed.items():
            self.watched.fold_offsets(at_ms, group_id, offsets, ends)

    async def _find_topics(self, names: set[str]) -> None:
        """Request metadata where a topic is newer than what is known; of one that does not exist once."""
        missing = names - self.cluster.view.topics.keys()
        if missing - self._missing:
            self._missing |= missing
            await self.cluster.refresh()
        self._missing -= self.cluster.view.topics.keys()

    async def look_at_topics(self, names: Iterable[str]) -> None:
        """Read where the logs of topics begin and end, and their bytes. Raises KafkaError, OSError, TimeoutError."""
        cluster, topics = self.cluster, self.watched.topics
        topics.views = views = cluster.view.topics
        refused: dict[str, None] = {}
        partitions = [
            TopicPartition(name, number) for name in names if name in views for number in views[name].partitions
        ]
        first = await end_offsets(cluster, partitions, refused.setdefault, EARLIEST)
        end = await end_offsets(cluster, partitions, refused.setdefault)
        sizes = await log_sizes(cluster, {each.topic for each in partitions}, refused.setdefault)
        topics.fold(self._now_ms(), first, end, sizes)
        topics.remark = "; ".join(list(refused)[:REMARKS])
        self.watched.version += 1

    async def _read_lags(self) -> None:
        """Read the lags in seconds of groups on open pages, a few at each look: those read longest ago come first."""
        since_ms, groups = self._now_ms() - AGED_MS, self.watched.groups
        self._aged = {group_id: None for group_id in self._aged if group_id in self._shown}
        self._aged |= dict.fromkeys(group_id for group_id in self._shown if group_id not in self._aged)
        due = [each for each in self._aged if each in groups and not groups[each].has_lags(since_ms)]
        for group_id in due[:AGED]:
            del self._aged[group_id]
            self._aged[group_id] = None
            await self._read_lag(group_id)

    async def _read_lag(self, group_id: str) -> None:
        assigned = self.watched.groups[group_id].owners if group_id in self.watched.groups else ()
        try:
            lags = await self._lag_reader.read(group_id, assigned=assigned)
            self.watched.fold_lags(self._now_ms(), group_id, lags)
        except KafkaError as error:
            self._remark(f"the lag in seconds of {group_id!r} cannot be read: {error.text}")

    def _remark(self, sentence: str) -> None:
        self._remarks[sentence] = None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- events

    def _fold_orders(self, batch: Any) -> None:
        for _, order in orders_in(batch):
            with suppress(UnreadableOrder):  # beyond what is remembered
                self.watched.orders.fold(order)
        self.watched.version += 1

    def _fold_events(self, batch: Any) -> None:
        for record in batch:
            event = parsed_event(record.value)
            group_id = None if event is None else self.watched.fold_event(event)
            if group_id is not None and self._pages:
                self._due[group_id] = None
        self._notify()
        if self._due:
            self._wanted.set()
