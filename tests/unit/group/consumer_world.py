"""A coordinator of consumer groups in a test's hands: `World` with topics, members, and a scripted assignor.

After every command the log is replayed, which must give the live group again, and it is read as a real Kafka would,
which is strict about the order of tombstones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.unit.group.world import Answer, World, fold, hard_state

from kohort.assign.server.spec import ServerGroup
from kohort.group.commands import CommitOffsets, ConsumerHeartbeat, OffsetToCommit, TopicChanged
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.reconcile import ids_of
from kohort.group.coordinator_settings import ImageTopic
from kohort.group.events import (
    ConsumerGroupDeleted,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    HardEvent,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
)
from kohort.group.results import ConsumerHeartbeatResult
from kohort.group.shard import followers_of
from kohort.model.assignment import IdPartitions, id_partitions
from kohort.model.errors import ErrorCode
from kohort.sim.checks.invariants import violations

SESSION_MS = 45_000
REBALANCE_MS = 60_000


class Topics:
    """A cluster's topics, which a test changes."""

    is_followed = True

    def __init__(self, **partitions: int) -> None:
        self.topics = {name: ImageTopic(name, topic_id(name), count) for name, count in partitions.items()}

    def topic(self, name: str) -> ImageTopic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def matching(self, regex: str, _group_id: str) -> frozenset[str]:
        return frozenset(name for name in self.topics if re.fullmatch(regex, name))

    def regex_error(self, regex: str) -> str | None:
        try:
            re.compile(regex)
        except re.error as error:
            return str(error)
        return None


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"_")


def parts(text: str) -> IdPartitions:
    """Return the partitions of `foo-0,1 bar-2`."""
    topics = [topic.rsplit("-", 1) for topic in text.split()]
    return id_partitions((topic_id(name), map(int, numbers.split(","))) for name, numbers in topics)


class Scripted:
    """An assignor that says what a test wrote, or spreads partitions over who subscribes, each keeping what it can."""

    def __init__(self, name: str = "scripted") -> None:
        self.name = name
        self.script: dict[str, str] | None = None
        self.error: Exception | None = None
        self.seen: list[ServerGroup] = []

    def assign(self, group: ServerGroup) -> Mapping[str, IdPartitions]:
        self.seen.append(group)
        if self.error is not None:
            raise self.error
        if self.script is not None:
            return {member_id: parts(text) for member_id, text in self.script.items() if member_id in group.members}
        return spread(group)


