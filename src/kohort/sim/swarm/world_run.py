"""Runs a plan: faults with checks after every event, then healing, then the world must converge in time.

One plan gives one outcome. What production code logs as its own defect, and any exception that leaves it, breaks the
world as a violated invariant does. A group without a live member has converged.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from traceback import extract_tb

from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks import Checker, InvariantBroken, all_checkers
from kohort.sim.checks.checker import NO_DEFECT, logs_to
from kohort.sim.checks.convergence_checks import StandstillChecker
from kohort.sim.checks.invariants import CONVERGES_AFTER_HEALING, EVERY_TRANSACTION_ENDS
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer, Observers, SeenMember
from kohort.sim.scenario.fault_injector import FaultInjector
from kohort.sim.scenario.member_census import MemberCensus, wait_for_convergence
from kohort.sim.scenario.simulated_cluster import MemberSlot, PeerSlot, SimulatedCluster
from kohort.sim.scenario.streams_census import missing_of_streams, unfit_topics
from kohort.sim.scenario.streams_slot import StreamsSlot
from kohort.sim.scenario.world_plan import SECOND_US, Broken, MemberPlan, WorldOutcome, WorldPlan
from kohort.sim.trace import show_partitions
from kohort.transaction.transaction import NOT_OPEN

REST_US = 90 * SECOND_US
"""Within so long after the healing everything must have come to rest: two rounds, each as long as the longest poll
interval and a session, and a callback or two."""

TOUCH_LOOKS = 5
"""After so many looks without rest there is one more record everywhere: a commit that failed is not sent again by all
users, but the next one includes it."""

MEND_LOOKS = 25
"""After so many looks without convergence, classic groups with static members are made to rebalance: no member sees
topics that changed while the leader was away (docs/gaps.md)."""

PASSING = frozenset({"UNRELEASED_INSTANCE_ID", "FENCED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED"})
"""Why a member may be refused now and accepted later."""

OTHER_TOPOLOGY = "INVALID_REQUEST"
"""How a thread is refused while its group has members with an older topology."""

RESTART_US = 3 * SECOND_US
"""How soon a member that failed is started again."""


def run(plan: WorldPlan, *observers: Observer, checkers: Sequence[Checker] | None = None) -> WorldOutcome:
    """Let a world happen."""
    checkers = tuple(all_checkers(plan.seed)) if checkers is None else checkers
    world = _World(plan, checkers, observers)
    with logs_to(_DefectListener(world), logging.WARNING):
        broken = world.live()
    return WorldOutcome(
        seed=plan.seed,
        broken=broken,
        events=world.scheduler.events,
        virtual_us=world.scheduler.now_us,
        rest_us=world.rest_us,
        chunks=world.cluster.network.carried,
        drawn=dict(sorted(Counter(step.what for step in plan.steps).items())),
        met=dict(sorted(world.faults.met.items())),
        coverage=_coverage(checkers, world),
        failures=dict(sorted(world.census.failures.items())),
        unowned_us=sum(each.unowned_us for each in checkers if isinstance(each, StandstillChecker)),
        gateways=len(plan.gateways),
        producers=len(plan.producers),
    )


class Supervisor(Observer):
    """Starts members again that failed, as an orchestrator does: later, never from inside a hook."""

    def __init__(self) -> None:
        self.cluster: SimulatedCluster | None = None
        """Set when the world is built: the cluster reports to this observer."""

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Schedule the next process of a member that failed."""
        cluster = self.cluster
        if cluster is None or not how.startswith("failed"):
            return
        slot = cluster.slots[member.name.partition(".")[0]]  # a thread of Kafka Streams is named after its process
        passing = {*PASSING, OTHER_TOPOLOGY} if isinstance(slot, StreamsSlot) else PASSING
        if not cluster.is_healed or how.removeprefix("failed: ") in passing:
            cluster.scheduler.after(RESTART_US, _restart, slot)


def _restart(slot: MemberSlot) -> None:
    if not slot.is_running and not slot.stays_away:
        slot.start()


