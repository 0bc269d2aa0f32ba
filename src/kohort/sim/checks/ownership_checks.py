"""Who owns a partition: by what members act on, by what the log grants, by targets, and over a change of type.

Two members may act on one partition only while one of them is out by the log and cannot know it yet: its partitions
are orphans then, and none of its commits for them may be accepted. A target assigns each partition once, a member that
is STABLE has all of its target, and a group that changes its type changes no owner (KIP-848, migration).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from kohort.group.coordinator_settings import ImageTopic
from kohort.group.events import (
    GroupConverted,
    GroupStored,
    MemberAssignmentStored,
    MemberState,
    OffsetCommitted,
    TargetStored,
)
from kohort.group.shard import Shard
from kohort.model.assignment import Partitions, each
from kohort.model.cause import CauseKind
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Ledgers, Place
from kohort.sim.checks.invariants import (
    MIGRATION_KEEPS_OWNERS,
    NO_DOUBLE_OWNERSHIP,
    STABLE_MEANS_CONVERGED,
    TARGET_LEGAL,
    WITHHOLDING,
)
from kohort.sim.kernel.world_observer import SeenMember

_NO_PLACES: dict[Place, int] = {}


@dataclass(slots=True)
class ActingMember:
    """A member that acts on a partition: under which id that was assigned, and of which topic it was then."""

    member: SeenMember
    member_id: str
    topic_id: bytes
    is_orphan: bool = False


class OwnershipChecker(Checker):
    """NoDoubleOwnership and Withacting."""

    invariants = (NO_DOUBLE_OWNERSHIP, WITHHOLDING)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._acting: dict[str, dict[TopicPartition, dict[str, ActingMember]]] = {}
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
        before = self._owned.get(member.name, frozenset())
        acting = self._acting.setdefault(member.group_id, {})
        for partition in sorted(before - partitions):
            holders = acting[partition]
            self._orphans -= holders.pop(member.name).is_orphan
            if not holders:
                del acting[partition]
        for partition in sorted(partitions - before):
            self._take(member, partition, acting.setdefault(partition, {}))
        if partitions:
            self._owned[member.name] = partitions
        else:
            self._owned.pop(member.name, None)

    def _take(self, member: SeenMember, partition: TopicPartition, holders: dict[str, ActingMember]) -> None:
        self.count(NO_DOUBLE_OWNERSHIP)
        member_id = member.identity.member_id
        acting = ActingMember(member, member_id, self._topic_id(member.group_id, member_id, partition))
        for other in holders.values():
            self._judge(partition, other, acting)
        holders[member.name] = acting

    def _judge(self, partition: TopicPartition, other: ActingMember, mine: ActingMember) -> None:
        if other.topic_id != mine.topic_id:
            return  # it acts on a topic that is no more
        ledger = self._ledgers.groups[mine.member.group_id]
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

        A member that was granted the partition of a deleted topic may learn of the grant only now.
        """
        topic_id = self._ledgers.topic_id(group_id, partition.topic)
        self._named(partition.topic, topic_id)
        native = self._ledgers.groups[group_id].natives.get(member_id)
        if native is None or (topic_id, partition.partition) in native.owned:
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
        for acting in self._acting.get(event.group_id, {}).get(partition, {}).values():
            if acting.is_orphan and acting.member_id == event.member_id and acting.topic_id == event.topic_id:
                self.broken(
                    NO_DOUBLE_OWNERSHIP,
                    f"{acting.member.name} ({acting.member_id}) was removed and {partition} is another's, "
                    f"but its commit of {event.offset} is accepted",
                )

    # -- by what the log grants

    def _granted(self, ledger: GroupLedger, event: MemberAssignmentStored, shard: Shard) -> None:
        member = ledger.natives.get(event.member_id)
        before = member.owned if member is not None else _NO_PLACES
        image = shard.settings.image
        for granted in event.assigned:
            if (topic := image.topic_by_id(granted.topic_id)) is not None:
                self._named(topic.name, granted.topic_id)
            for number in granted.partitions:
                place = (granted.topic_id, number)
                if place in before:
                    continue
                self.count(WITHHOLDING)
                other = ledger.asker.get(place)
                if other is not None and other != event.member_id:
                    self.broken(
                        WITHHOLDING,
                        f"{event.group_id}: {event.member_id} is granted {_text(place)} at epoch "
                        f"{event.epoch}, which {other} has since epoch {ledger.natives[other].owned[place]}",
                    )
        if event.cause.kind is CauseKind.MEMBER_RECONCILED and event.state is MemberState.UNRELEASED_PARTITIONS:
            self._demand_withheld(ledger, event)

    def _demand_withheld(self, ledger: GroupLedger, event: MemberAssignmentStored) -> None:
        """Partitions are withheld only while another member has them (KAFKA-19449)."""
        member = ledger.natives.get(event.member_id)
        if member is None:
            return
        self.count(WITHHOLDING)
        granted = {(topic.topic_id, number) for topic in event.assigned for number in topic.partitions}
        missing = [place for place in each(member.target) if place not in granted]
        if all(ledger.asker.get(place, event.member_id) == event.member_id for place in missing):
            self.broken(
                WITHHOLDING,
                f"{event.group_id}: {event.member_id} waits in epoch {event.epoch}, and no other has any "
                f"of the {len(missing)} partitions that it waits for",
            )

    def acting(self, group_id: str) -> Iterator[tuple[TopicPartition, ActingMember]]:
        """Yield what the members of a group act on, by partition and name."""
        for partition, holders in sorted(self._acting.get(group_id, {}).items()):
            for name in sorted(holders):
                yield partition, holders[name]


