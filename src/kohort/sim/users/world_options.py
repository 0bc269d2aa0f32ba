"""What the test of a user's own program asks for, and the plan that a seed draws from it.

The faults are the swarm's, but for those in which somebody takes records or offsets away on purpose: no program can be
held to anything then. How the program is configured is its own business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.sim.kernel.rng import Draw
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.scenario.fault_menu import MENU, Luck, Sketch
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan, Plan, Step, TopicPlan
from kohort.sim.swarm.seed_plan import draw_settings, draw_steps

GROUP = "app"
NOT_FOR_PROGRAMS = frozenset(
    {
        "bounce", "subscribe", "expel", "move node", "delete topic", "recreate topic", "delete offsets", "delete group",
        "reset offsets", "configure group",
    }
)  # fmt: skip
FOR_PROGRAMS = tuple(luck for luck in MENU if luck.name not in NOT_FOR_PROGRAMS)
NAMES = tuple(luck.name for luck in FOR_PROGRAMS)
"""What may be named as a fault."""
ALL = "all"
FIXED = {"group.consumer.migration.policy": "bidirectional", "kohort.group.migration.min.embedded.version": "3"}
"""What is not drawn: whether members of both protocols may be in one group is for the test to say."""

Faults = str | Iterable[str] | None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a test wants of its worlds. What is None is drawn."""

    topics: Mapping[str, int] = field(default_factory=lambda: {"orders": 4})
    instances: int | None = None
    seconds: float | None = None
    faults: tuple[Luck, ...] = FOR_PROGRAMS
    is_led_by_hand: bool = False
    """Whether nothing happens but what the test does: no faults, no late starts, no records."""
    settings: Mapping[str, str] = field(default_factory=dict)
    values: Callable[[int], bytes] | None = None


def chosen(faults: Faults) -> tuple[Luck, ...]:
    """Return the faults that a test names: "all", None, one, or several of them. Raises ValueError."""
    if faults is None:
        return ()
    names = [faults] if isinstance(faults, str) else list(faults)
    if names == [ALL]:
        return FOR_PROGRAMS
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no fault {name!r}: choose among {', '.join(NAMES)}, or pass 'all' or None")
    return tuple(luck for luck in FOR_PROGRAMS if luck.name in names)


def draw_world(seed: int, wishes: Wishes) -> Plan:
    """Return the plan of a seed."""
    draw = Draw(seed)
    random = draw.stream("world")
    topics = tuple(TopicPlan(name, partitions) for name, partitions in wishes.topics.items())
    settings = {**dict(draw_settings(draw.stream("settings"))), **FIXED, **wishes.settings}
    count = random.choices((1, 2, 3, 4), (1, 3, 3, 1))[0]
    count = count if wishes.instances is None else wishes.instances
    config = PeerConfig(GROUP, tuple(wishes.topics))
    members = tuple(MemberPlan(f"app-{number}", KINDS["eager-range"], config) for number in range(1, count + 1))
    end_us = random.choice((12, 20, 25, 30, 45)) * SECOND_US
    if wishes.seconds is not None:
        end_us = round(wishes.seconds * SECOND_US)
    steps: tuple[Step, ...] = ()
    if wishes.is_led_by_hand:
        end_us = 0
    else:
        steps = draw_steps(draw, Sketch(random, end_us, topics, ("n1",), members), wishes.faults)
    return Plan(
        seed, tuple(sorted(settings.items())), topics, ("n1",), members, tuple(() for _ in members), steps, end_us
    )
