"""Assignors of a simulated gateway: some runs fail, and some take longer than they may."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from kohort.assign.server.adapter import assign_by_name
from kohort.assign.server.catalog import server_assignors
from kohort.assign.spec import GroupSpec, TopicSpec
from kohort.gateway.assigning.assignments import Done, Intended
from kohort.gateway.assigning.edge import ASSIGNOR_MS
from kohort.sim.kernel.host import Host

DELAYS_US = (0, 0, 0, 30_000, 400_000, 1_000 * ASSIGNOR_MS, 2_000 * ASSIGNOR_MS)
"""How long a run takes; 0 is at once, before the request that it is about has been taken."""

FAILING = 0.05
"""The share of runs that fail."""


class SimulatedAssignors:
    """Runs one assignor for all groups (`AssignorRunner`). `topics` are those that exist, with their partitions."""

    def __init__(self, host: Host, random: Random, topics: Mapping[str, int], name: str) -> None:
        self._host = host
        self._random = random
        self._topics = topics
        (self._assignor,) = server_assignors([name]).values()

    def assignor_of(self, group_id: str) -> str:
        """Return the name of the assignor."""
        del group_id
        return self._assignor.name

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done) -> None:
        """Assign, now or later."""
        del group_id
        is_failing = self._random.random() < FAILING
        known = {topic: TopicSpec(self._topics[topic]) for topic in sorted(topics) if topic in self._topics}

        def run() -> None:
            intended = assign_by_name(self._assignor, GroupSpec(members.members, known))
            done("the simulator has it fail" if is_failing else Intended(intended, known), self._host.now_ms())

        delay_us = self._random.choice(DELAYS_US)
        if delay_us:
            self._host.after_us(delay_us, run)
        else:
            run()
