"""What a healed world owes: answers in time, and in the end a group in which everybody has its share.

For any client, by what it shows and what the coordinator knows; a world that knows its plan can ask more.
"""

from __future__ import annotations

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup, GroupState
from kohort.group.invariants import CONVERGES_AFTER_HEALING, EVERY_PARKED_REPLY_ANSWERED
from kohort.group.shard import Shard
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.world_ledgers import Ledgers, hosted_by
from kohort.sim.kernel.world_observer import SeenMember

GRACE_US = 30_000_000
"""After so long a healed world has no half-open connection left that a request could be sent on."""

_PARKED = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat"})


class EndChecker(Checker):
    """ConvergesAfterHealing, and EveryParkedReplyAnswered where a client sees it."""

    invariants = (CONVERGES_AFTER_HEALING, EVERY_PARKED_REPLY_ANSWERED)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._healed_us: int | None = None
        self._members: dict[str, SeenMember] = {}
        self._owned: dict[str, Partitions] = {}
        self._asked_us: dict[tuple[str, str], int] = {}

    def healed(self) -> None:
        """From here on nothing breaks any more."""
        self._healed_us = self.now_us

    def fault(self, name: str, subject: str, detail: str) -> None:
        """A fault after the healing, of a world that is led by hand, begins it anew."""
        if self._healed_us is not None:
            self._healed_us = self.now_us

    def member_started(self, member: SeenMember) -> None:
        """Count it in."""
        self._members[member.name] = member

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Count it out."""
        self._members.pop(member.name, None)
        self._owned.pop(member.name, None)
        for request in sorted(_PARKED):
            self._asked_us.pop((member.name, request), None)

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        """Note what it acts on."""
        self._owned[member.name] = partitions

    # -- answers

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Note when a request that may wait was sent."""
        if request in _PARKED:
            self._asked_us[member.name, request] = self.now_us

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """A request of a healed world is answered."""
        asked_us = self._asked_us.pop((member.name, request), None)
        if asked_us is None or self._healed_us is None or asked_us < self._healed_us + GRACE_US:
            return
        self.count(EVERY_PARKED_REPLY_ANSWERED)
        if error is ErrorCode.REQUEST_TIMED_OUT:
            waited_s = (self.now_us - asked_us) / 1_000_000
            self.broken(
                EVERY_PARKED_REPLY_ANSWERED,
                f"{request} of {member.name} got no answer within {waited_s:.1f} s, and nothing is broken any more",
            )

    # -- the end

    def ended(self) -> None:
        """See that everybody is in its group, and that every partition which the group reads has one owner."""
        if self._healed_us is None:
            return
        groups: dict[str, list[SeenMember]] = {}
        for name in sorted(self._members):
            groups.setdefault(self._members[name].group_id, []).append(self._members[name])
        for node in self._ledgers.nodes:
            if node.node is None:
                continue
            for hosted in hosted_by(node.node):
                for group_id, group in sorted(hosted.shard.groups.items()):
                    if group_id in groups:
                        self.count(CONVERGES_AFTER_HEALING)
                        if lack := self._lack_of(hosted.shard, group, groups[group_id]):
                            self.broken(CONVERGES_AFTER_HEALING, f"{group_id}: {lack}")

    def _lack_of(self, shard: Shard, group: ClassicGroup | ConsumerGroup, members: list[SeenMember]) -> str | None:
        if isinstance(group, ClassicGroup):
            if group.phase not in (Phase.STABLE, Phase.EMPTY):
                return f"it is {group.phase} in the end"
            topics: set[str] = set()
            for member in group.members.values():
                topics |= shard.settings.topics_of(member.metadata(group.protocol_name)) or set()
        else:
            if group.state not in (GroupState.STABLE, GroupState.EMPTY):
                return f"it is {group.state} in the end"
            topics = set(group.subscribers).union(*(stored.topics for stored in group.regexes.values()))
        ids = {member.identity.member_id for member in members}
        if strangers := sorted(group.members.keys() - ids):
            return f"{strangers[0]} is in it, and nobody is {strangers[0]} any more"
        owned: dict[TopicPartition, str] = {}
        ledger = self._ledgers.group(group.group_id)
        for each in members:
            if ledger.is_out(each.identity.member_id):
                continue  # its user has gone away with what it had, and has not come back to hear of it
            for partition in sorted(self._owned.get(each.name, ())):
                if partition in owned:
                    return f"{owned[partition]} and {each.name} both own {partition}"
                owned[partition] = each.name
        for name in sorted(topics):
            topic = shard.settings.image.topic(name)
            for number in range(0 if topic is None else topic.partitions):
                if TopicPartition(name, number) not in owned:
                    return f"nobody owns {name}-{number}"
        return None


__all__ = ["EndChecker"]
