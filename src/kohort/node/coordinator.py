"""The group coordinator's runtime: it carries out what `kohort.group` decides.

For each decision: its records are appended as one batch, then its events are applied, then replies leave, then timers
are set, then what follows from it is decided. If the append fails nothing of the decision happens. Commits that come
together share a batch of records: no commit's decision depends on another's. It knows no protocol rule and no API
version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kohort.group.commands import (
    AppendFailed,
    Command,
    CommitOffsets,
    ExpireOffsets,
    ForgetTopic,
    Heartbeat,
    TimerFired,
    Unload,
)
from kohort.group.describe import DescribedGroup, ListedGroup, describe, list_groups
from kohort.group.effects import Append, Arm, Disarm, Effect, Effects, Note, Park, Parked, Reply, Then
from kohort.group.events import HardEvent, OffsetCommitted
from kohort.group.offset_rules import fetch_error
from kohort.group.offsets import fetch_offset
from kohort.group.results import HeartbeatResult, Result, SyncResult
from kohort.group.shard import append_error, apply, decide
from kohort.group.timers import Timer, TimerKind
from kohort.log.disk import StorageError
from kohort.log.offsets_topic import encode_events
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import group_partition
from kohort.node.event_topic import EventTopic
from kohort.node.group_settings import group_settings
from kohort.node.offsets_partition import OffsetsPartition, Status, Ticket, failure, refusal
from kohort.node.parking import Kept, Parking

if TYPE_CHECKING:
    from kohort.node.node import Node
    from kohort.node.topics import Topic

log = logging.getLogger("kohort.node")

OFFSETS_TOPIC = "__consumer_offsets"
RELOAD_MS = 1_000
"""How long after a failed flush a partition is replayed from what the disk holds."""

_PLACES = 100_000
"""How many group ids are remembered with their partition."""

GATHERED = 256
"""How many commits are appended together at most."""


class Coordinator:
    """All groups of one node. Start it after the node's topics are known."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._settings = group_settings(node.config)
        self._partitions: list[OffsetsPartition] = []
        self._places: dict[str, OffsetsPartition] = {}
        self._parked: dict[Parked, Ticket] = {}
        self._parking = Parking(node.timers, self._answer_of)
        self._is_parking: bool = node.config.kohort_group_heartbeat_park
        self._has_changed = False
        """Whether something happened to a group that its kept heartbeats have not been asked about."""
        self._events = EventTopic(node)

    # -- life

    def start(self, now_ms: int) -> None:
        """Replay every partition that has a log and take its groups up."""
        self._node.topics.on_change.append(self._topic_changed)
        topic = self._node.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            self._host(topic, now_ms)
        self._check_expiry(now_ms)

    def stop(self, now_ms: int) -> None:
        """Write the last events; parked requests die with their connections."""
        self._events.flush(now_ms)

    def ensure_topic(self, now_ms: int) -> Topic:
        """Return `__consumer_offsets`, created if there is none. Raises KafkaError, StorageError."""
        topic = self._node.topics.get(OFFSETS_TOPIC)
        if topic is None:
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self._node.config.offsets_topic_segment_bytes),
            }
            partitions = self._node.config.offsets_topic_num_partitions
            topic = self._node.topics.create(OFFSETS_TOPIC, partitions, configs, now_ms)
        if not self._partitions:
            self._host(topic, now_ms)
        return topic

    def _host(self, topic: Topic, now_ms: int) -> None:
        self._partitions = [OffsetsPartition(partition, self._settings) for partition in topic.partitions]
        for hosted in self._partitions:
            if self._node.disk.exists(hosted.partition.directory):
                self._load(hosted, now_ms)
            else:
                hosted.status = Status.ACTIVE

    def _load(self, hosted: OffsetsPartition, now_ms: int) -> None:
        for command in hosted.load():
            self._run(hosted, command, None, now_ms)

    # -- asking

    def submit(self, command: Command, ticket: Ticket, now_ms: int) -> None:
        """Decide a command; `ticket` gets the result, at once or when the group comes to it."""
        hosted = self._places.get(command.group_id)
        if hosted is None:
            try:
                hosted = self._place(command.group_id, now_ms)
            except (KafkaError, StorageError) as error:
                log.error("%s cannot be created: %s", OFFSETS_TOPIC, error)
                ticket(refusal(command, ErrorCode.COORDINATOR_NOT_AVAILABLE))
                return
        if hosted.status is not Status.ACTIVE:
            ticket(refusal(command, hosted.error))
        elif type(command) is CommitOffsets:
            self._gather(hosted, command, ticket)
        else:
            self._run(hosted, command, ticket, now_ms)

    def heartbeat(self, command: Heartbeat, ticket: Ticket, now_ms: int) -> Kept | None:
        """Decide a heartbeat. One that has nothing to say may be kept: then its connection must release or drop it."""
        hosted = self._places.get(command.group_id)
        if hosted is None or hosted.status is not Status.ACTIVE:
            self.submit(command, ticket, now_ms)
            return None
        kept = None
        # Its decision comes as a tuple, the answer first.
        for effect in decide(hosted.shard, command, now_ms):
            if type(effect) is Reply:
                result = effect.result
            elif type(effect) is Arm:
                timer = effect.timer
                if not self._node.timers.move(timer, effect.deadline_ms):
                    self._node.timers.arm(timer, effect.deadline_ms, partial(self._fire, timer))
                if self._is_parking and type(result) is HeartbeatResult and result.is_quiet:
                    kept = self._parking.keep(command, ticket, effect.deadline_ms - now_ms, now_ms)
        if kept is None:
            ticket(result)
        return kept

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that holds a group."""
        return group_partition(group_id, len(self._partitions) or self._node.config.offsets_topic_num_partitions)

    def load_error(self, group_id: str) -> ErrorCode:
        """Return why nothing can be said about a group now, or NONE."""
        hosted = self._hosted(group_id)
        return ErrorCode.NONE if hosted is None or hosted.status is Status.ACTIVE else hosted.error

    def describe(self, group_id: str) -> DescribedGroup | None:
        """Return what an operator sees of a group, None when there is no such group."""
        hosted = self._hosted(group_id)
        return None if hosted is None else describe(hosted.shard, group_id)

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> Iterator[ListedGroup]:
        """Yield the groups of this node, partition by partition."""
        for hosted in self._partitions:
            self._commit_gathered(hosted)
            if hosted.status is Status.ACTIVE:
                yield from list_groups(hosted.shard, states, types)

    def is_loading(self) -> bool:
        """Whether some partition is not replayed yet."""
        return any(hosted.status is Status.LOADING for hosted in self._partitions)

    def fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return why a sender that says who it is may not read a group's offsets, or NONE."""
        hosted = self._hosted(group_id)
        return ErrorCode.NONE if hosted is None else fetch_error(hosted.shard.groups.get(group_id), member_id, epoch)

    def offset(self, group_id: str, topic: str, partition: int, topic_id: bytes) -> OffsetCommitted | None:
        """Return a committed offset, or None."""
        hosted = self._hosted(group_id)
        return None if hosted is None else fetch_offset(hosted.shard, group_id, topic, partition, topic_id)

    def offsets(self, group_id: str) -> list[OffsetCommitted]:
        """Return every committed offset of a group, by topic and partition."""
        hosted = self._hosted(group_id)
        held = {} if hosted is None else hosted.shard.offsets.get(group_id, {})
        return [held[key] for key in sorted(held)]

    def _hosted(self, group_id: str) -> OffsetsPartition | None:
        if not self._partitions:
            return None
        hosted = self._partitions[self.partition_of(group_id)]
        if hosted.gathered:
            self._commit_gathered(hosted)
        return hosted

    def _place(self, group_id: str, now_ms: int) -> OffsetsPartition:
        self.ensure_topic(now_ms)
        if len(self._places) >= _PLACES:
            self._places.clear()
        hosted = self._places[group_id] = self._partitions[self.partition_of(group_id)]
        return hosted

    # -- commits, which are many

    def _gather(self, hosted: OffsetsPartition, command: CommitOffsets, ticket: Ticket) -> None:
        """Keep a commit until this batch of input ends, or something else is asked of its partition."""
        if not hosted.gathered:
            self._node.durability.postpone(partial(self._commit_gathered, hosted))
        hosted.gathered.append((command, ticket))
        if len(hosted.gathered) >= GATHERED:
            self._commit_gathered(hosted)

    def _commit_gathered(self, hosted: OffsetsPartition) -> None:
        """Carry out the commits that were gathered: as if each had been alone, with one append for all."""
        gathered, hosted.gathered = hosted.gathered, []
        if hosted.status is not Status.ACTIVE:
            for command, ticket in gathered:
                ticket(refusal(command, hosted.error))
            return
        shard, now_ms = hosted.shard, self._node.now_ms
        # A first commit may make its group, on which the next one's decision then depends.
        if len(gathered) > 1 and all(command.group_id in shard.groups for command, _ in gathered):
            decisions = [list(decide(shard, command, now_ms)) for command, _ in gathered]
            records = _records([effect for decision in decisions for effect in decision])
            if not records or not self._append(hosted, records, now_ms):
                for (command, ticket), decision in zip(gathered, decisions, strict=True):
                    self._complete(hosted, command, decision, ticket, now_ms)
                return
            # What one of them cannot store must not cost the others.
        for command, ticket in gathered:
            self._run(hosted, command, ticket, now_ms)

    # -- running

    def _run(self, hosted: OffsetsPartition, command: Command, ticket: Ticket | None, now_ms: int) -> None:
        """Carry out a command and everything that follows from it."""
        if hosted.gathered:
            self._commit_gathered(hosted)
        group_id = command.group_id
        followers = self._carry_out(hosted, command, decide(hosted.shard, command, now_ms), ticket, now_ms)
        while followers:
            command = followers.pop(0)
            followers += self._carry_out(hosted, command, decide(hosted.shard, command, now_ms), ticket, now_ms)
        if self._has_changed:
            self._has_changed = False
            self._parking.group_changed(group_id, now_ms)

    def _carry_out(
        self, hosted: OffsetsPartition, command: Command, effects: Effects, ticket: Ticket | None, now_ms: int
    ) -> list[Command]:
        """Carry out one decision and return what is to be decided next."""
        decision = list(effects)
        records = _records(decision)
        if records and (error := self._append(hosted, records, now_ms)):
            failed = AppendFailed(command, error)
            return self._carry_out(hosted, failed, decide(hosted.shard, failed, now_ms), ticket, now_ms)
        return self._complete(hosted, command, decision, ticket, now_ms)

    def _complete(
        self, hosted: OffsetsPartition, command: Command, decision: list[Effect], ticket: Ticket | None, now_ms: int
    ) -> list[Command]:
        """Let a decision happen whose records are in the log, and return what is to be decided next."""
        shard, timers = hosted.shard, self._node.timers
        ready: list[tuple[Ticket, Result]] = []
        followers: list[Command] = []
        for effect in decision:
            if type(effect) is Append or type(effect) is Note:
                event = effect.event
                apply(shard, event)
                if type(event) is not OffsetCommitted:
                    self._has_changed = True
                    self._events.note(shard, event, now_ms)
            elif type(effect) is Reply:
                waiting = ticket if effect.to is None else self._parked.pop(effect.to, None)
                if waiting is not None:
                    ready.append((waiting, effect.result))
                if type(effect.result) is SyncResult and not effect.result.error:
                    member_id = effect.to.member_id if effect.to else getattr(command, "member_id", "")
                    self._parking.begin(member_id, now_ms)
            elif type(effect) is Arm:
                timers.arm(effect.timer, effect.deadline_ms, partial(self._fire, effect.timer))
            elif type(effect) is Disarm:
                timers.disarm(effect.timer)
                if effect.timer.kind is TimerKind.SESSION:
                    self._parking.forget(effect.timer.member_id)
            elif type(effect) is Then:
                followers.append(effect.command)
            elif type(effect) is Park and ticket is not None:
                self._parked[effect.at] = ticket
        if ready:
            self._answer(hosted, ready)
        return followers

    def _append(self, hosted: OffsetsPartition, events: list[HardEvent], now_ms: int) -> ErrorCode:
        """Append the records of one decision; return what kept them out of the log, or NONE."""
        try:
            hosted.partition.append([encode_events(events, now_ms)], now_ms)
        except StorageError as error:
            log.error("append to %s: %s", hosted.partition.directory, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except KafkaError as error:
            log.error("append to %s: %s", hosted.partition.directory, error)
            return error.code
        return ErrorCode.NONE

    def _answer_of(self, command: Heartbeat, now_ms: int) -> HeartbeatResult:
        """Return what a kept heartbeat would be answered now."""
        hosted = self._partitions[self.partition_of(command.group_id)]
        if hosted.status is Status.ACTIVE:
            for effect in decide(hosted.shard, command, now_ms):
                if type(effect) is Reply and type(effect.result) is HeartbeatResult:
                    return effect.result
        return HeartbeatResult(hosted.error)

    def _answer(self, hosted: OffsetsPartition, ready: list[tuple[Ticket, Result]]) -> None:
        """Let replies go, once the records before them are as durable as the log promises."""
        if hosted.partition.flushes:
            held = partial(self._release, hosted, ready)
            if self._node.durability.when_durable(hosted.partition, held):
                return
        for ticket, result in ready:
            ticket(result)

    def _release(self, hosted: OffsetsPartition, ready: list[tuple[Ticket, Result]], error: ErrorCode) -> None:
        """Let held replies go; after a failed flush they are errors, and what we believe is not what is stored."""
        for ticket, result in ready:
            ticket(failure(result, append_error(error)) if error else result)
        if error and hosted.status is Status.ACTIVE:
            self._give_up(hosted, self._node.now_ms)

    def _give_up(self, hosted: OffsetsPartition, now_ms: int) -> None:
        """Forget a partition's groups, and replay what the disk holds a little later."""
        for group_id in sorted(hosted.shard.groups):
            self._run(hosted, Unload(group_id), None, now_ms)
        hosted.fail("a flush failed")
        self._node.timers.arm(("reload", hosted.partition.index), now_ms + RELOAD_MS, partial(self._load, hosted))

    def _fire(self, timer: Timer, now_ms: int) -> None:
        if timer.kind is TimerKind.SESSION:
            self._parking.forget(timer.member_id)
        hosted = self._hosted(timer.group_id)
        if hosted is not None and hosted.status is Status.ACTIVE:
            self._run(hosted, TimerFired(timer), None, now_ms)

    def _check_expiry(self, now_ms: int) -> None:
        interval_ms = self._node.config.offsets_retention_check_interval_ms
        self._node.timers.arm("offsets expiry", now_ms + interval_ms, self._check_expiry)
        for hosted in self._partitions:
            if hosted.status is Status.ACTIVE:
                for group_id in sorted(hosted.shard.groups):
                    self._run(hosted, ExpireOffsets(group_id), None, now_ms)

    def _topic_changed(self, name: str) -> None:
        if self._node.topics.get(name) is not None:
            return
        for hosted in self._partitions:
            self._commit_gathered(hosted)
            if hosted.status is Status.ACTIVE:
                for group_id in sorted(hosted.shard.offsets):
                    self._run(hosted, ForgetTopic(group_id, name), None, self._node.now_ms)


def _records(decision: list[Effect]) -> list[HardEvent]:
    return [effect.event for effect in decision if type(effect) is Append]
