"""The world of a user's test, set up: as a swarm's, with the instances of the user's program in its seats."""

from __future__ import annotations

from collections.abc import Callable

from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.peer_producer import Feeder
from kohort.sim.scenario.simulated_cluster import Stage
from kohort.sim.scenario.world_plan import MemberPlan, Plan
from kohort.sim.users.instance import Instance
from kohort.sim.users.world_options import Wishes

Failed = Callable[[Instance, BaseException], None]


class UserStage(Stage):
    """`failed` is told of a program that ends with an exception of its own making."""

    def __init__(self, plan: Plan, wishes: Wishes, scheduler: Scheduler, observer: Observer, failed: Failed) -> None:
        self.failed = failed
        self.instances: list[Instance] = []
        super().__init__(plan, scheduler, observer)
        self.is_fed = not wishes.is_led_by_hand
        if wishes.values is not None:
            random = self.draw.stream("feed")
            self.feeder = Feeder(
                self.host("feed"), self.network, self.addresses, random, observer, self.topics, value=wishes.values
            )

    def seat(self, member: MemberPlan, variants: tuple[MemberPlan, ...]) -> Instance:
        """Return a place for an instance."""
        instance = Instance(self, member, variants)
        self.instances.append(instance)
        return instance

    def another(self) -> Instance:
        """Make one more instance, beside those of the plan."""
        last = self.plan.members[-1]
        instance = self.seat(last._replace(name=f"app-{len(self.instances) + 1}"), ())
        self.seats[instance.name] = instance
        return instance
