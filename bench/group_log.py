"""A log of `__consumer_offsets` as a busy coordinator leaves it before the cleaner comes: the same for every broker.

Of a million records some 830,000 are commits, of classic and of consumer groups; the others belong to rebalances:
generations of the first, and members, targets and assignments of the others. A decision is a batch, as it is live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

from kohort.broker.os_disk import OsDisk
from kohort.group.events import (
    Assigned,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    GroupStored,
    HardEvent,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    OffsetCommitted,
    StoredMember,
    TargetStored,
)
from kohort.log.offsets_topic import encode_events
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.assignment import Assignment
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import TopicPartition, group_partition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription

CAUSE = Cause(CauseKind.MEMBER_JOINED, -1)
NOW_MS = 1_790_000_000_000
PARTITIONS = 12
SEGMENT_BYTES = 100 << 20


TOPIC = "orders-by-customer"
SUBSCRIPTION = encode_subscription(Subscription((TOPIC,)))


@cache
def _assignment(at: int, count: int) -> bytes:
    partitions = frozenset(TopicPartition(TOPIC, index) for index in range(at, PARTITIONS, count))
    return encode_assignment(Assignment(partitions))


class ClassicStory:
    """A classic group of a few members: generations form now and then, members commit in between."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._generation = 0
        self._members: list[str] = []
        self._offset = 0

    def next(self, now_ms: int) -> Sequence[HardEvent]:
        """Return the next decision."""
        if not self._members or self._random.random() < 0.05:
            return [self._form(now_ms)]
        return self._commit(now_ms)

    def _form(self, now_ms: int) -> HardEvent:
        self._generation += 1
        count = self._random.randint(2, 6)
        self._members = [f"{self._name}-client-{n}-{self._random.getrandbits(64):016x}" for n in range(count)]
        members = tuple(
            StoredMember(
                member, None, f"client-{at}", "/192.0.2.1", 300_000, 45_000, SUBSCRIPTION, _assignment(at, count)
            )
            for at, member in enumerate(self._members)
        )
        leader = self._members[0]
        return GroupStored(self._name, "consumer", self._generation, "range", leader, now_ms, members, CAUSE)

    def _commit(self, now_ms: int) -> list[HardEvent]:
        self._offset += self._random.randint(1, 1000)
        share = len(self._members)
        mine = range(self._random.randrange(share), PARTITIONS, share)
        return [OffsetCommitted(self._name, TOPIC, index, self._offset, 0, "", now_ms, -1, b"T" * 16) for index in mine]


class ConsumerStory:
    """A consumer group: members come and go, each change is a target and the steps of the members to it."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._epoch = 1
        self._members: list[str] = []
        self._steps: list[Sequence[HardEvent]] = []
        self._offset = 0

    def next(self, now_ms: int) -> Sequence[HardEvent]:
        """Return the next decision."""
        if self._steps:
            return self._steps.pop(0)
        if len(self._members) < 2 or self._random.random() < 0.05:
            self._change(now_ms)
            return self._steps.pop(0)
        self._offset += self._random.randint(1, 1000)
        mine = range(self._random.randrange(len(self._members)), PARTITIONS, len(self._members))
        return [
            OffsetCommitted(self._name, "payments", index, self._offset, 0, "", now_ms, -1, b"P" * 16) for index in mine
        ]

    def _change(self, now_ms: int) -> None:
        self._epoch += 1
        decision: list[HardEvent] = []
        if len(self._members) > 4:
            gone = self._members.pop(0)
            decision += [
                MemberAssignmentDeleted(self._name, gone, CAUSE),
                MemberTargetDeleted(self._name, gone, CAUSE),
                ConsumerMemberDeleted(self._name, gone, CAUSE),
            ]
        new = f"{self._random.getrandbits(128):032x}"
        self._members.append(new)
        decision += [
            ConsumerMemberStored(
                self._name, new, None, None, "client", "/192.0.2.2", ("payments",), "", 300_000, None, None, CAUSE
            ),
            ConsumerGroupStored(self._name, self._epoch, 0, CAUSE),
        ]
        shares = {member: tuple(range(at, PARTITIONS, len(self._members))) for at, member in enumerate(self._members)}
        for member, share in shares.items():
            decision.append(MemberTargetStored(self._name, member, ((b"P" * 16, share),), CAUSE))
        decision.append(TargetStored(self._name, self._epoch, now_ms, CAUSE))
        self._steps.append(decision)
        for member, share in shares.items():
            held = (Assigned(b"P" * 16, share, (self._epoch,) * len(share)),)
            self._steps.append(
                [
                    MemberAssignmentStored(
                        self._name, member, self._epoch, self._epoch - 1, MemberState.STABLE, held, (), CAUSE
                    )
                ]
            )


def batches(records: int, seed: int = 1, groups: int = 0) -> Iterator[tuple[str, int, bytes]]:
    """Yield the group, the number of records and the bytes of each batch of the log; by default of 500 to a group."""
    random = Random(seed)
    stories: list[ClassicStory | ConsumerStory] = []
    for n in range(groups or max(10, records // 500)):
        kind = ClassicStory if n % 2 else ConsumerStory
        stories.append(kind(f"{'service' if n % 2 else 'worker'}-{n:05d}", random))
    written = 0
    while written < records:
        story = random.choice(stories)
        now_ms = NOW_MS + written
        events = story.next(now_ms)
        written += len(events)
        yield story._name, len(events), encode_events(events, now_ms)


def write(directory: Path, records: int, partitions: int = 1, groups: int = 0) -> int:
    """Write the log of so many records below a folder, and return its bytes."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=("compact",), retention_ms=-1)
    disk = OsDisk(directory)
    directory.mkdir(parents=True, exist_ok=True)
    logs = [PartitionLog.open(disk, f"__consumer_offsets-{index}", config, NOW_MS) for index in range(partitions)]
    for group_id, _, batch in batches(records, groups=groups):
        logs[group_partition(group_id, partitions)].append([batch], leader_epoch=0, now_ms=NOW_MS)
    size = sum(log.size for log in logs)
    for log in logs:
        log.close()
    disk.close()
    return size
