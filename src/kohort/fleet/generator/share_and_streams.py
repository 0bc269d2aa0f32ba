"""Share groups and streams groups: their records, constructed in the order of Kafka's coordinator.

Our coordinator has neither type, so they cannot be simulated: members join and leave one at a time, and partitions are
dealt out in turn. Epochs, and targets before assignments, are in the order in which Kafka writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any
from uuid import UUID

from kohort.fleet.generator.simulated_group import GROUP, Piece, host_token, member_token
from kohort.sim.kernel.host import WALL_MS
from kohort.wire.codec import encode
from kohort.wire.messages import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)
from kohort.wire.record_batches import Record

_SHORT = Struct(">h").pack
Topics = Mapping[str, tuple[bytes, int]]
STEP_MS = 400
"""Time between the records of a rebalance that different heartbeats cause."""


class _Log:
    """The records of one group; a `cut` ends a piece."""

    def __init__(self) -> None:
        self.now_ms = WALL_MS
        self.pieces: list[Piece] = []
        self.occupied: list[bool] = []
        self._records: list[Record] = []
        self._began_ms = WALL_MS

    def put(self, record_type: int, part: str | None, value: Any) -> None:
        key = _SHORT(record_type) + _text(GROUP) + (b"" if part is None else _text(part))
        written = None if value is None else _SHORT(0) + encode(value, 0)
        self._records.append(Record(0, self.now_ms, key, written))

    def cut(self, *, is_occupied: bool) -> None:
        self.now_ms += 5_000
        self.pieces.append(Piece(self._began_ms, self.now_ms, tuple(self._records)))
        self.occupied.append(is_occupied)
        self._records, self._began_ms = [], self.now_ms


def _text(content: str) -> bytes:
    octets = content.encode()
    return _SHORT(len(octets)) + octets


class ConstructedGroup:
    """A share or streams group whose members join and leave."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.log = _Log()
        self.epoch = 1
        self.members: dict[str, int] = {}
        """By member id its number."""
        self.member_epochs: dict[str, int] = {}
        self._births = 0

    def join(self, number: int) -> None:
        """Let a member join."""
        self._births += 1
        member_id = str(UUID(int=self._births << 64 | number, version=4))
        self.members[member_id] = number
        self.member_epochs[member_id] = 0
        self.put_member(member_id, number)
        self.rebalance()

    def leave(self, number: int) -> None:
        """Let a member leave."""
        member_id = next(each for each, known in self.members.items() if known == number)
        for record_type in self.removal:
            self.log.put(record_type, member_id, None)
        del self.members[member_id], self.member_epochs[member_id]
        self.rebalance()

    def rebalance(self) -> None:
        """Write a new epoch and its target, and let each member reach it."""
        self.epoch += 1
        self.put_group()
        assigned = self.dealt()
        for member_id, partitions in assigned.items():
            self.put_target(member_id, partitions)
        self.put_target_epoch()
        for member_id, partitions in assigned.items():
            self.log.now_ms += STEP_MS
            self.put_assignment(member_id, self.member_epochs[member_id], partitions)
            self.member_epochs[member_id] = self.epoch

    def dealt(self) -> dict[str, list[tuple[str, int]]]:
        """Return the target of each member."""
        assigned: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in self.members}
        order = list(assigned)
        all_of_them = [(topic, index) for topic, (_, count) in sorted(self.topics.items()) for index in range(count)]
        for place, partition in enumerate(all_of_them):
            if order:
                assigned[order[place % len(order)]].append(partition)
        return assigned

    def by_id(self, partitions: Iterable[tuple[str, int]]) -> dict[bytes, list[int]]:
        """Return partitions by topic id."""
        found: dict[bytes, list[int]] = {}
        for topic, index in partitions:
            found.setdefault(self.topics[topic][0], []).append(index)
        return found

    removal: tuple[int, ...]
    """The types of which a member that leaves has tombstones, in order."""
    put_member: Callable[[str, int], None]
    put_group: Callable[[], None]
    put_target: Callable[[str, list[tuple[str, int]]], None]
    put_target_epoch: Callable[[], None]
    put_assignment: Callable[[str, int, list[tuple[str, int]]], None]