def spread(group: ServerGroup) -> dict[str, IdPartitions]:
    """Return an even target in which members keep what they have, up to their share."""
    given: dict[str, list[tuple[bytes, int]]] = {member_id: [] for member_id in group.members}
    for topic_id_, topic in sorted(group.topics.items()):
        takers = sorted(member_id for member_id, member in group.members.items() if topic_id_ in member.topics)
        share = -(-topic.partitions // len(takers))
        had = {
            number: member_id
            for member_id in takers
            for previous, numbers in group.members[member_id].previous
            if previous == topic_id_
            for number in numbers
            if number < topic.partitions
        }
        counts = dict.fromkeys(takers, 0)
        free = []
        for number in range(topic.partitions):
            owner = had.get(number)
            if owner is not None and counts[owner] < share:
                counts[owner] += 1
                given[owner].append((topic_id_, number))
            else:
                free.append(number)
        for number in free:
            taker = min(takers, key=lambda member_id: (counts[member_id], member_id))
            counts[taker] += 1
            given[taker].append((topic_id_, number))
    return {
        member_id: id_partitions((topic, (number,)) for topic, number in found) for member_id, found in given.items()
    }


class ConsumerWorld(World):
    """A shard with the consumer group `g`, the topics `foo` of six partitions and `bar` of three."""

    def __init__(self, **settings: Any) -> None:
        self.topics = Topics(foo=6, bar=3)
        self.assignor = Scripted()
        assignors = {"scripted": self.assignor}
        super().__init__(**{"image": self.topics, "assignors": assignors, **settings})

    # -- members

    def heartbeat_of(self, member_id: str, epoch: int, **changes: Any) -> Answer:
        return self.submit(ConsumerHeartbeat("g", member_id, epoch, **changes))

    def comes(self, member_id: str, *names: str, **changes: Any) -> Answer:
        """Join with epoch 0."""
        fields = {"subscribed_topic_names": names or ("foo", "bar"), "rebalance_timeout_ms": REBALANCE_MS, "owned": ()}
        return self.heartbeat_of(member_id, 0, **{**fields, **changes})

    def enters(self, member_id: str, *names: str, **changes: Any) -> ConsumerHeartbeatResult:
        """Join, and get in."""
        return heartbeat_result(self.comes(member_id, *names, **changes))

    def beats(self, member_id: str, owned: str | None = None, **changes: Any) -> ConsumerHeartbeatResult:
        """Send a heartbeat at the member's epoch that is answered well; `owned` is what it says it owns."""
        return heartbeat_result(self.tries(member_id, owned, **changes))

    def tries(self, member_id: str, owned: str | None = None, **changes: Any) -> Answer:
        """Send a heartbeat at the member's epoch, whatever is answered."""
        epoch = changes.pop("epoch", None)
        at = self.member(member_id).epoch if epoch is None else epoch
        return self.heartbeat_of(member_id, at, owned=None if owned is None else parts(owned), **changes)

    def goes(self, member_id: str, epoch: int = -1, **changes: Any) -> Answer:
        return self.heartbeat_of(member_id, epoch, **changes)

    def settles(self) -> None:
        """Have all members send heartbeats with the partitions they were granted, until no member has to act."""
        for _ in range(10):
            for member_id in sorted(self.consumer_group().unsettled):
                member = self.member(member_id)
                if member.epoch >= 0:
                    heartbeat_result(self.heartbeat_of(member_id, member.epoch, owned=ids_of(member.assigned)))
        assert not {m for m in self.consumer_group().unsettled if self.member(m).epoch >= 0}

    def stable_with(self, *member_ids: str) -> None:
        """Bring members into a group that is Stable."""
        for member_id in member_ids:
            self.enters(member_id)
        self.settles()

    def plans(self, **script: str) -> None:
        """Say what the next targets are."""
        self.assignor.script = script

    def topic_changes(self, name: str, partitions: int, racks: tuple[frozenset[str], ...] = (), **changes: Any) -> None:
        """Create a topic, or make it larger or another one; no partitions delete it."""
        if partitions:
            self.topics.topics[name] = ImageTopic(name, changes.get("topic_id", topic_id(name)), partitions, racks)
        else:
            del self.topics.topics[name]
        self.woken.clear()
        for group_id in followers_of(self.shard, name):
            self._run(TopicChanged(group_id, name), None)
        self._check()

    def commit_outside(self, group_id: str) -> None:
        """Commit an offset to a group that has no members."""
        result = self.submit(CommitOffsets(group_id, "", None, -1, [OffsetToCommit("foo", 0, 7, -1, "", bytes(16))]))
        assert result.error is ErrorCode.NONE

    # -- asking

    def consumer_group(self) -> ConsumerGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member_id: str) -> ConsumerMember:
        return self.consumer_group().members[member_id]

    def assigned(self, member_id: str) -> IdPartitions:
        return ids_of(self.member(member_id).assigned)

    def state(self, member_id: str) -> tuple[int, MemberState]:
        member = self.member(member_id)
        return member.epoch, member.state

    def last_records(self) -> list[HardEvent]:
        """Return the records of the last part of a decision that had some."""
        return self.log[-1]

    def records_since(self, length: int) -> list[HardEvent]:
        return [record for records in self.log[length:] for record in records]

    def _check(self) -> None:
        super()._check()
        read_as_kafka(record for records in self.log for record in records)
        if not isinstance(self.shard.groups.get("g"), ConsumerGroup):
            return
        folded = fold(self.log, self.settings)
        assert hard_state(folded, "g") == hard_state(self.shard, "g"), "the log is the group"
        assert not violations(folded), violations(folded)


def read_as_kafka(log: Any) -> None:
    """Read a log as strictly as Kafka replays one."""
    members, owning, aiming = set(), set(), set()
    for event in log:
        match event:
            case ConsumerMemberStored():
                members.add(event.member_id)
            case MemberAssignmentStored():
                owning.add(event.member_id)
            case MemberTargetStored():
                aiming.add(event.member_id)
            case MemberAssignmentDeleted():
                owning.discard(event.member_id)
            case MemberTargetDeleted():
                aiming.discard(event.member_id)
            case ConsumerMemberDeleted():
                assert event.member_id not in owning, "what a member owns goes before the member"
                assert event.member_id not in aiming, "a member's target goes before the member"
                members.discard(event.member_id)
            case ConsumerGroupDeleted():
                assert not members | owning | aiming, "members go before their group"


def heartbeat_result(answer: Answer) -> ConsumerHeartbeatResult:
    """Return a heartbeat's result, which must be there and good."""
    assert answer.error is ErrorCode.NONE, answer.result
    result = answer.result
    assert isinstance(result, ConsumerHeartbeatResult)
    return result
