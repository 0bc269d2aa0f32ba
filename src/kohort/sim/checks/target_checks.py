"""What a target says, and that whoever has reached it has all of it (KIP-848); the same of a classic assignment."""

from __future__ import annotations

from kohort.group.events import GroupStored, MemberAssignmentStored, MemberState, TargetStored
from kohort.group.image import ImageTopic
from kohort.group.invariants import STABLE_MEANS_CONVERGED, TARGET_LEGAL
from kohort.group.shard import Shard
from kohort.model.id_partitions import each
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Place
from kohort.sim.checks.world_ledgers import Ledgers


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
            return  # what members had before a conversion, or the target of nobody
        self.count(TARGET_LEGAL)
        owners: dict[Place, str] = {}
        wanted: dict[str, ImageTopic] = {}
        for member_id, member in ledger.natives.items():
            names = ledger.names_of(member)
            for name in sorted(names):
                if name not in wanted and (found := image.topic(name)) is not None:
                    wanted[name] = found
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
                self.broken(TARGET_LEGAL, f"{group_id}: in epoch {event.epoch} {place[0].hex()[:8]}-{place[1]} {text}")
        for name, topic in wanted.items():
            for number in range(topic.partitions):
                if (topic.topic_id, number) not in owners:
                    self.broken(TARGET_LEGAL, f"{group_id}: in epoch {event.epoch} {name}-{number} is in no target")

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
            text = f"with {surplus[0][0].hex()[:8]}-{surplus[0][1]}, which its target does not hold"
        self.broken(
            STABLE_MEANS_CONVERGED,
            f"{event.group_id}: {event.member_id} calls itself STABLE at target epoch {event.epoch} {text}",
        )

    def _instance_came_back(self, ledger: GroupLedger, event: GroupStored, shard: Shard) -> None:
        """The members of a generation want what they wanted when it was assigned (KAFKA-12759)."""
        if not event.is_synced or event.generation != ledger.generation or not ledger.is_synced:
            return
        topics_of = shard.settings.topics_of
        before = {stored.instance_id: stored for stored in ledger.members.values() if stored.instance_id is not None}
        for stored in event.members:
            known = before.get(stored.instance_id or "")
            if known is None or known.member_id == stored.member_id:
                continue
            self.count(STABLE_MEANS_CONVERGED)
            wanted, wants = topics_of(known.subscription), topics_of(stored.subscription)
            if wanted is not None and wants is not None and wanted != wants:
                self.broken(
                    STABLE_MEANS_CONVERGED,
                    f"{event.group_id}: generation {event.generation} goes on, though {stored.instance_id} came back "
                    f"and wants {sorted(wants)} where it was assigned for {sorted(wanted)}",
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
            for partition in sorted(assignment.partitions):
                other = owners.setdefault(partition, stored.member_id)
                if other != stored.member_id:
                    self.broken(
                        TARGET_LEGAL,
                        f"{event.group_id}: in generation {event.generation} {partition} is assigned to {other} "
                        f"and to {stored.member_id}",
                    )


__all__ = ["TargetChecker"]
