"""The steps of a plan: each kind of the menu is carried out by a method of its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.scenario.fault_injector import FaultInjector
from kohort.sim.scenario.fault_menu import MENU, Sketch
from kohort.sim.scenario.simulated_cluster import PeerSlot, SimulatedCluster
from kohort.sim.scenario.world_plan import MemberPlan, TopicPlan, WorldPlan
from kohort.sim.swarm.seed_plan import draw_producers


def test_each_fault_of_the_menu_has_its_method() -> None:
    members = tuple(MemberPlan(kind, KINDS[kind], PeerConfig(kind, ("t",))) for kind in ("cooperative", "streams"))
    topics, producers = (TopicPlan("t", 1),), draw_producers(Rng(1).stream("producers"), 1)
    sketch = Sketch(Rng(1).stream("menu"), 1, topics, ("n1",), members, ("gw1",), producers)
    for what in ("start", *(fault.draw(sketch)[0] for fault in MENU)):
        assert callable(getattr(FaultInjector, "_" + what.replace(" ", "_")))


@pytest.mark.parametrize(("kind", "is_retired"), [("cooperative-v0", True), ("cooperative-v1", False)])
def test_a_member_that_a_cooperative_group_assigns_nothing_ends_with_the_faults(kind: str, is_retired: bool) -> None:
    member = MemberPlan("m1", replace(KINDS[kind], name="another client"), PeerConfig("g", ("t",)))
    plan = WorldPlan(1, (), (TopicPlan("t", 1),), ("n1",), (member,), ((member,),), (), 1)
    cluster = SimulatedCluster(plan, Scheduler(), Observer())
    slot = cluster.slots["m1"] = PeerSlot(cluster, member, (member,))
    cluster.open()
    slot.start()
    FaultInjector(cluster).heal()
    assert slot.is_retired is is_retired
