"""One seeded world in virtual time: our nodes and members on a simulated network, with faults and checkers.

`world` runs a user's own program in such worlds, under pytest or without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.sim.driving import WorldBroken
    from kohort.sim.instance import Instance
    from kohort.sim.refusals import NotSimulated
    from kohort.sim.seeded import world
    from kohort.sim.user_runs import WorldFailed
    from kohort.sim.user_world import World

# Imported when first asked for: a world brings a broker and a client with it.
_HOME_OF = {
    "Instance": "kohort.sim.instance",
    "NotSimulated": "kohort.sim.refusals",
    "World": "kohort.sim.user_world",
    "WorldBroken": "kohort.sim.driving",
    "WorldFailed": "kohort.sim.user_runs",
    "world": "kohort.sim.seeded",
}

__all__ = ["Instance", "NotSimulated", "World", "WorldBroken", "WorldFailed", "world"]

__getattr__ = lazy_exports(__name__, _HOME_OF)


def __dir__() -> list[str]:
    return sorted(__all__)
