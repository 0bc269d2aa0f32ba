"""All groups of a cluster, found by words and sorted, and a feed of what happened in them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from kohort.client.admin.group_descriptions import GroupDescription
from kohort.console.history.gateway_lines import GatewayLines, GatewayLook
from kohort.console.history.watched_group import CoordinatedGroup, GroupSummary, Offsets, WatchedGroup
from kohort.console.history.watched_topics import WatchedTopics
from kohort.gateway.assigning.orders import names_of
from kohort.gateway.server.order_topic import KnownOrders
from kohort.group.explain.explain_text import Names, cost, why
from kohort.group.explain.rebalance_report import EventFields, Rebalance
from kohort.group.explain.remedy import COST_S
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag, sum_known

log = logging.getLogger(__name__)

FEED = 200
"""Lines of the feed; the last ones are stored."""

MISSING_MS = 120_000
"""How long a group is known that no broker lists: its coordinator may be moving, or starting again."""

UNLISTED = 5_000
"""Events of groups that are not listed yet: a new group has events before it is listed."""


class FeedLine(NamedTuple):
    """A rebalance that is over, in a line; or what happened to a gateway: then it has a `source` and no group."""

    at_ms: int
    group_id: str
    number: int
    text: str
    is_inferred: bool
    is_costly: bool
    source: str = ""


class ClusterProblem(NamedTuple):
    """The cluster does not answer, or refuses: since when, and in a sentence why."""

    since_ms: int
    sentence: str


class ReadingGroup(NamedTuple):
    """A group that has committed offsets of a topic, or owns partitions of it. `lag` is None where it is not known."""

    group_id: str
    partitions: int
    lag: int | None


class GroupQuery(NamedTuple):
    """Which groups are shown, and in which order."""

    words: str = ""
    state: str = ""
    order: str = "unwell"
    page: int = 0


class ClusterFigures(NamedTuple):
    """All groups together: how many there are, rebalance, and had `unowned_s` partition-seconds without an owner."""

    groups: int
    running: int
    members: int
    lag: int | None
    unowned: int
    unowned_s: float


class GroupPage(NamedTuple):
    """The rows of one page, and how many groups there are, and were found."""

    rows: list[GroupSummary]
    found: int
    total: int


ROWS = 50

READERS_MS = 5_000
"""How long who reads which topic is not found again: that goes through all groups."""

ORDERS: dict[str, tuple[str, Callable[[GroupSummary], tuple[object, ...]]]] = {
    "unwell": (
        "most unwell first",
        lambda row: (not row.running, -round(row.unowned_s, 1), -(row.lag or 0), row.group_id),
    ),
    "name": ("by name", lambda row: (row.group_id,)),
    "lag": ("largest lag first", lambda row: (-(row.lag if row.lag is not None else -1), row.group_id)),
    "members": ("most members first", lambda row: (-row.members, row.group_id)),
    "recent": ("last rebalance first", lambda row: (-(row.changed_ms or 0), row.group_id)),
}
"""Orders of the list by name: their words, and the key of a row."""

FILTERS: dict[str, tuple[str, Callable[[GroupSummary], bool]]] = {
    "": ("all", lambda _: True),
    "rebalancing": ("rebalancing now", lambda row: bool(row.running)),
    "unowned": ("unowned partitions in the last hour", lambda row: row.unowned_s > 0),
    "lagging": ("with a lag", lambda row: bool(row.lag)),
    "empty": ("without members", lambda row: not row.members),
    "consumer": ("of the consumer protocol", lambda row: row.group_type == "consumer"),
    "classic": ("of the classic protocol", lambda row: row.group_type == "classic"),
    "share": ("share groups", lambda row: row.group_type == "share"),
    "streams": ("streams groups", lambda row: row.group_type == "streams"),
}


class WatchedCluster:
    """The groups of a cluster. `version` rises with each change."""

    def __init__(self) -> None:
        self.groups: dict[str, WatchedGroup] = {}
        self.feed: deque[FeedLine] = deque(maxlen=FEED)
        self.problem: ClusterProblem | None = None
        self.remarks: list[str] = []
        """What could not be read, in sentences."""
        self.orders = KnownOrders()
        """Orders of operators, from the topic that gateways follow."""
        self.topics = WatchedTopics()
        self.has_events = False
        self.is_seen = False
        self.version = 0
        self._gateways: dict[str, GatewayLines] = {}
        self._unlisted: deque[EventFields] = deque(maxlen=UNLISTED)
        self._summaries: tuple[int, int, list[GroupSummary]] = (-1, 0, [])
        self._readers: tuple[int, dict[str, list[ReadingGroup]]] = (-READERS_MS, {})

    def fold_listing(self, listed: Iterable[CoordinatedGroup], at_ms: int = 0) -> list[str]:
        """Take all groups that brokers list; return those that are new, in another state than before, or missing.

        A group that is missing is forgotten once its description shows that it does not exist, or after MISSING_MS.
        """
        changed, found = [], set()
        for each in listed:
            found.add(each.group_id)
            known = self.groups.get(each.group_id)
            if known is None:
                self.groups[each.group_id] = WatchedGroup(each)
            elif not known.fold_listing(each):
                continue
            changed.append(each.group_id)
        for group_id in [each for each in self.groups if each not in found]:
            if self.groups[group_id].fold_missing(at_ms) >= MISSING_MS:
                del self.groups[group_id]
            changed.append(group_id)
        self.is_seen = True
        self.version += bool(changed)
        waiting = list(self._unlisted)
        self._unlisted.clear()
        for event in waiting:
            self.fold_event(event)
        return changed

    def fold_description(self, at_ms: int, group_id: str, described: GroupDescription | None) -> None:
        """Take the description of a group, None where it does not exist."""
        if (group := self.groups.get(group_id)) is None:
            return
        if described is None and group.missing_ms is not None:
            del self.groups[group_id]
            self.version += 1
            return
        is_same = group.described == described and group.is_settled
        ended = group.fold_description(at_ms, described)
        self.version += not is_same
        self._add_to_feed(group, ended)

    def fold_offsets(self, at_ms: int, group_id: str, committed: Offsets, ends: Offsets) -> None:
        """Take the committed offsets of a group, and where the logs of the partitions end."""
        if (group := self.groups.get(group_id)) is None:
            return
        self.version += group.fold_offsets(at_ms, committed, ends)

    def fold_lags(self, at_ms: int, group_id: str, lags: Mapping[TopicPartition, Lag]) -> None:
        """Take what was read of the unread records of a group."""
        if (group := self.groups.get(group_id)) is not None:
            self.version += group.fold_lags(at_ms, lags)

    def fold_event(self, event: EventFields) -> str | None:
        """Take an event of the cluster; return the group that it is about, None where that is not listed yet.

        One that another program wrote is logged, and changes nothing.
        """
        self.has_events = True
        group_id = str(event.get("group"))
        if (group := self.groups.get(group_id)) is None:
            self._unlisted.append(event)
            return None
        try:
            self._add_to_feed(group, group.fold_event(event))
        except KafkaError as error:
            log.warning("%s", error.text)
            return None
        self.version += 1
        return group_id

    def drained(self, group_id: str) -> set[str]:
        """Return the ids of the members of a group that are drained."""
        names = self.orders.names(group_id)
        group = self.groups.get(group_id)
        members = () if not names or group is None or group.described is None else group.described.members
        return {
            each.member_id
            for each in members
            if names.keys() & names_of(each.member_id, each.instance_id, each.client_id, each.client_host)
        }

    def fail(self, at_ms: int, sentence: str) -> None:
        """Note that the cluster did not answer."""
        since_ms = at_ms if self.problem is None else self.problem.since_ms
        self.problem = ClusterProblem(since_ms, sentence)
        self.version += 1

    def succeed(self, remarks: list[str]) -> None:
        """Note that it answered, and what it refused."""
        if self.problem is not None or self.remarks != remarks:
            self.version += 1
        self.problem, self.remarks = None, remarks

    def _add_to_feed(self, group: WatchedGroup, ended: Rebalance | None) -> None:
        if ended is None or ended.ended_ms is None:
            return
        names = Names(group.report(ended.ended_ms).identities)
        text = f"{why(ended, names)}; {cost(ended, names)}"
        at = ended.ended_ms, group.listed.group_id, ended.number
        self.feed.append(FeedLine(*at, text, group.is_inferred, ended.unowned_partition_s >= COST_S))

    def fold_gateway(self, at_ms: int, url: str, look: GatewayLook | None) -> None:
        """Take what the metrics of a gateway show, None where they cannot be read."""
        for line in self._gateways.setdefault(url, GatewayLines()).fold(look):
            source = urlsplit(url).netloc
            self.feed.append(
                FeedLine(at_ms, "", 0, line.text, is_inferred=False, is_costly=line.is_alarm, source=source)
            )
            self.version += 1

    def summaries(self, now_ms: int) -> list[GroupSummary]:
        """Return a row for each group; the same ones for a second where nothing has changed."""
        version, at_ms, rows = self._summaries
        if version != self.version or not 0 <= now_ms - at_ms < 1000:
            rows = [group.summary(now_ms) for group in self.groups.values()]
            self._summaries = self.version, now_ms, rows
        return rows

    def readers(self, topic: str, now_ms: int) -> list[ReadingGroup]:
        """Return the groups that read a topic by name, as far as they were looked at."""
        at_ms, found = self._readers
        if not 0 <= now_ms - at_ms < READERS_MS:
            found = {}
            for group_id, group in sorted(self.groups.items()):
                for name, (count, lag) in group.reading().items():
                    found.setdefault(name, []).append(ReadingGroup(group_id, count, lag))
            self._readers = now_ms, found
        return found.get(topic, [])

    def figures(self, now_ms: int) -> ClusterFigures:
        """Return the sums over all groups."""
        rows = self.summaries(now_ms)
        return ClusterFigures(
            len(rows),
            sum(bool(row.running) for row in rows),
            sum(row.members for row in rows),
            sum_known([row.lag for row in rows]),
            sum(row.unowned_s > 0 for row in rows),
            sum(row.unowned_s for row in rows),
        )

    def selected(self, query: GroupQuery, now_ms: int) -> list[GroupSummary]:
        """Return all groups that a query selects, in its order."""
        words = query.words.lower().split()
        _, is_wanted = FILTERS.get(query.state, FILTERS[""])
        _, key = ORDERS.get(query.order, ORDERS["unwell"])
        return sorted((row for row in self.summaries(now_ms) if is_wanted(row) and _has_words(row, words)), key=key)

    def page(self, query: GroupQuery, now_ms: int) -> GroupPage:
        """Return one page of the groups that a query selects."""
        found = self.selected(query, now_ms)
        first = min(query.page, max(0, len(found) - 1) // ROWS) * ROWS
        return GroupPage(found[first : first + ROWS], len(found), len(self.groups))


def _has_words(row: GroupSummary, words: list[str]) -> bool:
    if not words:
        return True
    text = " ".join((row.group_id, row.group_type, row.state, row.protocol, row.cause)).lower()
    return all(word in text for word in words)
