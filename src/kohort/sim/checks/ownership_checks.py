"""Who has a partition: by what members act on, and by what the log grants.

Two members may act on one partition only while one of them is out by the log and cannot know it yet: its partitions
are orphans then, and nothing that it commits for them may be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.group.events import MemberAssignmentStored, MemberState, OffsetCommitted
from kohort.group.invariants import NO_DOUBLE_OWNERSHIP, WITHHOLDING
from kohort.group.shard import Shard
from kohort.model.assignment import Partitions
from kohort.model.cause import CauseKind
from kohort.model.id_partitions import each
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Place
from kohort.sim.checks.world_ledgers import Ledgers
from kohort.sim.kernel.world_observer import SeenMember

NOTHING: Partitions = frozenset()
_NO_PLACES: dict[Place, int] = {}


class Holding:
    """One partition in one member's hands: under which id it came there, and of which topic it was then."""

    __slots__ = ("is_orphan", "member", "member_id", "topic_id")

    def __init__(self, member: SeenMember, member_id: str, topic_id: bytes) -> None:
        self.member = member
        self.member_id = member_id
        self.topic_id = topic_id
        self.is_orphan = False


class OwnershipChecker(Checker):
    """NoDoubleOwnership and Withholding."""

    invariants = (NO_DOUBLE_OWNERSHIP, WITHHOLDING)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._held: dict[str, dict[TopicPartition, dict[str, Holding]]] = {}
        """By group and partition, who acts on it, by name."""
        self._owned: dict[str, Partitions] = {}
        """By name, what each member acts on."""
        self._latest: dict[str, bytes] = {}
        self._former: dict[str, bytes] = {}
        """By name, the id of the topic that bears it, and of the last one that did."""
        self._orphans = 0
        ledgers.before(MemberAssignmentStored, self._granted)
        ledgers.after(OffsetCommitted, self._committed)

    # -- by what members act on

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        """Compare what a member acts on from now with what others do."""
        before = self._owned.get(member.name, NOTHING)
        held = self._held.setdefault(member.group_id, {})
        for partition in sorted(before - partitions):
            holders = held[partition]
            self._orphans -= holders.pop(member.name).is_orphan
            if not holders:
                del held[partition]
        for partition in sorted(partitions - before):
            self._take(member, partition, held.setdefault(partition, {}))
        if partitions:
            self._owned[member.name] = partitions
        else:
            self._owned.pop(member.name, None)

    def _take(self, member: SeenMember, partition: TopicPartition, holders: dict[str, Holding]) -> None:
        self.count(NO_DOUBLE_OWNERSHIP)
        member_id = member.identity.member_id
        holding = Holding(member, member_id, self._topic_id(member.group_id, member_id, partition))
        for other in holders.values():
            self._judge(partition, other, holding)
        holders[member.name] = holding

    def _judge(self, partition: TopicPartition, other: Holding, mine: Holding) -> None:
        if other.topic_id != mine.topic_id:
            return  # it acts on a topic that is no more
        ledger = self._ledgers.group(mine.member.group_id)
        outsider = next((each for each in (other, mine) if ledger.is_out(each.member_id)), None)
        if outsider is not None:
            self._orphans += not outsider.is_orphan
            outsider.is_orphan = True
            return
        self.broken(
            NO_DOUBLE_OWNERSHIP,
            f"{mine.member.name} ({mine.member_id}) takes {partition}, on which {other.member.name} "
            f"({other.member_id}) still acts; both are members of {mine.member.group_id}",
        )

    def _topic_id(self, group_id: str, member_id: str, partition: TopicPartition) -> bytes:
        """Return of which topic a partition is: of the one that bears the name now, or of the one that did before.

        A member that was granted the partition of a topic that is no more by now may hear of it only now.
        """
        shard = self._ledgers.shards.get(group_id)
        found = None if shard is None else shard.settings.image.topic(partition.topic)
        topic_id = NO_TOPIC_ID if found is None else found.topic_id
        self._named(partition.topic, topic_id)
        native = self._ledgers.group(group_id).natives.get(member_id)
        if native is None or (topic_id, partition.partition) in native.held:
            return topic_id
        return self._former.get(partition.topic, topic_id)

    def _named(self, name: str, topic_id: bytes) -> None:
        if topic_id != self._latest.get(name, topic_id):
            self._former[name] = self._latest[name]
        self._latest[name] = topic_id

    def _committed(self, _: GroupLedger, event: OffsetCommitted, shard: Shard) -> None:
        if not self._orphans or not event.member_id:
            return
        partition = TopicPartition(event.topic, event.partition)
        for holding in self._held.get(event.group_id, {}).get(partition, {}).values():
            if holding.is_orphan and holding.member_id == event.member_id and holding.topic_id == event.topic_id:
                self.broken(
                    NO_DOUBLE_OWNERSHIP,
                    f"{holding.member.name} ({holding.member_id}) was put out and {partition} is another's, "
                    f"but its commit of {event.offset} is accepted",
                )

    # -- by what the log grants

    def _granted(self, ledger: GroupLedger, event: MemberAssignmentStored, shard: Shard) -> None:
        member = ledger.natives.get(event.member_id)
        before = member.held if member is not None else _NO_PLACES
        image = shard.settings.image
        for held in event.assigned:
            if (topic := image.topic_by_id(held.topic_id)) is not None:
                self._named(topic.name, held.topic_id)
            for number in held.partitions:
                place = (held.topic_id, number)
                if place in before:
                    continue
                self.count(WITHHOLDING)
                other = ledger.asker.get(place)
                if other is not None and other != event.member_id:
                    self.broken(
                        WITHHOLDING,
                        f"{event.group_id}: {event.member_id} is granted {held.topic_id.hex()[:8]}-{number} at epoch "
                        f"{event.epoch}, which {other} has since epoch {ledger.natives[other].held[place]}",
                    )
        if event.cause.kind is CauseKind.MEMBER_RECONCILED and event.state is MemberState.UNRELEASED_PARTITIONS:
            self._demand_withheld(ledger, event)

    def _demand_withheld(self, ledger: GroupLedger, event: MemberAssignmentStored) -> None:
        """Who is kept waiting waits for somebody else (KAFKA-19449)."""
        member = ledger.natives.get(event.member_id)
        if member is None:
            return
        self.count(WITHHOLDING)
        granted = {(held.topic_id, number) for held in event.assigned for number in held.partitions}
        missing = [place for place in each(member.target) if place not in granted]
        if all(ledger.asker.get(place, event.member_id) == event.member_id for place in missing):
            self.broken(
                WITHHOLDING,
                f"{event.group_id}: {event.member_id} is kept waiting in epoch {event.epoch}, and nobody else has any "
                f"of the {len(missing)} partitions that it waits for",
            )

    def acting(self, group_id: str) -> Iterator[tuple[TopicPartition, Holding]]:
        """Yield what the members of a group act on, by partition and name."""
        for partition, holders in sorted(self._held.get(group_id, {}).items()):
            for name in sorted(holders):
                yield partition, holders[name]


__all__ = ["Holding", "OwnershipChecker"]
