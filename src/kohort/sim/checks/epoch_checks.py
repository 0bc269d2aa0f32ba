"""Epochs and generations: they grow, without gaps where they count rounds, and nobody shows one that is not stored.

A load after which the log knows less than the world had seen breaks them too, unless nobody was told: replies wait for
the records before them.
"""

from __future__ import annotations

from kohort.group.events import ConsumerGroupStored, GroupStored, MemberAssignmentStored, TargetStored
from kohort.group.invariants import EPOCH_MONOTONE, GENERATION_DENSE
from kohort.group.shard import Shard
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import AWAY, GroupLedger
from kohort.sim.checks.world_ledgers import Ledgers
from kohort.sim.kernel.world_observer import SeenMember


class EpochChecker(Checker):
    """EpochMonotone and GenerationDense."""

    invariants = (EPOCH_MONOTONE, GENERATION_DENSE)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._shown: dict[str, tuple[str, int]] = {}
        """By member's name: under which id it showed which epoch last."""
        self._highest: dict[str, int] = {}
        """By group, the highest number that its log ever held."""
        ledgers.before(ConsumerGroupStored, self._group_stored)
        ledgers.before(TargetStored, self._target_stored)
        ledgers.before(MemberAssignmentStored, self._assignment_stored)
        ledgers.before(GroupStored, self._generation_stored)

    def _group_stored(self, ledger: GroupLedger, event: ConsumerGroupStored, _: Shard) -> None:
        self.count(EPOCH_MONOTONE)
        self._note(event.group_id, event.epoch)
        if event.epoch < ledger.epoch:
            self.broken(EPOCH_MONOTONE, f"{event.group_id}: group epoch {event.epoch} after {ledger.epoch}")

    def _target_stored(self, ledger: GroupLedger, event: TargetStored, _: Shard) -> None:
        self.count(EPOCH_MONOTONE)
        if event.epoch < ledger.target_epoch:
            self.broken(EPOCH_MONOTONE, f"{event.group_id}: target epoch {event.epoch} after {ledger.target_epoch}")
        if event.epoch > ledger.epoch:
            self.broken(
                EPOCH_MONOTONE, f"{event.group_id}: a target of epoch {event.epoch}, the group is at {ledger.epoch}"
            )

    def _assignment_stored(self, ledger: GroupLedger, event: MemberAssignmentStored, _: Shard) -> None:
        self.count(EPOCH_MONOTONE)
        if event.epoch > ledger.epoch:
            self.broken(
                EPOCH_MONOTONE,
                f"{event.group_id}: {event.member_id} is sent to epoch {event.epoch}, the group is at {ledger.epoch}",
            )
        member = ledger.natives.get(event.member_id)
        if member is None or event.epoch >= member.epoch or AWAY in (event.epoch, member.epoch):
            return
        self.broken(
            EPOCH_MONOTONE, f"{event.group_id}: {event.member_id} goes back from {member.epoch} to {event.epoch}"
        )

    def _generation_stored(self, ledger: GroupLedger, event: GroupStored, _: Shard) -> None:
        self.count(GENERATION_DENSE)
        group_id, now, before = event.group_id, event.generation, ledger.generation
        self._note(group_id, now)
        if ledger.kind != "classic":
            # New, or a consumer group until now, which goes on at its epoch.
            if now not in (0, 1, before):
                self.broken(GENERATION_DENSE, f"{group_id}: begins at generation {now}, expected {before} or 1")
        elif not event.is_synced or not event.members:
            if now != before + 1:
                self.broken(GENERATION_DENSE, f"{group_id}: generation {now} follows {before}, expected {before + 1}")
        elif now != before:
            self.broken(GENERATION_DENSE, f"{group_id}: assignments of generation {now}, the stored one is {before}")

    def _note(self, group_id: str, number: int) -> None:
        if number > self._highest.get(group_id, 0):
            self._highest[group_id] = number

    # -- what members show

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Compare what a member shows with what the log knows."""
        epoch, member_id = member.identity
        if epoch <= 0:
            self._shown.pop(member.name, None)  # it joins anew, perhaps another group of that name
            return
        self.count(GENERATION_DENSE)
        known = self._highest.get(member.group_id, 0)
        if epoch > known:
            self.broken(
                GENERATION_DENSE,
                f"{member.name} ({member_id}) shows {epoch} in {request}, the log of {member.group_id} knows {known}",
            )
        before_id, before = self._shown.get(member.name, ("", 0))
        if before_id == member_id and epoch < before:
            self.broken(EPOCH_MONOTONE, f"{member.name} ({member_id}) shows {epoch} after it had shown {before}")
        self._shown[member.name] = (member_id, epoch)

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Forget what it showed: its next process begins anew."""
        self._shown.pop(member.name, None)


__all__ = ["EpochChecker"]
