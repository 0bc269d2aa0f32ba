"""One seeded world in virtual time: our nodes and members on a simulated network, with faults and checkers.

`world` runs a user's own program in such worlds, under pytest or without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.sim.programs.virtual_loop import NotSimulated as NotSimulated
    from kohort.sim.users.instance import Instance as Instance
    from kohort.sim.users.seed_runs import WorldFailed as WorldFailed
    from kohort.sim.users.seed_runs import world as world
    from kohort.sim.users.world import World as World
    from kohort.sim.users.world_driver import WorldBroken as WorldBroken

# Imported when first asked for: a world brings a broker and a client with it.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.sim.programs.virtual_loop": "NotSimulated",
        "kohort.sim.users.instance": "Instance",
        "kohort.sim.users.seed_runs": "WorldFailed world",
        "kohort.sim.users.world": "World",
        "kohort.sim.users.world_driver": "WorldBroken",
    },
)
