"""Carries out the steps of a plan: each kind of step of the menu is a method, such as `_kill_node` for "kill node".

A step that finds nothing to act on (a node that is down already, a member that never started) does nothing and is not
counted as met. Every fault that lasts ends with the faults as a whole at the latest; `heal` ends what is left.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

from kohort.log.disk import StorageError
from kohort.log.memory_disk import CHANGES, Fault, failing
from kohort.sim.kernel.gateway_host import GatewayHost
from kohort.sim.peers.client_kinds import KINDS
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.scenario.simulated_cluster import MemberSlot, SimulatedCluster
from kohort.sim.scenario.world_plan import SECOND_US, WorldStep

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"

_STATES: Mapping[str, frozenset[str]] = {
    "joining": frozenset({"joining"}),
    "syncing": frozenset({"assigning", "syncing", "acknowledging"}),
    "revoking": frozenset({"preparing", "completing", "reconciling"}),
}
"""In which states of its state machine a member is, by what a plan calls it."""

RETRY_US = SECOND_US
"""How soon a node that could not start is tried again."""


class FaultInjector:
    """What happens to one world."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._until_us = cluster.plan.end_us
        self._scheduler = cluster.scheduler
        self.met: Counter[str] = Counter()
        """How often each kind of step came to something."""
        self._normal_flush_us = cluster.node_host.flush_us

    def schedule(self) -> None:
        """Put every step where it belongs in time; what lasts from the beginning is put in force at once."""
        for step in self._cluster.plan.steps:
            if step.at_us is None:
                self.carry_out(step)
            elif step.at_us < self._until_us:
                self._scheduler.at(step.at_us, self.carry_out, step)

    def carry_out(self, step: WorldStep) -> None:
        random = self._cluster.rng.stream(f"step {step.number}")
        self.show(step.what, step.subject, " ".join(f"{name}={value}" for name, value in step.how))
        if getattr(self, "_" + step.what.replace(" ", "_"))(step, random):
            self.met[step.what] += 1

    def show(self, name: str, subject: str, detail: str) -> None:
        """Let observers see what happens to the world."""
        self._cluster.observer.fault(name, subject, detail)

    def heal(self) -> None:
        """End every fault: what is down comes up, what was lost on the way there comes through."""
        cluster = self._cluster
        cluster.is_healed = True
        network = cluster.network
        network.latency_us, network.jitter_us, network.loss, network.cut = 250, 200, 0.0, 0.0
        network.snap, network.straggling_us = 0.0, 0
        self._quicken()
        for node_host in cluster.nodes.values():
            node_host.disk.fault = None
            node_host.fill_disk(None)
        if cluster.node_host.node is None:
            self._boot(cluster.place)
        for gateway in cluster.gateways.values():
            if gateway.gateway is None:
                gateway.start()
        cluster.count_topics()
        for slot in cluster.slots.values():
            if slot.plan.kind.is_assigned_nothing:
                # Its group is slow to settle, as on Apache Kafka and without a gateway too: members of kohort ask for
                # another round while an assignment has the error that it is there, up to some minutes long.
                slot.retire()
            slot.behave()
            if slot.has_started and not slot.is_running and not slot.stays_away:
                slot.start()
        cluster.feeder.stop()
        for producer in cluster.producers.values():
            producer.finish()
        cluster.observer.healed()

    # -- members

    def _slot(self, step: WorldStep) -> MemberSlot:
        return self._cluster.slots[step.subject]

    def _start(self, step: WorldStep, _: Random) -> bool:
        slot = self._slot(step)
        if slot.has_started:
            return False
        slot.start()
        return True

    def _kill(self, step: WorldStep, _: Random) -> bool:
        return self._end_and_restart(self._slot(step), step, "kill")

    def _close(self, step: WorldStep, _: Random) -> bool:
        return self._end_and_restart(self._slot(step), step, "close")

    def _close_within(self, step: WorldStep, _: Random) -> bool:
        """Close a member in the middle of a round: when it is next in a state, which the restart of another brings."""
        slot = self._slot(step)
        if slot.peer is None or not slot.is_running:
            return False

        def close() -> None:
            if self._scheduler.now_us < self._until_us and self._end_and_restart(slot, step, "close"):
                self.show("closed within", slot.name, step.text("state"))
                self.met[step.what] += 1

        slot.peer.member.when_in(_STATES[step.text("state")], step.get("wait_us"), close)
        others = [each for each in self._cluster.slots.values() if each.group == slot.group and each is not slot]
        other = next((each for each in others if each.is_running and not each.is_closing), None)
        if other is not None:
            self.show("close", other.name, "so that there is a round")
            other.close()
            self._later(SECOND_US, self._bring_back, other)
        return False  # it counts when it happens

    def _old_client(self, step: WorldStep, _: Random) -> bool:
        """A member is restarted as a program of before KIP-429, which writes version 0 of the embedded protocol."""
        slot = self._slot(step)
        if not slot.is_running:
            return False
        slot.plan = slot.plan._replace(kind=KINDS["cooperative-v0"])
        return self._end_and_restart(slot, step, "close")

    def _bounce(self, step: WorldStep, _: Random) -> bool:
        slot = self._slot(step)
        if not slot.is_running:
            return False
        slot.change()
        return self._end_and_restart(slot, step, step.text("how", "close"))

    def _end_and_restart(self, slot: MemberSlot, step: WorldStep, how: str) -> bool:
        """End a member's process; after its time down it is there again. Down for a very long time is for good."""
        if not slot.is_running:
            return False
        if how == "kill":
            slot.kill()
        else:
            slot.close()
        down_us = step.get("down_us")
        slot.stays_away = down_us >= 12 * SECOND_US
        if not slot.stays_away:
            self._later(down_us, self._bring_back, slot)
        return True

    def _bring_back(self, slot: MemberSlot) -> None:
        """Start a member's process again, once the one before is over."""
        if slot.is_running and slot.is_closing:
            self._scheduler.after(100_000, self._bring_back, slot)
        elif not slot.is_running:
            slot.stays_away = False
            self.show("back", slot.name, "")
            slot.start()

    def _freeze(self, step: WorldStep, _: Random) -> bool:
        slot = self._slot(step)
        if not slot.is_running:
            return False
        slot.host.freeze(self._end_of(step))
        return True

    def _roll(self, step: WorldStep, _: Random) -> bool:
        """Bounce the members of a group one after the other."""
        slots = [slot for slot in self._cluster.slots.values() if slot.group == step.subject]
        for place, slot in enumerate(slots):
            bounce = WorldStep(
                step.number, 0, "bounce", slot.name, (("how", "close"), ("down_us", step.get("down_us") % SECOND_US))
            )
            self._later(place * step.get("pause_us"), self.carry_out, bounce)
        return bool(slots)

    def _subscribe(self, step: WorldStep, _: Random) -> bool:
        slot, topics = self._slot(step), tuple(step.text("topics").split(","))
        application = self._cluster.applications.get(slot.group)
        if application is not None:
            return self._upgrade(application, topics)
        slot.subscribe(topics)
        return slot.is_running

    def _upgrade(self, application: StreamsApplication, topics: tuple[str, ...]) -> bool:
        """Restart all processes of a Kafka Streams application with a newer topology, which reads these topics."""
        before = application.epoch
        application.change(topics)
        slots = [slot for slot in self._cluster.slots.values() if slot.group == application.group_id]
        for slot in slots if application.epoch > before else ():
            if slot.is_running and not slot.is_closing:
                slot.close()
                self._later(SECOND_US, self._bring_back, slot)
        return application.epoch > before

    def _meddle(self, step: WorldStep, _: Random) -> bool:
        """An operator removes a member, or joins under its id as an instance that it is not (crabka#534)."""
        slot = self._slot(step)
        if slot.peer is None or not (member_id := slot.peer.identity.member_id):
            return False
        operator, config, answered = self._cluster.operator, slot.plan.config, self._answered(step)
        if step.what == "expel":
            operator.expel(slot.group, member_id, config.instance_id, answered)
        else:
            operator.impersonate(slot.group, member_id, config.topics, answered)
        return True

    _expel = _impersonate = _meddle

    # -- nodes

    def _take_down(self, step: WorldStep, _: Random) -> bool:
        node_host = self._cluster.node_host
        if node_host.node is None:
            return False
        node_host.end(step.what.removesuffix(" node"))
        self._later(min(step.get("down_us"), 12 * SECOND_US), self._boot, self._cluster.place)
        return True

    _kill_node = _stop_node = _power_loss = _take_down

    def _move_node(self, step: WorldStep, random: Random) -> bool:
        """The disk goes to the next node, which takes it over at its own address."""
        cluster = self._cluster
        names = list(cluster.nodes)
        if cluster.node_host.node is not None:
            cluster.node_host.end(random.choice(("kill", "power loss", "stop")))
        cluster.place = names[(names.index(cluster.place) + 1) % len(names)]
        self._later(min(step.get("down_us"), 12 * SECOND_US), self._boot, cluster.place)
        return True

    def _boot(self, name: str) -> None:
        node_host = self._cluster.nodes[name]
        if self._cluster.place != name or node_host.node is not None:
            return
        if not node_host.start():
            self.show("boot failed", name, str(node_host.failure))
            self._scheduler.after(RETRY_US, self._boot, name)
        self._cluster.count_topics()

    def _freeze_node(self, step: WorldStep, _: Random) -> bool:
        if self._cluster.node_host.node is None:
            return False
        self._cluster.node_host.host.freeze(self._end_of(step))
        return True

    # -- gateways

    def _kill_gateway(self, step: WorldStep, _: Random) -> bool:
        gateway = self._cluster.gateways[step.subject]
        if gateway.gateway is None:
            return False
        gateway.end()
        self._later(min(step.get("down_us"), 12 * SECOND_US), self._boot_gateway, gateway)
        return True

    def _boot_gateway(self, gateway: GatewayHost) -> None:
        if gateway.gateway is None:
            gateway.start()

    def _freeze_gateway(self, step: WorldStep, _: Random) -> bool:
        gateway = self._cluster.gateways[step.subject]
        if gateway.gateway is None:
            return False
        gateway.host.freeze(self._end_of(step))
        return True

    # -- transactional producers

    def _kill_producer(self, step: WorldStep, _: Random) -> bool:
        slot = self._cluster.producers[step.subject]
        self._later(step.get("down_us"), slot.start_again)
        return slot.kill()

    def _second_producer(self, step: WorldStep, _: Random) -> bool:
        """A second process with the same transactional id begins, while the first knows nothing of it."""
        return self._cluster.producers[step.subject].start()

    def _freeze_producer(self, step: WorldStep, _: Random) -> bool:
        running = self._cluster.producers[step.subject].running
        for process in running[-1:]:
            process.host.freeze(self._end_of(step))
        return bool(running)

    def _cut_off_producer(self, step: WorldStep, _: Random) -> bool:
        running = self._cluster.producers[step.subject].running
        for process in running[-1:]:
            for node in self._peers_of_members():
                self._block(process.host.name, node, step)
                self._block(node, process.host.name, step)
        return bool(running)

    def _break_producer(self, step: WorldStep, random: Random) -> bool:
        slot, network = self._cluster.producers[step.subject], self._cluster.network
        ends = [end for host in slot.hosts for end in network.open_ends(host.name)]
        if ends:
            network.break_connection(random.choice(ends))
        return bool(ends)

    def _break_end(self, step: WorldStep, _: Random) -> bool:
        """Have the connections of a producer break while its next request to end a transaction is on its way."""
        self._cluster.producers[step.subject].is_end_broken = True
        return True

    def _stragglers(self, step: WorldStep, _: Random) -> bool:
        self._cluster.network.straggling_us = step.get("late_us")
        return True

    # -- network

    def _partition(self, step: WorldStep, _: Random) -> bool:
        for node in self._peers_of_members():
            self._block(step.subject, node, step)
            self._block(node, step.subject, step)
        return self._slot(step).is_running

    def _one_way(self, step: WorldStep, random: Random) -> bool:
        is_towards = random.random() < 0.5
        for node in self._peers_of_members():
            self._block(*((step.subject, node) if is_towards else (node, step.subject)), step)
        return self._slot(step).is_running

    def _peers_of_members(self) -> tuple[str, ...]:
        """Return the hosts that members connect to."""
        return tuple(self._cluster.gateways) or tuple(self._cluster.nodes)

    def _block(self, source: str, destination: str, step: WorldStep) -> None:
        network = self._cluster.network
        network.block(source, destination)
        self._scheduler.at(self._end_of(step), network.unblock, source, destination)

    def _break(self, step: WorldStep, random: Random) -> bool:
        network = self._cluster.network
        ends = network.open_ends(step.subject)
        if ends:
            (network.vanish if step.what == "vanish" else network.break_connection)(random.choice(ends))
        return bool(ends)

    _vanish = _break

    def _packets(self, step: WorldStep, _: Random) -> bool:
        network = self._cluster.network
        network.latency_us, network.jitter_us = step.get("latency_us"), step.get("jitter_us")
        network.loss, network.cut = step.get("loss_ppm") / 1e6, step.get("cut_ppm") / 1e6
        return True

    def _storm(self, step: WorldStep, _: Random) -> bool:
        self._cluster.network.storm(step.get("odds_ppm") / 1e6, self._end_of(step))
        return True

    # -- the disk

    def _slow_disk(self, step: WorldStep, _: Random) -> bool:
        for node_host in self._cluster.nodes.values():
            node_host.flush_us = step.get("flush_us")
        self._scheduler.at(self._end_of(step), self._quicken)
        return True

    def _quicken(self) -> None:
        for node_host in self._cluster.nodes.values():
            node_host.flush_us = self._normal_flush_us

    def _full_disk(self, step: WorldStep, _: Random) -> bool:
        self._cluster.node_host.fill_disk(step.get("spare"))
        self._scheduler.at(self._end_of(step), self._cluster.node_host.fill_disk, None)
        return True

    def _failing_disk(self, step: WorldStep, random: Random) -> bool:
        odds = step.get("odds_ppm") / 1e6

        def fault(operation: str, path: str) -> None:
            if random.random() < odds:
                raise StorageError(errno.EIO, f"{operation}: input/output error", path)

        return self._break_disk(step, fault)

    def _failing_operation(self, step: WorldStep, random: Random) -> bool:
        odds, fault = step.get("odds_ppm") / 1e6, failing(step.text("of"))

        def sometimes(operation: str, path: str) -> None:
            if random.random() < odds:
                fault(operation, path)

        return self._break_disk(step, sometimes)

    def _read_only_disk(self, step: WorldStep, _: Random) -> bool:
        return self._break_disk(step, failing(*CHANGES, code=errno.EROFS))

    def _break_disk(self, step: WorldStep, fault: Fault) -> bool:
        """Let the disk have a fault for a while; what has met it recovers by itself afterwards."""
        self._cluster.node_host.disk.fault = fault
        self._scheduler.at(self._end_of(step), self._repair)
        return True

    def _repair(self) -> None:
        self._cluster.node_host.disk.fault = None

    def _hanging_disk(self, step: WorldStep, _: Random) -> bool:
        """A flush that begins now ends when the disk answers again."""
        self._cluster.node_host.hang_until_us = self._end_of(step)
        return True

    def _compact(self, _: WorldStep, random: Random) -> bool:
        """Clean the logs of the groups and of transactions now, up to the newest record or less far."""
        node_host = self._cluster.node_host
        if node_host.node is None or node_host.host.is_frozen:
            return False
        topics = [node_host.node.topics.get(name) for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC)]
        partitions = [partition for topic in topics if topic is not None for partition in topic.partitions]
        for partition in partitions:
            log = partition.opened
            if log is None or log.failure is not None:
                continue
            whole = random.random() < 0.6
            up_to = None if whole else random.randint(log.log_start_offset, log.log_end_offset)
            try:
                log.compact(node_host.host.now_ms(), roll=True, up_to=up_to)
            except StorageError as error:
                self.show("compact failed", node_host.name, str(error))
        return bool(partitions)

    # -- topics and what the operator does

    def _grow_topic(self, step: WorldStep, _: Random) -> bool:
        count = self._cluster.topics.get(step.subject, 0)
        if count:
            self._cluster.operator.grow_topic(step.subject, count + step.get("by", 1), self._answered(step))
        return bool(count)

    def _delete_topic(self, step: WorldStep, _: Random) -> bool:
        if step.subject not in self._cluster.topics:
            return False
        self._cluster.operator.delete_topic(step.subject, self._answered(step))
        return True

    def _recreate_topic(self, step: WorldStep, _: Random) -> bool:
        partitions = self._cluster.topics.get(step.subject)
        if partitions is None:
            return False
        operator = self._cluster.operator
        operator.delete_topic(step.subject, self._answered(step))
        down_us = min(step.get("down_us"), 3 * SECOND_US)
        self._later(down_us, operator.create_topic, step.subject, partitions, self._answered(step))
        return True

    def _delete_offsets(self, step: WorldStep, _: Random) -> bool:
        count = self._cluster.topics.get(step.subject, 0)
        for group in self._cluster.plan.groups if count else ():
            self._cluster.operator.delete_offsets(group, step.subject, count, self._answered(step))
        return bool(count)

    def _delete_group(self, step: WorldStep, _: Random) -> bool:
        self._cluster.operator.delete_group(step.subject, self._answered(step))
        return True

    def _reset_offsets(self, step: WorldStep, _: Random) -> bool:
        for topic, count in list(self._cluster.topics.items()):
            self._cluster.operator.reset_offsets(step.subject, topic, count, self._answered(step))
        return True

    def _configure_group(self, step: WorldStep, _: Random) -> bool:
        self._cluster.operator.configure_group(
            step.subject, step.text("name"), step.text("value"), self._answered(step)
        )
        return True

    _configure_streams = _configure_group

    def _burst(self, step: WorldStep, _: Random) -> bool:
        if step.subject not in self._cluster.topics:
            return False
        self._cluster.feeder.burst(step.subject, step.get("count"))
        return True

    # -- time

    def _drift(self, _: WorldStep, __: Random) -> bool:
        return True  # the hosts have had it from the beginning

    def _answered(self, step: WorldStep) -> Callable[[str], None]:
        def answered(answer: str) -> None:
            self._cluster.count_topics()
            self.show(f"{step.what} answered", step.subject, answer)

        return answered

    def _end_of(self, step: WorldStep) -> int:
        return min(self._scheduler.now_us + step.get("for_us"), self._until_us)

    def _later(self, delay_us: int, action: Callable[..., object], *arguments: object) -> None:
        when_us = self._scheduler.now_us + delay_us
        if when_us < self._until_us:
            self._scheduler.at(when_us, action, *arguments)
