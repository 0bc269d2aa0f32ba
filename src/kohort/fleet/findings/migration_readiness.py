"""Rules ready_for_consumer and not_ready_for_consumer: whether a classic group can move to the consumer protocol.

The conditions are those of `kohort migrate plan`. Kafka 6.0 is to drop the classic protocol, so each classic group with
members gets one of the two findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.assign.server.catalog import server_assignors
from kohort.fleet.findings.facts import Facts, Finding
from kohort.fleet.findings.rebalance_cost import live_group
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted
from kohort.group.migration.migration_plan import Goal, Limits, refusals

READY, NOT_READY = "ready_for_consumer", "not_ready_for_consumer"
NAMES = (READY, NOT_READY)
KAFKAS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
STREAMS = "stream"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find whether a classic group can move."""
    if facts.kind != "classic" or not facts.members or not facts.stored:
        return
    against = list(_against(facts, settings))
    evidence = [facts.state_evidence(f"generation with {counted(facts.members, 'member')} by {facts.strategy}")]
    if against:
        yield facts.finding(
            NOT_READY,
            "warning",
            "not ready for the consumer protocol: " + "; ".join(text for text, _ in against),
            against[0][1],
            since_ms=facts.last_seen_ms,
            value=float(len(against)),
            evidence=evidence,
        )
    else:
        yield facts.finding(
            READY,
            "info",
            f"its {counted(facts.members, 'member')} can go to the consumer protocol, one restart each",
            "restart them with group.protocol=consumer; kohort migrate plan lists the order and the moved partitions",
            since_ms=facts.last_seen_ms,
            evidence=evidence,
        )


def _against(facts: Facts, settings: Thresholds) -> Iterator[tuple[str, str]]:
    """Yield the obstacles, each with advice."""
    if facts.protocol == "connect":
        text = "Connect's workers use a protocol of their own over the classic one"
        yield text, "stay with the classic protocol until Connect supports another; Kafka 6.0 drops the classic one"
        return
    if facts.strategy == STREAMS:
        text = "it is a Kafka Streams application, whose assignor has user data"
        yield text, "Kafka Streams has its own new protocol: group.protocol=streams, which takes an empty group"
        return
    group = live_group(facts)
    if group is None:
        return
    server = server_assignors(["uniform"])["uniform"]
    limits = Limits(True, server, min_embedded_version=settings.ready_version, is_ours=False)
    for refusal in refusals(group, limits, Goal.CONSUMER, "uniform"):
        yield refusal.text, _ADVICE.get(refusal.rule, _ADVICE[""])
    if facts.strategy not in KAFKAS:
        text = f"{facts.strategy} is no assignor that a broker has"
        yield text, "choose a server-side assignor that does as well (group.remote.assignor), or write one as a plugin"


_ADVICE = {
    "embedded_version": "upgrade its clients: the consumer protocol takes Kafka's client 4.0, librdkafka 2.12 or newer",
    "assignor_data": "move it to one of Kafka's own assignors first: bytes of another would be lost",
    "group_type": "stay with the classic protocol as long as its clients support no other",
    "": "kohort migrate plan GROUP --to consumer lists the obstacles",
}
