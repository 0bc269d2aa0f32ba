"""Clean closes: what a member had finished is committed before it is gone, where the coordinator takes its commit.

A close is judged only where nothing stood in the way: from the close to the member's departure the log allowed its
commit all the time, no callback raised, and no fault had touched the member, the node or the topic for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.group.events import Event
from kohort.group.invariants import CLOSE_KEEPS_WORK
from kohort.group.shard import Shard
from kohort.member.effects import Callback
from kohort.member.identity import Identity
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.delivery_checks import offset_in
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.group_ledger import GroupLedger
from kohort.sim.checks.world_ledgers import Ledgers
from kohort.sim.kernel.world_observer import SeenMember, SeenNode

QUIET_US = 20_000_000
"""So long before a close and until its end no fault may have touched the member: a connection may be half open."""

RESTORED_US = 3_000_000
"""So long before it the cluster must have been well."""


class Closing:
    """One member that is being closed. `topic_ids` are those of its finished partitions then."""

    __slots__ = ("began_us", "finished", "has_left", "identity", "is_in_doubt", "member", "topic_ids")

    def __init__(
        self, member: SeenMember, finished: dict[TopicPartition, int], topic_ids: dict[str, bytes], began_us: int
    ) -> None:
        self.member = member
        self.identity: Identity = member.identity
        self.finished = finished
        self.topic_ids = topic_ids
        self.began_us = began_us
        self.has_left = False
        """Whether the log says that it is out."""
        self.is_in_doubt = False
        """Whether it was not certain at some moment that its commit would be taken."""


class ClosingChecker(Checker):
    """CloseKeepsWork."""

    invariants = (CLOSE_KEEPS_WORK,)

    def __init__(self, ledgers: Ledgers, faults: FaultsSeen) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._faults = faults
        self._closings: dict[str, Closing] = {}
        """By the member's name."""

    def closing(self, member: SeenMember, finished: Mapping[TopicPartition, int]) -> None:
        """Remember what the member owes, if its commit would be taken now."""
        shard = self._ledgers.shards.get(member.group_id)
        if not finished or shard is None or member.identity.generation < 0:
            return
        image = shard.settings.image
        topics = {name: image.topic(name) for name in sorted({partition.topic for partition in finished})}
        topic_ids = {name: topic.topic_id for name, topic in topics.items() if topic is not None}
        owed = {partition: offset for partition, offset in finished.items() if partition.topic in topic_ids}
        closing = Closing(member, owed, topic_ids, self.now_us)
        if self._is_taken(self._ledgers.group(member.group_id), closing):
            self._closings[member.name] = closing

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """See whether the log still allows the commits of those who are being closed."""
        for closing in self._closings.values():
            if closing.member.group_id != event.group_id or closing.has_left:
                continue
            ledger = self._ledgers.group(event.group_id)
            member_id = closing.identity.member_id
            if ledger.is_out(member_id) and member_id not in ledger.left_behind:
                closing.has_left = True
            elif not self._is_taken(ledger, closing):
                closing.is_in_doubt = True

    def _is_taken(self, ledger: GroupLedger, closing: Closing) -> bool:
        epoch, member_id = closing.identity
        places = [(closing.topic_ids[topic], number) for topic, number in closing.finished]
        return not ledger.is_out(member_id) and all(
            ledger.why_no_commit(member_id, epoch, place) is None for place in places
        )

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        """A callback that raises has not committed."""
        if error is not None and (closing := self._closings.get(member.name)) is not None:
            closing.is_in_doubt = True

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Compare what was finished with what is committed."""
        closing = self._closings.pop(member.name, None)
        if closing is None or how != "closed" or closing.is_in_doubt or self._is_excused(closing):
            return
        ledger = self._ledgers.group(member.group_id)
        for partition, offset in closing.finished.items():
            self.count(CLOSE_KEEPS_WORK)
            committed = offset_in(ledger, *partition, closing.topic_ids[partition.topic])
            if committed < offset:
                self.broken(
                    CLOSE_KEEPS_WORK,
                    f"{member.name} ({closing.identity.member_id}, {closing.identity.generation}) was closed when it "
                    f"had finished {partition} up to {offset}, and {committed} is committed: the rest is read again",
                )

    def _is_excused(self, closing: Closing) -> bool:
        since_us = closing.began_us - QUIET_US
        faults, member = self._faults, closing.member
        return (
            faults.is_cluster_disturbed(closing.began_us - RESTORED_US)
            or faults.is_member_disturbed(member.name, since_us)
            or any(faults.is_topic_changed(topic, since_us) for topic in closing.topic_ids)
        )


__all__ = ["ClosingChecker"]