class TargetChecker(Checker):
    """TargetLegal and StableMeansConverged."""

    invariants = (TARGET_LEGAL, STABLE_MEANS_CONVERGED)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        ledgers.after(TargetStored, self._target_stored)
        ledgers.after(MemberAssignmentStored, self._assignment_stored)
        ledgers.before(GroupStored, self._instance_came_back)
        ledgers.after(GroupStored, self._generation_stored)

    def _target_stored(self, ledger: GroupLedger, event: TargetStored, shard: Shard) -> None:
        group_id, image = event.group_id, shard.settings.image
        if event.timestamp_ms == 0:
            return  # assignments of before a conversion, or the target of no member
        self.count(TARGET_LEGAL)
        owners: dict[Place, str] = {}
        assigned_for: dict[str, ImageTopic] = {}
        for member_id, member in ledger.natives.items():
            names = ledger.names_of(member)
            for name in sorted(names):
                if name not in assigned_for and (found := image.topic(name)) is not None:
                    assigned_for[name] = found
            for place in each(member.target):
                other = owners.setdefault(place, member_id)
                topic = image.topic_by_id(place[0])
                if other != member_id:
                    text = f"is in the targets of {other} and {member_id}"
                elif topic is None or place[1] >= topic.partitions:
                    text = f"is in the target of {member_id}, and does not exist"
                elif topic.name not in names:
                    text = f"is in the target of {member_id}, which subscribes to {sorted(names)}"
                else:
                    continue
                self.broken(TARGET_LEGAL, f"{group_id}: in epoch {event.epoch} {_text(place)} {text}")
        for name, topic in assigned_for.items():
            for number in range(topic.partitions):
                text = f"{group_id}: in epoch {event.epoch} {name}-{number} is in no target"
                self.require((topic.topic_id, number) in owners, TARGET_LEGAL, text)

    def _assignment_stored(self, ledger: GroupLedger, event: MemberAssignmentStored, shard: Shard) -> None:
        if event.epoch != ledger.target_epoch or event.state is not MemberState.STABLE:
            return
        self.count(STABLE_MEANS_CONVERGED)
        member, image = ledger.natives[event.member_id], shard.settings.image
        target = set(each(member.target))
        names = ledger.names_of(member)
        for place in sorted(target - member.assigned):
            topic = image.topic_by_id(place[0])
            if topic is not None and topic.name in names:
                text = f"without {topic.name}-{place[1]} of its target"
                break
        else:
            if not (surplus := sorted(member.assigned - target)):
                return
            text = f"with {_text(surplus[0])}, which its target lacks"
        who = f"{event.group_id}: {event.member_id}"
        self.broken(STABLE_MEANS_CONVERGED, f"{who} calls itself STABLE at target epoch {event.epoch} {text}")

    def _instance_came_back(self, ledger: GroupLedger, event: GroupStored, shard: Shard) -> None:
        """The members of a generation have the subscription for which it was assigned (KAFKA-12759)."""
        if not event.is_synced or event.generation != ledger.generation or not ledger.is_synced:
            return
        topics_of = shard.settings.topics_of
        before = {stored.instance_id: stored for stored in ledger.members.values() if stored.instance_id is not None}
        for stored in event.members:
            known = before.get(stored.instance_id or "")
            if known is None or known.member_id == stored.member_id:
                continue
            self.count(STABLE_MEANS_CONVERGED)
            assigned_for, subscribed = topics_of(known.subscription), topics_of(stored.subscription)
            if assigned_for is not None and subscribed is not None and assigned_for != subscribed:
                self.broken(
                    STABLE_MEANS_CONVERGED,
                    f"{event.group_id}: generation {event.generation} continues, though {stored.instance_id} came back "
                    f"and subscribes to {sorted(subscribed)}, but the assignment is for {sorted(assigned_for)}",
                )

    def _generation_stored(self, _: GroupLedger, event: GroupStored, shard: Shard) -> None:
        if not event.is_synced or event.protocol_type != "consumer":
            return
        owners: dict[TopicPartition, str] = {}
        for stored in event.members:
            assignment = shard.settings.assignment_of(stored.assignment) if stored.assignment else None
            if assignment is None:
                continue
            self.count(TARGET_LEGAL)
            where = f"{event.group_id}: in generation {event.generation}"
            for partition in sorted(assignment.partitions):
                other = owners.setdefault(partition, stored.member_id)
                text = f"{where} {partition} is assigned to {other} and to {stored.member_id}"
                self.require(other == stored.member_id, TARGET_LEGAL, text)


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
        owned: dict[str, Collection[Place]] = {id_: member.owned for id_, member in ledger.natives.items()}
        for member_id, stored in sorted(ledger.before.items()):
            assignment = shard.settings.assignment_of(stored.assignment) if stored.assignment else None
            if assignment is not None:
                owed = places_of(assignment.partitions, shard)
                self._compare(event, member_id, owed, owned.get(member_id, ()), "was assigned")
        for partition, acting in self._ownership.acting(event.group_id):
            if acting.is_orphan or acting.member_id not in ledger.before:
                continue
            place = (acting.topic_id, partition.partition)
            if place in places_of((partition,), shard):
                self._compare(event, acting.member_id, {place}, owned.get(acting.member_id, ()), "acts on")

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
            kind = "consumer" if event.is_consumer else "classic"
            what = f"{event.group_id} became a {kind} group of epoch {event.epoch}"
            text = f"{what}: {member_id} {why} {_text(missing[0])} before, and has it no more"
            self.broken(MIGRATION_KEEPS_OWNERS, text)


def places_of(partitions: Iterable[TopicPartition], shard: Shard) -> set[Place]:
    """Return existing partitions by topic id."""
    image = shard.settings.image
    found = {(image.topic(name), number) for name, number in partitions}
    return {(topic.topic_id, number) for topic, number in found if topic is not None and number < topic.partitions}


def _text(place: Place) -> str:
    return f"{place[0].hex()[:8]}-{place[1]}"


def _exists(place: Place, shard: Shard) -> bool:
    topic = shard.settings.image.topic_by_id(place[0])
    return topic is not None and place[1] < topic.partitions
