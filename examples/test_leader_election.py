"""The leader election in simulated worlds: the ledger takes the writes of one leader in each generation."""

from leader_election import Ledger, candidate

import kohort.sim
from kohort.sim import Instance, World

SHORT = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500, "rebalance_timeout_ms": 5_000}


@kohort.sim.world(seeds=10, topics={"orders": 1})
def test_ledger_takes_writes_of_one_leader_in_each_generation(world: World) -> None:
    ledger = Ledger()
    leaders: dict[int, str] = {}

    async def app(instance: Instance) -> None:
        member = candidate(world.settings["bootstrap_servers"], instance.name, **SHORT)
        async with member, world.consumer("orders") as consumer:
            async for order in consumer:
                world.done(order)
                if member.assignment == instance.name and ledger.write(f"by {instance.name}", member.generation):
                    assert leaders.setdefault(member.generation, instance.name) == instance.name

    world.start(app)
