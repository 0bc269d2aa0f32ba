"""Share groups: their records, constructed in the order of Kafka's coordinator.

Our coordinator has no share groups, so they cannot be simulated: members join and leave one at a time, and partitions
are dealt out in turn. Epochs, and targets before assignments, are in the order in which Kafka writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from tests.fleets.simulated_group import GROUP, Piece, host_token, member_token

from kohort.log.consumer_records import group_key, part_key
from kohort.sim.kernel.host import WALL_MS
from kohort.wire.codec import encode
from kohort.wire.message import Message
from kohort.wire.messages import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)
from kohort.wire.record_batches import Record

Topics = Mapping[str, tuple[bytes, int]]
Partitions = Sequence[tuple[str, int]]
STEP_MS = 400
"""Time between the records of a rebalance that different heartbeats cause."""
FIRST_EPOCH = 2
MEMBER_TYPES = (14, 13, 10)
"""The record types of which a member that leaves has tombstones, in order."""


class ShareGroup:
    """A share group whose members join and leave."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.epoch = FIRST_EPOCH - 1
        self.births = 0
        self._members: dict[int, str] = {}
        """By number the member's id."""
        self._member_epochs: dict[str, int] = {}
        self._now_ms = self._began_ms = WALL_MS
        self._records: list[Record] = []

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of a group with three members that is deployed twice."""
        for number in range(3):
            self._join(number)
        yield self._cut()
        for _ in range(2):
            for number in range(3):
                self._leave(number)
                self._now_ms += 8_000
                self._join(number)
            yield self._cut()

    def _join(self, number: int) -> None:
        self.births += 1
        member_id = self._members[number] = str(UUID(int=self.births << 64 | number, version=4))
        self._member_epochs[member_id] = 0
        metadata = ShareGroupMemberMetadataValue(
            rack_id=None,
            client_id=member_token(number),
            client_host="/" + host_token(self.births),
            subscribed_topic_names=sorted(self.topics),
        )
        self._put(metadata, member_id)
        self._rebalance()

    def _leave(self, number: int) -> None:
        member_id = self._members.pop(number)
        del self._member_epochs[member_id]
        for record_type in MEMBER_TYPES:
            self._records.append(Record(0, self._now_ms, part_key(record_type, GROUP, member_id), None))
        self._rebalance()

    def _rebalance(self) -> None:
        """Write a new epoch and its target, and let each member reach it."""
        self.epoch += 1
        self._put(ShareGroupMetadataValue(epoch=self.epoch, metadata_hash=7))
        if self.epoch == FIRST_EPOCH:
            topic = ShareGroupStatePartitionMetadataValue.InitializedTopic
            ready = [
                topic(topic_id=topic_id, topic_name=name, partitions=list(range(count)))
                for name, (topic_id, count) in sorted(self.topics.items())
            ]
            self._put(ShareGroupStatePartitionMetadataValue(initialized_topics=ready))
        partitions = [(topic, index) for topic, (_, count) in sorted(self.topics.items()) for index in range(count)]
        member_ids = list(self._member_epochs)
        dealt = {each: partitions[place :: len(member_ids)] for place, each in enumerate(member_ids)}
        for member_id, target in dealt.items():
            part = ShareGroupTargetAssignmentMemberValue.TopicPartition
            assigned = [part(topic_id=topic_id, partitions=each) for topic_id, each in self._by_id(target).items()]
            self._put(ShareGroupTargetAssignmentMemberValue(topic_partitions=assigned), member_id)
        epoch = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=self.epoch, assignment_timestamp=self._now_ms)
        self._put(epoch)
        for member_id, target in dealt.items():
            self._now_ms += STEP_MS
            self._put(self._assignment(self._member_epochs[member_id], target), member_id)
            self._member_epochs[member_id] = self.epoch

    def _assignment(self, previous_epoch: int, partitions: Partitions) -> Message:
        part = ShareGroupCurrentMemberAssignmentValue.AssignedPartition
        assigned = [part(topic_id=topic_id, partitions=each) for topic_id, each in self._by_id(partitions).items()]
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch, previous_member_epoch=previous_epoch, assigned_partitions=assigned
        )

    def _by_id(self, partitions: Partitions) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for topic, index in partitions:
            found.setdefault(self.topics[topic][0], []).append(index)
        return found

    def _put(self, value: Message, member_id: str | None = None) -> None:
        kind = value.RECORD_TYPE
        key = group_key(kind, GROUP) if member_id is None else part_key(kind, GROUP, member_id)
        self._records.append(Record(0, self._now_ms, key, b"\0\0" + encode(value, 0)))

    def _cut(self) -> Piece:
        self._now_ms += 5_000
        piece = Piece(self._began_ms, self._now_ms, True, self._records)
        self._records, self._began_ms = [], self._now_ms
        return piece