class ShareGroup(ConstructedGroup):
    """Types 10 to 15."""

    removal = (14, 13, 10)

    def put_member(self, member_id: str, number: int) -> None:
        value = ShareGroupMemberMetadataValue(
            rack_id=None,
            client_id=member_token(number),
            client_host="/" + host_token(self._births),
            subscribed_topic_names=sorted(self.topics),
        )
        self.log.put(10, member_id, value)

    def put_group(self) -> None:
        self.log.put(11, None, ShareGroupMetadataValue(epoch=self.epoch, metadata_hash=7))
        if self.epoch == 2:
            topic = ShareGroupStatePartitionMetadataValue.InitializedTopic
            ready = [
                topic(topic_id=topic_id, topic_name=name, partitions=list(range(count)))
                for name, (topic_id, count) in sorted(self.topics.items())
            ]
            value = ShareGroupStatePartitionMetadataValue(
                initializing_topics=[], initialized_topics=ready, deleting_topics=[]
            )
            self.log.put(15, None, value)

    def put_target(self, member_id: str, partitions: list[tuple[str, int]]) -> None:
        part = ShareGroupTargetAssignmentMemberValue.TopicPartition
        assigned = [part(topic_id=topic_id, partitions=each) for topic_id, each in self.by_id(partitions).items()]
        self.log.put(13, member_id, ShareGroupTargetAssignmentMemberValue(topic_partitions=assigned))

    def put_target_epoch(self) -> None:
        value = ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=self.log.now_ms
        )
        self.log.put(12, None, value)

    def put_assignment(self, member_id: str, before: int, partitions: list[tuple[str, int]]) -> None:
        part = ShareGroupCurrentMemberAssignmentValue.AssignedPartition
        assigned = [part(topic_id=topic_id, partitions=each) for topic_id, each in self.by_id(partitions).items()]
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch, previous_member_epoch=before, state=0, assigned_partitions=assigned
        )
        self.log.put(14, member_id, value)


class StreamsGroup(ConstructedGroup):
    """Types 17 to 23: one subtopology that reads all topics."""

    removal = (22, 21, 19)

    def put_member(self, member_id: str, number: int) -> None:
        value = StreamsGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=member_token(number),
            client_host="/" + host_token(self._births),
            rebalance_timeout_ms=300_000,
            topology_epoch=0,
            process_id=member_id,
            user_endpoint=None,
            client_tags=[],
        )
        self.log.put(19, member_id, value)

    def put_group(self) -> None:
        if self.epoch == 2:
            value = StreamsGroupTopologyValue(
                epoch=0,
                subtopologies=[
                    StreamsGroupTopologyValue.Subtopology(
                        subtopology_id="0",
                        source_topics=sorted(self.topics),
                        source_topic_regex=[],
                        state_changelog_topics=[],
                        repartition_sink_topics=[],
                        repartition_source_topics=[],
                        copartition_groups=[],
                    )
                ],
            )
            self.log.put(23, None, value)
        self.log.put(17, None, StreamsGroupMetadataValue(epoch=self.epoch, metadata_hash=9, validated_topology_epoch=0))

    def dealt(self) -> dict[str, list[tuple[str, int]]]:
        """Return the tasks of each member: as many as the widest topic has partitions."""
        assigned: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in self.members}
        order = list(assigned)
        for task in range(max(count for _, count in self.topics.values()) if order else 0):
            assigned[order[task % len(order)]].append(("0", task))
        return assigned

    def put_target(self, member_id: str, partitions: list[tuple[str, int]]) -> None:
        task = StreamsGroupTargetAssignmentMemberValue.ActiveTask
        assigned = [task(subtopology_id="0", partitions=[index for _, index in partitions])] if partitions else []
        value = StreamsGroupTargetAssignmentMemberValue(active_tasks=assigned, standby_tasks=[], warmup_tasks=[])
        self.log.put(21, member_id, value)

    def put_target_epoch(self) -> None:
        value = StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=self.log.now_ms
        )
        self.log.put(20, None, value)

    def put_assignment(self, member_id: str, before: int, partitions: list[tuple[str, int]]) -> None:
        task = StreamsGroupCurrentMemberAssignmentValue.ActiveTask
        indexes = [index for _, index in partitions]
        assigned = [task(subtopology_id="0", partitions=indexes, assignment_epochs=[self.epoch] * len(indexes))]
        value = StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=before,
            state=0,
            active_tasks=assigned if indexes else [],
            standby_tasks=[],
            warmup_tasks=[],
            active_tasks_pending_revocation=[],
            standby_tasks_pending_revocation=[],
            warmup_tasks_pending_revocation=[],
        )
        self.log.put(22, member_id, value)


def played(kind: type[ConstructedGroup], topics: Topics) -> tuple[list[Piece], list[bool]]:
    """Return the pieces of a group with three members that is deployed twice, and whether each ends with members."""
    group = kind(topics)
    for number in range(3):
        group.join(number)
    group.log.cut(is_occupied=True)
    for _ in range(2):
        for number in range(3):
            group.leave(number)
            group.log.now_ms += 8_000
            group.join(number)
        group.log.cut(is_occupied=True)
    return group.log.pieces, group.log.occupied
