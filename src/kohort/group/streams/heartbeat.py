"""StreamsGroupHeartbeat as a command, its answer, and what no group would take of it."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.group.commands import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, GroupCommand
from kohort.group.results import EpochHeartbeatResult
from kohort.group.streams.events import Settings, UserEndpoint
from kohort.group.streams.topology import InternalTopic, StatusCode, StreamsStatus, StreamsTopology
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import Task, TasksByRole


@dataclass(slots=True)
class StreamsHeartbeat(GroupCommand):
    """StreamsGroupHeartbeat. What is None was not sent and has not changed.

    `owned` is what the sender reports to own. `endpoint_epoch` is that of the endpoints it knows. `offsets` and
    `end_offsets` are how far its copies are, and where their changelogs end; it `reports_lags` from v1 on. `is_counted`
    and `margin_ms` are as in `ConsumerHeartbeat`.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsTopology | None = None
    owned: TasksByRole | None = None
    process_id: str | None = None
    endpoint: UserEndpoint | None = None
    client_tags: Settings | None = None
    offsets: tuple[tuple[Task, int], ...] | None = None
    end_offsets: tuple[tuple[Task, int], ...] | None = None
    shuts_down: bool = False
    endpoint_epoch: int = 0
    reports_lags: bool = False
    client_id: str = ""
    client_host: str = ""
    is_counted: bool = False
    margin_ms: int = 0

    @property
    def is_leaving(self) -> bool:
        """Whether the sender goes, for good or for a while."""
        return self.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether it sends everything, so that its sender may know nothing: it is sent its whole assignment."""
        return self.member_epoch == 0 or (self.rebalance_timeout_ms != -1 and self.owned is not None)


@dataclass(slots=True)
class StreamsReconcile(GroupCommand):
    """Move the sender of `heartbeat`, whose identity has been checked and stored, towards its target, and answer it."""

    member_id: str
    heartbeat: StreamsHeartbeat


@dataclass(slots=True)
class RetargetForLags(GroupCommand):
    """Compute a new target if the lags that `member_id` has reported call for another one."""

    member_id: str


TopicPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Partitions by topic name, sorted."""


@dataclass(slots=True)
class EndpointPartitions:
    """What the member behind an endpoint can answer queries about."""

    endpoint: UserEndpoint
    active: TopicPartitions
    standby: TopicPartitions


@dataclass(slots=True)
class StreamsHeartbeatResult(EpochHeartbeatResult):
    """Answer to `StreamsHeartbeat`. `tasks` is None when it is what the member knows already.

    `endpoints` is None where the member knows them. `missing_topics` are to be made on behalf of the sender. One
    that `is_to_describe` is asked to upload the description of its topology.
    """

    acceptable_recovery_lag: int = -1
    task_offset_interval_ms: int = 0
    statuses: tuple[StreamsStatus, ...] = ()
    tasks: TasksByRole | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    missing_topics: tuple[InternalTopic, ...] = ()
    is_to_describe: bool = False

    @property
    def assignment(self) -> TasksByRole | None:
        """The tasks, as parking calls them."""
        return self.tasks

    @property
    def keeps_interval(self) -> bool:
        """Kafka Streams waits for source topics that are missing for two intervals, and then shuts down."""
        return any(code is StatusCode.MISSING_SOURCE_TOPICS for code, _ in self.statuses)


def refused(error: ErrorCode, message: str) -> StreamsHeartbeatResult:
    """Return the answer with the reason why a heartbeat did nothing."""
    return StreamsHeartbeatResult(error, message)


def request_refusal(command: StreamsHeartbeat) -> StreamsHeartbeatResult | None:
    """Return the answer to a heartbeat that no group could take, or None."""
    wrong = _wrong_name(command) or _wrong_epoch(command)
    if wrong is not None:
        return refused(ErrorCode.INVALID_REQUEST, wrong)
    for each in () if command.topology is None else command.topology.subtopologies:
        for topic in each.changelogs:
            if topic.partitions:
                text = f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"{text}{topic.partitions}.")
        if each.source_topic_regexes:
            text = "Regular expressions for source topics are not supported yet."
            return refused(ErrorCode.INVALID_REQUEST, text)
    return None


def _wrong_name(command: StreamsHeartbeat) -> str | None:
    for name, value in (
        ("MemberId", command.member_id),
        ("GroupId", command.group_id),
        ("InstanceId", command.instance_id),
        ("RackId", command.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    return None


def _wrong_epoch(command: StreamsHeartbeat) -> str | None:
    epoch = command.member_epoch
    if epoch < LEAVE_STATIC_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    if epoch == LEAVE_STATIC_EPOCH and command.instance_id is None:
        return "InstanceId can't be null."
    if epoch != 0:
        return None if command.topology is None else "Topology can only be provided when (re-)joining."
    if command.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if command.owned is not None and any(command.owned):
        return "ActiveTasks, StandbyTasks and WarmupTasks must be empty when (re-)joining."
    if command.topology is None:
        return "Topology must be non-null when (re-)joining."
    if command.endpoint is not None and not command.endpoint.host.strip():
        return "The host of UserEndpoint can't be empty."
    return None
