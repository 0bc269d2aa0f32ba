"""Counters of rebalances by group and cause: what metrics show of them.

They are folded from the events of groups. Where there are none, `add` counts rebalances that are inferred otherwise.

Names of groups are the clients', so only so many have labels of their own; the others are counted together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, Rebalance, cause_of
from kohort.model.errors import KafkaError
from kohort.model.exposition import Labels, MetricFamily, counter

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
        if (ended := explanation.fold(event)) is not None:
            self.add(group_id, ended)

    def add(self, group_id: str, ended: Rebalance) -> None:
        """Count a rebalance that has ended."""
        if group_id not in self.duration_s and len(self.duration_s) >= MOST_GROUPS:
            group_id = OTHER_GROUPS
        self.rebalances[group_id, ended.cause.kind] += 1
        self.duration_s[group_id] += ended.duration_ms() / 1000
        self.unowned_partition_s[group_id] += ended.unowned_partition_s

    def families(self, prefix: str, inferred: RebalanceCounter | None = None) -> Iterator[MetricFamily]:
        """Yield the metrics, their names behind `prefix`; those that are `inferred` have a label for it."""
        counts: list[tuple[Labels, float]] = []
        durations: list[tuple[Labels, float]] = []
        gaps: list[tuple[Labels, float]] = []
        for counted, labels in ((self, {}), (inferred, {"inferred": "true"})):
            if counted is not None:
                for (group, cause), count in sorted(counted.rebalances.items()):
                    counts.append(({"group": group, "cause": cause, **labels}, count))
                durations += [({"group": group, **labels}, each) for group, each in sorted(counted.duration_s.items())]
                unowned_s = sorted(counted.unowned_partition_s.items())
                gaps += [({"group": group, **labels}, each) for group, each in unowned_s]
        yield counter(f"{prefix}_rebalances_total", "Rebalances that have ended, by group and cause.", counts)
        yield counter(f"{prefix}_rebalance_seconds_total", "How long rebalances took, added up.", durations)
        text = "For each partition the seconds that no member owned it, added up: the standstill."
        yield counter(f"{prefix}_unowned_partition_seconds_total", text, gaps)
