"""Assignors by load at the edge: partitions with a lag, or with many records a second, go to different members."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from interop.ports import free_port
from tests.integration.running_gateway import RunningGateway

from kohort import Admin, Consumer, CooperativeStickyAssignor, Producer, RangeAssignor, TopicPartition
from kohort.assign import Assignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.gateway.gateway_settings import AssignorRow
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.gateway.server import load_assignors
from kohort.gateway.server.load_assignors import LagMeasure, RateMeasure, overloaded
from kohort.model.assignment import Partitions

PARKING = PolicyTable((Policy(groups="*", treatment=Treatment.PARK),))
PARTITIONS = 4


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    given = {"kohort_group_heartbeat_park": False, "group_initial_rebalance_delay_ms": 0}
    with EmbeddedBroker(**given) as running:
        yield running


async def produce(address: str, topic: str, counts: dict[int, int]) -> None:
    async with Producer(address) as producer:
        for partition, count in counts.items():
            for _ in range(count):
                await producer.send(topic, b"x", partition=partition)


def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


async def until_apart(members: list[Consumer], heavy: tuple[int, int]) -> None:
    """Let the members run until two partitions have different owners, and all have one."""
    while True:
        await asyncio.gather(*(member.poll(20, max_records=1) for member in members))
        owned = [frozenset(each.partition for each in member.assignment()) for member in members]
        is_complete = sum(map(len, owned)) == PARTITIONS and all(owned)
        if is_complete and not any(set(heavy) <= mine for mine in owned):
            return


def member(gateway: RunningGateway, topic: str, assignor: Assignor) -> Consumer:
    return Consumer(
        topic,
        bootstrap_servers=gateway.bootstrap_servers,
        group_id=topic,
        assignors=[assignor],
        heartbeat_interval_ms=200,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


@pytest.mark.parametrize("assignor", [RangeAssignor, CooperativeStickyAssignor])
def test_partitions_with_a_lag_go_to_different_members(broker: EmbeddedBroker, assignor: type[Assignor]) -> None:
    topic = f"lag-{assignor.__name__}"

    async def scenario(gateway: RunningGateway) -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic(topic, PARTITIONS)
        await produce(broker.bootstrap_servers, topic, {0: 500, 1: 500})
        async with member(gateway, topic, assignor()) as one, member(gateway, topic, assignor()) as other:
            await until_apart([one, other], (0, 1))

    rows = (AssignorRow("lag-*", load_assignors.BY_LAG),)
    with RunningGateway(broker.bootstrap_servers, assignors=rows, policies=PARKING) as gateway:
        asyncio.run(scenario(gateway))


def test_a_member_with_too_much_has_its_group_rebalance(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_assignors, "INTERVAL_MS", 0)
    monkeypatch.setattr(load_assignors, "WATCH_SECONDS", 0.2)
    monkeypatch.setattr(load_assignors, "IDLE_LAG", 10.0)
    topic = "lag-later"

    async def scenario(gateway: RunningGateway) -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic(topic, PARTITIONS)
        async with member(gateway, topic, RangeAssignor()) as one, member(gateway, topic, RangeAssignor()) as other:
            while not len(one.assignment()) == len(other.assignment()) == 2:
                await asyncio.gather(one.poll(20), other.poll(20))
            first, second = sorted(each.partition for each in one.assignment())
            await produce(broker.bootstrap_servers, topic, {first: 500, second: 500})
            await until_apart([one, other], (first, second))

    rows = (AssignorRow("lag-*", load_assignors.BY_LAG),)
    with RunningGateway(broker.bootstrap_servers, assignors=rows, policies=PARKING) as gateway:
        asyncio.run(scenario(gateway))


def test_of_two_instances_the_leaders_begins_the_round(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(load_assignors, "INTERVAL_MS", 0)
    monkeypatch.setattr(load_assignors, "WATCH_SECONDS", 3_600.0)
    monkeypatch.setattr(load_assignors, "IDLE_LAG", 10.0)
    topic, ports = "lag-instances", (free_port(), free_port())
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123\n")

    async def scenario(first: RunningGateway, second: RunningGateway) -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.create_topic(topic, PARTITIONS)
        async with member(first, topic, RangeAssignor()) as one, member(second, topic, RangeAssignor()) as other:
            while not len(one.assignment()) == len(other.assignment()) == 2:
                await asyncio.gather(one.poll(20), other.poll(20))
            heavy = dict.fromkeys((each.partition for each in one.assignment()), 500)
            await produce(broker.bootstrap_servers, topic, heavy)

            def look(gateway: RunningGateway) -> str:
                gateway.call(gateway.server.loads.look(gateway.server.gateway))
                ordered = gateway.server.gateway.edge.orders.ordered(topic, 0)
                return "" if ordered is None else ordered.reason

            group = first.server.gateway.groups.group(topic)
            assert group is not None
            is_first = group.leader == one.group_metadata().member_id
            leads, follows = (first, second) if is_first else (second, first)
            assert look(follows) == ""
            assert look(leads).startswith("by-lag: ")

    changes = {
        "assignors": (AssignorRow("lag-*", load_assignors.BY_LAG),),
        "policies": PARKING,
        "instances": tuple(f"127.0.0.1:{port}" for port in ports),
        "instances_secret_file": str(secret),
    }
    first, second = (
        RunningGateway(broker.bootstrap_servers, instances_listen=("127.0.0.1", port), **changes) for port in ports
    )
    with first, second:
        asyncio.run(scenario(first, second))


def test_loads_are_measured_on_the_cluster(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        address, topic = broker.bootstrap_servers, "measured"
        async with Admin(address) as admin:
            await admin.create_topic(topic, PARTITIONS)
            rates, wanted = RateMeasure(admin), partitions(topic)
            assert set((await rates.loads("g", wanted, 0)).values()) == {0.0}
            await produce(address, topic, {0: 10, 2: 30})
            assert [(await rates.loads("g", wanted, 2_000))[each] for each in wanted] == [5.0, 0.0, 15.0, 0.0]
            assert (await rates.loads("g", wanted, 2_500))[wanted[0]] == 5.0, "too soon for another one"
            await admin.reset_offsets("g", {wanted[2]: 25})
            assert len(rates) == PARTITIONS
            await rates.loads("g", wanted[:1], 2_000 + load_assignors.RATE_FORGOTTEN_MS)
            assert len(rates) == 1, "what is not measured any more is forgotten"
            lags = await LagMeasure(admin).loads("g", wanted, 0)
            assert [lags[each] for each in wanted] == [10, 0, 5, 0]

    asyncio.run(scenario())


def owned(*several: list[int]) -> dict[str, Partitions]:
    return {f"m{at}": frozenset(TopicPartition("t", each) for each in mine) for at, mine in enumerate(several)}


def is_overloaded(owned: Mapping[str, Partitions], *loads: int, wanted: Mapping[str, str] = {}) -> bool:
    measured = {TopicPartition("t", at): float(load) for at, load in enumerate(loads)}
    topics = {name: frozenset({wanted.get(name, "t")}) for name in owned}
    return bool(overloaded(topics, owned, measured, "by-lag", 1.0))


@pytest.mark.parametrize(
    ("loads", "is_too_much"),
    [([10, 10, 10, 10], False), ([100, 100, 5, 5], True), ([1000, 0, 5, 5], False), ([0, 0, 0, 0], False)],
    ids=["even", "two heavy ones", "one heavy one cannot be shared", "idle"],
)
def test_a_round_begins_where_it_would_even_out_something(loads: list[int], is_too_much: bool) -> None:
    assert is_overloaded(owned([0, 1], [2, 3]), *loads) is is_too_much


def test_no_round_begins_that_could_move_nothing() -> None:
    nine = [[2 + 2 * at, 3 + 2 * at] for at in range(9)]
    assert not is_overloaded(owned([0, 1], *nine), 76, 76, *[47] * 18), "neither half fits elsewhere"
    assert not is_overloaded(owned([0, 1], []), 100, 100, wanted={"m1": "u"}), "the other wants another topic"
