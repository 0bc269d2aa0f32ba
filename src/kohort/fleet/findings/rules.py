"""All rules about a group, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kohort.fleet.findings import (
    abandoned_group,
    eager_group,
    flapping_instance,
    idle_members,
    migration_readiness,
    offsets_expiring,
    poll_timeout_loop,
    rebalance_storm,
    skewed_assignment,
    stuck_group,
    unloadable_log,
    zombie_commits,
)
from kohort.fleet.findings.facts import Facts, Finding
from kohort.fleet.findings.thresholds import Thresholds

Rule = Callable[[Facts, Thresholds], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    stuck_group.find,
    rebalance_storm.find,
    poll_timeout_loop.find,
    flapping_instance.find,
    zombie_commits.find,
    offsets_expiring.find,
    skewed_assignment.find,
    idle_members.find,
    eager_group.find,
    abandoned_group.find,
    migration_readiness.find,
)
NAMES = (
    stuck_group.NAME,
    rebalance_storm.NAME,
    poll_timeout_loop.NAME,
    flapping_instance.NAME,
    zombie_commits.NAME,
    unloadable_log.NAME,
    offsets_expiring.NAME,
    skewed_assignment.NAME,
    idle_members.NAME,
    eager_group.NAME,
    abandoned_group.NAME,
    *migration_readiness.NAMES,
)
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
    for find in RULES:
        yield from find(facts, settings)
