"""A world as a user's test uses it: start the program, let time and faults pass, check the results.

Any broken invariant stops it: the checkers of the swarm watch the program's real clients, and the program reports with
`done` when a record has taken effect. Times are seconds of the world. Methods that act on an instance take the first
that is up by default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer import Consumer
from kohort.client.record import Record
from kohort.model.ids import TopicPartition
from kohort.sim.checks.invariants import AT_LEAST_ONCE, CONVERGES_AFTER_HEALING
from kohort.sim.kernel.broker_host import ENDINGS
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.programs.program import CURRENT
from kohort.sim.programs.virtual_loop import VirtualLoop
from kohort.sim.scenario.fault_injector import FaultInjector
from kohort.sim.scenario.member_census import wait_for_convergence
from kohort.sim.scenario.simulated_cluster import PORT, SimulatedCluster
from kohort.sim.scenario.world_plan import SECOND_US, WorldPlan
from kohort.sim.users.instance import Instance, Main, ProgramCluster
from kohort.sim.users.world_driver import WorldDriver
from kohort.sim.users.world_options import GROUP, WorldOptions

App = Callable[..., Coroutine[Any, Any, object]]

PATIENCE_US = 90 * SECOND_US
"""Within so long, and twice the longest interval that the program has set, a healed world has converged."""
METADATA_US = 300 * SECOND_US
"""After so long a client refreshes its metadata, unless it is configured otherwise, and sees that a topic has grown."""


class World:
    """One world. Made by `kohort.sim.world` for a test, from a seed."""

    def __init__(self, plan: WorldPlan, options: WorldOptions, observers: Iterable[Observer] = ()) -> None:
        self.seed = plan.seed
        self.bootstrap_servers = ",".join(f"{name}:{PORT}" for name in plan.nodes)
        self._plan = plan
        self._is_led_by_hand = options.is_led_by_hand
        self._driver = WorldDriver(plan, observers)
        self._scheduler = self._driver.scheduler
        self._cluster = SimulatedCluster(plan, self._scheduler, self._driver.observer, options.value, options.key)
        self._programs = ProgramCluster(self._cluster, self._driver)
        self._faults = FaultInjector(self._cluster)
        self._main: Main | None = None
        self._is_settled = False
        self._driver.observer.began(self._scheduler)
        self._cluster.open(is_fed=not options.is_led_by_hand)

    # -- what there is

    @property
    def now(self) -> float:
        """How many seconds have passed in the world."""
        return self._scheduler.now_us / SECOND_US

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The instances of the program."""
        return tuple(self._programs.instances)

    @property
    def topics(self) -> dict[str, int]:
        """The topics with their partitions."""
        return dict(self._cluster.topics)

    @property
    def processed(self) -> dict[TopicPartition, list[int]]:
        """The offsets that took effect (`done`), in that order."""
        return {partition: list(offsets) for partition, offsets in sorted(self._driver.effects.done.items())}

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The offsets that the program's group has committed; of all its groups, if it has several."""
        node = self._cluster.node_host.node
        found: dict[TopicPartition, int] = {}
        for group in dict.fromkeys(member.group_id for member in self._programs.members()):
            for partition in self._cluster.partitions():
                topic = None if node is None else node.topics.get(partition.topic)
                if node is not None and topic is not None:
                    offset = node.coordinator.offset(group, *partition, topic.topic_id)
                    if offset is not None:
                        found[partition] = offset.offset
        return found

    @property
    def end_offsets(self) -> dict[TopicPartition, int]:
        """How many records each partition has."""
        node = self._cluster.node_host.node
        found = {each: None if node is None else node.topics.partition(*each) for each in self._cluster.partitions()}
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

    def consumer(self, *topics: str, **settings: Any) -> Consumer[Any, Any]:
        """Make a `kohort.Consumer` of this world, with `World.settings` where `settings` lack them."""
        defaults = self.settings
        if "consumer" in (settings.get("group_protocol"), settings.get("protocol")):
            del defaults["session_timeout_ms"], defaults["heartbeat_interval_ms"]
        return Consumer(*topics, **(defaults | settings))

    def done(self, what: Batch[Any, Any] | Record[Any, Any] | TopicPartition, offset: int | None = None) -> None:
        """Report that records took effect: a whole batch, one record, or an offset of a partition."""
        program = CURRENT.get(None)
        if program is None:
            raise RuntimeError("done() is for the program's own code: call it from a task of an instance")
        if program.is_over:
            return  # a killed process that is taken apart
        match what:
            case Batch():
                partition, offsets = what.partition, [each.offset for each in what]
            case Record():
                partition, offsets = what.topic_partition, [what.offset]
            case _ if offset is not None:
                partition, offsets = what, [offset]
            case _:
                raise TypeError("done(partition) needs the offset that took effect: done(partition, offset)")
        self._driver.record_effect(program.name, partition, offsets)

    # -- the course of the world

    def start(self, app: App) -> None:
        """Run a program on every instance: `app` is a coroutine function, called with the instance if it takes one.

        From here on the faults of the seed happen, and some instances come late.
        """
        if self._main is not None:
            raise RuntimeError("a world runs one program: start() was called before")
        takes_instance = bool(inspect.signature(app).parameters)
        self._main = app if takes_instance else lambda _: app()
        for instance in self._programs.instances:
            instance.main = self._main
        self._faults.schedule()
        if self._is_led_by_hand:
            for instance in self._programs.instances:
                instance.start()

    def run(self, seconds: float | None = None) -> None:
        """Let time pass; by default until the faults of the seed end."""
        if seconds is None and self._is_led_by_hand:
            raise ValueError("this world has no faults that could end: pass for how long it runs")
        self._driver.pass_until(self._plan.end_us if seconds is None else self._in(seconds))

    def settle(self, seconds: float | None = None) -> None:
        """Let the faults end, and time pass until everything is stable: owned, read, and done.

        Raises `WorldBroken` where that does not happen in `seconds`.
        """
        driver = self._driver
        if not self._cluster.is_healed:
            driver.pass_until(max(self._plan.end_us, self._scheduler.now_us))
            for instance in self._programs.instances:
                instance.come_back()
            self._faults.heal()
        patience_us = self._patience_us() if seconds is None else round(seconds * SECOND_US)
        missing = wait_for_convergence(self._scheduler, driver.pass_until, self._programs.missing, patience_us).missing
        if missing is not None:
            name = AT_LEAST_ONCE.name if "never took effect" in missing else CONVERGES_AFTER_HEALING.name
            raise driver.broken(name, missing)
        driver.observer.ended()
        driver.raise_broken()
        self._is_settled = True

    def wait_stable(self, seconds: float = 60.0) -> None:
        """Let time pass until every member is in its group and owns its assignment."""
        wait = wait_for_convergence(
            self._scheduler,
            self._driver.pass_until,
            self._programs.unstable,
            round(seconds * SECOND_US),
            look_us=SECOND_US // 10,
            quiet_us=SECOND_US,
        )
        if wait.missing is not None:
            sentence = f"no rest in {seconds:g} s: {self._programs.missing()}"
            raise self._driver.broken(CONVERGES_AFTER_HEALING.name, sentence)

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
        self._cluster.feeder.write(TopicPartition(topic, partition), list(values))

    # -- faults by hand

    def kill(self, instance: Instance | None = None) -> Instance:
        """Kill an instance, as `kill -9` does. `start()` brings it back."""
        return self._act("kill", instance, Instance.kill)

    def stop(self, instance: Instance | None = None) -> Instance:
        """Ask an instance to stop, as a deployment does."""
        return self._act("stop", instance, Instance.close)

    def freeze(self, seconds: float, instance: Instance | None = None) -> Instance:
        """Freeze an instance: nothing happens in it, and it does not notice."""
        until_us = self._in(seconds)
        return self._act("freeze", instance, lambda each: each.host.freeze(until_us))

    def cut_off(self, seconds: float, instance: Instance | None = None) -> Instance:
        """Let nothing through between an instance and the broker."""
        network, broker = self._cluster.network, self._cluster.place

        def cut(each: Instance) -> None:
            for path in ((each.name, broker), (broker, each.name)):
                network.block(*path)
                self._scheduler.at(self._in(seconds), network.unblock, *path)

        return self._act("partition", instance, cut)

    def restart_broker(self, *, seconds: float = 1.0, how: str = "kill") -> None:
        """Take the broker down ("kill", "stop" or "power loss") and bring it back after a while."""
        node = self._cluster.node_host
        if how not in ENDINGS:
            raise ValueError(f"how={how!r} is not one of {', '.join(ENDINGS)}")
        self._driver.observer.fault("restart broker", self._cluster.place, how)
        node.end(how)
        self._scheduler.at(self._in(seconds), lambda: node.node is None and node.start())

    def rebalance(self) -> None:
        """Start another instance and stop it again, and wait each time until the group is stable."""
        instance = self.revoke()
        self.stop(instance)
        self._driver.pass_while(lambda: instance.is_running, self._programs.missing)
        instance.is_finished = instance.stays_away = True
        self.wait_stable()

    def revoke(self) -> Instance:
        """Start another instance, so that the others must revoke partitions, wait for that, and return it."""
        instance = self._programs.another(self._main)
        self._driver.observer.fault("start", instance.name, "by hand")
        instance.start()
        self._driver.pass_while(lambda: not instance.members, self._programs.missing)
        self.wait_stable()
        return instance

    def lose(self, instance: Instance | None = None) -> Instance:
        """Freeze an instance until its group has evicted it, and wait until its callback for lost partitions ran."""
        chosen = self._chosen(instance)
        members = chosen.members
        names = [member.name for member in members if member.owned]
        if not names:
            raise RuntimeError(f"{chosen.name} owns nothing that it could lose")
        lost = self._driver.census.lost
        before = [lost[name] for name in names]
        classic_ms = [each.membership.config.session_timeout_ms for each in members if each.kind != "consumer"]
        if len(classic_ms) < len(members):
            classic_ms.append(int(dict(self._plan.settings).get("group.consumer.session.timeout.ms", "45000")))
        self.freeze(max(classic_ms) / 1000 + 3, chosen)
        self._driver.pass_while(lambda: [lost[name] for name in names] == before, self._programs.missing)
        self.wait_stable()
        return chosen

    def _chosen(self, instance: Instance | None) -> Instance:
        chosen = instance or next((each for each in self._programs.instances if each.is_up), None)
        if chosen is None:
            raise RuntimeError("no instance is up: start(app) first, and run() for a moment")
        return chosen

    def _act(self, what: str, instance: Instance | None, act: Callable[[Instance], object]) -> Instance:
        chosen = self._chosen(instance)
        self._driver.observer.fault(what, chosen.name, "by hand")
        act(chosen)
        return chosen

    def _in(self, seconds: float) -> int:
        return self._scheduler.now_us + round(seconds * SECOND_US)

    # -- for the runner of the test

    def conclude(self) -> None:
        """After the test: settle, if it did not itself."""
        if not self._is_settled and self._main is not None:
            self.settle()
        self._driver.raise_broken()

    def drive(self, loop: VirtualLoop, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine on a loop of this world to its end."""
        task = loop.create_task(work)
        self._driver.run(task.done, None)
        task.result()

    def test_loop(self) -> VirtualLoop:
        """Make a loop for the test itself."""
        return VirtualLoop(self._cluster.host("test"), self._cluster.network, self._cluster.rng.stream("test"))

    def note_defect(self, text: str) -> None:
        """Break the world for an error that production code has logged as its own defect."""
        self._driver.note_defect(text)

    def close(self) -> None:
        """Take everything apart."""
        for instance in self._programs.instances:
            for program in instance.programs:
                program.close()

    @property
    def events(self) -> int:
        """How many actions have run."""
        return self._scheduler.events

    def _patience_us(self) -> int:
        intervals = [
            max(member.membership.config.max_poll_interval_ms or 0, member.membership.config.session_timeout_ms)
            for member in self._programs.members()
        ]
        is_grown = any(step.what == "grow topic" for step in self._plan.steps)
        return PATIENCE_US + 2_000 * max(intervals, default=0) + (METADATA_US if is_grown else 0)