class _World:
    """One run."""

    def __init__(self, plan: WorldPlan, checkers: Sequence[Checker], observers: Sequence[Observer]) -> None:
        self.plan = plan
        self.scheduler = Scheduler()
        self.census = MemberCensus()
        supervisor = Supervisor()
        # Traces come first, so that the line that breaks the world is written.
        self.observer = Observers([*observers, self.census, *checkers, supervisor])
        self.cluster = SimulatedCluster(plan, self.scheduler, self.observer)
        for member, variants in zip(plan.members, plan.variants, strict=True):
            self.cluster.slots[member.name] = self._slot(member, variants)
        supervisor.cluster = self.cluster
        self.faults = FaultInjector(self.cluster)
        self.defect: str | None = None
        self.rest_us = -1
        self.looks = 0

    def _slot(self, member: MemberPlan, variants: tuple[MemberPlan, ...]) -> MemberSlot:
        application = self.cluster.applications.get(member.group)
        if application is None:
            return PeerSlot(self.cluster, member, variants)
        return StreamsSlot(self.cluster, member, variants, application)

    def live(self) -> Broken | None:
        """Run from the beginning to the end; return what broke it, if anything did."""
        try:
            self.observer.began(self.scheduler)
            self.cluster.open()
            self.faults.schedule()
            self.pass_until(self.plan.end_us)
            self.faults.heal()
            if lack := self.converge():
                hangs = lack == missing_of_transactions(self.cluster)
                return self.breaks((EVERY_TRANSACTION_ENDS if hangs else CONVERGES_AFTER_HEALING).name, lack)
            self.observer.ended()
        except InvariantBroken as error:
            return self.breaks(error.invariant.name, error.sentence)
        except Exception as error:
            return self.breaks(NO_DEFECT, _place(error))
        return None

    def pass_until(self, when_us: int) -> None:
        """Let time pass; raise at the first log record of a defect."""
        scheduler, stepped = self.scheduler, self.observer.stepped
        while (next_us := scheduler.next_us()) is not None and next_us <= when_us:
            scheduler.step()
            stepped()
            if self.defect is not None:
                raise Defect(self.defect)
        scheduler.run_until(when_us)

    def converge(self) -> str | None:
        """Let time pass until the world has converged; return what is missing when there is no time left."""
        healed_us = self.scheduler.now_us
        wait = wait_for_convergence(self.scheduler, self.pass_until, self._look, REST_US)
        if wait.missing is None:
            self.rest_us = wait.since_us - healed_us
        return wait.missing

    def _look(self) -> str | None:
        self.looks += 1
        lack = missing(self.cluster, self.census)
        if lack is not None:
            if self.looks % TOUCH_LOOKS == 0:
                self.cluster.feeder.touch()
                self._mend_streams()
            if self.looks == MEND_LOOKS:
                self._rejoin_static()
        return lack

    def _rejoin_static(self) -> None:
        """Have classic groups with static members rebalance, as an operator does who sees topics without an owner.

        Only a leader that asks gets a round when nothing else has changed, so all of them ask.
        """
        for slot in self.cluster.slots.values():
            is_static = slot.plan.kind.protocol == "classic" and slot.plan.config.instance_id is not None
            if is_static and slot.is_running and slot.peer is not None:
                self.observer.fault("mended", slot.name, "")
                slot.peer.rejoin("topics changed while the leader was away")

    def _mend_streams(self) -> None:
        """Delete internal topics that do not fit their source topics any more, as an operator does."""
        cluster = self.cluster
        cluster.count_topics()
        for application in cluster.applications.values():
            for name in unfit_topics(cluster, application):
                self.observer.fault("mended", application.group_id, f"{name} is deleted")
                cluster.operator.delete_topic(name, lambda _: cluster.count_topics())

    def breaks(self, invariant: str, sentence: str) -> Broken:
        """Return a failure of now."""
        return Broken(invariant, sentence, self.scheduler.now_us, self.scheduler.events)


class Defect(AssertionError):
    """Production code has logged an exception as its own fault."""


