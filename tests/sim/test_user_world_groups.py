"""Groups of a program's own in simulated worlds: no name has two owners, no former leader is obeyed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import kohort.sim
from kohort import CooperativeProtocol, EagerProtocol, GroupMember, MemberMetadata, share_evenly
from kohort.sim import Instance, World

TENANTS = [f"tenant {number}" for number in range(12)]
SETTINGS: dict[str, Any] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500, "rebalance_timeout_ms": 5_000}


@kohort.sim.world(seeds=8, topics={"orders": 1})
def test_every_name_has_one_owner_at_the_end_and_never_two_in_one_generation(world: World) -> None:
    owners: dict[str, dict[str, int]] = {name: {} for name in TENANTS}
    """By name, which process began to own it last, and in which generation."""

    async def app(instance: Instance) -> None:
        member: GroupMember

        def assigned(names: frozenset[str]) -> None:
            for name in names:
                last = max(owners[name].values(), default=-1)
                assert member.generation >= last, f"{name} goes back to generation {member.generation}, after {last}"
                assert member.generation > last or not owners[name].keys() - {instance.name}, f"{name} is owned twice"
                owners[name] = {instance.name: member.generation}

        member = GroupMember(
            world.settings["bootstrap_servers"],
            group_id="tenants",
            protocol_type="tenants",
            protocols=CooperativeProtocol(name="v1", assign=share_evenly(TENANTS)),
            on_assigned=assigned,
            **SETTINGS,
        )
        async with member, world.consumer("orders") as consumer:
            serving = asyncio.create_task(member.serve_forever())
            try:
                async for record in consumer:
                    world.done(record)
            finally:
                serving.cancel()

    world.start(app)
    world.run()
    world.settle()


@kohort.sim.world(seeds=8, topics={"orders": 1})
def test_a_store_that_knows_the_generation_takes_nothing_from_a_former_leader(world: World) -> None:
    written: list[tuple[int, str]] = []

    def elect(members: Sequence[MemberMetadata[bytes]]) -> dict[str, bytes]:
        return {member.member_id: members[0].member_id.encode() for member in members}

    async def app(instance: Instance) -> None:
        member = GroupMember(
            world.settings["bootstrap_servers"],
            group_id="election",
            protocol_type="election",
            protocols=EagerProtocol(name="v1", assign=elect),
            **SETTINGS,
        )
        async with member, world.consumer("orders") as consumer:
            while True:
                for batch in await consumer.poll(200):
                    world.done(batch)
                if member.assignment == member.member_id.encode() and member.session_left_ms > 0:
                    token = member.generation
                    if not written or token >= written[-1][0]:  # The store refuses an older token.
                        assert not written or token > written[-1][0] or written[-1][1] == instance.name, (
                            f"two leaders in generation {token}: {instance.name} and {written[-1][1]}"
                        )
                        written.append((token, instance.name))

    world.start(app)
    world.run()
    world.settle()
    assert written
