"""Rebalances of the groups behind a gateway, counted by cause, and what they cost: folded from the groups' events.

It is an `EventStore` in front of another one. Names of groups are the clients', so only so many have labels of their
own; the others are counted together.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from kohort.group.explain.explain import Explanation
from kohort.node.groups.event_topic import EventStore
from kohort.wire.record_batches import Record

MOST_GROUPS = 1_000
"""Groups that have labels of their own, and whose events are folded."""

OTHER_GROUPS = ""
"""The label of all other groups."""


class NoStore:
    """An `EventStore` that keeps nothing."""

    names_wait_ms = 0

    def __init__(self, topic_name: Callable[[bytes], str | None]) -> None:
        self.topic_name = topic_name

    def append(self, records: list[Record], now_ms: int) -> None:
        """Drop a batch."""


class RebalanceCounts:
    """Counters by group and cause; each batch of events goes on to `store`."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.names_wait_ms = store.names_wait_ms
        self._explanations: dict[str, Explanation] = {}
        self.rebalances: Counter[tuple[str, str]] = Counter()
        """By group and cause, the rebalances that have ended."""
        self.duration_s: defaultdict[str, float] = defaultdict(float)
        """By group, for how long rebalances took."""
        self.unowned_partition_s: defaultdict[str, float] = defaultdict(float)
        """By group, partition-seconds without an owner."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return what the store knows."""
        return self._store.topic_name(topic_id)

    def append(self, records: list[Record], now_ms: int) -> None:
        """Count what a batch shows, and store it. Raises StorageError or KafkaError."""
        for record in records:
            if record.value is not None:
                self._take(json.loads(bytes(record.value)))
        self._store.append(records, now_ms)

    def _take(self, event: dict[str, Any]) -> None:
        group_id = event["group"]
        explanation = self._explanations.get(group_id)
        if explanation is None:
            if len(self._explanations) >= MOST_GROUPS:
                if event["event"] == "round_opened":
                    self.rebalances[OTHER_GROUPS, str(event["cause"]["kind"])] += 1
                return
            explanation = self._explanations[group_id] = Explanation(group_id, last=0, keeps_events=False)
        ended = explanation.fold(event)
        if ended is None:
            return
        self.rebalances[group_id, ended.cause.kind] += 1
        self.duration_s[group_id] += ended.duration_ms() / 1000
        self.unowned_partition_s[group_id] += ended.unowned_partition_s