class _DefectListener(logging.Handler):
    """Takes what production code logs: its own defects break the world."""

    def __init__(self, world: _World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Note the first defect."""
        if self._world.defect is not None:
            return
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, InvariantBroken):
            raise error
        if error is not None:
            self._world.defect = f"{record.getMessage()}: {_place(error)}"
        elif record.msg.startswith("closed connection") and "malformed" in record.getMessage():
            self._world.defect = record.getMessage()


def _place(error: BaseException) -> str:
    """Return an exception in a line: what it is, and the innermost places of ours that it came through."""
    frames = [frame for frame in extract_tb(error.__traceback__) if "kohort" in frame.filename]
    places = [f"{frame.filename.rpartition('kohort/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-3:]]
    return f"{type(error).__name__}: {error} (" + " > ".join(places) + ")"


def _coverage(checkers: Sequence[Checker], world: _World) -> dict[str, int]:
    counts = Counter({CONVERGES_AFTER_HEALING.name: world.looks, NO_DEFECT: world.scheduler.events})
    for checker in checkers:
        counts.update(checker.checked)
    return dict(sorted(counts.items()))


def missing(cluster: SimulatedCluster, census: MemberCensus) -> str | None:
    """Return what a healed world still lacks, or None when it has converged."""
    node = cluster.node_host.node
    if node is None:
        return f"{cluster.place} does not run: {cluster.node_host.failure}"
    for slot in cluster.slots.values():
        if slot.is_running and slot.is_closing:
            return f"{slot.name} has not ended yet"
    for group in cluster.plan.groups:
        live = [
            slot for slot in cluster.slots.values() if slot.group == group and slot.is_running and not slot.is_closing
        ]
        if live and (lack := _missing_of_group(cluster, census, group, live)):
            return f"group {group}: {lack}"
    return missing_of_transactions(cluster)


def missing_of_transactions(cluster: SimulatedCluster) -> str | None:
    """Return which transaction has not ended, or what the reader of committed records has not read."""
    node, reader = cluster.node_host.node, cluster.reader
    if reader is None or node is None:
        return None
    for slot in cluster.producers.values():
        if not slot.is_finished:
            return f"producer {slot.plan.name} has not committed its last transaction"
    for hosted in node.context.transactions.partitions:
        for transaction in hosted.transactions.by_id.values():
            if transaction.state not in NOT_OPEN:
                return f"the transaction of {transaction.transactional_id} is {transaction.state.text}"
    for partition, position in reader.positions.items():
        end = cluster.log_end(partition)
        if position < end:
            return f"committed records of {partition} are read up to {position} of {end}"
    return None


def _missing_of_group(
    cluster: SimulatedCluster, census: MemberCensus, group: str, live: list[MemberSlot]
) -> str | None:
    streaming = [slot for slot in live if isinstance(slot, StreamsSlot)]
    if streaming:
        return missing_of_streams(cluster, streaming)
    node = cluster.node_host.node
    assert node is not None, "a node runs"
    if (error := node.coordinator.load_error(group)) is not ErrorCode.NONE:
        return f"its coordinator answers {error.name}"
    for slot in live:
        if not wanted_by(slot, cluster.topics):
            continue
        if (state := census.states[slot.name]) != "stable":
            return f"{slot.name} is {state}"
        if slot.peer is not None and not slot.peer.is_settled:
            return f"{slot.name} does not read yet, or wants another round"
    if lack := _unowned(cluster, census, live):
        return lack
    described = node.coordinator.describe(group) or node.coordinator.describe_consumer(group)
    if described is None:
        return "the coordinator does not know it" if any(wanted_by(slot, cluster.topics) for slot in live) else None
    if described.state.value.lower() not in ("stable", "empty"):
        return f"it is {described.state.value}"
    present = {slot.peer.identity.member_id: slot.name for slot in live if slot.peer is not None}
    for member in described.members:
        if member.member_id not in present:
            return f"{member.member_id} is in it, and no process has that id any more"
    return _unread(cluster, census, group, live)


def _unowned(cluster: SimulatedCluster, census: MemberCensus, live: list[MemberSlot]) -> str | None:
    owners: dict[TopicPartition, str] = {}
    for slot in live:
        for partition in sorted(census.owned[slot.name]):
            if partition in owners:
                return f"{slot.name} and {owners[partition]} both own {partition}"
            owners[partition] = slot.name
            if partition.topic not in wanted_by(slot, cluster.topics):
                return f"{slot.name} owns {partition}, of a topic that it does not want or that is gone"
    wanted = {topic for slot in live for topic in wanted_by(slot, cluster.topics)}
    unowned = [partition for partition in cluster.partitions() if partition.topic in wanted and partition not in owners]
    if unowned:
        return f"no member owns {show_partitions(unowned)}"
    strange = [partition for partition in owners if partition.partition >= cluster.topics[partition.topic]]
    return f"{owners[strange[0]]} owns {strange[0]}, which does not exist" if strange else None


def _unread(cluster: SimulatedCluster, census: MemberCensus, group: str, live: list[MemberSlot]) -> str | None:
    """Return which records are not read and committed yet."""
    node = cluster.node_host.node
    assert node is not None, "a node runs"
    if not cluster.feeder.is_idle:
        return "not everything that is to be written is acknowledged"
    for slot in live:
        for partition in sorted(census.owned[slot.name]):
            end, topic = cluster.log_end(partition), node.topics.get(partition.topic)
            if not end or topic is None:
                continue
            if slot.plan.config.commit == "revoked":
                if census.read.get((slot.name, partition), 0) < end:
                    return f"{slot.name} has not read all {end} records of {partition}"
                continue
            committed = node.coordinator.offset(group, partition.topic, partition.partition, topic.topic_id)
            if committed is None or committed.offset < end:
                shown = "nothing" if committed is None else f"{committed.offset}"
                return f"{slot.name} has committed {shown} of the {end} records of {partition}"
    return None


def wanted_by(slot: MemberSlot, topics: dict[str, int]) -> tuple[str, ...]:
    """Return which of the topics that exist a member wants."""
    names, pattern = slot.plan.config.topics, slot.plan.config.pattern
    return tuple(topic for topic in topics if topic in names or (pattern is not None and re.fullmatch(pattern, topic)))
