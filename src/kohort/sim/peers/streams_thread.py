"""One thread of a Kafka Streams process, which is a member of its streams group (KIP-1071), as the Java client is.

It has one heartbeat in flight, an interval after the one before, at once when it has something to confirm. A new
assignment is reconciled in a step: what is not in it is closed, which takes its time, then the rest is opened, and the
next heartbeat reports what it owns. What was assigned meanwhile comes after that. After FENCED_MEMBER_EPOCH and
UNKNOWN_MEMBER_ID it drops everything and joins with epoch 0 under its id. From v1 on it reports how far its copies are,
at the interval that it was sent, and once a warm-up has caught up. It commits now and then, and before it closes an
active task; an offset is the time, since nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kohort.client.cluster.committed_offsets import NEWEST_BY_NAME, OffsetAndMetadata, commit_errors, commit_request
from kohort.member.deadlines import Backoff
from kohort.member.member_state import Identity
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.model.streams_tasks import NO_TASKS, Task, TasksByRole, by_subtopology, tasks_of
from kohort.sim.kernel.scheduler import Due
from kohort.sim.peers.client_kinds import PeerConfig
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.sim.peers.state_directory import StateDirectory
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.trace import show_tasks
from kohort.wire.apis import Api
from kohort.wire.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

_Request = StreamsGroupHeartbeatRequest

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
LEAVING_MS = 1_500
"""How long a thread that leaves waits for the answer."""

_LAGS_VERSION = 1
_JOIN_AGAIN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_LOST = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_AGAIN = frozenset({*_LOST, *_ELSEWHERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class ThreadProcess(Protocol):
    """What a thread needs of its process. A thread that fails reports it; one that is over has ended."""

    application: StreamsApplication
    directory: StateDirectory

    def thread_failed(self, thread: StreamsThread, code: ErrorCode) -> None:
        """Take note of an error that ends the process."""

    def ending_of(self, thread: StreamsThread, how: str) -> str:
        """Return how a thread ends that was closed: with its own failure, if it has one."""

    def thread_over(self) -> None:
        """Take note that a thread has ended."""


class StreamsThread:
    """One member. `owned` are the tasks that it runs, `assigned` those that it was sent last, `early_tasks` as
    observers see them: once it has sent what it owns, Kafka Streams 4.3.1 begins what it was granted since.

    More than 20 attributes: it stands for a whole thread, with its client.
    """

    kind = "streams"

    def __init__(
        self, name: str, process: ThreadProcess, place: ClientPlace, config: PeerConfig, connections: PeerConnections
    ) -> None:
        self.name = name
        self.group_id = config.group_id
        self.instance_id = None if config.instance_id is None else f"{config.instance_id}-{name.rpartition('.')[2]}"
        self.host = place.host
        self.state = "joining"
        self.owned = self.assigned = NO_TASKS
        self.early_tasks: frozenset[Task] = frozenset()
        self.is_over = False
        self._process = process
        self._config = config
        self._connections = connections
        self._random = place.random
        self._observer = place.observer
        self._member_id = _new_member_id(place.random.randbytes)
        self._epoch = 0
        self._topology = process.application.topology()
        self._is_in_flight = False
        self._is_claiming = False
        """Whether what it last reported to own is unanswered."""
        self._is_full = True
        """Whether the next heartbeat has everything: the one before was lost."""
        self._steps = 0
        """How often it has begun to reconcile, or has dropped everything: what waited for another step is void."""
        self._beat: Due | None = None
        self._interval_ms = config.heartbeat_interval_ms
        self._offset_interval_ms = 0
        self._reported_us = 0
        self._acceptable_lag = 0
        self._warming: frozenset[Task] = frozenset()
        """The warm-ups that had not caught up when offsets were reported last."""
        self._endpoint_epoch = -1
        self._commits = 0
        self._committed_us = 0
        self._waits = Backoff(place.random.random)

    @property
    def identity(self) -> Identity:
        """Its member id with its epoch."""
        return Identity(self._epoch, self._member_id)

    @property
    def is_settled(self) -> bool:
        """Whether it is in its group, and runs what it was assigned."""
        return self.state == "stable" and self.owned == self.assigned

    def start(self) -> None:
        """Join the group."""
        self._observer.member_started(self)
        self._move("joining", "start")
        self._heartbeat()

    def close(self) -> None:
        """Close the tasks, then leave the group: a static member for a while."""
        if self.is_over or self.state == "leaving":
            return
        self._move("leaving", "close")
        self._steps += 1
        self.host.after_us(self._closing_us(any(self.owned)), self._leave)

    def end(self, how: str) -> None:
        """End it where it stands."""
        if self.is_over:
            return
        self._run(NO_TASKS)
        self.is_over = True
        self._connections.close()
        self._observer.member_ended(self, how)
        self._process.thread_over()

    # -- requests

    def _heartbeat_in(self, wait_us: int) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self._beat = self.host.after_us(wait_us, self._heartbeat)

    def _heartbeat(self) -> None:
        """Send a heartbeat, unless one is in flight, whose answer is awaited first."""
        if self._is_in_flight or self.is_over or self.state == "leaving":
            return
        if self.host.scheduler.now_us >= self._committed_us + self._config.auto_commit_ms * 1000:
            self._commit(self.owned.active)
        self._send(self._request(self._epoch), self._answered)
        if self.state == "acknowledging":
            self._proceed("acknowledged")
        self._heartbeat_in(self._interval_ms * 1000)

    def _send(self, request: StreamsGroupHeartbeatRequest, answered: Callable[[ErrorCode, Any], None]) -> None:
        self._observer.asked(self, "StreamsGroupHeartbeat", f"epoch {request.member_epoch}: {self.state}")
        self._is_in_flight = True
        self._connections.send(self._connections.group, request, answered)

    def _request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        request = _Request(
            group_id=self.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            endpoint_information_epoch=self._endpoint_epoch,
        )
        is_joining, is_whole = epoch == 0, self._is_full or epoch == 0
        if is_joining:
            request.topology = self._topology
        if is_whole:
            request.rebalance_timeout_ms = self._config.max_poll_interval_ms
            request.process_id = self._process.directory.process_id
            if self._config.rack is not None:
                request.rack_id = self._config.rack
            request.user_endpoint = _Request.UserEndpoint(host=self.name, port=8080)
            request.client_tags = []
        if is_whole or self.state == "acknowledging":
            self._is_claiming = True
            active, standby, warmup = map(by_subtopology, NO_TASKS if is_joining else self.owned)
            request.active_tasks = [_Request.ActiveTask(subtopology_id=k, partitions=v) for k, v in active.items()]
            request.standby_tasks = [_Request.StandbyTask(subtopology_id=k, partitions=v) for k, v in standby.items()]
            request.warmup_tasks = [_Request.WarmupTask(subtopology_id=k, partitions=v) for k, v in warmup.items()]
        if self._connections.version(Api.STREAMS_GROUP_HEARTBEAT) >= _LAGS_VERSION:
            self._report_offsets(request, is_due=is_joining)
        self._is_full = False
        return request

    def _report_offsets(self, request: StreamsGroupHeartbeatRequest, *, is_due: bool) -> None:
        """Add how far copies are, if it is time, or if a warm-up has caught up."""
        directory, now_us = self._process.directory, self.host.scheduler.now_us
        due_us = self._reported_us + self._offset_interval_ms * 1000
        is_due = is_due or now_us >= due_us or any(map(self._has_caught_up, sorted(self._warming)))
        if not is_due:
            return
        self._reported_us = now_us
        self._warming = frozenset(task for task in self.owned.warmup if not self._has_caught_up(task))
        end_offset = self._process.application.end_offset
        shown = [(task, directory.offset(task)) for task in directory.tasks]
        request.task_offsets = [
            _Request.TaskOffset(subtopology_id=task[0], partition=task[1], offset=offset) for task, offset in shown
        ]
        request.task_end_offsets = [
            _Request.TaskEndOffset(subtopology_id=task[0], partition=task[1], offset=end_offset) for task, _ in shown
        ]

    def _has_caught_up(self, task: Task) -> bool:
        return self._process.directory.lag(task) <= self._acceptable_lag

    # -- answers

    def _answered(self, code: ErrorCode, response: StreamsGroupHeartbeatResponse | None) -> None:
        self._is_in_flight = False
        if self.is_over:
            return
        error = code if response is None else ErrorCode(response.error_code)
        self._observer.answered(self, "StreamsGroupHeartbeat", error, _detail(response))
        if self.state == "leaving":
            return
        if response is not None and error is ErrorCode.NONE:
            self._accept(response)
        elif error in _AGAIN:
            self._is_full = self._is_full or error in _LOST
            if error in _ELSEWHERE:
                self._connections.rediscover()
            self._heartbeat_in(self._waits.next_ms() * 1000)
        elif error in _JOIN_AGAIN:
            self._move("fenced", error.name)
            self._steps += 1
            self.host.after_us(self._closing_us(any(self.owned)), self._join_again, self._steps)
        else:
            self._process.thread_failed(self, error)

    def _accept(self, response: StreamsGroupHeartbeatResponse) -> None:
        self._waits.reset()
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        self._offset_interval_ms = response.task_offset_interval_ms
        self._endpoint_epoch = response.endpoint_information_epoch
        self._acceptable_lag = max(response.acceptable_recovery_lag, response.acceptable_recovery_lag_legacy)
        if response.active_tasks is not None:
            self.assigned = TasksByRole(
                _tasks(response.active_tasks), _tasks(response.standby_tasks), _tasks(response.warmup_tasks)
            )
        self._is_claiming = False
        self.early_tasks -= self.assigned.active
        if self.state not in ("reconciling", "acknowledging"):
            self._proceed("HeartbeatAnswered")
        if self.state == "acknowledging" or (self._beat is not None and not self._beat.is_pending):
            self._heartbeat_in(0)

    def _join_again(self, step: int) -> None:
        if step != self._steps or self.is_over:
            return
        self._run(NO_TASKS)
        self.assigned = NO_TASKS
        self._epoch = 0
        self._move("joining", "fenced")
        self._heartbeat_in(0)

    # -- tasks

    def _proceed(self, cause: str) -> None:
        """Reconcile if what was assigned is not what runs."""
        if self.owned == self.assigned:
            self._move("stable", cause)
            return
        self._move("reconciling", cause)
        self._steps += 1
        closes = any(some - other for some, other in zip(self.owned, self.assigned, strict=True))
        self.host.after_us(self._closing_us(closes), self._reconciled, self._steps, self.assigned)

    def _closing_us(self, closes: bool) -> int:
        return self._random.randrange(max(self._config.callback_us, 1)) if closes else 0

    def _reconciled(self, step: int, assigned: TasksByRole) -> None:
        if step != self._steps or self.is_over:
            return
        self._commit(self.owned.active - assigned.active)
        self._run(assigned)
        self._move("acknowledging", "reconciled")
        self._heartbeat_in(0)

    def _run(self, tasks: TasksByRole) -> None:
        """Close what is not among these tasks, and open the others."""
        before, self.owned = self.owned, tasks
        begun = tasks.active - before.active if self._is_claiming else frozenset()
        self.early_tasks = (self.early_tasks | begun) & tasks.active
        if before == tasks:
            return
        application, directory = self._process.application, self._process.directory
        for task in sorted(frozenset[Task]().union(*before) - frozenset().union(*tasks)):
            if application.is_stateful(task):
                directory.close(task)
        for role in range(3):
            for task in sorted(tasks[role] - before[role]):
                if application.is_stateful(task):
                    directory.open(task, is_active=role == 0)
        self._warming |= tasks.warmup - before.warmup
        self._observer.runs(self, tasks)

    def _commit(self, tasks: Iterable[Task]) -> None:
        """Commit the source partitions of active tasks."""
        scheduler = self.host.scheduler
        topics = self._topology.subtopologies[0].source_topics
        places = [TopicPartition(name, task[1]) for task in sorted(tasks) if task[0] == "0" for name in topics]
        if not places or self._epoch <= 0:
            return
        self._committed_us = scheduler.now_us
        number = self._commits = self._commits + 1
        offsets = dict.fromkeys(places, scheduler.now_us // 1000)
        request = commit_request(
            self.group_id,
            {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()},
            identity=self.identity,
            instance_id=self.instance_id,
            topic_ids={},
        )
        self._observer.commit_sent(self, number, offsets)

        def answered(code: ErrorCode, answer: Any) -> None:
            errors = dict.fromkeys(offsets, code) if answer is None else commit_errors(answer, {})
            self._observer.commit_answered(self, number, offsets, errors)

        self._connections.send(self._connections.offsets, request, answered, version=NEWEST_BY_NAME)

    # -- the end

    def _leave(self) -> None:
        if self.is_over:
            return
        self._commit(self.owned.active)
        self._run(NO_TASKS)
        epoch = LEAVE if self.instance_id is None else LEAVE_FOR_A_WHILE
        request = _Request(
            group_id=self.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            endpoint_information_epoch=self._endpoint_epoch,
        )
        self._send(request, self._left)
        self.host.after_us(LEAVING_MS * 1000, self._closed)

    def _left(self, code: ErrorCode, response: StreamsGroupHeartbeatResponse | None) -> None:
        if self.is_over:
            return
        error = code if response is None else ErrorCode(response.error_code)
        self._observer.answered(self, "StreamsGroupHeartbeat", error, "left")
        self._closed()

    def _closed(self) -> None:
        self.end(self._process.ending_of(self, "closed"))

    def _move(self, state: str, cause: str) -> None:
        if state != self.state or state == "joining":
            self.state = state
            self._observer.member_moved(self, state, cause)


def _tasks(entries: Iterable[Any] | None) -> frozenset[Task]:
    return tasks_of((each.subtopology_id, each.partitions) for each in entries or ())


def _detail(response: StreamsGroupHeartbeatResponse | None) -> str:
    """Return what an answer has, for the trace."""
    if response is None:
        return ""
    parts = [f"epoch {response.member_epoch}"]
    if response.active_tasks is not None:
        found = (_tasks(response.active_tasks), _tasks(response.standby_tasks), _tasks(response.warmup_tasks))
        parts.append(f"assigned {show_tasks(TasksByRole(*found))}")
    parts += [f"status {status.status_code}" for status in response.status or ()]
    if response.error_message:
        parts.append(response.error_message)
    return ", ".join(parts)


def _new_member_id(randbytes: Callable[[int], bytes]) -> str:
    """Return an id as members of the streams protocol generate it, from the world's random numbers."""
    while (text := topic_id_text(randbytes(16))).startswith("-"):
        pass
    return text
