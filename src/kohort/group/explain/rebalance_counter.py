"""Counters of rebalances by group and cause, folded from the events of groups: what metrics show of them.

Names of groups are the clients', so only so many have labels of their own; the others are counted together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, cause_of
from kohort.model.errors import KafkaError
from kohort.model.exposition import MetricFamily, counter

MOST_GROUPS = 1_000
"""Groups that have labels of their own, and whose events are folded."""

OTHER_GROUPS = ""
"""The label of all other groups."""


class RebalanceCounter:
    """What rebalances cost, by group."""

    def __init__(self) -> None:
        self._explanations: dict[str, Explanation] = {}
        self.rebalances: Counter[tuple[str, str]] = Counter()
        """By group and cause, the rebalances that have ended."""
        self.duration_s: defaultdict[str, float] = defaultdict(float)
        """By group, for how long rebalances took."""
        self.unowned_partition_s: defaultdict[str, float] = defaultdict(float)
        """By group, partition-seconds without an owner."""

    def count(self, event: EventFields) -> None:
        """Take one event of any group; with one that another program wrote, its group begins anew."""
        try:
            self._count(event)
        except KafkaError:
            self._explanations.pop(str(event.get("group")), None)

    def _count(self, event: EventFields) -> None:
        group_id = str(event.get("group"))
        explanation = self._explanations.get(group_id)
        if explanation is None:
            if len(self._explanations) >= MOST_GROUPS:
                if event.get("event") == "round_opened":
                    self.rebalances[OTHER_GROUPS, cause_of(event).kind] += 1
                return
            explanation = self._explanations[group_id] = Explanation(group_id, last=0, keeps_events=False)
        ended = explanation.fold(event)
        if ended is None:
            return
        self.rebalances[group_id, ended.cause.kind] += 1
        self.duration_s[group_id] += ended.duration_ms() / 1000
        self.unowned_partition_s[group_id] += ended.unowned_partition_s

    def families(self, prefix: str) -> Iterator[MetricFamily]:
        """Yield the metrics, their names behind `prefix`."""
        yield counter(
            f"{prefix}_rebalances_total",
            "Rebalances that have ended, by group and cause.",
            [({"group": group, "cause": cause}, count) for (group, cause), count in sorted(self.rebalances.items())],
        )
        for name, text, seconds in (
            ("rebalance_seconds_total", "How long rebalances took, added up.", self.duration_s),
            (
                "unowned_partition_seconds_total",
                "For each partition the seconds that no member owned it, added up: the standstill.",
                self.unowned_partition_s,
            ),
        ):
            samples = [({"group": group}, each) for group, each in sorted(seconds.items())]
            yield counter(f"{prefix}_{name}", text, samples)
