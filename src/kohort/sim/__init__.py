"""One seeded world in virtual time: our nodes and members on a simulated network, with faults and checkers.

`world` runs a user's own program in such worlds, under pytest or without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.sim.programs.virtual_loop import NotSimulated
    from kohort.sim.users.instance import Instance
    from kohort.sim.users.seed_runs import WorldFailed, world
    from kohort.sim.users.world import World
    from kohort.sim.users.world_driver import WorldBroken

# Imported when first asked for: a world brings a broker and a client with it.
_NAMES_IN = {
    "kohort.sim.programs.virtual_loop": "NotSimulated",
    "kohort.sim.users.instance": "Instance",
    "kohort.sim.users.seed_runs": "WorldFailed world",
    "kohort.sim.users.world": "World",
    "kohort.sim.users.world_driver": "WorldBroken",
}

__all__ = ["Instance", "NotSimulated", "World", "WorldBroken", "WorldFailed", "world"]

__getattr__ = lazy_exports(__name__, _NAMES_IN)


def __dir__() -> list[str]:
    return sorted(__all__)
