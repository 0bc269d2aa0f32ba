"""Unmodified clients in groups of Apache Kafka, directly and through `kohort gateway` in each of its modes.

Two members, one joins, one leaves, one is killed, under load: every record is read, no request times out, and no
group falls back to being observed. The table shows how long a join and a leave take.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.gateways import WAYS, Way
from interop.group import Group, Member, keyed
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from interop.producers import Load, Written, produce
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

CLIENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "librdkafka, range": ("librdkafka", {"assignor": "range"}),
    "librdkafka, cooperative-sticky": ("librdkafka", {"assignor": "cooperative-sticky"}),
    "librdkafka, KIP-848": ("librdkafka", {"protocol": "consumer"}),
    "kgo, range": ("kgo", {"assignor": "range"}),
    "kgo, cooperative-sticky": ("kgo", {"assignor": "cooperative-sticky"}),
    "kgo, KIP-848": ("kgo", {"protocol": "consumer"}),
    "sarama, range": ("sarama", {"assignor": "range"}),
    "sarama, cooperative-sticky": ("sarama", {"assignor": "cooperative-sticky"}),
    "kafka-go, range": ("kafka-go", {"assignor": "range"}),
    "kafkajs, by turns": ("kafkajs", {}),
    "kafka-python, range": ("kafka_python", {"assignor": "range"}),
    "kafka-python, cooperative-sticky": ("kafka_python", {"assignor": "cooperative-sticky"}),
    "aiokafka, range": ("aiokafka", {"assignor": "range"}),
    "kohort, range": ("kohort", {"assignor": "range"}),
    "kohort, cooperative-sticky": ("kohort", {"assignor": "cooperative-sticky"}),
    "kohort, KIP-848": ("kohort", {"protocol": "consumer"}),
}
TIMING = {"session_ms": "10000", "heartbeat_ms": "3000"}
"""The default interval of heartbeats, and a session that ends sooner for the member that is killed."""

RESTED_S, COOPERATIVE_RESTED_S = 4, 11
"""How long a group rests before it is measured: until the gateway has learnt the interval of its members' heartbeats.

The first one of a cooperative member shows little: kgo sends it after half a second, librdkafka at once.
"""

PARTITIONS = 6


def last_change_s(group: Group) -> float:
    """Return when a member's partitions changed last."""
    return max(at_s for member in group.members for at_s in member.changed_s)


def rest_after_start(group: Group, rested_s: float = RESTED_S) -> None:
    """Wait until the first members are at rest: some report a new topic or a new coordinator as an error, and go on."""
    group.are_troubles_expected = True
    group.calm(rested_s, 90)
    group.are_troubles_expected = False
    for member in group.members:
        member.troubles.clear()


def joined_ms(group: Group, library: str, settings: Mapping[str, str], rested_s: float = RESTED_S) -> float:
    """Let one more member join, and return how long it took from its start until the group was at rest."""
    member = group.start(library, **settings)
    group.calm(rested_s)
    assert member.started_s is not None, "every member prints when it starts"
    return 1000 * (last_change_s(group) - member.started_s)


def left_ms(group: Group, member: Member) -> float:
    """Let a member leave, and return how long it took until the others were at rest."""
    group.leave(member)
    group.calm(1)
    assert member.ended_s is not None, "every member prints when it leaves"
    return 1000 * (last_change_s(group) - member.ended_s)


def check_all_is_read(group: Group, written: Written) -> None:
    """Wait until every record was read, by members that commit by themselves or are interrupted: some twice."""
    group.await_(lambda: written.keys() <= group.positions_read().keys(), "every record is read", 60)
    group.check_read(written)


def check_gateway(stage: Stage, group: Group) -> None:
    """Check that nothing that the gateway held did harm."""
    late = [member.name for member in group.gone + group.members if member.timeouts]
    assert not late, f"requests of {late} timed out\n{group.state()}"
    if isinstance(stage.broker, Way) and (gateway := stage.broker.gateway) is not None:
        assert not gateway.metric("fallbacks_total"), f"a group fell back: {gateway.child.text()[-3000:]}"


