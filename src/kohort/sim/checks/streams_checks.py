"""Tasks of streams groups: who runs them, who was granted them, and where a target places them and their copies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kohort.group.coordinator_settings import StreamsConfig
from kohort.group.shard import Shard
from kohort.group.streams.events import (
    StreamsGroupStored,
    StreamsMemberAssignmentStored,
    StreamsMemberState,
    StreamsTargetStored,
)
from kohort.model.cause import CauseKind
from kohort.model.streams_tasks import NO_TASKS, Task, TaskRole, TasksByRole
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Ledgers
from kohort.sim.checks.invariants import (
    EPOCH_MONOTONE,
    NO_DOUBLE_OWNERSHIP,
    ONE_COPY_PER_PROCESS,
    TARGET_LEGAL,
    TASKS_MOVE_WARM,
    WITHHOLDING,
)
from kohort.sim.checks.streams_invariants import show_task
from kohort.sim.checks.streams_ledger import AWAY, RecordedThread, StreamsRecords
from kohort.sim.kernel.world_observer import SeenThread


@dataclass(slots=True)
class _Running:
    """What a thread acts on, and under which id it took that."""

    thread: SeenThread
    member_id: str
    tasks: TasksByRole


class StreamsTaskChecker(Checker):
    """NoDoubleOwnership, Withholding and OneCopyPerProcess of tasks."""

    invariants = (NO_DOUBLE_OWNERSHIP, WITHHOLDING, ONE_COPY_PER_PROCESS, EPOCH_MONOTONE)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._running: dict[str, dict[str, _Running]] = {}
        """By group and name."""
        ledgers.before(StreamsMemberAssignmentStored, self._granted)
        ledgers.before(StreamsGroupStored, self._group_stored)

    # -- by what threads act on

    def runs(self, member: SeenThread, tasks: TasksByRole) -> None:
        """Compare what a thread runs from now with what others do."""
        running = self._running.setdefault(member.group_id, {})
        before = running.pop(member.name, None)
        had = NO_TASKS if before is None else before.tasks
        for role in range(3):
            for task in sorted(tasks[role] - had[role]):
                self._take(member, task, running, is_active=role == 0)
        if any(tasks):
            running[member.name] = _Running(member, member.identity.member_id, tasks)

    def _take(self, member: SeenThread, task: Task, running: dict[str, _Running], *, is_active: bool) -> None:
        self.count(NO_DOUBLE_OWNERSHIP, is_active)
        self.count(ONE_COPY_PER_PROCESS)
        ledger = self._ledgers.groups[member.group_id]
        if ledger.is_out(member.identity.member_id):
            return
        process = _host_name(member.name)
        for name, other in sorted(running.items()):
            if ledger.is_out(other.member_id):
                continue  # it was removed, and has not learned of that yet
            text = f"{member.name} takes {show_task(task)}, which {name} runs; both are members of {member.group_id}"
            if is_active and task in other.tasks.active - other.thread.early_tasks:
                self.broken(NO_DOUBLE_OWNERSHIP, text)
            if _host_name(name) == process and any(task in of_role for of_role in other.tasks):
                self.broken(ONE_COPY_PER_PROCESS, f"{text}, and threads of one process")

    # -- by what the log grants

    def _group_stored(self, ledger: GroupLedger, event: StreamsGroupStored, _: Shard) -> None:
        before = 0 if ledger.streams is None else ledger.streams.epoch
        text = f"{event.group_id}: group epoch {event.epoch} after {before}"
        self.compare(event.epoch >= before, EPOCH_MONOTONE, text)

    def _granted(self, ledger: GroupLedger, event: StreamsMemberAssignmentStored, _: Shard) -> None:
        records = ledger.streams or StreamsRecords()
        mine = records.threads.get(event.member_id, RecordedThread())
        if AWAY not in (event.epoch, mine.epoch) and event.epoch:
            text = f"{event.group_id}: {event.member_id} goes back from {mine.epoch} to {event.epoch}"
            self.compare(event.epoch >= mine.epoch, EPOCH_MONOTONE, text)
        had = mine.assigned.roles()
        others = [(each_id, each) for each_id, each in sorted(records.threads.items()) if each_id != event.member_id]
        for task, role in sorted(event.assigned.roles().items()):
            if had.get(task) is role:
                continue
            self.count(WITHHOLDING)
            for other_id, other in others:
                roles = dict(other.tasks())
                if task not in roles:
                    continue
                text = f"{event.group_id}: {event.member_id} is granted {show_task(task)} as {role}"
                text = f"{text}, which {other_id} has as {roles[task]}"
                if role is TaskRole.ACTIVE and roles[task] is TaskRole.ACTIVE:
                    self.broken(WITHHOLDING, text)
                if other.process_id == mine.process_id:
                    self.broken(ONE_COPY_PER_PROCESS, f"{text} in the same process")
        if event.state is StreamsMemberState.UNRELEASED_TASKS and event.cause.kind is CauseKind.MEMBER_RECONCILED:
            self._demand_withheld(event, mine, [other for _, other in others])

    def _demand_withheld(
        self, event: StreamsMemberAssignmentStored, mine: RecordedThread, others: list[RecordedThread]
    ) -> None:
        """Tasks are withheld only while another member has them, or one of the process has a copy (KAFKA-19449)."""
        self.count(WITHHOLDING)
        missing = [
            (task, role is TaskRole.ACTIVE)
            for role, of_role in zip(TaskRole, mine.target, strict=True)
            for task in sorted(of_role - event.assigned.tasks[list(TaskRole).index(role)])
        ]
        for other in others:
            for task, role in other.tasks():
                is_active = role is TaskRole.ACTIVE
                if (is_active and (task, True) in missing) or (
                    other.process_id == mine.process_id and any(task == each for each, _ in missing)
                ):
                    return
        text = f"{event.group_id}: {event.member_id} waits in epoch {event.epoch}, and no other member has any"
        self.broken(WITHHOLDING, f"{text} of the {len(missing)} tasks that it waits for")


class StreamsTargetChecker(Checker):
    """TargetLegal and TasksMoveWarm, whenever a target is computed."""

    invariants = (TARGET_LEGAL, TASKS_MOVE_WARM, ONE_COPY_PER_PROCESS)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        ledgers.after(StreamsTargetStored, self._target_stored)

    def _target_stored(self, ledger: GroupLedger, event: StreamsTargetStored, shard: Shard) -> None:
        records = ledger.streams
        if (
            records is None
            or records.topology is None
            or not any(any(each.target) for each in records.threads.values())
        ):
            return
        group_id, config = event.group_id, shard.settings.streams_config_of(event.group_id)
        self._demand_all(f"{group_id}: in epoch {event.epoch}", records, config, shard)
        if config.warmup_replicas:
            stateful = {each.subtopology_id for each in records.topology.subtopologies if each.changelogs}
            for member_id, thread in sorted(records.threads.items()):
                for task in sorted(thread.target.active):
                    if task[0] in stateful:
                        self._demand_warm(f"{group_id}: in epoch {event.epoch}", records, member_id, task, config)

    def _demand_all(self, where: str, records: StreamsRecords, config: StreamsConfig, shard: Shard) -> None:
        """Each task is active once, has its standby copies, and is in a process once; few warm up."""
        self.count(TARGET_LEGAL)
        self.count(ONE_COPY_PER_PROCESS)
        active: Counter[Task] = Counter()
        standby: Counter[Task] = Counter()
        places: Counter[tuple[str, Task]] = Counter()
        warmups = 0
        for thread in records.threads.values():
            active.update(thread.target.active)
            standby.update(thread.target.standby)
            warmups += len(thread.target.warmup)
            for of_role in thread.target:
                places.update((thread.process_id, task) for task in of_role)
        crowded = sorted(place for place, count in places.items() if count > 1)
        if crowded:
            self.broken(ONE_COPY_PER_PROCESS, f"{where} {crowded[0][0]} has {show_task(crowded[0][1])} twice")
        self.require(
            warmups <= config.warmup_replicas,
            TASKS_MOVE_WARM,
            f"{where} {warmups} tasks warm up, of {config.warmup_replicas}",
        )
        stateful, expected = expected_tasks(records, shard)
        twice = sorted(task for task, count in active.items() if count > 1)
        for tasks, text in (
            (twice, "is active twice"),
            (sorted(expected - active.keys()), "is active nowhere"),
            (sorted(active.keys() - expected), "does not exist"),
            (sorted(standby.keys() - stateful), "has a standby copy and no state"),
        ):
            if tasks:
                self.broken(TARGET_LEGAL, f"{where} {show_task(tasks[0])} {text}")
        processes = {thread.process_id for thread in records.threads.values()}
        copies = min(config.standby_replicas, len(processes) - 1)
        for task in sorted(stateful):
            text = f"{where} {show_task(task)} has {standby[task]} standby copies, and {copies} are possible"
            self.require(standby[task] == copies, TARGET_LEGAL, text)

    def _demand_warm(
        self, where: str, records: StreamsRecords, member_id: str, task: Task, config: StreamsConfig
    ) -> None:
        self.count(TASKS_MOVE_WARM)
        mine = records.threads[member_id]
        if not mine.reports_lags:
            return
        warm = {
            thread.process_id
            for thread in records.threads.values()
            if (lag := thread.lag(task)) is not None and lag <= config.acceptable_recovery_lag
        }
        if warm and mine.process_id not in warm:
            text = f"{where} {show_task(task)} becomes active at {member_id} of {mine.process_id}, which has not"
            self.broken(TASKS_MOVE_WARM, f"{text} caught up, and {sorted(warm)} have")


def expected_tasks(records: StreamsRecords, shard: Shard) -> tuple[frozenset[Task], frozenset[Task]]:
    """Return the tasks with state, and all tasks, that a topology has with the topics there are."""
    stateful: set[Task] = set()
    expected: set[Task] = set()
    for each in () if records.topology is None else records.topology.subtopologies:
        topics = [shard.settings.image.topic(name) for name in each.inputs]
        count = max((topic.partitions for topic in topics if topic is not None), default=0)
        tasks = {(each.subtopology_id, number) for number in range(count)}
        expected |= tasks
        stateful |= tasks if each.changelogs else set()
    return frozenset(stateful), frozenset(expected)


def _host_name(name: str) -> str:
    return name.partition(".")[0]
