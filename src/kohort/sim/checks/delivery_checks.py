"""Delivery of records: all of them, in order, and none again that had been committed (at least once).

For each partition of a group it is known how far records were delivered without a gap. A new owner begins where the
group's commit stood between the assignment and its OffsetFetch; a member commits only what was delivered to it.
"""

from __future__ import annotations

from kohort.group.events import OffsetCommitted, OffsetDeleted, OffsetPending
from kohort.group.shard import Shard
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import NEVER, GroupLedger, Ledgers
from kohort.sim.checks.invariants import AT_LEAST_ONCE
from kohort.sim.kernel.world_observer import Offsets, SeenMember, SeenNode


class Reading:
    """One member reading one partition; `low` and `high` are the lowest and the highest offset committed meanwhile."""

    __slots__ = ("high", "low", "next_offset", "topic_id")

    def __init__(self, topic_id: bytes, committed: int) -> None:
        self.topic_id = topic_id
        self.low = self.high = committed
        self.next_offset = NEVER


class ReadingChecker(Checker):
    """AtLeastOnce."""

    invariants = (AT_LEAST_ONCE,)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._readings: dict[str, dict[TopicPartition, Reading]] = {}
        """By member's name."""
        self._owned: dict[str, Partitions] = {}
        self._members: dict[str, SeenMember] = {}
        self._reached: dict[tuple[str, TopicPartition, bytes], int] = {}
        """By group, partition and topic: up to where records were handed out, without a gap."""
        ledgers.after(OffsetCommitted, self._committed)
        ledgers.after(OffsetDeleted, self._forgotten)
        self._in_transactions: set[tuple[str, TopicPartition]] = set()
        """By group and partition: what is committed in transactions, whose end is no event of a group."""
        ledgers.after(OffsetPending, self._pending)

    # -- what is committed

    def _committed(self, _: GroupLedger, event: OffsetCommitted, __: Shard) -> None:
        partition = TopicPartition(event.topic, event.partition)
        for name, readings in self._readings.items():
            reading = readings.get(partition)
            if reading is not None and self._members[name].group_id == event.group_id:
                reading.low = min(reading.low, event.offset)
                reading.high = max(reading.high, event.offset)
        if not event.member_id:
            # A client outside of the group moves it: what it is moved past need not be read.
            key = (event.group_id, partition, event.topic_id)
            self._reached[key] = max(self._reached.get(key, event.offset), event.offset)

    def _pending(self, _: GroupLedger, event: OffsetPending, __: Shard) -> None:
        self._in_transactions.add((event.group_id, TopicPartition(event.committed.topic, event.committed.partition)))

    def _forgotten(self, _: GroupLedger, event: OffsetDeleted, __: Shard) -> None:
        partition = TopicPartition(event.topic, event.partition)
        for name, readings in self._readings.items():
            reading = readings.get(partition)
            if reading is not None and self._members[name].group_id == event.group_id:
                reading.low = NEVER

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """The log may have less now than what was seen in it: a load is when that shows."""
        for name, readings in self._readings.items():
            ledger = self._ledgers.groups[self._members[name].group_id]
            for (topic, number), reading in readings.items():
                committed = ledger.committed(topic, number, reading.topic_id)
                reading.low = min(reading.low, committed)

    # -- what members do

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        """Begin and end readings."""
        name = member.name
        before = self._owned.get(name, frozenset())
        readings = self._readings.setdefault(name, {})
        for partition in sorted(before - partitions):
            readings.pop(partition, None)
        ledger = self._ledgers.groups[member.group_id]
        for partition in sorted(partitions - before):
            topic_id = self._ledgers.topic_id(member.group_id, partition.topic)
            readings[partition] = Reading(topic_id, ledger.committed(*partition, topic_id))
        self._owned[name] = partitions
        self._members[name] = member

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        """Compare where a member begins with what was committed."""
        reading = self._readings.get(member.name, {}).get(partition)
        if reading is None:
            return  # it has given it up meanwhile
        self.count(AT_LEAST_ONCE)
        topic_id = self._ledgers.topic_id(member.group_id, partition.topic)
        if reading.topic_id != topic_id:
            reading.topic_id = topic_id
            reading.low = reading.high = NEVER  # the topic is another one of that name
        elif partition.topic in self._ledgers.renewed or (member.group_id, partition) in self._in_transactions:
            pass
        elif why == "committed" and not reading.low <= offset <= reading.high:
            self.broken(
                AT_LEAST_ONCE,
                f"{member.name} begins {partition} at {offset} as committed, and between {reading.low} and "
                f"{reading.high} was committed since it got it",
            )
        elif why == "reset" and self._could_continue(partition, reading):
            self.broken(
                AT_LEAST_ONCE,
                f"{member.name} begins {partition} anew at {offset}, and {member.group_id} had committed {reading.low}",
            )
        key = (member.group_id, partition, reading.topic_id)
        reached = self._reached.setdefault(key, offset)
        if why != "committed":
            self._reached[key] = max(reached, offset)
        elif partition.topic not in self._ledgers.renewed:
            text = f"{member.name} begins {partition} at {offset}, and {member.group_id} had read up to {reached} only"
            self.require(offset <= reached, AT_LEAST_ONCE, text)
        reading.next_offset = offset

    def _could_continue(self, partition: TopicPartition, reading: Reading) -> bool:
        """Whether there was a commit ever since the member got the partition, and the log has what follows it."""
        if reading.low == NEVER or reading.next_offset != NEVER:
            return False
        for node in self._ledgers.nodes:
            hosted = None if node.node is None else node.node.topics.partition(*partition)
            if hosted is not None and hosted.topic.topic_id == reading.topic_id:
                return hosted.log.log_start_offset <= reading.low and reading.high <= hosted.log.log_end_offset
        return False

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        """Check that records follow on each other, and that the member acts on their partition."""
        self.count(AT_LEAST_ONCE)
        reading = self._readings.get(member.name, {}).get(partition)
        if reading is None:
            self.broken(
                AT_LEAST_ONCE, f"{member.name} hands out {partition}@{first}, and does not own the partition any more"
            )
        text = f"{member.name} hands out {partition}@{first}, and {reading.next_offset} was the next"
        self.require(reading.next_offset in (NEVER, first), AT_LEAST_ONCE, text)
        reading.next_offset = next_offset
        key = (member.group_id, partition, reading.topic_id)
        reached = self._reached.get(key, first)
        if first <= reached < next_offset:
            self._reached[key] = next_offset

    def commit_sent(self, member: SeenMember, number: int, offsets: Offsets) -> None:
        """See that a member has been handed out what it reports as read."""
        for partition, offset in offsets.items():
            reading = self._readings.get(member.name, {}).get(partition)
            if reading is None or reading.next_offset == NEVER or partition.topic in self._ledgers.renewed:
                continue
            text = f"{member.name} commits {partition}@{offset}, and was handed out up to {reading.next_offset}"
            self.compare(offset <= reading.next_offset, AT_LEAST_ONCE, text)

    def member_ended(self, member: SeenMember, how: str) -> None:
        self._readings.pop(member.name, None)
        self._owned.pop(member.name, None)

    # -- the end

    def ended(self) -> None:
        """See that all that is in the logs was handed out to those who read it."""
        for node in self._ledgers.nodes:
            assert node.node is not None, "a node that runs is there"
            for name, readings in sorted(self._readings.items()):
                group_id = self._members[name].group_id
                if self._ledgers.groups[group_id].is_out(self._members[name].identity.member_id):
                    continue  # its user has gone away, and what it had is another's
                for partition, reading in sorted(readings.items()):
                    hosted = node.node.topics.partition(*partition)
                    if (
                        hosted is None
                        or hosted.topic.topic_id != reading.topic_id
                        or partition.topic in self._ledgers.renewed
                    ):
                        continue
                    end = hosted.log.log_end_offset
                    is_read = end == hosted.log.log_start_offset or reading.next_offset >= end
                    text = f"{name} owns {partition} of {group_id} and has read up to {reading.next_offset} of {end}"
                    self.compare(is_read, AT_LEAST_ONCE, text)