@pytest.mark.timeout(400)
@pytest.mark.lane(35)
@pytest.mark.parametrize("broker", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.capability("through the gateway", "{client}")
def test_client_joins_and_leaves(client: str, stage: Stage) -> None:
    library, protocol = CLIENTS[client]
    need(library)
    settings = {**protocol, **TIMING}
    rested_s = COOPERATIVE_RESTED_S if protocol.get("assignor") == "cooperative-sticky" else RESTED_S
    with stage.group(PARTITIONS, "observed" if stage.broker.name == "observe" else "group") as group:
        members = [group.start(library, **settings) for _ in range(2)]
        rest_after_start(group, rested_s)
        join_ms = joined_ms(group, library, settings, rested_s)
        leave_ms = left_ms(group, members[0])
        with Load(stage.bootstrap, group.topic, pause_s=0.3) as load:
            group.start(library, **settings)
            group.settle()
            killed = members[1]
            group.kill(killed)
            group.settle()
            written = load.stop()
        group.drain(written)
        group.check(written, may_repeat=[killed])
        check_single_owner(group.gone + group.members)
        check_gateway(stage, group)
    stage.figures = f"{join_ms:,.0f} / {leave_ms:,.0f} ms"


MIXED: Mapping[str, Sequence[str]] = {
    "range": ("kohort", "librdkafka", "kgo", "sarama", "kafka_python", "aiokafka"),
    "cooperative-sticky": ("kohort", "librdkafka", "kgo", "sarama", "kafka_python"),
}
"""Who shares a group; aiokafka is eager only."""

RESTARTED = 1, 3


@pytest.mark.timeout(400)
@pytest.mark.lane(60)
@pytest.mark.parametrize("broker", ["direct", "listener", "coordinators", "rewrite"])
@pytest.mark.parametrize("protocol", MIXED)
@pytest.mark.capability("through the gateway", "all together, {protocol}, auto-commit")
def test_clients_share_a_group_through_the_gateway(protocol: str, stage: Stage) -> None:
    need(*MIXED[protocol])
    with stage.group(12) as group, Load(stage.bootstrap, group.topic, pause_s=0.3) as load:
        settings = {"assignor": protocol, "auto": "1", "report": "1"}
        members = [group.start(library, **settings) for library in MIXED[protocol]]
        rest_after_start(group)
        joins, leaves = [], []
        for member in (members[number] for number in RESTARTED):
            leaves.append(left_ms(group, member))
            joins.append(joined_ms(group, member.library, settings))
        written = load.stop()
        check_all_is_read(group, written)
        check_single_owner(group.gone + group.members)
        check_gateway(stage, group)
        check_explained(stage, group)
    stage.figures = f"{max(joins):,.0f} / {max(leaves):,.0f} ms"


def check_explained(stage: Stage, group: Group) -> None:
    """Check that the gateway knows why each rebalance happened."""
    if not isinstance(stage.broker, Way) or stage.broker.events is None:
        return
    command = [str(Path(sys.executable).parent / "kohort"), "explain", group.name, "--last", "50"]
    command += ["--events", str(stage.broker.events)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    assert " left" in done.stdout, done.stdout
    assert " joined" in done.stdout, done.stdout
    assert "not observed" not in done.stdout, done.stdout


@pytest.mark.timeout(400)
@pytest.mark.lane(50)
@pytest.mark.parametrize("broker", ["apache"])
def test_clients_that_a_held_heartbeat_harms_are_not_parked(stage: Stage) -> None:
    harmed = "kafkajs", "kafka-go", "sarama"
    need(*harmed)
    with ExitStack() as stack:
        gateway = stack.enter_context(KohortGateway(stage.bootstrap, "--park", "*"))
        create_topic(stage.bootstrap, stage.name, PARTITIONS)
        groups = {
            library: stack.enter_context(Group(gateway.bootstrap, library, stage.name, PARTITIONS, stage.folder))
            for library in harmed
        }
        written = produce("librdkafka", stage.bootstrap, stage.name, keyed(60, 20))
        for library in harmed:
            for _ in range(2):
                groups[library].start(library)
        for library in harmed:
            rest_after_start(groups[library])
            groups[library].drain(written)
        assert not gateway.metric("heartbeats_held_total")
        for group in groups.values():
            group.check(written)


SURVIVORS = (
    "librdkafka, range",
    "librdkafka, KIP-848",
    "kgo, cooperative-sticky",
    "sarama, range",
    "kafka-go, range",
    "kafkajs, by turns",
    "kafka-python, range",
    "aiokafka, range",
)


@pytest.mark.timeout(400)
@pytest.mark.lane(70)
@pytest.mark.parametrize("broker", ["apache"])
def test_clients_lose_nothing_when_the_gateway_is_killed_and_started_again(stage: Stage) -> None:
    need(*(CLIENTS[client][0] for client in SURVIVORS))
    with ExitStack() as stack:
        gateway = stack.enter_context(KohortGateway(stage.bootstrap, "--park", "*"))
        groups: list[Group] = []
        loads: list[Load] = []
        for client in SURVIVORS:
            library, protocol = CLIENTS[client]
            topic = f"{stage.name}-{len(groups)}"
            create_topic(stage.bootstrap, topic, PARTITIONS)
            group = stack.enter_context(Group(gateway.bootstrap, topic, topic, PARTITIONS, stage.folder))
            group.are_troubles_expected = True
            for _ in range(2):
                group.start(library, **protocol, **TIMING)
            groups.append(group)
            loads.append(stack.enter_context(Load(stage.bootstrap, topic, pause_s=1)))
        for group in groups:
            group.settle(90)
        gateway.child.kill()
        gateway.start()
        for group, client in zip(groups, SURVIVORS, strict=True):
            library, protocol = CLIENTS[client]
            group.start(library, **protocol, **TIMING)
        for group, load in zip(groups, loads, strict=True):
            group.settle(90)
            check_all_is_read(group, load.stop())
