"""Assignors at the edge: what a gateway's assignor decides is what unmodified members own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.running_gateway import RunningGateway

from kohort import Admin, Consumer, TopicPartition
from kohort.assign import Assignor, CooperativeStickyAssignor, GroupSpec, RangeAssignor, StickyAssignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.gateway.gateway_settings import AssignorRow
from kohort.gateway.server.gateway_server import GatewayServer
from kohort.model.setting import SettingsError

GROUP, PARTITIONS = "billing", 4
HERE = "tests.integration.test_gateway_assignors"
ENDED = threading.Event()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as running:
        yield running


def all_to_last(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    """Give everything to the member whose instance id comes last."""
    last = max(spec.members, key=lambda name: spec.members[name].instance_id or "")
    return {
        last: [
            TopicPartition(topic, number) for topic, each in spec.topics.items() for number in range(each.partitions)
        ]
    }


def fails(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    """Fail."""
    raise ZeroDivisionError(len(spec.members))


def never_ends(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    """Hang until the test ends."""
    del spec
    ENDED.wait(60)
    return {}


def gateway(broker: EmbeddedBroker, assignor: str | None, **changes: Any) -> RunningGateway:
    rows = () if assignor is None else (AssignorRow("billing*", assignor),)
    return RunningGateway(broker.bootstrap_servers, assignors=rows, **changes)


async def settle(
    address: str, topic: str, make: Callable[[], Assignor], loads: list[int], act: Callable[[], None] = lambda: None
) -> None:
    """Let two static members of a group join, and wait until they own so many partitions each."""
    async with Admin(address) as admin:
        await admin.create_topic(topic, PARTITIONS)

    def member(name: str) -> Consumer:
        return Consumer(
            topic,
            bootstrap_servers=address,
            group_id=f"{GROUP}-{topic}",
            group_instance_id=name,
            assignors=[make()],
            heartbeat_interval_ms=100,
        )

    async with member("alice") as alice, member("bob") as bob, asyncio.timeout(30):
        has_acted = False
        while True:
            await asyncio.gather(alice.poll(timeout_ms=20), bob.poll(timeout_ms=20))
            owned = [len(alice.assignment()), len(bob.assignment())]
            if sum(owned) == PARTITIONS and not has_acted and min(owned):
                has_acted = True
                act()
            if owned == loads:
                return


@pytest.mark.parametrize("make", [RangeAssignor, StickyAssignor, CooperativeStickyAssignor])
def test_assignor_of_the_gateway_decides_what_members_own(broker: EmbeddedBroker, make: Callable[[], Assignor]) -> None:
    with gateway(broker, f"{HERE}:all_to_last") as running:
        asyncio.run(settle(running.bootstrap_servers, f"decided-{make().name}", make, [0, 4]))


@pytest.mark.parametrize("function", ["fails", "never_ends"])
def test_leaders_own_assignment_passes_where_the_assignor_fails(
    broker: EmbeddedBroker, function: str, caplog: pytest.LogCaptureFixture
) -> None:
    ENDED.clear()
    with caplog.at_level(logging.WARNING), gateway(broker, f"{HERE}:{function}", assignor_ms=50) as running:
        topic = f"kept-{function.replace('_', '-')}"
        asyncio.run(settle(running.bootstrap_servers, topic, RangeAssignor, [2, 2]))
    ENDED.set()
    reason = "ZeroDivisionError" if function == "fails" else "more than 50 ms"
    assert "keeps its leader's own assignment" in caplog.text
    assert reason in caplog.text


@pytest.mark.parametrize("make", [RangeAssignor, CooperativeStickyAssignor])
def test_drained_member_gets_nothing_after_an_ordered_round(
    broker: EmbeddedBroker, make: Callable[[], Assignor]
) -> None:
    topic = f"drained-{make().name}"
    with gateway(broker, None) as running:
        edge, clock = running.server.gateway.edge, running.server.clock

        async def order() -> None:
            edge.drain(f"{GROUP}-{topic}", ["alice"])
            edge.rebalance(f"{GROUP}-{topic}", "deploy", clock.now_ms())

        def act() -> None:
            running.call(order())

        asyncio.run(settle(running.bootstrap_servers, topic, make, [0, 4], act))


@pytest.mark.parametrize(
    ("assignor", "text"),
    [
        ("no_such_module:by_lag", "there is no module no_such_module"),
        (f"{HERE}:no_such_function", "there is no 'no_such_function' in it"),
        (f"{HERE}:GROUP", "str is neither an assignor"),
        ("fair", "there is no server-side assignor 'fair'"),
    ],
)
def test_assignors_that_cannot_be_loaded_are_refused_at_the_start(
    broker: EmbeddedBroker, assignor: str, text: str
) -> None:
    settings = gateway(broker, assignor).settings
    with pytest.raises(SettingsError, match=text):
        GatewayServer(settings)
