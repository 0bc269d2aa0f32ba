"""A rolling restart of many members behind several gateways, of which one is killed meanwhile.

A third of the groups each is eager, cooperative and of the consumer protocol. All groups are deployed at once: in each,
one member after the other leaves and comes back.
"""

from __future__ import annotations

from kohort.sim.checks.checker import Checker
from kohort.sim.checks.convergence_checks import StandstillChecker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.gateway_checks import GatewayChecker
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.ownership_checks import OwnershipChecker
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan, TopicPlan, WorldPlan, WorldStep

GROUP_MEMBERS = 10
"""Members of each group, and partitions of its topic."""

FAMILIES = ("eager-java", "cooperative-java", "consumer-java")

START_US = 10 * SECOND_US
"""Within this time the members start."""

PAUSE_US = 2 * SECOND_US
"""How long after one member of a group the next one leaves."""

DOWN_US = SECOND_US // 2
SETTLE_US = 15 * SECOND_US

_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "3000",
    "kohort.group.heartbeat.park": "false",
    "kohort.group.sync.hold.ms": "0",
    "kohort.group.consumer.heartbeat.park.ms": "0",
    "log.flush.interval.messages": "1",
    "offsets.topic.num.partitions": "1",
}
"""A broker that does as Apache Kafka does what a gateway does for it."""


def checkers() -> list[Checker]:
    """Return checkers whose cost does not grow with the number of groups: who owns what, and what gateways derive."""
    ledgers, faults = Ledgers(), FaultsSeen()
    others = [OwnershipChecker(ledgers), StandstillChecker(faults), GatewayChecker(ledgers)]
    return [ledgers, faults, *others]


def rolling_restart(members: int, gateways: int) -> WorldPlan:
    """Return the world; the number of members is rounded up to whole groups."""
    groups = -(-members // GROUP_MEMBERS)
    plans: list[MemberPlan] = []
    steps: list[WorldStep] = []
    for number in range(groups):
        kind = KINDS[FAMILIES[number % len(FAMILIES)]]
        config = PeerConfig(
            f"g{number}",
            (f"t{number}",),
            session_timeout_ms=45_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=300_000,
            request_timeout_ms=30_000,
            metadata_ms=300_000,
            fetch_wait_ms=5_000,
        )
        plans += [MemberPlan(f"m{number * GROUP_MEMBERS + each}", kind, config) for each in range(1, GROUP_MEMBERS + 1)]
    for place, member in enumerate(plans):
        steps.append(WorldStep(len(steps) + 1, START_US * place // len(plans), "start", member.name))
    began_us = START_US + SETTLE_US
    how = (("pause_us", PAUSE_US), ("down_us", DOWN_US))
    steps += [WorldStep(len(steps) + 1 + number, began_us, "roll", f"g{number}", how) for number in range(groups)]
    names = tuple(f"gw{number}" for number in range(1, gateways + 1))
    if names:
        middle_us = began_us + GROUP_MEMBERS * PAUSE_US // 2
        steps.append(WorldStep(len(steps) + 1, middle_us, "kill gateway", names[0], (("down_us", 5 * SECOND_US),)))
    return WorldPlan(
        0,
        tuple(sorted(_SETTINGS.items())),
        tuple(TopicPlan(f"t{number}", GROUP_MEMBERS) for number in range(groups)),
        ("n1",),
        tuple(plans),
        tuple((each,) for each in plans),
        tuple(steps),
        began_us + GROUP_MEMBERS * PAUSE_US + SETTLE_US,
        names,
    )
