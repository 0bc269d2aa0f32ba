"""All rules about a group, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kohort.fleet.findings import (
    competing_clients,
    groups_without_members,
    poll_timeout_loop,
    protocol_change,
    troubled_rebalances,
    uneven_assignment,
    unloadable_log,
)
from kohort.fleet.findings.facts import Facts, Finding, picked
from kohort.fleet.findings.thresholds import Thresholds

Rule = Callable[[Facts, Thresholds], Iterator[Finding]]

RULES: Mapping[str, Rule] = {
    troubled_rebalances.STUCK: troubled_rebalances.stuck,
    troubled_rebalances.STORM: troubled_rebalances.storm,
    poll_timeout_loop.NAME: poll_timeout_loop.find,
    competing_clients.FLAPPING: competing_clients.flapping,
    competing_clients.ZOMBIES: competing_clients.rewound,
    unloadable_log.NAME: unloadable_log.find,
    groups_without_members.EXPIRING: groups_without_members.expiring,
    uneven_assignment.SKEWED: uneven_assignment.find,
    uneven_assignment.IDLE: uneven_assignment.find,
    protocol_change.EAGER: protocol_change.eager,
    groups_without_members.ABANDONED: groups_without_members.abandoned,
    competing_clients.REWOUND: competing_clients.rewound,
    protocol_change.READY: protocol_change.readiness,
    protocol_change.NOT_READY: protocol_change.readiness,
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
    "rewound",
)
"""The events that rules use."""


def judge(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Yield all findings about one group."""
    for find in dict.fromkeys(RULES.values()):
        for finding in find(facts, settings):
            yield finding._replace(evidence=picked(finding.evidence, settings.evidence_rows))
