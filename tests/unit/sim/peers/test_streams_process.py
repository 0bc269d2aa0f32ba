"""Simulated processes of Kafka Streams on a real node: their tasks, their state directories, how they end."""

from __future__ import annotations

from typing import Any

from tests.unit.sim.world_of_peers import SECOND_US, PeerWorld

from kohort.model.streams_tasks import TasksByRole
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.world_observer import Observer, SeenMember
from kohort.sim.peers.client_kinds import KINDS, PeerConfig
from kohort.sim.peers.state_directory import StateDirectory
from kohort.sim.peers.streams_application import FIRST_RECORDS, StreamsApplication
from kohort.sim.peers.streams_process import StreamsProcess

SETTINGS = {
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.acceptable.recovery.lag": "100",
    "group.streams.task.offset.interval.ms": "60000",
}


class _Runs(Observer):
    """The tasks that each thread runs, and how threads ended."""

    def __init__(self) -> None:
        self.tasks: dict[str, TasksByRole] = {}
        self.ends: dict[str, str] = {}
        self.warmed: set[str] = set()

    def runs(self, member: SeenMember, tasks: TasksByRole) -> None:
        self.tasks[member.name] = tasks
        self.warmed |= {member.name} if tasks.warmup else set()

    def member_ended(self, member: SeenMember, how: str) -> None:
        self.ends[member.name] = how


class _StreamsWorld(PeerWorld):
    """A world whose group `g` reads `t` with a store."""

    def __init__(self, **settings: str) -> None:
        self.seen = _Runs()
        super().__init__(self.seen, **{**SETTINGS, **settings})
        self.application = StreamsApplication("g", "stateful", ("t",), 0, self.scheduler)

    def directory(self, name: str, restores_per_s: int = 5_000) -> StateDirectory:
        return StateDirectory(f"process-{name}", self.application, restores_per_s, self.scheduler)

    def process(self, name: str, directory: StateDirectory | None = None, **config: Any) -> StreamsProcess:
        self.births += 1
        place = self._place(Host(name, self.scheduler), f"{name}/{self.births}")
        settings = PeerConfig("g", ("t",), **config)
        state = directory or self.directory(name)
        process = StreamsProcess(name, place, KINDS["streams"], settings, self.application, state)
        process.start()
        return process

    def passes(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * SECOND_US))

    def active(self, name: str) -> int:
        return len(self.seen.tasks.get(name, TasksByRole()).active)


def test_threads_of_one_process_share_the_tasks() -> None:
    world = _StreamsWorld()
    process = world.process("m1", threads=2)
    world.passes(5)
    assert process.is_settled
    assert [world.active("m1.1"), world.active("m1.2")] == [2, 2]


def test_task_moves_to_a_new_process_once_its_copy_has_caught_up() -> None:
    world = _StreamsWorld()
    world.process("m1")
    world.passes(5)
    world.process("m2")
    world.passes(3)
    assert world.seen.warmed == {"m2.1"}
    assert [world.active("m1.1"), world.active("m2.1")] == [4, 0]
    world.passes(FIRST_RECORDS / 5_000 + 6)
    assert [world.active("m1.1"), world.active("m2.1")] == [2, 2]


def test_state_survives_a_restart() -> None:
    world = _StreamsWorld()
    directory = world.directory("m1")
    process = world.process("m1", directory)
    world.passes(10)
    process.close()
    world.passes(2)
    assert process.is_over
    assert world.seen.ends == {"m1.1": "closed"}
    assert [directory.lag(task) for task in directory.tasks] == [0, 0, 0, 0]


def test_copy_that_is_closed_stays_where_it_is() -> None:
    world = _StreamsWorld()
    directory = world.directory("m1", restores_per_s=1_000)
    directory.open(("0", 0), is_active=False)
    world.passes(2)
    directory.close(("0", 0))
    world.passes(2)
    assert directory.offset(("0", 0)) == 2_000
    directory.open(("0", 0), is_active=False)
    directory.restore_faster(10_000)
    world.passes(1)
    assert directory.offset(("0", 0)) == 12_000


def test_thread_that_was_evicted_joins_again_under_its_id() -> None:
    world = _StreamsWorld()
    process = world.process("m1")
    world.passes(3)
    (thread,) = process.threads
    member_id = thread.identity.member_id
    process.host.freeze(world.scheduler.now_us + 10 * SECOND_US)
    world.passes(14)
    assert world.diary.of("m1.1", "fenced") == ["m1.1 fenced by UNKNOWN_MEMBER_ID"]
    assert thread.identity.member_id == member_id
    assert world.active("m1.1") == 4


def test_thread_with_another_topology_fails_and_closes_its_process() -> None:
    world = _StreamsWorld()
    world.process("m1")
    world.passes(3)
    world.application.change(("t", "u"))
    process = world.process("m2", threads=2)
    world.passes(5)
    assert process.is_over
    assert sorted(world.seen.ends.values()) == ["closed", "failed: INVALID_REQUEST"]


def test_static_thread_leaves_for_a_while() -> None:
    world = _StreamsWorld()
    process = world.process("m1", instance_id="i")
    world.passes(3)
    process.close()
    world.passes(1)
    assert world.diary.of("m1.1", ">")[-1] == "m1.1 > StreamsGroupHeartbeat epoch -2: leaving"
