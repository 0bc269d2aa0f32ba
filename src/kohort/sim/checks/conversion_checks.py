"""A group that changes its type: whoever had a partition has it in the group that comes after (KIP-848, migration)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kohort.group.events import GroupConverted
from kohort.group.invariants import MIGRATION_KEEPS_OWNERS
from kohort.group.shard import Shard
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Place
from kohort.sim.checks.ownership_checks import OwnershipChecker
from kohort.sim.checks.world_ledgers import Ledgers


class ConversionChecker(Checker):
    """MigrationKeepsOwners."""

    invariants = (MIGRATION_KEEPS_OWNERS,)

    def __init__(self, ledgers: Ledgers, ownership: OwnershipChecker) -> None:
        super().__init__()
        self._ownership = ownership
        ledgers.after(GroupConverted, self._converted)

    def _converted(self, ledger: GroupLedger, event: GroupConverted, shard: Shard) -> None:
        if event.is_consumer:
            self._upgraded(ledger, event, shard)
        else:
            self._downgraded(ledger, event, shard)

    def _upgraded(self, ledger: GroupLedger, event: GroupConverted, shard: Shard) -> None:
        """What was assigned to a member, and what it acts on, it has in the consumer group, or must give back."""
        held: dict[str, Collection[Place]] = {id_: member.held for id_, member in ledger.natives.items()}
        for member_id, stored in sorted(ledger.before.items()):
            assignment = shard.settings.assignment_of(stored.assignment) if stored.assignment else None
            if assignment is not None:
                owed = places_of(assignment.partitions, shard)
                self._compare(event, member_id, owed, held.get(member_id, ()), "was assigned")
        for partition, holding in self._ownership.acting(event.group_id):
            if holding.is_orphan or holding.member_id not in ledger.before:
                continue
            place = (holding.topic_id, partition.partition)
            if place in places_of((partition,), shard):
                self._compare(event, holding.member_id, {place}, held.get(holding.member_id, ()), "acts on")

    def _downgraded(self, ledger: GroupLedger, event: GroupConverted, shard: Shard) -> None:
        """What a member was granted is its assignment in the classic generation."""
        for member_id in event.member_ids:
            granted = ledger.former.get(member_id, frozenset())
            existing = {place for place in granted if _exists(place, shard)}
            stored = ledger.members.get(member_id)
            assignment = None if stored is None else shard.settings.assignment_of(stored.assignment)
            has = set() if assignment is None else places_of(assignment.partitions, shard)
            self._compare(event, member_id, existing, has, "was granted")

    def _compare(
        self, event: GroupConverted, member_id: str, owed: set[Place], has: Collection[Place], why: str
    ) -> None:
        self.count(MIGRATION_KEEPS_OWNERS)
        if missing := sorted(place for place in owed if place not in has):
            topic_id, number = missing[0]
            kind = "consumer" if event.is_consumer else "classic"
            self.broken(
                MIGRATION_KEEPS_OWNERS,
                f"{event.group_id} became a {kind} group of epoch {event.epoch}: {member_id} {why} "
                f"{topic_id.hex()[:8]}-{number} before, and has it no more",
            )


def places_of(partitions: Iterable[TopicPartition], shard: Shard) -> set[Place]:
    """Return existing partitions by topic id."""
    image = shard.settings.image
    found = {(image.topic(name), number) for name, number in partitions}
    return {(topic.topic_id, number) for topic, number in found if topic is not None and number < topic.partitions}


def _exists(place: Place, shard: Shard) -> bool:
    topic = shard.settings.image.topic_by_id(place[0])
    return topic is not None and place[1] < topic.partitions


__all__ = ["ConversionChecker", "places_of"]
