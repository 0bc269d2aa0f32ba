"""All groups of one node: which partition of `__consumer_offsets` each is in, and what may be asked of it.

Commands of clients go to the `Runtime`, as do those of the broker itself: topics that change, offsets that expire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kohort.assign.server.spec import ServerAssignor
from kohort.group.commands import (
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    ExpireOffsets,
    ForgetTopic,
    GrowTopic,
    Heartbeat,
    Join,
    TopicChanged,
)
from kohort.group.committed_offsets import commit_error, fetch_error, fetch_offset
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.describe import (
    DescribedConsumerGroup,
    DescribedGroup,
    ListedGroup,
    describe,
    describe_consumer,
    list_groups,
    streams_group,
)
from kohort.group.events import OffsetCommitted, OffsetsTransactionEnded
from kohort.group.shard import Group, Shard, apply, followers_of
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.log.disk import StorageError
from kohort.model.acl import ResourceType
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import group_partition
from kohort.node.authorization.access import Sender
from kohort.node.broker_state import Services
from kohort.node.configuration.config import Config
from kohort.node.groups.offsets_partition import OffsetsPartition, Progress, Status, Ticket, refusal
from kohort.node.groups.runtime import EpochHeartbeat, GroupObserver, ParkedClassic, ParkedEpoch, Runtime
from kohort.node.groups.settings_from_config import group_settings
from kohort.node.groups.topic_image import ExpressionRights, NodeTopics
from kohort.node.rate_limited_log import RateLimitedLog
from kohort.node.step_scheduler import Steps
from kohort.node.timers import NodeClock
from kohort.node.topics.topic import Topic
from kohort.parking.client_software import UNNAMED, ClientSoftware


class GroupLimits:
    """Decides which commands may make a group, or a member as large as it is.

    Every member is in memory and written to the log, so that a client could otherwise use up both.
    """

    def __init__(self, config: Config, clock: NodeClock, partitions: Sequence[OffsetsPartition]) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._warnings = RateLimitedLog()

    def admits(self, hosted: OffsetsPartition, command: Command) -> bool:
        """Whether a command may be decided; if not, a line in the log states why."""
        kind = type(command)
        if kind not in (Join, ConsumerHeartbeat, StreamsHeartbeat, CommitOffsets):
            return True
        if command.group_id not in hosted.shard.groups:
            count, most = sum(len(each.shard.groups) for each in self._partitions), self._config.kohort_groups_max
            if count >= most:
                self._log(command, "kohort.groups.max", f"there are {count} groups already, the limit is {most}")
                return False
        size, most = _size(command), self._config.kohort_group_member_max_bytes
        if size > most:
            why = f"its member sends {size} bytes about itself, the limit is {most}"
            self._log(command, "kohort.group.member.max.bytes", why)
        return size <= most

    def _log(self, command: Command, setting: str, why: str) -> None:
        text = "group %r was refused: %s (%s)"
        self._warnings.warning(setting, self._clock.now_ms, text, command.group_id, why, setting)


def _size(command: Command) -> int:
    """Return how many bytes a member sends about itself."""
    if isinstance(command, Join):
        return sum(len(name) + len(metadata) for name, metadata in command.protocols)
    if isinstance(command, ConsumerHeartbeat):
        return sum(map(len, command.subscribed_topic_names or ())) + len(command.subscribed_topic_regex or "")
    if isinstance(command, StreamsHeartbeat) and command.topology is not None:
        return len(repr(command.topology))
    return 0


log = logging.getLogger("kohort.node")

OFFSETS_TOPIC = "__consumer_offsets"

GROUP_STEPS = 4
"""What looking at one group counts in a turn of the event loop."""


class Coordinator:
    """All groups of one node. Start it after the node's topics are known."""

    def __init__(
        self,
        services: Services,
        assignors: Mapping[str, ServerAssignor],
        observer: GroupObserver | None,
        rights: ExpressionRights | None = None,
    ) -> None:
        self._services = services
        self._rights = rights
        self._config = services.config
        self._clock = services.clock
        self._topics = services.topics
        self._image = NodeTopics(services.topics, services.config.broker_rack, rights)
        configs = services.state.group_configs
        self._settings = group_settings(
            services.config, self._image, assignors, configs.effective, configs.effective_streams
        )
        self.partitions: list[OffsetsPartition] = []
        """The offsets partitions of this node."""
        self._empty = Shard(self._settings)
        self.runtime = Runtime(services, self.partitions, observer)
        self._partition_by_group = self.runtime.partition_by_group
        self._limits = GroupLimits(services.config, services.clock, self.partitions)

    # -- life

    def start(self) -> None:
        """Replay every partition that has a log and take its groups up."""
        self._topics.on_change.append(self._topic_changed)
        if self._rights is not None:
            self._services.state.acls.on_change.append(self._acls_changed)
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is not None:
            self._host(topic)
        self._check_expiry(self._clock.now_ms)

    def stop(self) -> None:
        """Write the last events; parked requests die with their connections."""
        self.runtime.stop()

    def ensure_topic(self) -> Topic:
        """Return `__consumer_offsets`, created if there is none. Raises KafkaError, StorageError."""
        found = self._topics.get(OFFSETS_TOPIC)
        if found is not None and self.partitions:
            return found
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }
        partitions = self._config.offsets_topic_num_partitions
        topic = self._topics.ensure_internal(OFFSETS_TOPIC, partitions, configs, self._clock.now_ms)
        if not self.partitions:
            self._host(topic)
        return topic

    def _host(self, topic: Topic) -> None:
        ignored = self._config.ignored_offsets
        self.partitions += [
            OffsetsPartition(partition, self._settings, ignored(partition.index)) for partition in topic.partitions
        ]
        progress = Progress(self._clock.elapsed_us)
        for hosted in self.partitions:
            hosted.partition.on_lost = partial(self.runtime.unload, hosted)
            if hosted.partition.may_have_files:
                self.runtime.load(hosted, progress)
            else:
                hosted.status = Status.ACTIVE
        progress.ended(sum(len(hosted.shard.groups) for hosted in self.partitions))

    # -- asking

    def submit(self, command: Command, ticket: Ticket) -> None:
        """Decide a command; `ticket` gets the result, at once or when the group comes to it."""
        hosted = self._active(command, ticket)
        if hosted is None:
            return
        is_known = type(command) is CommitOffsets and command.group_id in hosted.shard.groups
        if not is_known and not self._limits.admits(hosted, command):
            ticket(refusal(command, ErrorCode.POLICY_VIOLATION))
            return
        if type(command) is CommitOffsets and command.producer is None:
            self.runtime.note_commit(hosted, command)
            self.runtime.gather(hosted, command, ticket)
        else:
            self.runtime.run(hosted, command, ticket)
            if type(command) is DeleteGroup:
                self._partition_by_group.pop(command.group_id, None)

    def takes(self, command: CommitOffsets) -> bool:
        """Whether a group would take a commit now."""
        hosted = self.runtime.hosted(command.group_id)
        if hosted is None or hosted.status is not Status.ACTIVE:
            return False
        shard = hosted.shard
        return not commit_error(shard.groups.get(command.group_id), command, shard.settings)

    def heartbeat(self, command: Heartbeat, ticket: Ticket, client: ClientSoftware = UNNAMED) -> ParkedClassic | None:
        """Decide a heartbeat. It may be parked: then its connection must release or drop it."""
        hosted = self._partition_by_group.get(command.group_id)
        if hosted is None or hosted.status is not Status.ACTIVE:
            hosted = self._active(command, ticket)
        if not hosted:
            return None
        return self.runtime.heartbeat(hosted, command, ticket, client)

    def epoch_heartbeat(self, command: EpochHeartbeat, ticket: Ticket) -> ParkedEpoch | None:
        """Decide a heartbeat with a member epoch. It may be parked: then its connection must release or drop it."""
        hosted = self._partition_by_group.get(command.group_id)
        if hosted is None or hosted.status is not Status.ACTIVE:
            hosted = self._active(command, ticket)
        is_bare = isinstance(command, ConsumerHeartbeat) and command.subscribed_topic_names is None
        is_checked = command.member_epoch == 0 or not is_bare
        if is_checked and hosted and not self._limits.admits(hosted, command):
            ticket(refusal(command, ErrorCode.POLICY_VIOLATION))
            return None
        return self.runtime.epoch_heartbeat(hosted, command, ticket) if hosted else None

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that a group is in."""
        return group_partition(group_id, len(self.partitions) or self._config.offsets_topic_num_partitions)

    def load_error(self, group_id: str) -> ErrorCode:
        """Return why a group cannot be described now, or NONE."""
        hosted = self.runtime.hosted(group_id)
        return ErrorCode.NONE if hosted is None or hosted.status is Status.ACTIVE else hosted.error

    def describe(self, group_id: str) -> DescribedGroup | None:
        """Return what an operator sees of a group, None when there is no such group."""
        return describe(self._shard(group_id), group_id)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup | None:
        """Return what an operator sees of a consumer group, None when there is no such group."""
        return describe_consumer(self._shard(group_id), group_id)

    def has_group(self, group_id: str) -> bool:
        """Whether there is a group of that id, of whatever type."""
        return group_id in self._shard(group_id).groups

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """Return a streams group, to be read only, None when there is no such group."""
        return streams_group(self._shard(group_id), group_id)

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> Iterator[ListedGroup]:
        """Yield the groups of this node, partition by partition."""
        for hosted in self.partitions:
            self.runtime.commit_gathered(hosted)
            if hosted.status is Status.ACTIVE:
                yield from list_groups(hosted.shard, states, types)

    def is_loading(self) -> bool:
        """Whether some partition is not replayed yet."""
        return any(hosted.status is Status.LOADING for hosted in self.partitions)

    def fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return why a sender that names a member may not read a group's offsets, or NONE."""
        return fetch_error(self._shard(group_id).groups.get(group_id), member_id, epoch)

    def offset(self, group_id: str, topic: str, partition: int, topic_id: bytes) -> OffsetCommitted | None:
        """Return a committed offset, or None."""
        return fetch_offset(self._shard(group_id), group_id, topic, partition, topic_id)

    def offsets(self, group_id: str) -> list[OffsetCommitted]:
        """Return every committed offset of a group, by topic and partition."""
        committed = self._shard(group_id).offsets.get(group_id, {})
        return [committed[key] for key in sorted(committed)]

    def _shard(self, group_id: str) -> Shard:
        hosted = self.runtime.hosted(group_id)
        return self._empty if hosted is None else hosted.shard

    def _active(self, command: Command, ticket: Ticket) -> OffsetsPartition | None:
        """Return the partition of a command's group; None when the command was refused."""
        hosted = self._partition_by_group.get(command.group_id) or self._placed(command, ticket)
        if hosted is None or hosted.status is Status.ACTIVE:
            return hosted
        ticket(refusal(command, hosted.error))
        return None

    def _placed(self, command: Command, ticket: Ticket) -> OffsetsPartition | None:
        """Return the partition of a command's group, made if there is none; None when the command was refused."""
        try:
            self.ensure_topic()
        except (KafkaError, StorageError) as error:
            log.error("%s cannot be created: %s", OFFSETS_TOPIC, error)
            ticket(refusal(command, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return None
        return self._partition_by_group[command.group_id]

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker was appended to an offsets partition: the transaction's offsets take effect, or do not."""
        self.ensure_topic()
        hosted = self.partitions[partition]
        self.runtime.commit_gathered(hosted)
        if hosted.status is Status.ACTIVE:
            apply(hosted.shard, OffsetsTransactionEnded(producer_id, is_commit))

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction commits the offset of a partition."""
        return self._shard(group_id).pending.is_pending(group_id, topic, partition)

    # -- what happens without a request

    def _check_expiry(self, now_ms: int) -> None:  # noqa: ARG002
        self._services.steps.in_slices(self._expire())

    def _expire(self) -> Steps[None]:
        for hosted in self.partitions:
            for group_id in sorted(hosted.shard.groups):
                if hosted.status is Status.ACTIVE and group_id in hosted.shard.groups:
                    self.runtime.run(hosted, ExpireOffsets(group_id), None)
                yield GROUP_STEPS
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._services.timers.arm("offsets expiry", self._clock.now_ms + interval_ms, self._check_expiry)

    def _topic_changed(self, name: str) -> None:
        """Pass a change of a topic to the groups that subscribe to it; forget the commits of a deleted topic."""
        is_gone = self._topics.get(name) is None
        for hosted in self.partitions:
            self.runtime.commit_gathered(hosted)
            if hosted.status is not Status.ACTIVE:
                continue
            if is_gone:
                for group_id in sorted(hosted.shard.offsets):
                    self.runtime.run(hosted, ForgetTopic(group_id, name), None)
            for group_id in followers_of(hosted.shard, name):
                if self._follows(hosted.shard.groups[group_id], name):
                    self.runtime.run(hosted, TopicChanged(group_id, name), None)

    def add_partitions(self, topic: Topic, count: int) -> Steps[None]:
        """Commit, for the groups that read a topic, the first offsets of partitions that it is about to get."""
        first = len(topic.partitions)
        for hosted in self.partitions:
            self.runtime.commit_gathered(hosted)
            for group_id in sorted(hosted.shard.groups):
                if hosted.status is Status.ACTIVE:
                    self.runtime.run(hosted, GrowTopic(group_id, topic.name, topic.topic_id, first, count), None)
                yield GROUP_STEPS

    def note_sender(self, group_id: str, sender: Sender, *, has_expression: bool) -> None:
        """Note with whose rights the expressions of a group are resolved: those of the member that sent one last.

        It is called before each heartbeat of the consumer protocol where there is an authorizer.
        """
        if self._rights is None or not (has_expression or group_id in self._shard(group_id).groups):
            return
        if not self._rights.note(group_id, sender, has_expression=has_expression):
            return
        hosted = self.runtime.hosted(group_id)
        if hosted is not None and hosted.status is Status.ACTIVE:
            self._resolve_again(hosted, group_id)

    def _acls_changed(self, kinds: frozenset[ResourceType]) -> None:
        if ResourceType.TOPIC in kinds:
            for hosted in self.partitions:
                if hosted.status is Status.ACTIVE:
                    for group_id in sorted(hosted.shard.groups):
                        self._resolve_again(hosted, group_id)

    def _resolve_again(self, hosted: OffsetsPartition, group_id: str) -> None:
        group = hosted.shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and group.regex_subscribers:
            self.runtime.run(hosted, TopicChanged(group_id, None), None)

    def _follows(self, group: Group, name: str) -> bool:
        """Whether a topic is one that a group subscribes to, by name or by expression, or that its topology has."""
        if isinstance(group, StreamsGroup):
            return True
        if not isinstance(group, ConsumerGroup):
            return False
        is_matched = self._image.is_matched
        return name in group.subscribers or any(is_matched(regex, name) for regex in group.regex_subscribers)
