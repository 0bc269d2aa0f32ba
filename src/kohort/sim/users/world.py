"""A world as a user's test sees it: start the program, let time and faults pass, look at what came of it.

Whatever breaks an invariant stops it: the checkers of the swarm watch the program's real clients, and the program says
with `done` when a record has taken effect. Times are seconds of the world.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer import Consumer
from kohort.group.invariants import AT_LEAST_ONCE, CONVERGES_AFTER_HEALING
from kohort.model.ids import TopicPartition
from kohort.sim.checks import InvariantBroken
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.programs.program import CURRENT
from kohort.sim.programs.virtual_loop import VirtualLoop
from kohort.sim.scenario.fault_injector import Faults
from kohort.sim.scenario.simulated_cluster import PORT
from kohort.sim.scenario.world_plan import SECOND_US, Plan
from kohort.sim.users.by_hand import ByHand
from kohort.sim.users.instance import Instance
from kohort.sim.users.program_convergence import members_of
from kohort.sim.users.world_driver import WorldBroken
from kohort.sim.users.world_options import GROUP, Wishes
from kohort.wire.record_batches import Record

App = Callable[..., Coroutine[Any, Any, object]]

QUIET_US = 3 * SECOND_US
LOOK_US = SECOND_US
PATIENCE_US = 90 * SECOND_US
"""Within so long, and twice the longest interval that the program has set, a healed world has come to rest."""
METADATA_US = 300 * SECOND_US
"""After so long a client looks at the metadata, unless it is told otherwise, and sees that a topic has grown."""


class World(ByHand):
    """One world. Made by `kohort.sim.world` for a test, from a seed."""

    def __init__(self, plan: Plan, wishes: Wishes, observers: Iterable[Observer] = ()) -> None:
        super().__init__(plan, wishes, observers)
        self.seed = plan.seed
        self.bootstrap_servers = ",".join(f"{name}:{PORT}" for name in plan.nodes)
        self._faults = Faults(self._stage)
        self._is_led_by_hand = wishes.is_led_by_hand
        self._is_settled = False
        self._watch.began(self._scheduler)
        self._stage.open()

    # -- what there is

    @property
    def now(self) -> float:
        """How many seconds have passed in the world."""
        return self._scheduler.now_us / SECOND_US

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The instances of the program."""
        return tuple(self._stage.instances)

    @property
    def topics(self) -> dict[str, int]:
        """The topics with their partitions."""
        return dict(self._stage.topics)

    @property
    def processed(self) -> dict[TopicPartition, list[int]]:
        """The offsets that took effect (`done`), in that order."""
        return {partition: list(offsets) for partition, offsets in sorted(self._effects.done.items())}

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """What the program's group has committed; of all its groups, if it has several."""
        node = self._stage.node_host.node
        found: dict[TopicPartition, int] = {}
        for group in dict.fromkeys(member.group_id for member in members_of(self._stage)):
            for partition in self._stage.partitions():
                topic = None if node is None else node.topics.get(partition.topic)
                if node is not None and topic is not None:
                    offset = node.coordinator.offset(group, *partition, topic.topic_id)
                    if offset is not None:
                        found[partition] = offset.offset
        return found

    @property
    def end_offsets(self) -> dict[TopicPartition, int]:
        """How many records each partition has."""
        node = self._stage.node_host.node
        found = {each: None if node is None else node.topics.partition(*each) for each in self._stage.partitions()}
        return {each: hosted.log.log_end_offset for each, hosted in found.items() if hosted is not None}

    # -- for programs

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for a consumer of this world: where the broker is, and times short enough that much happens.

        `group_id` is "app", `auto_offset_reset` "earliest", `max_poll_interval_ms` 15,000, sessions take 6 seconds (in
        the classic protocol; the consumer protocol has its own from the broker).
        """
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "group_id": GROUP,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 2_000,
            "max_poll_interval_ms": 15_000,
            "request_timeout_ms": 10_000,
            "metadata_max_age_ms": 5_000,
        }

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """Make a `kohort.Consumer` of this world, with `World.settings` where `settings` do not say otherwise."""
        defaults = self.settings
        if "consumer" in (settings.get("group_protocol"), settings.get("protocol")):
            del defaults["session_timeout_ms"], defaults["heartbeat_interval_ms"]
        return Consumer(*topics, **(defaults | settings))

    def done(self, what: Batch | TopicPartition, record: Record | int | None = None) -> None:
        """Say that records took effect: a whole batch, or one record (or offset) of a partition or batch."""
        program = CURRENT.get(None)
        if program is None:
            raise RuntimeError("done() is for the program's own code: call it from a task of an instance")
        if program.is_over:
            return  # what a killed process still says while it is taken apart
        partition = what.partition if isinstance(what, Batch) else what
        if record is not None:
            offsets = [record if isinstance(record, int) else record.offset]
        elif isinstance(what, Batch):
            offsets = [each.offset for each in what.records]
        else:
            raise TypeError("done(partition) needs the record, or its offset, that took effect")
        try:
            for offset in offsets:
                self._effects.effect(program.name, partition, offset)
        except InvariantBroken as error:
            self._watch.broken = self._watch.broken or error

    # -- the course of the world

    def start(self, app: App) -> None:
        """Run a program on every instance: `app` is a coroutine function, called with the instance if it takes one.

        From here on the faults of the seed happen, and some instances come late.
        """
        if self._main is not None:
            raise RuntimeError("a world runs one program: start() was called before")
        takes_instance = bool(inspect.signature(app).parameters)
        self._main = app if takes_instance else lambda _: app()
        for instance in self._stage.instances:
            instance.main = self._main
        self._faults.schedule()
        if self._is_led_by_hand:
            for instance in self._stage.instances:
                instance.start()

    def run(self, seconds: float | None = None) -> None:
        """Let time pass; by default until the faults of the seed end."""
        if seconds is None and self._is_led_by_hand:
            raise ValueError("this world has no faults that could end: say for how long it runs")
        until_us = self._plan.end_us
        if seconds is not None:
            until_us = self._scheduler.now_us + round(seconds * SECOND_US)
        self.pass_until(until_us)

    def settle(self, seconds: float | None = None) -> None:
        """Let the faults end, and time pass until everything is at rest: owned, read, and done.

        Raises `WorldBroken` where that does not happen in `seconds`.
        """
        if not self._stage.is_healed:
            self.pass_until(max(self._plan.end_us, self._scheduler.now_us))
            for instance in self._stage.instances:
                instance.come_back()
            self._faults.heal()
        patience_us = self._patience_us() if seconds is None else round(seconds * SECOND_US)
        missing = self._come_to_rest(self._scheduler.now_us + patience_us)
        if missing is not None:
            name = AT_LEAST_ONCE.name if "never took effect" in missing else CONVERGES_AFTER_HEALING.name
            raise self._broken(name, missing)
        self._watch.ended()
        self._raise_broken()
        self._is_settled = True

    def invariant(self, check: Callable[[], object], *, every: float = 1.0) -> None:
        """Call `check` every so many seconds: the world breaks if it raises AssertionError or returns False."""
        every_us = round(every * SECOND_US)

        def look() -> None:
            if check() is False:
                raise AssertionError(f"{getattr(check, '__name__', 'a check')}() returned False")
            self._scheduler.after(every_us, look)

        self._scheduler.after(every_us, look)

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Write records to a partition."""
        self._stage.feeder.write(TopicPartition(topic, partition), list(values))

    # -- the inside

    def conclude(self) -> None:
        """After the test: settle, if it did not itself."""
        if not self._is_settled and self._main is not None:
            self.settle()
        self._raise_broken()

    def drive(self, loop: VirtualLoop, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine on a loop of this world to its end."""
        task = loop.create_task(work)
        self._drive(task.done, None)
        task.result()

    def test_loop(self) -> VirtualLoop:
        """Make a loop for the test itself."""
        return VirtualLoop(self._stage.host("test"), self._stage.network, self._stage.draw.stream("test"))

    def close(self) -> None:
        """Take everything apart."""
        for instance in self._stage.instances:
            for program in instance.programs:
                program.close()

    @property
    def events(self) -> int:
        """How many actions have run."""
        return self._scheduler.events

    def _come_to_rest(self, until_us: int) -> str | None:
        since_us: int | None = None
        missing: str | None = "the world had no time"
        while self._scheduler.now_us < until_us:
            self.pass_until(self._scheduler.now_us + LOOK_US)
            missing = self._lack()
            if missing is not None:
                since_us = None
            elif since_us is None:
                since_us = self._scheduler.now_us
            elif self._scheduler.now_us >= since_us + QUIET_US:
                return None
        return missing or "it does not stay at rest"

    def _patience_us(self) -> int:
        intervals = [
            max(member.membership.config.max_poll_interval_ms or 0, member.membership.config.session_timeout_ms)
            for member in members_of(self._stage)
        ]
        is_grown = any(step.what == "grow topic" for step in self._plan.steps)
        return PATIENCE_US + 2_000 * max(intervals, default=0) + (METADATA_US if is_grown else 0)


__all__ = ["App", "World", "WorldBroken"]
