"""Members and their epochs: instances, leaders, fencing; epochs grow, and none is shown before it is stored.

A load after which the log has less than the world had seen breaks these rules too, unless no member had seen it:
replies wait for the records before them.
"""

from __future__ import annotations

from collections import deque

from kohort.group.events import (
    ConsumerGroupStored,
    ConsumerMemberStored,
    GroupStored,
    MemberAdded,
    MemberAssignmentStored,
    StaticMemberReplaced,
    TargetStored,
)
from kohort.group.shard import Shard
from kohort.group.streams.events import StreamsGroupStored
from kohort.model.errors import ErrorCode
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import GroupLedger, Ledgers
from kohort.sim.checks.invariants import (
    EPOCH_MONOTONE,
    FENCED_MEMBER_GETS_ERROR,
    GENERATION_DENSE,
    LEADER_NEVER_ORPHANED,
    STATIC_SLOT_UNIQUE,
)
from kohort.sim.checks.streams_ledger import AWAY
from kohort.sim.kernel.world_observer import SeenMember, SeenNode

_MEMBERS_ONLY = frozenset({"Heartbeat", "SyncGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"})
"""Requests that only a member gets a good answer to."""


class MembershipChecker(Checker):
    """StaticSlotUnique, LeaderNeverOrphaned and FencedMemberGetsError."""

    invariants = (STATIC_SLOT_UNIQUE, LEADER_NEVER_ORPHANED, FENCED_MEMBER_GETS_ERROR)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._replaced: dict[tuple[str, str], str] = {}
        """By group and member id that was replaced: the instance it was."""
        self._lost: dict[tuple[str, str], deque[tuple[int, str] | None]] = {}
        """By member's name and request, for each that is not answered: the number of loads before it and its member id
        where it was out."""
        self._leaving: set[str] = set()
        """Who leaves: to be gone already is as good."""
        ledgers.before(GroupStored, self._generation_stored)
        ledgers.before(MemberAdded, self._added)
        ledgers.before(StaticMemberReplaced, self._static_replaced)
        ledgers.before(ConsumerMemberStored, self._native_stored)

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """A replacement that waited for a round is forgotten in a crash: its old id is the member again."""
        for group_id, member_id in list(self._replaced):
            ledger = self._ledgers.groups[group_id]
            if member_id in ledger.members or member_id in ledger.natives:
                del self._replaced[group_id, member_id]

    # -- instances and leaders

    def _generation_stored(self, ledger: GroupLedger, event: GroupStored, _: Shard) -> None:
        slots: dict[str, str] = {}
        for stored in event.members:
            self._demand_fresh(event.group_id, stored.member_id)
            if stored.instance_id is None:
                continue
            other = slots.setdefault(stored.instance_id, stored.member_id)
            self.count(STATIC_SLOT_UNIQUE)
            self._demand_unique(event.group_id, stored.instance_id, other, stored.member_id)
        ids = {stored.member_id for stored in event.members}
        is_led = event.is_synced if event.leader is None else event.leader in ids
        text = f"{event.group_id}: generation {event.generation} is led by {event.leader}, which is not in it"
        self.compare(is_led, LEADER_NEVER_ORPHANED, text)
        for member_id, stored in ledger.members.items():
            if stored.instance_id is not None and slots.get(stored.instance_id, member_id) != member_id:
                self._replaced[event.group_id, member_id] = stored.instance_id

    def _added(self, _: GroupLedger, event: MemberAdded, __: Shard) -> None:
        self._demand_fresh(event.group_id, event.member_id)

    def _static_replaced(self, _: GroupLedger, event: StaticMemberReplaced, __: Shard) -> None:
        self._demand_fresh(event.group_id, event.member_id)
        self._replaced[event.group_id, event.old_member_id] = event.instance_id

    def _native_stored(self, ledger: GroupLedger, event: ConsumerMemberStored, _: Shard) -> None:
        self._demand_fresh(event.group_id, event.member_id)
        if event.instance_id is None:
            return
        self.count(STATIC_SLOT_UNIQUE)
        for member_id, member in ledger.natives.items():
            if member.instance_id == event.instance_id:
                self._demand_unique(event.group_id, event.instance_id, member_id, event.member_id)

    def _demand_fresh(self, group_id: str, member_id: str) -> None:
        instance_id = self._replaced.get((group_id, member_id))
        text = f"{group_id}: {member_id} was replaced as {instance_id}, and is a member again"
        self.require(instance_id is None, STATIC_SLOT_UNIQUE, text)

    def _demand_unique(self, group_id: str, instance_id: str, one: str, other: str) -> None:
        self.require(one == other, STATIC_SLOT_UNIQUE, f"{group_id}: instance {instance_id} is both {one} and {other}")

    # -- responses to removed members

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Note a request of a member that is out."""
        if request not in _MEMBERS_ONLY:
            return
        epoch, member_id = member.identity
        ledger = self._ledgers.groups[member.group_id]
        key = member.name, request
        ledger.note_shown(member_id, epoch)
        is_leaving = member.name in self._leaving
        is_lost = epoch > 0 and bool(ledger.kind) and ledger.is_out(member_id) and not is_leaving
        # A second heartbeat may be sent while a gateway delays the answer to the first.
        self._lost.setdefault(key, deque()).append((self._ledgers.loads, member_id) if is_lost else None)

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """Compare the answer to it."""
        asked = self._lost.get((member.name, request))
        lost = asked.popleft() if asked else None
        if lost is None:
            return
        loads, member_id = lost
        ledger = self._ledgers.groups[member.group_id]
        if loads != self._ledgers.loads or not ledger.is_out(member_id):
            return  # a crash has forgotten its removal
        text = f"{member.name} ({member_id}) is out of {member.group_id}, and its {request} succeeds"
        self.compare(error is not ErrorCode.NONE, FENCED_MEMBER_GETS_ERROR, text)

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        """Note who leaves, and who does not any more."""
        if state == "leaving":
            self._leaving.add(member.name)
        else:
            self._leaving.discard(member.name)

    def member_ended(self, member: SeenMember, how: str) -> None:
        self._leaving.discard(member.name)
        for request in sorted(_MEMBERS_ONLY):
            self._lost.pop((member.name, request), None)


class EpochChecker(Checker):
    """EpochMonotone and GenerationDense."""

    invariants = (EPOCH_MONOTONE, GENERATION_DENSE)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._shown: dict[str, tuple[str, int]] = {}
        """By member's name: under which id it showed which epoch last."""
        self._highest: dict[str, int] = {}
        """By group, the highest number that its log ever had."""
        ledgers.before(ConsumerGroupStored, self._group_stored)
        ledgers.before(StreamsGroupStored, self._streams_stored)
        ledgers.before(TargetStored, self._target_stored)
        ledgers.before(MemberAssignmentStored, self._assignment_stored)
        ledgers.before(GroupStored, self._generation_stored)

    def _group_stored(self, ledger: GroupLedger, event: ConsumerGroupStored, _: Shard) -> None:
        self._note(event.group_id, event.epoch)
        text = f"{event.group_id}: group epoch {event.epoch} after {ledger.epoch}"
        self.compare(event.epoch >= ledger.epoch, EPOCH_MONOTONE, text)

    def _streams_stored(self, _: GroupLedger, event: StreamsGroupStored, __: Shard) -> None:
        self._note(event.group_id, event.epoch)

    def _target_stored(self, ledger: GroupLedger, event: TargetStored, _: Shard) -> None:
        text = f"{event.group_id}: target epoch {event.epoch} after {ledger.target_epoch}"
        self.compare(event.epoch >= ledger.target_epoch, EPOCH_MONOTONE, text)
        text = f"{event.group_id}: a target of epoch {event.epoch}, the group is at {ledger.epoch}"
        self.require(event.epoch <= ledger.epoch, EPOCH_MONOTONE, text)

    def _assignment_stored(self, ledger: GroupLedger, event: MemberAssignmentStored, _: Shard) -> None:
        text = f"{event.group_id}: {event.member_id} is sent to epoch {event.epoch}, the group is at {ledger.epoch}"
        self.compare(event.epoch <= ledger.epoch, EPOCH_MONOTONE, text)
        member = ledger.natives.get(event.member_id)
        if member is not None and AWAY not in (event.epoch, member.epoch):
            text = f"{event.group_id}: {event.member_id} goes back from {member.epoch} to {event.epoch}"
            self.require(event.epoch >= member.epoch, EPOCH_MONOTONE, text)

    def _generation_stored(self, ledger: GroupLedger, event: GroupStored, _: Shard) -> None:
        group_id, now, before = event.group_id, event.generation, ledger.generation
        self._note(group_id, now)
        if ledger.kind != "classic":
            # New, or a consumer group until now, which continues at its epoch.
            is_next, text = now in (0, 1, before), f"begins at generation {now}, expected {before} or 1"
        elif not event.is_synced or not event.members:
            is_next, text = now == before + 1, f"generation {now} follows {before}, expected {before + 1}"
        else:
            is_next, text = now == before, f"assignments of generation {now}, the stored one is {before}"
        self.compare(is_next, GENERATION_DENSE, f"{group_id}: {text}")

    def _note(self, group_id: str, number: int) -> None:
        self._highest[group_id] = max(number, self._highest.get(group_id, 0))

    # -- what members show

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Compare what a member shows with what the log knows."""
        epoch, member_id = member.identity
        if epoch <= 0:
            self._shown.pop(member.name, None)  # it joins anew, perhaps another group of that name
            return
        known = self._highest.get(member.group_id, 0)
        text = f"{member.name} ({member_id}) shows {epoch} in {request}, the log of {member.group_id} knows {known}"
        self.compare(epoch <= known, GENERATION_DENSE, text)
        before_id, before = self._shown.get(member.name, ("", 0))
        text = f"{member.name} ({member_id}) shows {epoch} after it had shown {before}"
        self.require(before_id != member_id or epoch >= before, EPOCH_MONOTONE, text)
        self._shown[member.name] = (member_id, epoch)

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Forget what it showed: its next process begins anew."""
        self._shown.pop(member.name, None)
