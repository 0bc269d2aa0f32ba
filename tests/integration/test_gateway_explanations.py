"""What a gateway derives from the traffic of a group is what the group's own coordinator writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.gateway_cluster import gateway_cluster

from kohort import CooperativeStickyAssignor, RangeAssignor
from kohort.cli.group_state.group_events import GroupFilter, filed_events, stored_events
from kohort.client import Admin, Consumer
from kohort.gateway.gateway_settings import GatewaySettings, Mode
from kohort.gateway.server.gateway_server import GatewayServer
from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, title
from kohort.group.explain.rebalance_report import EventFields

PARTITIONS = 6
KINDS: dict[str, dict[str, Any]] = {
    "range": {"assignors": [RangeAssignor()], "heartbeat_interval_ms": 100},
    "cooperative-sticky": {"assignors": [CooperativeStickyAssignor()], "heartbeat_interval_ms": 100},
    "consumer": {"group_protocol": "consumer"},
}


class Members:
    """The members of one group; each change ends when all partitions are theirs in equal shares."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap_servers": bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        self._running: list[Consumer] = []

    async def join(self, **settings: Any) -> Consumer:
        consumer = Consumer("t", **self._settings, **settings)
        self._running.append(consumer)
        await consumer.start()
        await self.settle()
        return consumer

    async def leave(self, consumer: Consumer) -> None:
        self._running.remove(consumer)
        await consumer.stop()
        await self.settle()

    async def pause(self, consumer: Consumer) -> None:
        """Stop a static member, which will be back."""
        self._running.remove(consumer)
        await consumer.stop()

    async def settle(self) -> None:
        share = PARTITIONS // max(1, len(self._running))
        while any(len(each.assignment()) != share for each in self._running):
            await asyncio.gather(*(each.poll(20) for each in self._running))
        await asyncio.gather(*(each.poll(300) for each in self._running))  # heartbeats with nothing new


async def come_and_go(members: Members, **settings: Any) -> None:
    first = await members.join(**settings)
    second = await members.join(**settings)
    static = await members.join(group_instance_id="instance", **settings)
    await members.leave(second)
    await members.pause(static)
    static = await members.join(group_instance_id="instance", **settings)
    await members.leave(first)
    await static.stop(leave_group=True)


async def migrate(members: Members) -> None:
    """Take a group to the consumer protocol with classic members in it, and back."""
    classic, native = KINDS["cooperative-sticky"], KINDS["consumer"]
    first = await members.join(**classic)
    second = await members.join(**classic)
    third = await members.join(**native)
    await members.leave(second)
    fourth = await members.join(**classic)
    await members.leave(first)
    await members.leave(third)
    await members.leave(fourth)


def explained(events: Iterable[EventFields]) -> list[str]:
    """Return the rebalances, with their rounds or epochs, without times."""
    explanation = Explanation("g")
    for event in events:
        explanation.fold(event)
    report = explanation.report(0)
    names = Names(report.identities)
    return [title(each, names) for each in report.rebalances]


def conversions(titles: list[str]) -> list[str]:
    """Return the rebalances in which the group changed its protocol.

    In a group with members of both protocols a gateway may take two changes that follow fast for one rebalance.
    """
    return [each for each in titles if "group epoch" in each and "generation" in each]


PLAYS: dict[str, Callable[[Members], Coroutine[Any, Any, None]]] = {
    **{kind: partial(come_and_go, **settings) for kind, settings in KINDS.items()},
    "migration": migrate,
}


@pytest.mark.parametrize("kind", PLAYS)
def test_gateway_explains_a_group_as_its_coordinator_does(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    async def scenario(bootstrap: str, advertised: str) -> None:
        server = GatewayServer(
            GatewaySettings(
                bootstrap_servers=bootstrap,
                mode=Mode.LISTENER,
                advertised=(advertised,),
                listen_host="127.0.0.1",
                events=str(path),
            )
        )
        async with Admin(bootstrap) as admin:
            await admin.create_topic("t", PARTITIONS)
        await server.start()
        cluster.advertise_gateway()
        try:
            async with asyncio.timeout(50):
                await PLAYS[kind](Members(advertised))
        finally:
            await server.stop()

    with gateway_cluster(
        group_consumer_min_heartbeat_interval_ms=100, group_consumer_heartbeat_interval_ms=100
    ) as cluster:
        asyncio.run(scenario(cluster.bootstrap_servers, cluster.advertised))
        ours = explained(filed_events(path, GroupFilter("g"), lambda _: None))
        until_s = time.monotonic() + 10
        theirs: list[str] = []
        while len(theirs) < len(ours) and time.monotonic() < until_s:  # events are written a moment later
            theirs = explained(stored_events(Path(cluster.broker.data_dir), GroupFilter("g"), lambda _: None))
    assert len(ours) >= 5
    assert conversions(ours) == conversions(theirs)
    if kind != "migration":
        assert ours == theirs
