"""All rules about a group, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kohort.fleet.findings import (
    abandoned_group,
    eager_group,
    flapping_instance,
    migration_readiness,
    offsets_expiring,
    poll_timeout_loop,
    rebalance_storm,
    stuck_group,
    uneven_assignment,
    unloadable_log,
    zombie_commits,
)
from kohort.fleet.findings.facts import Facts, Finding, picked
from kohort.fleet.findings.thresholds import Thresholds

Rule = Callable[[Facts, Thresholds], Iterator[Finding]]

RULES: Mapping[str, Rule | None] = {
    stuck_group.NAME: stuck_group.find,
    rebalance_storm.NAME: rebalance_storm.find,
    poll_timeout_loop.NAME: poll_timeout_loop.find,
    flapping_instance.NAME: flapping_instance.find,
    zombie_commits.NAME: zombie_commits.find,
    unloadable_log.NAME: None,  # it judges logs, not groups
    offsets_expiring.NAME: offsets_expiring.find,
    **dict.fromkeys(uneven_assignment.NAMES, uneven_assignment.find),
    eager_group.NAME: eager_group.find,
    abandoned_group.NAME: abandoned_group.find,
    **dict.fromkeys(migration_readiness.NAMES, migration_readiness.find),
}
NAMES = tuple(RULES)
"""The names of all findings."""

EVENTS = (
    "joined",
    "left",
    "evicted",
    "rejoined",
    "generation_formed",
    "generation_synced",
    "epoch_bumped",
    "target",
    "revoking",
    "settled",
    "emptied",
)
"""The events that rules use."""


def judge(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Yield all findings about one group."""
    for find in dict.fromkeys(RULES.values()):
        for finding in find(facts, settings) if find is not None else ():
            yield finding._replace(evidence=picked(finding.evidence, settings.evidence_rows))
