"""What the test of a user's own program asks for, and the plan that a seed draws from it.

The faults are the swarm's, but for those in which records or offsets are deleted on purpose: no program can be
checked then. How the program is configured is its own business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.sim.kernel.rng import Rng
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.scenario.fault_menu import MENU, FaultKind, Sketch, draw_steps
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan, TopicPlan, WorldPlan, WorldStep, draw_settings

GROUP = "app"
NOT_FOR_PROGRAMS = frozenset(
    {
        "bounce", "subscribe", "expel", "move node", "delete topic", "recreate topic", "delete offsets", "delete group",
        "reset offsets", "configure group",
    }
)  # fmt: skip
FOR_PROGRAMS = tuple(fault for fault in MENU if fault.name not in NOT_FOR_PROGRAMS)
NAMES = tuple(fault.name for fault in FOR_PROGRAMS)
"""What may be named as a fault."""
ALL = "all"
FIXED = {"group.consumer.migration.policy": "bidirectional", "kohort.group.migration.min.embedded.version": "3"}
"""What is not drawn: whether members of both protocols may be in one group is for the test to decide."""

Faults = str | Iterable[str] | None


def numbered(number: int) -> bytes:
    """Return the value of the n-th record where a test makes none."""
    return b"%d" % number


def without_key(_: bytes) -> None:
    """Return no key: where a test makes none, records have none."""


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """What a test wants of its worlds. What is None is drawn."""

    topics: Mapping[str, int] = field(default_factory=lambda: {"orders": 4})
    instances: int | None = None
    seconds: float | None = None
    faults: tuple[FaultKind, ...] = FOR_PROGRAMS
    is_led_by_hand: bool = False
    """Whether nothing happens but what the test does: no faults, no late starts, no records."""
    settings: Mapping[str, str] = field(default_factory=dict)
    value: Callable[[int], bytes] = numbered
    """Makes the value of the n-th record."""
    key: Callable[[bytes], bytes | None] = without_key
    """Makes a record's key of its value."""


def chosen(faults: Faults) -> tuple[FaultKind, ...]:
    """Return the faults that a test names: "all", None, one, or several of them. Raises ValueError."""
    if faults is None:
        return ()
    names = [faults] if isinstance(faults, str) else list(faults)
    if names == [ALL]:
        return FOR_PROGRAMS
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no fault {name!r}: choose among {', '.join(NAMES)}, or pass 'all' or None")
    return tuple(fault for fault in FOR_PROGRAMS if fault.name in names)


def draw_world(seed: int, options: WorldOptions) -> WorldPlan:
    """Return the plan of a seed."""
    rng = Rng(seed)
    random = rng.stream("world")
    topics = tuple(TopicPlan(name, partitions) for name, partitions in options.topics.items())
    settings = {**dict(draw_settings(rng.stream("settings"))), **FIXED, **options.settings}
    count = random.choices((1, 2, 3, 4), (1, 3, 3, 1))[0]
    count = count if options.instances is None else options.instances
    config = PeerConfig(GROUP, tuple(options.topics))
    members = tuple(MemberPlan(f"app-{number}", KINDS["eager-range"], config) for number in range(1, count + 1))
    end_us = random.choice((12, 20, 25, 30, 45)) * SECOND_US
    if options.seconds is not None:
        end_us = round(options.seconds * SECOND_US)
    steps: tuple[WorldStep, ...] = ()
    if options.is_led_by_hand:
        end_us = 0
    else:
        steps = draw_steps(rng, Sketch(random, end_us, topics, ("n1",), members), options.faults)
    return WorldPlan(
        seed, tuple(sorted(settings.items())), topics, ("n1",), members, tuple(() for _ in members), steps, end_us
    )
