"""The steps of a plan: each kind of the menu is carried out by a method of its name."""

from __future__ import annotations

from kohort.sim.kernel.rng import Rng
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.scenario.fault_injector import FaultInjector
from kohort.sim.scenario.fault_menu import MENU, Sketch
from kohort.sim.scenario.world_plan import MemberPlan, TopicPlan
from kohort.sim.swarm.seed_plan import draw_producers


def test_each_fault_of_the_menu_has_its_method() -> None:
    members = tuple(MemberPlan(kind, KINDS[kind], PeerConfig(kind, ("t",))) for kind in ("cooperative", "streams"))
    topics, producers = (TopicPlan("t", 1),), draw_producers(Rng(1).stream("producers"), 1)
    sketch = Sketch(Rng(1).stream("menu"), 1, topics, ("n1",), members, ("gw1",), producers)
    for what in ("start", *(fault.draw(sketch)[0] for fault in MENU)):
        assert callable(getattr(FaultInjector, "_" + what.replace(" ", "_")))
