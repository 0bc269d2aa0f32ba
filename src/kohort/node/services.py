"""What the parts of one node share: its settings, disk, clock, timers, randomness, and the broker's state.

A part is handed this value, or only those of its fields that it needs; none knows the node that puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kohort.log.disk import Disk
from kohort.node.broker_state import BrokerState
from kohort.node.configuration.config import Config
from kohort.node.durability import Durability
from kohort.node.step_scheduler import StepScheduler
from kohort.node.timers import NodeClock, Timers
from kohort.node.topics.topics import Topics


@dataclass(frozen=True, slots=True)
class Services:
    """The shared parts of one node, each built before what uses it."""

    config: Config
    disk: Disk
    random_bytes: Callable[[int], bytes]
    clock: NodeClock
    timers: Timers
    durability: Durability
    steps: StepScheduler
    state: BrokerState

    @property
    def topics(self) -> Topics:
        """The topics of this broker."""
        return self.state.topics
