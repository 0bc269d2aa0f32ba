"""What our coordinator takes off a rebalance for clients that know nothing of it: no wait for the next heartbeat."""

from __future__ import annotations

import pytest
from interop.group import Group, keyed
from interop.kohort_broker import KohortBroker
from interop.ownership import check_single_owner
from interop.producers import produce
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(30), pytest.mark.parametrize("broker", ["kohort"])]
HEARTBEAT_MS = 6_000
SOON_MS = 2_500  # on Kafka, a member's next heartbeat comes after 4 s on average, and again for a cooperative member
CELLS = [(library, "range") for library in ("kohort", "java", "librdkafka", "kafka_python", "aiokafka")]
CELLS += [(library, "cooperative-sticky") for library in ("kohort", "java", "librdkafka", "kafka_python")]


@pytest.mark.parametrize(("library", "protocol"), CELLS)
@pytest.mark.capability("{library}", "{protocol}: a join is announced before the next heartbeat is due")
def test_join_is_announced_before_the_next_heartbeat_is_due(library: str, protocol: str, stage: Stage) -> None:
    need(library)
    with stage.group() as group:
        for _ in range(2):
            start(group, library, protocol)
        # Members heartbeat for the first time one interval after a round; that one can be kept.
        group.calm(HEARTBEAT_MS / 1000 + 1)
        seen = len(group.event_log())
        start(group, library, protocol)
        group.settle()
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(120, 17))
        group.drain(written)
        group.check(written)
        check_single_owner(group.members)
        events = group.event_log()[seen:]
    began_ms = moment(events, "round_opened")[0]
    ended_ms = moment(events, "assignment_stored")[-1]
    assert ended_ms - began_ms < SOON_MS, f"{ended_ms - began_ms} ms:\n" + "\n".join(map(str, events))


def start(group: Group, library: str, protocol: str) -> None:
    """Start a member whose heartbeats are rare."""
    group.start(library, assignor=protocol, session_ms="20000", heartbeat_ms=str(HEARTBEAT_MS))


def moment(events: list[dict[str, object]], name: str) -> list[int]:
    """Return when events of a name were."""
    return [int(str(event["at_ms"])) for event in events if event["event"] == name]


@pytest.mark.capability("all together", "start together under the default initial delay: it ends when joins stop")
def test_initial_delay_ends_when_joins_stop(stage: Stage) -> None:
    libraries = (
        "kohort",
        "librdkafka",
        "kafka_python",
        "aiokafka",
    )  # a JVM starts so late that it is a join of its own
    need(*libraries)
    with KohortBroker({"group.initial.rebalance.delay.ms": "3000"}) as broker:
        create_topic(broker.bootstrap, stage.name, 6)
        with Group(broker.bootstrap, stage.name, stage.name, 6, stage.folder) as group:
            for library in libraries:
                group.start(library, assignor="range")
            group.settle()
            group.calm(1)
            check_single_owner(group.members)
            events = group.event_log()
        opened_ms, formed_ms = moment(events, "round_opened")[0], moment(events, "generation_formed")[0]
        assert formed_ms - opened_ms < 2_900, f"{formed_ms - opened_ms} ms:\n" + "\n".join(map(str, events))
